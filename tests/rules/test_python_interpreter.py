"""Rules about the interpreter, pip and the C libraries."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.model import NOTE, UNDETERMINED, Absent, FrameworkRelease, InterpreterFault
from envcheck.rules.requirements import easiest_for_pip, tag_glibcxx, tag_need, wheel_glibc
from tests.rules.factory_python import (
    UNREADABLE,
    build,
    context,
    distribution,
    edited_matrix,
    facts,
    findings,
    found,
    known,
)
from tests.typed import argv

UNDECIDED = [("probe-failed", "error")]


def test_32bit_python() -> None:
    assert found("python-32bit", context(facts(bits=known(32)))) == [("python-32bit", "error")]
    assert found("python-32bit", context(facts(bits=known(64)))) == []
    assert found("python-32bit", context(facts(bits=UNREADABLE))) == UNDECIDED


def test_32bit_python_with_a_framework_that_someone_built_for_it() -> None:
    given = facts(build("tensorflow", "2.15.1"), bits=known(32))
    assert found("python-32bit", context(given)) == []
    assert found("python-32bit", context(given, "torch")) == [("python-32bit", "error")]


@pytest.mark.parametrize(
    ("python", "machine", "wrong"),
    [
        ("x86_64", "arm64", True),
        ("x86_64", "aarch64", True),
        ("AMD64", "x86_64", False),
        ("arm64", "aarch64", False),
        ("i686", "x86_64", False),
        ("armv7l", "aarch64", False),
    ],
)
def test_wrong_architecture(python: str, machine: str, wrong: bool) -> None:
    given = facts(architecture=known(python), host={"architecture": known(machine)})
    assert found("python-wrong-arch", context(given)) == (
        [("python-wrong-arch", "error")] if wrong else []
    )


def test_wrong_architecture_unread() -> None:
    assert found("python-wrong-arch", context(facts(architecture=UNREADABLE))) == UNDECIDED
    assert found("python-wrong-arch", context(facts(architecture=Absent()))) == []


@pytest.mark.parametrize(
    ("pip", "expected"),
    [("18.1", [("pip-too-old", "error")]), ("19.0", []), ("24.0", []), ("?", [])],
)
def test_pip_too_old(pip: str, expected: list[tuple[str, str]]) -> None:
    given = facts(version=known("3.6.10"), pip_version=known(pip))
    assert found("pip-too-old", context(given, "tensorflow==1.15.2")) == expected


def test_pip_matters_only_for_what_is_to_be_installed() -> None:
    assert found("pip-too-old", context(facts(pip_version=UNREADABLE))) == []
    assert found("pip-too-old", context(facts(pip_version=UNREADABLE), "tensorflow")) == UNDECIDED
    assert found("pip-too-old", context(facts(pip_version=Absent()), "tensorflow")) == []
    assert (
        found("pip-too-old", context(facts(pip_version=known("9.0")), "jax==0.4.31", expect="cpu"))
        == []
    )


def test_glibc_too_old_for_what_is_asked() -> None:
    old, new = ({"libc_version": known(version)} for version in ("2.26", "2.27"))
    report = findings("glibc-too-old", context(facts(host=old), "tensorflow==2.21.0"))
    assert [(item.id, item.severity) for item in report] == [("glibc-too-old", "error")]
    assert "2.27" in report[0].message
    assert "2.26" in report[0].message
    assert any(item.citation for item in report[0].evidence)
    assert found("glibc-too-old", context(facts(host=new), "tensorflow==2.21.0")) == []
    assert (
        found(
            "glibc-too-old", context(facts(host={"libc_version": UNREADABLE}), "tensorflow==2.21.0")
        )
        == UNDECIDED
    )


def test_glibc_too_old_for_what_is_installed() -> None:
    old = {"libc_version": known("2.17")}
    given = facts(build("tensorflow", "2.21.0"), host=old)
    assert found("glibc-too-old", context(given)) == [("glibc-too-old", "error")]
    by_conda = facts(
        build("tensorflow", "2.21.0"),
        distributions=(distribution("tensorflow", "2.21.0", installer="conda"),),
        host=old,
    )
    assert found("glibc-too-old", context(by_conda)) == []
    assert (
        found(
            "glibc-too-old",
            context(facts(build("tensorflow", "2.21.0"), host={"libc_version": UNREADABLE})),
        )
        == []
    )


@pytest.mark.parametrize(
    ("glibcxx", "expected"),
    [("3.4.21", [("libstdcxx-mismatch", "warning")]), ("3.4.24", []), ("3.4.30", [])],
)
@pytest.mark.parametrize("kind", ["conda", "venv"])
def test_libstdcxx_older_than_the_tag_admits(
    glibcxx: str, expected: list[tuple[str, str]], kind: str
) -> None:
    given = facts(
        build("torch", "2.8.0"),
        kind=known(kind),
        libstdcxx_path=known("/opt/conda/lib/libstdc++.so.6"),
        libstdcxx_glibcxx=known(glibcxx),
    )
    report = findings("libstdcxx-mismatch", context(given))
    assert [(item.id, item.severity) for item in report] == expected
    assert all(bool(item.fix and item.fix.actions) == (kind == "conda") for item in report)


def test_libstdcxx_unread_or_unneeded() -> None:
    path = known("/opt/conda/lib/libstdc++.so.6")
    unread = facts(build("torch", "2.8.0"), libstdcxx_path=path, libstdcxx_glibcxx=UNREADABLE)
    assert found("libstdcxx-mismatch", context(unread)) == []
    unknown = facts(build("torch", "99.0"), libstdcxx_path=path, libstdcxx_glibcxx=known("3.4.8"))
    assert found("libstdcxx-mismatch", context(unknown)) == []
    no_tags = facts(build("jax", "0.4.31"), libstdcxx_path=path, libstdcxx_glibcxx=known("3.4.8"))
    assert found("libstdcxx-mismatch", context(no_tags)) == []


def test_tags() -> None:
    assert tag_need("win_amd64") is None
    assert tag_need("manylinux9999_x86_64") is None
    need = tag_need("manylinux_2_28_aarch64")
    assert need is not None
    assert (need.glibc, need.pip) == ("2.28", "20.3")


def row(*tags: str, glibc: str | None = None) -> FrameworkRelease:
    fields: dict[str, Any] = dict.fromkeys(
        (
            "cuda",
            "cudnn",
            "gpu_extra",
            "compute_capabilities",
            "cpu_features",
            "cuda_wheels",
            "requires",
            "citations",
        )
    )
    return FrameworkRelease(
        "torch", "torch", "1", "linux_x86_64", (), glibc, cuda_build=False, finds_cuda_wheels=False, yanked=False,
        tags=tags, **fields,
    )  # fmt: skip


def test_what_a_release_needs() -> None:
    double = row("manylinux2014_x86_64", "manylinux_2_17_x86_64", glibc="2.17")
    assert easiest_for_pip(double).pip == "19.3"  # type: ignore[union-attr]
    assert wheel_glibc(double) == "2.17"
    assert wheel_glibc(row("manylinux1_x86_64", glibc="2.17")) == "2.17"
    assert wheel_glibc(row("win_amd64")) == ""
    assert easiest_for_pip(row("any")) is None
    assert easiest_for_pip(row()) is None
    assert tag_glibcxx(row("manylinux_2_28_x86_64")) == "3.4.24"
    assert tag_glibcxx(row("win_amd64")) == ""


def test_32bit_without_any_release_to_cite() -> None:
    def edit(document: Any) -> None:
        document["releases"] = {name: {} for name in document["releases"]}

    assert found("python-32bit", context(facts(bits=known(32)), rows=edited_matrix(edit))) == [
        ("python-32bit", "error")
    ]


def test_a_module_that_python_lacks_and_an_import_needs() -> None:
    lacks = (InterpreterFault("lacks", "zlib"), InterpreterFault("lacks", "_sqlite3"))
    given = facts(
        build("torch", "2.8.0"), distributions=(distribution("torch", "2.8.0"),),
        interpreter_faults=known(lacks),
    )  # fmt: skip
    (finding,) = findings("env-mixed", context(given))
    assert finding.message == "This Python has no zlib: `import torch` needs it."
    assert finding.fix is not None
    assert finding.fix.summary.startswith("Install a Python that has zlib")


def test_a_module_that_no_import_needs_is_not_missed() -> None:
    lacks = known((InterpreterFault("lacks", "_sqlite3"), InterpreterFault("lacks", "pyexpat")))
    given = facts(build("torch", "2.8.0"), interpreter_faults=lacks)
    assert findings("env-mixed", context(given)) == []


def test_a_folder_that_code_of_the_start_computes_is_not_read() -> None:
    faults = (
        InterpreterFault("front", "/a", "/s/a.pth"),
        InterpreterFault("front", "", "/s/b.pth"),
    )
    given = facts(build("torch", "2.8.0"), interpreter_faults=known(faults))
    (note,) = findings("env-mixed", context(given))
    assert (note.verdict, note.severity) == (UNDETERMINED, NOTE)
    assert note.message.startswith("/s/b.pth computes a folder")


def test_a_library_of_python_itself_that_is_not_found() -> None:
    fault = InterpreterFault("unloadable", "_ctypes", "/l/_ctypes.so", "libffi.so.7")
    given = facts(
        build("torch", "2.8.0"), distributions=(distribution("torch", "2.8.0"),),
        interpreter_faults=known((fault,)),
    )  # fmt: skip
    (finding,) = findings("env-mixed", context(given))
    assert "(/l/_ctypes.so needs libffi.so.7, which is not found)" in finding.message


@pytest.mark.parametrize(
    ("module", "requires", "count"),
    [("ast", (), 1), ("numpy", (), 0), ("numpy", ("numpy>=2",), 1), ("sqlite3", (), 0)],
)
def test_a_module_that_code_of_the_start_replaces(
    module: str, requires: tuple[str, ...], count: int
) -> None:
    """PyTorch needs ast, works without NumPy unless it requires it, and loads no sqlite3."""
    fault = InterpreterFault("replaced", module, "/s/at-start.pth")
    torch = distribution("torch", "2.8.0", requires=requires)
    items = (torch, distribution("numpy", "2.4", modules=("numpy",)))
    given = facts(build("torch", "2.8.0"), distributions=items, interpreter_faults=known((fault,)))
    found = findings("env-mixed", context(given))
    assert len(found) == count
    for finding in found:
        assert (
            f"/s/at-start.pth, which runs when Python starts, replaces the module {module}"
            in finding.message
        )
        assert finding.fix is not None
        assert finding.fix.summary == "Keep Python from running /s/at-start.pth when it starts."
        assert argv(finding.fix.actions[0]) == ("mv", "/s/at-start.pth", "/s/at-start.pth.off")


def test_packages_that_lie_where_another_python_looks() -> None:
    fault = InterpreterFault("other-library", "/env/lib/python3.9")
    given = facts(prefix=known("/env"), interpreter_faults=known((fault,)))
    (finding,) = findings("env-mixed", context(given))
    assert "lie in /env/lib/python3.9" in finding.message
    assert finding.fix is not None
    assert "python3.9" in finding.fix.summary
