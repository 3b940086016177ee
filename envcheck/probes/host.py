"""Read the machine below Python: operating system, C library, processor, container and platform."""

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from envcheck.host.known_variables import keep_known_variables
from envcheck.host.loader import parse_libstdcxx_name
from envcheck.host.paths import get_multiarch_triple, list_names, or_unmounted
from envcheck.host.protocol import Host
from envcheck.model import Absent, Fact, HostFacts, Known, Source, Unknown, from_file
from envcheck.model.text import find_group, parse_fields
from envcheck.probes.package_managers import read_conda_configuration, read_pip_configuration


def collect_host(host: Host) -> HostFacts:
    """Read the host; starts one program at most (sysctl on macOS, the loader on musl)."""
    system = host.system_facts()
    distribution_id, distribution_like, distribution_version = read_distribution(host, system)
    libc_kind, libc_version = read_libc(host, system)
    cpu_model, cpu_flags = read_cpu(host)
    return HostFacts(
        os=Known(host.system, Source("library", "sys.platform")),
        distribution_id=distribution_id,
        distribution_like=distribution_like,
        distribution_version=distribution_version,
        kernel_release=_make_system_fact(system, "kernel_release"),
        architecture=_make_system_fact(system, "machine"),
        libc_kind=libc_kind,
        libc_version=libc_version,
        glibcxx_version=read_glibcxx_version(host),
        cpu_model=cpu_model,
        cpu_flags=cpu_flags,
        memory_bytes=_make_system_fact(system, "memory_bytes"),
        shm_bytes=read_shm_size(host),
        container=detect_container(host),
        wsl_version=detect_wsl(host, str(system.get("kernel_release", ""))),
        jetson_release=read_jetson_release(host, str(system.get("machine", ""))),
        secure_boot=read_secure_boot(host),
        msvc_runtime=find_msvc_runtime(host),
        is_root=_make_system_fact(system, "is_root"),
        environment=read_environment(host),
        pip_configuration=read_pip_configuration(host),
        conda_configuration=read_conda_configuration(host),
    )


def _make_system_fact(system: Mapping[str, Any], name: str) -> Fact[Any]:
    if name in system and system[name] != "":
        return Known(system[name], Source("library", name))
    return Unknown("failed", f"this system does not report its {name}")


def read_environment(host: Host) -> Fact[Mapping[str, str]]:
    """Return the known variables of this process."""
    return Known(keep_known_variables(host.environment()), Source("env", "environment"))


_RELEASE_FILES = ("/etc/os-release", "/usr/lib/os-release")


def read_distribution(
    host: Host, system: Mapping[str, Any]
) -> Tuple[Fact[str], Fact[str], Fact[str]]:
    """Return ID, ID_LIKE and VERSION_ID of os-release; elsewhere only the version of the system."""
    if host.system != "linux":
        none, version = Absent(_RELEASE_FILES), str(system.get("version", ""))
        return (
            none,
            none,
            Known(version, Source("library", "version")) if version else Absent(("version",)),
        )
    unread: Fact[str] = Absent(_RELEASE_FILES)
    for path in _RELEASE_FILES:
        text = host.read_text(path)
        values = parse_os_release(text.value) if isinstance(text, Known) else {}
        if "ID" in values:
            return (
                _make_release_fact(path, values, "ID"),
                _make_release_fact(path, values, "ID_LIKE"),
                _make_release_fact(path, values, "VERSION_ID"),
            )
        if isinstance(text, Known):
            unread = Unknown("unparsable", f"{path} has no ID line", (path,))
        elif isinstance(text, Unknown):
            unread = text
    return unread, unread, unread


def parse_os_release(text: str) -> Dict[str, str]:
    """Parse the variables of an os-release file, without quotes.

    NAME="Debian GNU/Linux"
    VERSION_ID="12"
    ID=debian
    """
    pairs = re.findall(r"^([A-Z][A-Z0-9_]*)=(.*)$", text, re.MULTILINE)
    return {name: value.strip().strip("\"'") for name, value in pairs}


def _make_release_fact(path: str, values: Mapping[str, str], key: str) -> Fact[str]:
    if not values.get(key):
        # Debian has no ID_LIKE, a rolling release no VERSION_ID
        return Absent((f"{key} in {path}",))
    return from_file(values[key], path, f"{key}={values[key]}")


_TEGRA = "/etc/nv_tegra_release"
_MODEL = "/proc/device-tree/model"
_EFI = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_SHM = "/dev/shm"  # noqa: S108 - the mount point, nothing is written there
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def detect_wsl(host: Host, kernel_release: str) -> Fact[int]:
    """Return 1 or 2 inside the Windows Subsystem for Linux, whose kernel names contain Microsoft.

    WSL 1: 4.4.0-19041-Microsoft    WSL 2: 5.15.90.1-microsoft-standard-WSL2
    """
    tried = ("kernel release", "WSL_DISTRO_NAME")
    if host.system != "linux":
        return Absent(tried)
    source = Source("library", "kernel_release", kernel_release)
    if "microsoft" in kernel_release.lower():
        return Known(
            1 if kernel_release.startswith("4.4.") and "WSL2" not in kernel_release else 2, source
        )
    if host.environment().get("WSL_DISTRO_NAME"):  # only WSL 2 runs the user's own kernel
        return Known(2, Source("env", "WSL_DISTRO_NAME"))
    return Absent(tried)


def read_jetson_release(host: Host, machine: str) -> Fact[str]:
    """Return the Jetson Linux release, absent on any other machine."""
    if host.system != "linux" or machine != "aarch64":
        return Absent((_TEGRA,))
    text = host.read_text(_TEGRA)
    release = None
    if isinstance(text, Known):
        release = parse_tegra_release(text.value)
    if release is not None:
        return from_file(release, _TEGRA, release)
    model = host.read_text(_MODEL).value or ""
    if re.search(r"Jetson|NVIDIA (Orin|Thor)", model):
        return Unknown(
            "failed", f"{model.strip(chr(0))} without a readable {_TEGRA}", (_TEGRA, _MODEL)
        )
    if isinstance(text, Unknown):
        return text
    return or_unmounted(host, Absent((_TEGRA, _MODEL)), "/proc")


def parse_tegra_release(text: str) -> Optional[str]:
    """Parse the release in /etc/nv_tegra_release.

    # R35 (release), REVISION: 4.1, GCID: 33958178, BOARD: t186ref, EABI: aarch64, DATE: Tue Aug  1
    19:57:35 UTC 2023
    """
    match = re.search(r"^# R(\d+) \(release\), REVISION: ([\d.]+)", text)
    return f"R{match.group(1)}.{match.group(2)}" if match else None


def read_secure_boot(host: Host) -> Fact[bool]:
    """Return whether Secure Boot is on.

    Absent without a UEFI variable, as in most virtual machines.
    """
    if host.system != "linux":
        return Unknown("failed", "envcheck reads it only on Linux")
    data = host.read_bytes(_EFI, 16)
    if not isinstance(data, Known):
        return or_unmounted(host, data, "/sys")
    if len(data.value) < 5:  # four bytes of attributes, then the value
        return Unknown("unparsable", f"{_EFI} has {len(data.value)} bytes", (_EFI,))
    return from_file(data.value[4] == 1, _EFI, f"value {data.value[4]}")


def read_shm_size(host: Host) -> Fact[int]:
    """Return the size of /dev/shm, which limits what data loaders can share."""
    if host.system != "linux":
        return Absent((_SHM,))
    text = host.read_text("/proc/mounts")
    if isinstance(text, Unknown):
        return text
    if text.value is None or not text.value.strip():  # every Linux has mounts
        return Unknown("failed", "/proc/mounts is missing or empty", ("/proc/mounts",))
    return parse_shm_size(text.value)


def parse_shm_size(mounts: str) -> Fact[int]:
    """Parse the size option of the /dev/shm line of /proc/mounts; the last mount is in effect.

    shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=65536k,inode64 0 0
    """
    lines = re.findall(rf"^\S+ {_SHM} \S+ (\S+).*$", mounts, re.MULTILINE)
    if not lines:
        return Absent((f"{_SHM} in /proc/mounts",))
    size = re.search(r"(?:^|,)size=(\d+)([kmg]?)(?:,|$)", lines[-1])
    if size is None:
        return Unknown(
            "unparsable", f"the options of /dev/shm contain no size: {lines[-1]}", ("/proc/mounts",)
        )
    value = int(size.group(1)) * _UNITS[size.group(2)]
    return from_file(value, "/proc/mounts", f"{_SHM} {size.group(0).strip(',')}")


# marks of each container in the layers of the root mount
_LAYERS = (
    ("/containers/storage/", "podman"),
    ("/docker/", "docker"),
    ("/containerd/", "containerd"),
)
_VARIABLES = (
    ("KUBERNETES_SERVICE_HOST", "kubernetes"),
    ("APPTAINER_CONTAINER", "apptainer"),
    ("SINGULARITY_CONTAINER", "apptainer"),
)
_FILES = (
    ("/run/.containerenv", "podman"),
    ("/.dockerenv", "docker"),
    ("/.singularity.d", "apptainer"),
)
# values of the variable `container`
_NAMES = {"oci": "docker", "singularity": "apptainer", "lxc-libvirt": "lxc"}


def detect_container(host: Host) -> Fact[str]:
    """Return docker, podman, kubernetes, lxc, apptainer ....

    Absent only where every place is readable.
    """
    if host.system != "linux":
        return Absent(("containers are told apart on Linux only",))
    tried: List[str] = []
    unread: Optional[Unknown] = None
    for place, fact in _read_container_marks(host):
        if isinstance(fact, Known):
            return fact
        if isinstance(fact, Unknown):
            unread = unread or fact
        tried.append(place)
    return unread or or_unmounted(host, Absent(tuple(tried)), "/proc")


def _read_container_marks(host: Host) -> Iterator[Tuple[str, Fact[str]]]:
    """Yield (place, kind), the most specific first: docker may run the containers of a pod."""
    environment = host.environment()
    for variable, kind in _VARIABLES:
        yield (
            variable,
            Known(kind, Source("env", variable)) if environment.get(variable) else Absent(),
        )
    for path, kind in _FILES:
        status = host.status(path)
        yield path, from_file(kind, path) if isinstance(status, Known) else status
    name = environment.get("container", "")
    yield (
        "container",
        Known(_NAMES.get(name, name), Source("env", "container")) if name else Absent(),
    )
    for path, parse in (
        ("/run/systemd/container", lambda text: _NAMES.get(text.strip(), text.strip())),
        ("/proc/self/mountinfo", parse_root_mount),
    ):
        yield path, _parse_mark(host, path, parse)


def _parse_mark(host: Host, path: str, parse: Callable[[str], Optional[str]]) -> Fact[str]:
    text = host.read_text(path)
    if not isinstance(text, Known):
        return text
    kind = parse(text.value)
    return from_file(kind, path, kind) if kind else Absent((path,))


def parse_root_mount(text: str) -> Optional[str]:
    """Parse the kind of container in the mount of / in /proc/self/mountinfo.

    A host lists the mounts of others.

    612 570 0:52 / / rw,relatime - overlay overlay
    rw,lowerdir=/var/lib/docker/overlay2/l/ABC,upperdir=/var
    """
    match = re.search(r"^\d+ \d+ \S+ \S+ / .* - overlay (.*)$", text, re.MULTILINE)
    return next((kind for mark, kind in _LAYERS if match and mark in match.group(1)), None)


_CPUINFO = "/proc/cpuinfo"
# One processor has 1 to 2 KB there; the kernel creates the text on reading, slowly for hundreds of
# processors.
_CPUINFO_BYTES = 8192
_SYSCTL = (
    "/usr/sbin/sysctl",
    "machdep.cpu.brand_string",
    "machdep.cpu.features",
    "machdep.cpu.leaf7_features",
)


def read_cpu(host: Host) -> Tuple[Fact[str], Fact[Tuple[str, ...]]]:
    """Return model name and instruction flags of the first processor."""
    if host.system == "darwin":
        return _read_sysctl(host)
    if host.system == "windows":
        return _read_windows_cpu(host)
    text = host.read_text(_CPUINFO, _CPUINFO_BYTES)
    fields = parse_cpuinfo(text.value or "")
    if not fields:
        unread = or_unmounted(host, text, "/proc")
        if not isinstance(unread, Unknown):
            unread = Unknown("failed", f"{_CPUINFO} is missing or empty", (_CPUINFO,))
        return unread, unread
    name = next(
        (fields[key] for key in ("model name", "cpu model", "hardware") if fields.get(key)), ""
    )
    words = fields.get("flags") or fields.get("features") or ""
    model: Fact[str] = from_file(name, _CPUINFO) if name else Absent((f"model name in {_CPUINFO}",))
    if not words:
        return model, Unknown("unparsable", f"{_CPUINFO} lists no flags", (_CPUINFO,))
    vector_flags = " ".join(
        word for word in words.split() if re.match(r"avx|fma$|asimd|sve", word)
    )[:200]
    return model, from_file(tuple(words.lower().split()), _CPUINFO, vector_flags)


def parse_cpuinfo(text: str) -> Dict[str, str]:
    """Parse the fields of the first processor; names become lower case.

    processor	: 0
    vendor_id	: AuthenticAMD
    model name	: AMD EPYC
    flags		: fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat avx avx2 fma

    On ARM the flags are called Features, and no field has the model:

    processor	: 0
    Features	: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid
    CPU implementer	: 0x41
    """
    first = re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0]
    return {name.lower(): value for name, value in parse_fields(first).items()}


def _read_windows_cpu(host: Host) -> Tuple[Fact[str], Fact[Tuple[str, ...]]]:
    name = host.environment().get("PROCESSOR_IDENTIFIER", "")
    source = Source("env", "PROCESSOR_IDENTIFIER")
    model: Fact[str] = Known(name, source) if name else Absent(("PROCESSOR_IDENTIFIER",))
    flags = host.system_facts().get("cpu_flags")
    if flags is None:
        return model, Unknown("failed", "Windows does not list the processor's instructions")
    return model, Known(
        tuple(flags), Source("library", "IsProcessorFeaturePresent", " ".join(flags))
    )


def _read_sysctl(host: Host) -> Tuple[Fact[str], Fact[Tuple[str, ...]]]:
    answer = host.run((_SYSCTL[0], "-n", *_SYSCTL[1:]))
    if not isinstance(answer, Known):
        return answer, answer
    # Apple's own chips print only the name
    name, _, features = answer.value.stdout.strip().partition("\n")
    source = Source("command", " ".join(_SYSCTL[:2]))
    model: Fact[str] = (
        Known(name, source) if name else Unknown("unparsable", "sysctl printed no processor name")
    )
    flags = re.sub(r"\bavx1\.0\b", "avx", features.lower()).replace(".", "_").split()
    return model, Known(tuple(flags), source) if flags else Absent(_SYSCTL[2:])


_CONFSTR = "confstr CS_GNU_LIBC_VERSION"
_LIBSTDCXX = "libstdc++.so.6"


def read_libc(host: Host, system: Mapping[str, Any]) -> Tuple[Fact[str], Fact[str]]:
    """Return kind and version of the C library, from itself or, for musl, from its loader."""
    if host.system != "linux":
        return Absent((_CONFSTR,)), Absent((_CONFSTR,))
    kind, _, version = str(system.get("libc", "")).partition(" ")
    if kind and version:
        source = Source("library", _CONFSTR, str(system["libc"]))
        return Known(kind, source), Known(version, source)
    name = next((name for name in list_names(host, "/lib") if name.startswith("ld-musl-")), "")
    if not name:
        reason = Unknown(
            "failed",
            "neither glibc's version nor musl's loader was found",
            (_CONFSTR, "/lib/ld-musl-*"),
        )
        return reason, reason
    loader = "/lib/" + name
    return from_file("musl", loader), _read_musl_version(host, loader)


def _read_musl_version(host: Host, loader: str) -> Fact[str]:
    answer = host.run((loader,))
    if not isinstance(answer, Known):
        return answer
    version = parse_musl_version(answer.value.stderr)
    if version is None:
        return Unknown("unparsable", f"{loader} printed no version", (loader,))
    return Known(version, Source("command", loader, f"Version {version}"))


def parse_musl_version(text: str) -> Optional[str]:
    """Parse the version that musl's loader prints on standard error when started without a program.

    musl libc (x86_64)
    Version 1.2.4
    Dynamic Program Loader
    """
    return find_group(r"^Version (\d+(?:\.\d+)+)", text, re.MULTILINE) or None


def read_glibcxx_version(host: Host) -> Fact[str]:
    """Return the newest GLIBCXX version of the system's libstdc++, from its file name."""
    candidates: Tuple[str, ...] = ()
    if host.system == "linux":
        folders = (f"/usr/lib/{get_multiarch_triple(host)}", "/usr/lib64", "/usr/lib")
        cached = (host.loader_cache().value or {}).get(_LIBSTDCXX, ())
        candidates = (*cached, *(f"{folder}/{_LIBSTDCXX}" for folder in folders))
    for path in candidates:
        real = host.real_path(path)
        if real.value is not None:
            version = parse_libstdcxx_name(real.value)
            if version is None:
                return Unknown("unparsable", f"the file name {real.value} has no version", (path,))
            return from_file(f"GLIBCXX_{version}", path, f"-> {real.value}")
    return Absent(candidates)


_SYSTEM32 = "C:\\Windows\\System32\\"
# Python includes vcruntime140.dll; only Microsoft's redistributable installs these two.
_MSVC_LIBRARIES = ("msvcp140.dll", "vcruntime140_1.dll")


def find_msvc_runtime(host: Host) -> Fact[str]:
    """Return the folder of the Visual C++ runtime.

    Absent where a library is missing, and off Windows.
    """
    if host.system != "windows":
        return Absent((f"this is {host.system}",))
    paths = tuple(_SYSTEM32 + name for name in _MSVC_LIBRARIES)
    for path in paths:
        status = host.status(path)
        if not isinstance(status, Known):
            return status if isinstance(status, Unknown) else Absent((path,))
    return from_file(_SYSTEM32, paths[0])
