"""The host: release, C library, processor, container, kind of machine."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from envcheck.host.loader import parse_libstdcxx_name
from envcheck.host.local import LocalHost
from envcheck.model import Absent, HostFacts, Known, Unknown
from envcheck.probes.host import (
    collect_host,
    parse_cpuinfo,
    parse_musl_version,
    parse_os_release,
    parse_root_mount,
    parse_shm_size,
    parse_tegra_release,
)
from tests.hosts.recorded_host import RecordedHost

DATA = Path(__file__).parent / "data" / "os"
LINUX = {
    "machine": "x86_64",
    "kernel_release": "6.8.0-45-generic",
    "version": "#45-Ubuntu SMP",
    "libc": "glibc 2.35",
    "is_root": False,
    "memory_bytes": 33554432,
    "node": "box",
}
EFI = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
TEGRA = "# R35 (release), REVISION: 4.1, GCID: 33958178, BOARD: t186ref, EABI: aarch64, DATE: Tue Aug  1 19:57:35 UTC 2023"
OVERLAY = "612 570 0:52 / / rw,relatime - overlay overlay rw,lowerdir=/var/lib/docker/overlay2/l/ABC,upperdir=/var\n"
PODMAN = (
    "612 570 0:52 / / rw - overlay overlay rw,lowerdir=/var/lib/containers/storage/overlay/l/ABC\n"
)
HOST = "29 1 259:2 / / rw,relatime - ext4 /dev/nvme0n1p2 rw\n" + OVERLAY.replace(
    " / / ", " / /var/lib/docker/x "
)


def data(name: str) -> str:
    return (DATA / name).read_text(encoding="utf-8")


def collect(
    files: dict[str, Any] | None = None, system: dict[str, Any] | None = None, **more: Any
) -> HostFacts:
    recording = {
        "files": files or {"/etc/hostname": "box"},
        "system_facts": LINUX if system is None else system,
        **more,
    }
    return collect_host(RecordedHost(recording))


def flags(facts: HostFacts) -> set[str]:
    assert facts.cpu_flags.value is not None
    return set(facts.cpu_flags.value)


def test_this_machine() -> None:
    facts = collect_host(LocalHost())
    for fact in (
        facts.os,
        facts.kernel_release,
        facts.architecture,
        facts.is_root,
        facts.environment,
    ):
        assert fact.value is not None


def test_a_debian_machine() -> None:
    files = {
        "/etc/os-release": data("os-release_debian12"),
        "/proc/cpuinfo": data("cpuinfo_x86_64"),
        "/proc/mounts": "tmpfs /dev/shm tmpfs rw,relatime,size=24684096k 0 0\n",
        "/sys/bus/pci/slots": "",
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6": {"link": "libstdc++.so.6.0.30"},
        "/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30": "ELF",
    }
    facts = collect(files)
    assert (facts.distribution_id.value, facts.distribution_version.value) == ("debian", "12")
    assert isinstance(facts.distribution_like, Absent)
    assert (facts.libc_kind.value, facts.libc_version.value) == ("glibc", "2.35")
    assert facts.glibcxx_version.value == "GLIBCXX_3.4.30"
    assert facts.cpu_model.value == "AMD EPYC"
    assert {"avx", "avx2", "fma", "avx512f"} <= flags(facts)
    assert facts.shm_bytes.value == 24684096 * 1024
    assert (facts.memory_bytes.value, facts.is_root.value) == (33554432, False)
    for fact in (facts.container, facts.wsl_version, facts.jetson_release, facts.secure_boot):
        assert isinstance(fact, Absent)


def test_os_release_of_ubuntu_in_usr_lib() -> None:
    facts = collect({"/usr/lib/os-release": data("os-release_ubuntu2204")})
    assert facts.distribution_like.value == "debian"
    assert facts.distribution_version.value == "22.04"
    assert parse_os_release("ID='arch'\n# comment\n") == {"ID": "arch"}


@pytest.mark.parametrize(
    ("content", "why"), [("garbage", "unparsable"), ({"error": "denied"}, "denied")]
)
def test_a_broken_os_release(content: Any, why: str) -> None:
    fact = collect({"/etc/os-release": content}).distribution_id
    assert isinstance(fact, Unknown)
    assert fact.why == why


def test_a_machine_with_few_facts() -> None:
    facts = collect(system={})
    for fact in (
        facts.kernel_release,
        facts.architecture,
        facts.memory_bytes,
        facts.libc_kind,
        facts.libc_version,
    ):
        assert isinstance(fact, Unknown)
    # a chroot without /proc: nobody knows what the processor lacks
    assert isinstance(facts.cpu_flags, Unknown)
    assert facts.cpu_flags.detail == "/proc is not mounted (a chroot?)"
    assert isinstance(facts.glibcxx_version, Absent)


def test_musl() -> None:
    files = {"/lib/ld-musl-x86_64.so.1": "ELF"}
    output = {
        "returncode": 1,
        "stderr": "musl libc (x86_64)\nVersion 1.2.4\nDynamic Program Loader\n",
    }
    facts = collect(
        files, {"machine": "x86_64"}, commands=[{"argv": ["/lib/ld-musl-x86_64.so.1"], **output}]
    )
    assert (facts.libc_kind.value, facts.libc_version.value) == ("musl", "1.2.4")
    assert parse_musl_version("usage") is None


@pytest.mark.parametrize("answer", [{"unknown": ["timeout", "no answer"]}, {"stderr": "?"}])
def test_musl_that_does_not_answer(answer: dict[str, Any]) -> None:
    loader = "/lib/ld-musl-x86_64.so.1"
    facts = collect({loader: "ELF"}, {"machine": "x86_64"}, commands=[{"argv": [loader], **answer}])
    assert facts.libc_kind.value == "musl"
    assert isinstance(facts.libc_version, Unknown)


def test_the_libstdcxx_in_the_loader_cache_comes_first() -> None:
    files = {
        "/opt/gcc/lib/libstdc++.so.6": {"link": "libstdc++.so.6.0.33"},
        "/opt/gcc/lib/libstdc++.so.6.0.33": "ELF",
    }
    facts = collect(files, loader_cache={"libstdc++.so.6": ["/opt/gcc/lib/libstdc++.so.6"]})
    assert facts.glibcxx_version.value == "GLIBCXX_3.4.33"
    assert parse_libstdcxx_name("libstdc++.so.6") is None
    odd = collect({"/usr/lib64/libstdc++.so.6": "ELF"})
    assert isinstance(odd.glibcxx_version, Unknown)


def test_an_arm_processor() -> None:
    facts = collect({"/proc/cpuinfo": data("cpuinfo_aarch64")}, {**LINUX, "machine": "aarch64"})
    assert isinstance(facts.cpu_model, Absent)
    assert "asimd" in flags(facts)
    assert isinstance(facts.jetson_release, Absent)


def test_only_the_first_processor_is_read() -> None:
    assert (
        parse_cpuinfo("processor\t: 0\nflags\t\t: avx\n\nprocessor\t: 1\nflags\t\t: none\n")[
            "flags"
        ]
        == "avx"
    )
    for unlisted in ("", "processor : 0\n", "processor : 0\nflags :\n"):
        assert isinstance(collect({"/proc/cpuinfo": unlisted}).cpu_flags, Unknown)
    assert isinstance(collect({"/proc/cpuinfo": {"error": "denied"}}).cpu_flags, Unknown)


@pytest.mark.parametrize(
    ("files", "environment", "kind"),
    [
        ({"/.dockerenv": ""}, {}, "docker"),
        ({"/.dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"/run/.containerenv": ""}, {"container": "podman"}, "podman"),
        ({}, {"APPTAINER_CONTAINER": "/x.sif"}, "apptainer"),
        ({"/.singularity.d/libs/x": ""}, {}, "apptainer"),
        ({}, {"container": "lxc"}, "lxc"),
        ({"/run/systemd/container": "systemd-nspawn\n"}, {}, "systemd-nspawn"),
        ({"/proc/self/mountinfo": OVERLAY}, {}, "docker"),
        ({"/proc/self/mountinfo": HOST}, {}, None),
    ],
)
def test_containers(files: dict[str, Any], environment: dict[str, str], kind: str | None) -> None:
    fact = collect(files or None, environment=environment).container
    assert fact.value == kind
    assert isinstance(fact, Known if kind else Absent)


def test_container_texts() -> None:
    assert parse_root_mount(PODMAN) == "podman"
    assert parse_root_mount("") is None


def test_an_undetectable_container() -> None:
    fact = collect({"/proc/self/mountinfo": {"error": "denied"}}).container
    assert isinstance(fact, Unknown)
    assert fact.why == "denied"


@pytest.mark.parametrize(
    ("kernel", "environment", "version"),
    [
        ("4.4.0-19041-Microsoft", {}, 1),
        ("5.15.90.1-microsoft-standard-WSL2", {}, 2),
        ("6.6.36.3-microsoft-standard-WSL2+", {"WSL_DISTRO_NAME": "Ubuntu"}, 2),
        ("6.9.0-mine", {"WSL_DISTRO_NAME": "Ubuntu"}, 2),
        ("6.8.0-45-generic", {}, None),
    ],
)
def test_wsl(kernel: str, environment: dict[str, str], version: int | None) -> None:
    facts = collect(system={**LINUX, "kernel_release": kernel}, environment=environment)
    assert facts.wsl_version.value == version


def test_jetson() -> None:
    arm = {**LINUX, "machine": "aarch64"}
    assert collect({"/etc/nv_tegra_release": TEGRA}, arm).jetson_release.value == "R35.4.1"
    assert parse_tegra_release("") is None
    model = {"/proc/device-tree/model": "NVIDIA Jetson AGX Orin Developer Kit\0"}
    assert isinstance(collect(model, arm).jetson_release, Unknown)
    assert isinstance(
        collect({"/etc/nv_tegra_release": {"error": "denied"}}, arm).jetson_release, Unknown
    )
    assert isinstance(collect({"/etc/nv_tegra_release": TEGRA}).jetson_release, Absent)


@pytest.mark.parametrize(("value", "on"), [(b"\6\0\0\0\1", True), (b"\6\0\0\0\0", False)])
def test_secure_boot(value: bytes, on: bool) -> None:
    facts = collect({EFI: {"base64": base64.b64encode(value).decode()}})
    assert facts.secure_boot.value is on
    assert isinstance(collect({EFI: "\6"}).secure_boot, Unknown)
    assert isinstance(collect({EFI: {"error": "denied"}}).secure_boot, Unknown)


@pytest.mark.parametrize(
    ("mounts", "size"),
    [
        ("shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=65536k,inode64 0 0\n", 64 << 20),
        ("shm /dev/shm tmpfs rw,size=65536k 0 0\ntmpfs /dev/shm tmpfs rw,size=2g 0 0\n", 2 << 30),
        ("tmpfs /dev/shm tmpfs rw,size=1048576 0 0\n", 1 << 20),
    ],
)
def test_shared_memory(mounts: str, size: int) -> None:
    assert parse_shm_size(mounts).value == size


def test_shared_memory_without_a_size() -> None:
    assert isinstance(parse_shm_size("tmpfs /dev/shm tmpfs rw,size=50% 0 0\n"), Unknown)
    assert isinstance(parse_shm_size("tmpfs /dev/shm tmpfs rw,nosuid 0 0\n"), Unknown)
    assert isinstance(parse_shm_size("proc /proc proc rw 0 0\n"), Absent)


def test_macos() -> None:
    command = [
        "/usr/sbin/sysctl",
        "-n",
        "machdep.cpu.brand_string",
        "machdep.cpu.features",
        "machdep.cpu.leaf7_features",
    ]
    output = "Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz\nFPU SSE4.2 AVX1.0 FMA\nAVX2 BMI1\n"
    macos = {
        "machine": "x86_64",
        "kernel_release": "23.4.0",
        "version": "Darwin Kernel Version 23.4.0",
    }
    files = {"/usr/sbin/sysctl": "Mach-O"}
    facts = _macos(files, macos, command, output)
    assert facts.cpu_model.value == "Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz"
    assert {"avx", "avx2", "sse4_2", "fma"} <= flags(facts)
    apple = _macos(files, macos, command, "Apple M2\n")
    assert apple.cpu_model.value == "Apple M2"
    assert isinstance(apple.cpu_flags, Absent)
    assert isinstance(_macos({"/x": ""}, macos, command, "").cpu_flags, Absent)
    assert isinstance(_macos(files, macos, command, "").cpu_model, Unknown)


def _macos(
    files: dict[str, Any], system: dict[str, Any], command: list[str], output: str
) -> HostFacts:
    commands = [{"argv": command, "stdout": output}] if "/usr/sbin/sysctl" in files else []
    recording = {"system": "darwin", "files": files, "system_facts": system, "commands": commands}
    return collect_host(RecordedHost(recording))


def test_windows() -> None:
    environment = {
        "PROCESSOR_IDENTIFIER": "Intel64 Family 6 Model 158 Stepping 10, GenuineIntel",
        "USERPROFILE": r"C:\Users\x",
    }
    system = {
        "machine": "AMD64",
        "kernel_release": "10",
        "version": "10.0.19045",
        "cpu_flags": ["sse4_2", "avx"],
    }
    host = RecordedHost(
        {"system": "windows", "environment": environment, "system_facts": system, "files": {}}
    )
    facts = collect_host(host)
    assert facts.os.value == "windows"
    assert facts.distribution_version.value == "10.0.19045"
    assert facts.cpu_model.value == environment["PROCESSOR_IDENTIFIER"]
    assert facts.cpu_flags.value == ("sse4_2", "avx")
    for fact in (
        facts.container,
        facts.wsl_version,
        facts.shm_bytes,
        facts.libc_kind,
        facts.distribution_id,
    ):
        assert isinstance(fact, Absent)
    bare = collect_host(RecordedHost({"system": "windows", "system_facts": {}, "files": {}}))
    assert isinstance(bare.cpu_model, Absent)
    assert isinstance(bare.cpu_flags, Unknown)
    assert isinstance(bare.distribution_version, Absent)
