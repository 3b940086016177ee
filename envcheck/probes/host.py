"""Read the machine below Python: operating system, C library, processor, container and platform."""

from __future__ import annotations

import json
import re
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Tuple

from envcheck.host.data_files import read_data
from envcheck.host.protocol import Host
from envcheck.model import Absent, Fact, HostFacts, Known, Source, Unknown, dataclass
from envcheck.probes.package_managers import read_conda_configuration, read_pip_configuration
from envcheck.probes.paths import get_base_name, get_multiarch_triple

_DATA = "environment_variables.json"
HIDDEN = "<set>"  # stands for the value of a variable we do not know: it might be anything


def read_environment(host: Host) -> Fact[Mapping[str, str]]:
    """Return the known variables with their values, and by name only others that bear a known prefix."""
    data = json.loads(read_data(_DATA))
    known, prefixes = data["variables"], tuple(data["prefixes"])
    kept: Dict[str, str] = {}
    for name, value in sorted(host.environment().items()):
        if name in known:
            kept[name] = value
        elif name.startswith(prefixes):
            kept[name] = HIDDEN
    return Known(kept, Source("env", "environment"))


# What stands in the cgroup path of process 1, or in the layers of the root mount, of each kind.
_CGROUP = (("kubepods", "kubernetes"), ("libpod", "podman"), ("docker", "docker"), ("lxc", "lxc"))
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
_FILES = (("/run/.containerenv", "podman"), ("/.dockerenv", "docker"), ("/.singularity.d", "apptainer"))
_NAMES = {"oci": "docker", "singularity": "apptainer", "lxc-libvirt": "lxc"}  # of the variable `container`


def detect_container(host: Host) -> Fact[str]:
    """Return docker, podman, kubernetes, lxc, apptainer ...; absent only when every place could be read."""
    if host.system != "linux":
        return Absent(("containers are told apart on Linux only",))
    tried: List[str] = []
    unread: Optional[Unknown] = None
    for where, answer in _readings(host):
        if isinstance(answer, Known):
            return answer
        if isinstance(answer, Unknown):
            unread = unread or answer
        tried.append(where)
    return unread or Absent(tuple(tried))


def parse_cgroup(text: str) -> Optional[str]:
    """Return the kind of container in /proc/1/cgroup.

    12:devices:/kubepods/besteffort/pod4e3b/0c5d1e
    0::/docker/3f4c1b2a
    """
    found = (kind for mark, kind in _CGROUP if re.search(rf"[/:.-]{mark}", text))
    return next(found, None)


def parse_root_mount(text: str) -> Optional[str]:
    """Return the kind of container in /proc/self/mountinfo: only the mount of / counts, a host lists others.

    612 570 0:52 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/ABC,upperdir=/var
    """
    match = re.search(r"^\d+ \d+ \S+ \S+ / .* - overlay (.*)$", text, re.MULTILINE)
    found = (kind for mark, kind in _LAYERS if match and mark in match.group(1))
    return next(found, None)


def _readings(host: Host) -> Iterator[Tuple[str, Fact[str]]]:
    """Yield (place, answer), the most telling first: a pod's container may be made by docker."""
    environment = host.environment()
    for variable, kind in _VARIABLES:
        yield variable, Known(kind, Source("env", variable)) if environment.get(variable) else Absent()
    for path, kind in _FILES:
        status = host.status(path)
        yield path, Known(kind, Source("file", path)) if isinstance(status, Known) else status
    named = environment.get("container", "")
    yield "container", Known(_NAMES.get(named, named), Source("env", "container")) if named else Absent()
    yield "/run/systemd/container", _told(host, "/run/systemd/container", _systemd_name)
    yield "/proc/1/cgroup", _told(host, "/proc/1/cgroup", parse_cgroup)
    yield "/proc/self/mountinfo", _told(host, "/proc/self/mountinfo", parse_root_mount)


def _systemd_name(text: str) -> Optional[str]:
    return _NAMES.get(text.strip(), text.strip()) or None


def _told(host: Host, path: str, parse: Callable[[str], Optional[str]]) -> Fact[str]:
    text = host.read_text(path)
    if not isinstance(text, Known):
        return text
    kind = parse(text.value)
    return Known(kind, Source("file", path, kind)) if kind else Absent((path,))


_CPUINFO = "/proc/cpuinfo"
# One processor takes 1 to 2 KB there; the kernel makes the text as it is read, for hundreds of them slowly.
_CPUINFO_BYTES = 8192
_SYSCTL = ("/usr/sbin/sysctl", "machdep.cpu.brand_string", "machdep.cpu.features", "machdep.cpu.leaf7_features")


@dataclass(frozen=True)
class CpuFacts:
    """Model name and instruction flags of the first processor."""

    model: Fact[str]
    flags: Fact[Tuple[str, ...]]


def read_cpu(host: Host) -> CpuFacts:
    """Read /proc/cpuinfo, or what macOS and Windows have in its place."""
    if host.system == "darwin":
        return _from_sysctl(host)
    if host.system == "windows":
        model = host.environment().get("PROCESSOR_IDENTIFIER", "")
        named = Known(model, Source("env", "PROCESSOR_IDENTIFIER")) if model else Absent(("PROCESSOR_IDENTIFIER",))
        flags = host.system_facts().get("cpu_flags")
        if flags is None:
            return CpuFacts(named, Unknown("failed", "Windows does not list the processor's instructions"))
        return CpuFacts(named, Known(tuple(flags), Source("library", "IsProcessorFeaturePresent", " ".join(flags))))
    text = host.read_text(_CPUINFO, _CPUINFO_BYTES)
    return _from_fields(parse_cpuinfo(text.value)) if isinstance(text, Known) else CpuFacts(text, text)


def parse_cpuinfo(text: str) -> Dict[str, str]:
    """Return the fields of the first processor, names in lower case.

    processor	: 0
    vendor_id	: AuthenticAMD
    model name	: AMD EPYC
    flags		: fpu vme de pse tsc msr pae mce cx8 apic sep mtrr pge mca cmov pat avx avx2 fma

    On ARM the flags are called Features, and no field names the model:

    processor	: 0
    Features	: fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid
    CPU implementer	: 0x41
    """
    first = re.split(r"\n\s*\n", text.strip(), maxsplit=1)[0]
    pairs = re.findall(r"^([^:\n]+?)[ \t]*:[ \t]*(.*)$", first, re.MULTILINE)
    return {name.strip().lower(): value.strip() for name, value in pairs}


def _from_fields(fields: Dict[str, str]) -> CpuFacts:
    name = next((fields[key] for key in ("model name", "cpu model", "hardware") if fields.get(key)), "")
    words = fields.get("flags") or fields.get("features") or ""
    model: Fact[str] = Known(name, Source("file", _CPUINFO)) if name else Absent((f"model name in {_CPUINFO}",))
    if not words:
        return CpuFacts(model, Unknown("unparsable", f"{_CPUINFO} lists no flags", (_CPUINFO,)))
    return CpuFacts(model, Known(tuple(words.lower().split()), Source("file", _CPUINFO, _vector_part(words))))


def _from_sysctl(host: Host) -> CpuFacts:
    answer = host.run((_SYSCTL[0], "-n", *_SYSCTL[1:]))
    if not isinstance(answer, Known):
        return CpuFacts(answer, answer)
    name, _, features = answer.value.stdout.strip().partition("\n")  # Apple's own chips print the name alone
    source = Source("command", " ".join(_SYSCTL[:2]))
    model: Fact[str] = Known(name, source) if name else Unknown("unparsable", "sysctl names no processor")
    words = re.sub(r"\bavx1\.0\b", "avx", features.lower()).replace(".", "_").split()
    return CpuFacts(model, Known(tuple(words), source) if words else Absent(_SYSCTL[2:]))


def _vector_part(words: str) -> str:
    return " ".join(word for word in words.split() if re.match(r"avx|fma$|asimd|sve", word))[:200]


_CONFSTR = "confstr CS_GNU_LIBC_VERSION"
_LIBSTDCXX = "libstdc++.so.6"


@dataclass(frozen=True)
class LibcFacts:
    """Which C library, and its version."""

    kind: Fact[str]
    version: Fact[str]


def read_libc(host: Host, system: Mapping[str, Any]) -> LibcFacts:
    """Ask the C library itself; where it is not glibc, look for musl's loader."""
    if host.system != "linux":
        return LibcFacts(Absent((_CONFSTR,)), Absent((_CONFSTR,)))
    kind, _, version = str(system.get("libc", "")).partition(" ")
    if kind and version:
        source = Source("library", _CONFSTR, str(system["libc"]))
        return LibcFacts(Known(kind, source), Known(version, source))
    names = host.list_folder("/lib")
    loader = next((name for name in names.value if name.startswith("ld-musl-")), "") if isinstance(names, Known) else ""
    if not loader:
        reason = Unknown("failed", "neither glibc's version nor musl's loader was found", (_CONFSTR, "/lib/ld-musl-*"))
        return LibcFacts(reason, reason)
    return LibcFacts(Known("musl", Source("file", "/lib/" + loader)), _musl_version(host, "/lib/" + loader))


def parse_musl_version(text: str) -> Optional[str]:
    """Return the version musl's loader prints on standard error when started without a program.

    musl libc (x86_64)
    Version 1.2.4
    Dynamic Program Loader
    """
    match = re.search(r"^Version (\d+(?:\.\d+)+)", text, re.MULTILINE)
    return match.group(1) if match else None


def read_glibcxx_version(host: Host) -> Fact[str]:
    """Return the newest GLIBCXX version of the system's libstdc++, which its file name tells.

    GCC numbers the two alike: libstdc++.so.6.0.30 defines up to GLIBCXX_3.4.30. Reading the file would
    cost more than all else this probe does.
    """
    candidates = _libstdcxx_candidates(host)
    for path in candidates:
        real = host.real_path(path)
        if isinstance(real, Known):
            version = parse_libstdcxx_name(get_base_name(real.value))
            if version is None:
                return Unknown("unparsable", f"the name {real.value} tells no version", (path,))
            return Known(version, Source("file", path, f"-> {real.value}"))
    return Absent(tuple(candidates))


def parse_libstdcxx_name(name: str) -> Optional[str]:
    """Return the newest GLIBCXX version behind a file name: libstdc++.so.6.0.30 -> GLIBCXX_3.4.30."""
    match = re.search(r"^libstdc\+\+\.so\.6\.0\.(\d+)", name)
    return f"GLIBCXX_3.4.{match.group(1)}" if match else None


def _libstdcxx_candidates(host: Host) -> List[str]:
    if host.system != "linux":
        return []
    cache = host.loader_cache()
    cached = cache.value.get(_LIBSTDCXX, ()) if isinstance(cache, Known) else ()
    folders = (f"/usr/lib/{get_multiarch_triple(host)}", "/usr/lib64", "/usr/lib")
    return [*cached, *(f"{folder}/{_LIBSTDCXX}" for folder in folders)]


def _musl_version(host: Host, loader: str) -> Fact[str]:
    answer = host.run((loader,))
    if not isinstance(answer, Known):
        return answer
    version = parse_musl_version(answer.value.stderr)
    if version is None:
        return Unknown("unparsable", f"{loader} printed no version", (loader,))
    return Known(version, Source("command", loader, f"Version {version}"))


_FOLDER = "C:\\Windows\\System32\\"
# Python brings vcruntime140.dll itself; these two come with Microsoft's redistributable only.
_LIBRARIES = ("msvcp140.dll", "vcruntime140_1.dll")


def find_msvc_runtime(host: Host) -> Fact[str]:
    """Return the folder that holds the runtime; absent when one of its libraries is not there, or off Windows."""
    if host.system != "windows":
        return Absent((f"this is {host.system}",))
    paths = tuple(_FOLDER + name for name in _LIBRARIES)
    for path in paths:
        status = host.status(path)
        if isinstance(status, Unknown):
            return status
        if not isinstance(status, Known):
            return Absent((path,))
    return Known(_FOLDER, Source("file", paths[0]))


_RELEASE_FILES = ("/etc/os-release", "/usr/lib/os-release")


@dataclass(frozen=True)
class DistributionFacts:
    """ID, ID_LIKE and VERSION_ID of a Linux distribution; elsewhere only the system's version."""

    id: Fact[str]
    like: Fact[str]
    version: Fact[str]


def read_distribution(host: Host, system: Mapping[str, Any]) -> DistributionFacts:
    """Read os-release, whose second place is the one a distribution ships it in."""
    if host.system != "linux":
        none, version = Absent(_RELEASE_FILES), str(system.get("version", ""))
        told = Known(version, Source("library", "version")) if version else Absent(("version",))
        return DistributionFacts(none, none, told)
    unread: Fact[str] = Absent(_RELEASE_FILES)
    for path in _RELEASE_FILES:
        text = host.read_text(path)
        values = parse_os_release(text.value) if isinstance(text, Known) else {}
        if "ID" in values:
            return DistributionFacts(*(_field(path, values, key) for key in ("ID", "ID_LIKE", "VERSION_ID")))
        if isinstance(text, Known):
            unread = Unknown("unparsable", f"{path} has no ID line", (path,))
        elif isinstance(text, Unknown):
            unread = text
    return DistributionFacts(unread, unread, unread)


def parse_os_release(text: str) -> Dict[str, str]:
    """Return the variables of an os-release file, quotes removed.

    NAME="Debian GNU/Linux"
    VERSION_ID="12"
    ID=debian
    """
    pairs = re.findall(r"^([A-Z][A-Z0-9_]*)=(.*)$", text, re.MULTILINE)
    return {name: value.strip().strip("\"'") for name, value in pairs}


def _field(path: str, values: Mapping[str, str], key: str) -> Fact[str]:
    if not values.get(key):
        return Absent((f"{key} in {path}",))  # Debian has no ID_LIKE, a rolling release no VERSION_ID
    return Known(values[key], Source("file", path, f"{key}={values[key]}"))


_TEGRA = "/etc/nv_tegra_release"
_MODEL = "/proc/device-tree/model"
_EFI = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_SHM = "/dev/shm"  # noqa: S108 - the mount point, nothing is written there
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def detect_wsl(host: Host, kernel_release: str) -> Fact[int]:
    """Return 1 or 2 inside the Windows Subsystem for Linux: its kernels say Microsoft in their name.

    WSL 1: 4.4.0-19041-Microsoft    WSL 2: 5.15.90.1-microsoft-standard-WSL2
    """
    tried = ("kernel release", "WSL_DISTRO_NAME")
    if host.system != "linux":
        return Absent(tried)
    source = Source("library", "kernel_release", kernel_release)
    if "microsoft" in kernel_release.lower():
        return Known(1 if kernel_release.startswith("4.4.") and "WSL2" not in kernel_release else 2, source)
    if host.environment().get("WSL_DISTRO_NAME"):  # only WSL 2 runs a kernel of the user's own
        return Known(2, Source("env", "WSL_DISTRO_NAME"))
    return Absent(tried)


def read_jetson_release(host: Host, machine: str) -> Fact[str]:
    """Return the Jetson Linux release, absent on anything that is no Jetson."""
    if host.system != "linux" or machine != "aarch64":
        return Absent((_TEGRA,))
    text = host.read_text(_TEGRA)
    release = parse_tegra_release(text.value) if isinstance(text, Known) else None
    if release is not None:
        return Known(release, Source("file", _TEGRA, release))
    model = host.read_text(_MODEL)
    if isinstance(model, Known) and re.search(r"Jetson|NVIDIA (Orin|Thor)", model.value):
        return Unknown("failed", f"{model.value.strip(chr(0))} without a readable {_TEGRA}", (_TEGRA, _MODEL))
    return text if isinstance(text, Unknown) else Absent((_TEGRA, _MODEL))


def parse_tegra_release(text: str) -> Optional[str]:
    """Return the release in /etc/nv_tegra_release.

    # R35 (release), REVISION: 4.1, GCID: 33958178, BOARD: t186ref, EABI: aarch64, DATE: Tue Aug  1 19:57:35 UTC 2023
    """
    match = re.search(r"^# R(\d+) \(release\), REVISION: ([\d.]+)", text)
    return f"R{match.group(1)}.{match.group(2)}" if match else None


def read_secure_boot(host: Host) -> Fact[bool]:
    """Tell whether Secure Boot is on; absent where no UEFI variable tells, as in most virtual machines."""
    if host.system != "linux":
        return Unknown("failed", "only read on Linux")
    data = host.read_bytes(_EFI, 16)
    if not isinstance(data, Known):
        return data
    if len(data.value) < 5:  # four bytes of attributes, then the value
        return Unknown("unparsable", f"{_EFI} has {len(data.value)} bytes", (_EFI,))
    return Known(data.value[4] == 1, Source("file", _EFI, f"value {data.value[4]}"))


def read_shm_size(host: Host) -> Fact[int]:
    """Return the size of /dev/shm, which bounds what data loaders can share."""
    if host.system != "linux":
        return Absent((_SHM,))
    text = host.read_text("/proc/mounts")
    return parse_shm_size(text.value) if isinstance(text, Known) else text


def parse_shm_size(mounts: str) -> Fact[int]:
    """Return the size option of the /dev/shm line of /proc/mounts; the last mount is the one in effect.

    shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=65536k,inode64 0 0
    """
    lines = re.findall(rf"^\S+ {_SHM} \S+ (\S+).*$", mounts, re.MULTILINE)
    if not lines:
        return Absent((f"{_SHM} in /proc/mounts",))
    size = re.search(r"(?:^|,)size=(\d+)([kmg]?)(?:,|$)", lines[-1])
    if size is None:
        return Unknown("unparsable", f"no size among the options of /dev/shm: {lines[-1]}", ("/proc/mounts",))
    value = int(size.group(1)) * _UNITS[size.group(2)]
    return Known(value, Source("file", "/proc/mounts", f"{_SHM} {size.group(0).strip(',')}"))


def collect_host(host: Host) -> HostFacts:
    """Read the host; one program is started at most (sysctl on macOS, the loader on musl)."""
    system = host.system_facts()
    distribution = read_distribution(host, system)
    libc = read_libc(host, system)
    cpu = read_cpu(host)
    return HostFacts(
        os=Known(host.system, Source("library", "sys.platform")),
        distribution_id=distribution.id,
        distribution_like=distribution.like,
        distribution_version=distribution.version,
        kernel_release=_release_facts(system, "kernel_release"),
        architecture=_release_facts(system, "machine"),
        libc_kind=libc.kind,
        libc_version=libc.version,
        glibcxx_version=read_glibcxx_version(host),
        cpu_model=cpu.model,
        cpu_flags=cpu.flags,
        memory_bytes=_release_facts(system, "memory_bytes"),
        shm_bytes=read_shm_size(host),
        container=detect_container(host),
        wsl_version=detect_wsl(host, str(system.get("kernel_release", ""))),
        jetson_release=read_jetson_release(host, str(system.get("machine", ""))),
        secure_boot=read_secure_boot(host),
        msvc_runtime=find_msvc_runtime(host),
        is_root=_release_facts(system, "is_root"),
        environment=read_environment(host),
        pip_configuration=read_pip_configuration(host),
        conda_configuration=read_conda_configuration(host),
    )


def _release_facts(system: Mapping[str, Any], name: str) -> Fact[Any]:
    if name in system and system[name] != "":
        return Known(system[name], Source("library", name))
    return Unknown("failed", f"this system does not tell its {name}")
