"""A repository that apt refuses for its key: NVIDIA's known keys are pinned, others are the person's."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from envcheck.model import Remedy
from tests.cases.judged import judge_text

CUDA = "https://developer.download.nvidia.com/compute/cuda/repos"
MISSING = (
    "W: GPG error: {0}  InRelease: The following signatures couldn't be verified because the public key is not available: NO_PUBKEY {1}\n"
    "E: The repository '{0}  InRelease' is not signed.\n"
)
# apt's words of Debian 12 and of 13; github.com/NVIDIA/cuda-repo-management, issue 39, has the second
EXPIRED = (
    "Err:5 {0}  InRelease\n  The following signatures were invalid: EXPKEYSIG {1} cudatools <cudatools@nvidia.com>\n"
    "W: Failed to fetch {0}/InRelease  The following signatures were invalid: EXPKEYSIG {1} cudatools <cudatools@nvidia.com>\n"
    "E: The repository '{0}  InRelease' is not signed.\n"
)
TOO_WEAK = (
    "W: OpenPGP signature verification failed: {0}  InRelease: Sub-process /usr/bin/sqv returned an error code (1), error message is:"
    " Signing key on EB693B3035CD5710E231E123A4B469963BF863CC is not bound:            No binding signature at time 2026-01-29T20:38:48Z"
    "   because: Policy rejected non-revocation signature (PositiveCertification) requiring second pre-image resistance"
    "   because: SHA1 is not considered secure since 2026-02-01T00:00:00Z\n"
    "E: The repository '{0}  InRelease' is not signed.\n"
)


def explained_fix(log: str) -> tuple[str, list[str]]:
    """Return the summary of the first fix, and its commands."""
    (fix,) = [item.fix for item in judge_text(log).report.findings if item.fix]
    assert isinstance(fix, Remedy)
    return fix.summary, [" ".join(action.command("linux")) for action in fix.actions]


@pytest.mark.parametrize("log", [MISSING, EXPIRED], ids=["missing", "expired"])
@pytest.mark.parametrize(
    ("address", "fingerprint"),
    [
        (f"{CUDA}/debian12/x86_64", "EB693B3035CD5710E231E123A4B469963BF863CC"),
        (f"{CUDA}/ubuntu2404/sbsa", "EB693B3035CD5710E231E123A4B469963BF863CC"),
        (f"{CUDA}/debian13/x86_64", "02182E60104FCDC26EAE1B8597A5D4CB8793F200"),
        ("https://nvidia.github.io/libnvidia-container/stable/deb/amd64", "C95B321B61E88C1809C4F759DDCAE044F796ECB0"),
    ],
)  # fmt: skip
def test_a_known_key_is_pinned(log: str, address: str, fingerprint: str) -> None:
    summary, lines = explained_fix(log.format(address, fingerprint[-16:]))
    assert summary == "Add NVIDIA's repository again, with the key that signs it today."
    (add,) = [line for line in lines if "signed-by=" in line]
    assert fingerprint in add
    assert "apt-key" not in " ".join(lines)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (MISSING.format(f"{CUDA}/debian10/x86_64", "F60F4B3D7FA2AF80"), "NVIDIA's repository debian10 again"),
        (MISSING.format("https://dl.example/linux/chrome/deb stable", "32EE5355A6BC6E42"), "the repository that the line names"),
        (TOO_WEAK.format(f"{CUDA}/ubuntu2404/x86_64"), "No key is missing"),
    ],
    ids=["unknown", "another's", "SHA-1"],
)  # fmt: skip
def test_nothing_else_is_typed(text: str, words: str) -> None:
    summary, lines = explained_fix(text)
    assert words in summary
    assert lines == []


@pytest.mark.needs("posix")
def test_the_old_entries_are_commented_out_and_come_back(tmp_path: Path) -> None:
    from envcheck.remedies.repositories import drop_entries

    mine, other = (
        "deb http://deb.example/debian bookworm main\n",
        f"deb {CUDA}/debian11/x86_64/ /\n",
    )
    old = f"deb [signed-by=/usr/share/keyrings/x.gpg] {CUDA}/debian12/x86_64/ /\n"
    (tmp_path / "sources.list").write_text(mine + old)
    (tmp_path / "sources.list.d").mkdir()
    cuda = tmp_path / "sources.list.d" / "cuda.list"
    cuda.write_text(other + old)
    step = drop_entries(f"{CUDA}/debian12/x86_64", sudo=False)

    def take(argv: tuple[str, ...]) -> None:
        here = [str(tmp_path) if word == "/etc/apt" else word for word in argv]
        subprocess.run(here, check=True, timeout=60)

    take(step.argv)
    assert (tmp_path / "sources.list").read_text() == f"{mine}# {old}"
    assert cuda.read_text() == f"{other}# {old}"
    take(step.undo_argv)
    assert cuda.read_text() == other + old
