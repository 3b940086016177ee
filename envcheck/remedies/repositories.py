"""Add a repository of NVIDIA's, and trust its key only where the fingerprint is the known one."""

from __future__ import annotations

from collections.abc import Iterator

from envcheck.actions import APT, DNF, ZYPPER, RunCommand
from envcheck.host.data_files import load_data
from envcheck.model import LINUX, SYSTEM, Citation, dataclass

# One key alone, and its own fingerprint, which comes first: those of subkeys follow.
_IS_KNOWN = (
    'keys=$(gpg --show-keys --with-colons "$1")'
    ' && [ "$(echo "$keys" | grep -c ^pub:)" = 1 ]'
    ' && echo "$keys" | grep -m 1 ^fpr: | grep -qx "fpr:*$2:"'
)
_KEEP = 'install -D -m 644 "$1" "$3"'
_WRITE = 'file=$4 && shift 4 && printf "%s\\n" "$@" > "$file"'
_ADD_TO_APT = f"{_IS_KNOWN} && {_KEEP} && {_WRITE}"
_ADD_TO_RPM = f'{_IS_KNOWN} && {_KEEP} && rpm --import "$3" && {_WRITE}'
CUDA = "https://developer.download.nvidia.com/compute/cuda/repos"
CONTAINER_TOOLKIT = "nvidia-container-toolkit"
CONTAINER_PAGES = "https://nvidia.github.io/libnvidia-container"
_RPM_FOLDERS = {DNF: "/etc/yum.repos.d", ZYPPER: "/etc/zypp/repos.d"}


@dataclass
class RepositoryKey:
    """What signs some repositories; at least two independent sources state its fingerprint."""

    repositories: tuple[str, ...]
    file: str  # beside the packages, or a whole address
    fingerprint: str
    signs: str  # for dnf and zypper: packages, or the lists of them
    citations: tuple[Citation, ...]


@dataclass
class RepositoryKeys:
    """The content of data/nvidia/repository_keys.json."""

    keys: tuple[RepositoryKey, ...]


def find_key(repository: str) -> RepositoryKey | None:
    """Return the key that signs a repository; None where its fingerprint is not known."""
    keys = load_data("nvidia/repository_keys", RepositoryKeys).keys
    return next((key for key in keys if repository in key.repositories), None)


def drop_entries(page: str, *, sudo: bool) -> RunCommand:
    """Comment out what apt has of a repository: two entries with different keys are an error."""
    edit = ("find", "/etc/apt", "-name", "*.list", "-exec", "sed", "-i")
    place = f"\\#{page.partition('://')[2]}#"
    return RunCommand(
        (*edit, f"{place}s/^deb /# deb /", "{}", "+"), "its old entries", SYSTEM, (LINUX,), sudo,
        undo_argv=(*edit, f"{place}s/^# deb /deb /", "{}", "+"),
    )  # fmt: skip


def add_repository(
    key: RepositoryKey, manager: str, name: str, address: str, *, sudo: bool
) -> Iterator[RunCommand]:
    """Fetch the key of a repository, and add the repository only if the key is the known one."""
    fetched = f"{name}.pub"
    source = key.file if key.file.startswith("https:") else f"{address}/{key.file}"
    yield RunCommand(
        ("curl", "-fsSL", "-o", fetched, source), "NVIDIA's key", SYSTEM, (LINUX,),
        check_argv=("test", "-s", fetched), undo_argv=("rm", "-f", fetched),
    )  # fmt: skip
    if manager == APT:
        program, keyring = _ADD_TO_APT, f"/usr/share/keyrings/{name}.asc"
        file = f"/etc/apt/sources.list.d/{name}.list"
        lines: tuple[str, ...] = (f"deb [signed-by={keyring}] {address} /",)
    else:
        program, keyring = _ADD_TO_RPM, f"/etc/pki/rpm-gpg/{name}.asc"
        file = f"{_RPM_FOLDERS[manager]}/{name}.repo"
        checks = ("gpgcheck=1",) if key.signs == "packages" else ("repo_gpgcheck=1", "gpgcheck=0")
        about = (f"[{name}]", f"name={name}", f"baseurl={address}", "enabled=1")
        lines = (*about, *checks, f"gpgkey=file://{keyring}")
    yield RunCommand(
        ("sh", "-c", program, "sh", fetched, key.fingerprint, keyring, file, *lines),
        "NVIDIA's repository, only if the key has this fingerprint", SYSTEM, (LINUX,), sudo,
        check_argv=("test", "-s", file), undo_argv=("rm", "-f", file, keyring),
    )  # fmt: skip
