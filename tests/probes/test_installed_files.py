"""Installed files against RECORD, and what interrupted installations leave: real folders, real ELF files."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from envcheck.host.elf import find_damage
from envcheck.host.local import LocalHost
from envcheck.model import Absent, Fact, FileFault, InstallLeftover, PythonFacts, Unknown
from envcheck.probes.environment_choice import PythonSelection
from envcheck.probes.installed_files import hash_content, parse_record
from envcheck.probes.python import collect_python
from tests.known import known, unknown
from tests.probes.framework_stand_ins import metadata
from tests.probes.pythons import make_venv

LIBRARY = Path(sys.executable).resolve().read_bytes() if sys.platform == "linux" else b""


def inspect(venv: Path) -> PythonFacts:
    return collect_python(LocalHost(), PythonSelection(env=str(venv)))


def install(site: Path, files: dict[str, bytes], name: str = "torch") -> None:
    """Install a distribution with files of these contents."""
    lines = [
        f"{path},sha256={hash_content(content)},{len(content)}" for path, content in files.items()
    ]
    metadata(
        site,
        name,
        "2.13.0",
        name.replace("-", "_"),
        record="\n".join([*lines, "torch/include/a.h,sha256=x,7", ""]),
    )
    for path, content in files.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(content)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    site = make_venv(tmp_path / "v")
    texts = {"torch/__init__.py": b"x = 1\n", "torch/nn/a.py": b"y = 1\n", "torch/nn/b.py": b""}
    install(site, {**texts, "torch/lib/libc10.so": LIBRARY})
    return site


def faults(site: Path) -> list[tuple[str, str]]:
    found: tuple[FileFault, ...] = known(inspect(site.parents[2]).file_faults)
    return [(item.path, item.kind) for item in found]


def test_a_whole_distribution_has_no_fault_and_its_headers_are_not_looked_at(site: Path) -> None:
    assert faults(site) == []


def test_an_edited_file_is_said(site: Path) -> None:
    (site / "torch/nn/a.py").write_text("y = 2  # edited\n", encoding="utf-8")
    assert faults(site) == [("torch/nn/a.py", "edited")]


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"\0" * 6, "garbled"),
        (b"<<<<<<< HEAD\ny = 1\n", "garbled"),
        (b"z = 1\n", "edited"),
        (b"y = 1\n", ""),
    ],
)
def test_the_content_of_a_file_that_changed_later_is_compared(
    site: Path, content: bytes, kind: str
) -> None:
    """NUL bytes of the same size, a merge marker, another text; the same text says nothing."""
    listed = f"torch/nn/a.py,sha256={hash_content(b'y = 1' + bytes([10]))},6\n"
    next(site.glob("torch-*/RECORD")).write_text(listed, encoding="utf-8")
    (site / "torch/nn/a.py").write_bytes(content)
    later = time.time() + 60
    os.utime(site / "torch/nn/a.py", (later, later))
    assert faults(site) == ([("torch/nn/a.py", kind)] if kind else [])


@pytest.mark.parametrize(
    ("text", "ending"),
    [
        ("raise SystemExit(3)\n", "raise SystemExit(3)"),
        ("import os; os._exit(3)\n", "os._exit(3)"),
        ("import sys\nsys.exit()\n", "sys.exit()"),
        ("def stop():\n    raise SystemExit(3)\n", ""),
        ("exit = 1\n", ""),
        ("raise SystemExit(", ""),
    ],
)
def test_code_that_ends_python_when_it_starts(site: Path, text: str, ending: str) -> None:
    (site / "sitecustomize.py").write_text(text, encoding="utf-8")
    left = known(inspect(site.parents[2]).install_leftovers)
    assert [item.command for item in left if item.kind == "start-code"] == [ending] * bool(ending)


def test_a_python_file_that_was_cut_is_found_where_it_does_not_compile(site: Path) -> None:
    install(
        site,
        {"numpy/whole.py": b"x = 1\ny = 2\n", "numpy/cut.py": b"def f(a,\n      b): return a\n"},
        "numpy",
    )
    (site / "numpy/whole.py").write_bytes(b"x = 1\n")
    assert faults(site) == [("numpy/whole.py", "edited")]
    (site / "numpy/whole.py").write_bytes(b"x = 1\nx")  # as no editor leaves it
    assert faults(site) == [("numpy/whole.py", "shortened")]
    (site / "numpy/cut.py").write_bytes(b"def f(a,\n")
    assert faults(site) == [("numpy/cut.py", "truncated"), ("numpy/whole.py", "shortened")]


def test_missing_and_emptied_files_are_found_the_uppermost_first(site: Path) -> None:
    (site / "torch/__init__.py").write_bytes(b"")
    (site / "torch/nn/a.py").unlink()
    assert faults(site) == [("torch/__init__.py", "empty"), ("torch/nn/a.py", "missing")]


def test_an_init_file_without_content_need_not_be_there(site: Path) -> None:
    install(
        site,
        {"numpy/__init__.py": b"x = 1\n", "numpy/a/__init__.py": b"", "numpy/a/b.py": b"y = 1\n"},
        "numpy",
    )
    (site / "numpy/a/__init__.py").unlink()
    assert faults(site) == []


def test_a_missing_folder_is_one_fault(site: Path) -> None:
    for path in (site / "torch/nn").iterdir():
        path.unlink()
    (site / "torch/nn").rmdir()
    assert faults(site) == [("torch/nn", "missing")]


@pytest.mark.needs("linux")
@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"", "empty"), (LIBRARY[: len(LIBRARY) // 2], "truncated"), (b"\0" * 900, "not-elf")],
)
def test_a_damaged_library_is_found(site: Path, content: bytes, kind: str) -> None:
    (site / "torch/lib/libc10.so").write_bytes(content)
    assert faults(site) == [("torch/lib/libc10.so", kind)]


@pytest.mark.needs("linux")
def test_a_library_of_another_size_that_is_whole_is_no_fault(site: Path) -> None:
    (site / "torch/lib/libc10.so").write_bytes(LIBRARY + b"\0" * 100)
    assert faults(site) == []


def test_bytecode_without_source_is_imported(site: Path) -> None:
    (site / "torch/nn/a.py").rename(site / "torch/nn/a.pyc")
    assert faults(site) == []


def test_a_distribution_without_record_is_not_checked(site: Path) -> None:
    (site / "torch-2.13.0.dist-info/RECORD").unlink()
    (site / "torch/nn/a.py").unlink()
    assert faults(site) == []


def test_what_conda_installed_is_not_checked(site: Path) -> None:
    (site / "torch-2.13.0.dist-info/INSTALLER").write_text("conda\n", encoding="utf-8")
    (site / "torch/nn/a.py").unlink()
    assert isinstance(inspect(site.parents[2]).file_faults, Absent)


def test_what_no_framework_loads_is_not_checked(site: Path) -> None:
    install(site, {"flask/__init__.py": b"x"}, "flask")
    (site / "flask/__init__.py").unlink()
    assert faults(site) == []


def test_what_only_an_older_release_loads_is_checked_too(site: Path) -> None:
    install(site, {"tensorflow/__init__.py": b"x = 1\n"}, "tensorflow")
    install(
        site,
        {"keras_applications/a.py": b"x = 1\n", "keras_applications/b.py": b"x = 1\n"},
        "keras-applications",
    )
    (site / "keras_applications/a.py").unlink()
    assert faults(site) == [("keras_applications/a.py", "missing")]


def test_an_unreadable_folder_is_unknown_never_missing(site: Path) -> None:
    class Denied(LocalHost):
        def list_sizes(self, path: str) -> Fact[Mapping[str, int]]:
            return (
                Unknown("denied", f"{path}: permission denied")
                if path.endswith("nn")
                else super().list_sizes(path)
            )

    facts = collect_python(Denied(), PythonSelection(env=str(site.parents[2])))
    assert unknown(facts.file_faults).why == "denied"


def leftovers(site: Path) -> tuple[InstallLeftover, ...]:
    found: tuple[InstallLeftover, ...] = known(inspect(site.parents[2]).install_leftovers)
    return found


def test_a_marker_of_envcheck_is_found_with_its_command(site: Path) -> None:
    assert leftovers(site) == ()
    marker = site.parents[2] / ".envcheck-incomplete"
    marker.write_text(
        "It has not come to its end.\nenvcheck install --resume --env /v\n", encoding="utf-8"
    )
    assert leftovers(site) == (InstallLeftover(str(marker), "marker"),), (
        "no journal, so that settles nothing"
    )
    environment = site.parents[2]
    journals = environment.parent / f".envcheck-{environment.name}"
    journals.mkdir()
    (journals / "20260101-000000-1.jsonl").touch()
    assert leftovers(site) == (
        InstallLeftover(str(marker), "marker", command="envcheck install --resume --env /v"),
    )


def test_what_pip_renamed_is_found_where_nothing_took_its_place(site: Path) -> None:
    (site / "~orch-2.12.0.dist-info").mkdir()
    assert leftovers(site) == ()
    (site / "~orch-2.12.0.dist-info").rmdir()
    (site / "torch-2.13.0.dist-info").rename(site / "~orch-2.13.0.dist-info")
    assert {(item.kind, item.distribution) for item in leftovers(site)} == {("compared", "torch")}
    assert faults(site) == []
    (site / "torch/nn/a.py").unlink()
    assert faults(site) == [("torch/nn/a.py", "missing")]
    (site / "~orch-2.13.0.dist-info/RECORD").unlink()
    assert {(item.kind, item.distribution) for item in leftovers(site)} == {("renamed", "torch")}


def test_what_is_back_of_a_needed_module_that_pip_renamed_is_compared_too(site: Path) -> None:
    install(site, {"numpy/__init__.py": b"x = 1\n"}, "numpy")
    (site / "numpy-2.13.0.dist-info").rename(site / "~umpy-2.13.0.dist-info")
    (site / "numpy/__init__.py").unlink()
    assert faults(site) == [("numpy/__init__.py", "missing")]


def test_metadata_of_a_wheel_without_record_is_found_but_not_debians(site: Path) -> None:
    (site / "torch-2.13.0.dist-info/WHEEL").touch()
    (site / "torch-2.13.0.dist-info/RECORD").unlink()
    assert [(item.kind, item.distribution) for item in leftovers(site)] == [("no-record", "torch")]
    (site / "torch-2.13.0.dist-info/INSTALLER").write_text("debian\n", encoding="utf-8")
    assert leftovers(site) == ()


@pytest.mark.parametrize("content", [b"", None])
def test_metadata_of_a_wheel_that_is_half_there_is_found(site: Path, content: bytes | None) -> None:
    folder = site / "torch-2.13.0.dist-info"
    (folder / "WHEEL").write_bytes(b"Wheel-Version: 1.0\n")
    assert leftovers(site) == ()
    (folder / "METADATA").write_bytes(content or b"")
    if content is None:
        (folder / "METADATA").unlink()
    assert [(item.kind, item.distribution) for item in leftovers(site)] == [
        ("no-metadata", "torch")
    ]


def test_what_a_companion_loads_is_compared_beside_its_framework_alone(site: Path) -> None:
    install(site, {"sympy/core.py": b"x = 1\n"}, "sympy")
    (site / "sympy/core.py").unlink()
    assert faults(site) == []
    install(
        site,
        {"torchvision/__init__.py": b"x = 1\n", "torchvision/models/_api.py": b"y = 1\n"},
        "torchvision",
    )
    (site / "torchvision/models/_api.py").unlink()
    assert faults(site) == [("sympy/core.py", "missing"), ("torchvision/models/_api.py", "missing")]


def test_what_pip_renamed_of_a_companion_s_needs_is_found_beside_the_companion(site: Path) -> None:
    install(site, {"PIL/__init__.py": b"x = 1\n"}, "pillow")
    (site / "pillow-2.13.0.dist-info").rename(site / "~illow-2.13.0.dist-info")
    (site / "PIL/__init__.py").unlink()
    assert {(item.kind, item.distribution) for item in leftovers(site)} == {("compared", "")}
    install(site, {"torchvision/__init__.py": b"x = 1\n"}, "torchvision")
    assert {(item.kind, item.distribution) for item in leftovers(site)} == {("compared", "pillow")}
    assert faults(site) == [("PIL/__init__.py", "missing")]


def test_a_framework_s_module_without_metadata_is_found_but_no_link_and_no_bytecode(
    site: Path,
) -> None:
    shutil.rmtree(site / "torch-2.13.0.dist-info")
    assert leftovers(site) == (InstallLeftover(str(site / "torch"), "unowned", "torch"),)
    (site / "torch/version.py").write_text(
        "__all__ = []\n__version__ = '2.13.0+cpu'\ncuda = None\n", encoding="utf-8"
    )
    assert [item.release for item in leftovers(site)] == ["2.13.0+cpu"]
    (site / "torch").rename(site.parents[2] / "torch")
    (site / "torch").symlink_to(site.parents[2] / "torch")
    assert leftovers(site) == ()
    (site / "torch").unlink()
    (site / "torch/__pycache__").mkdir(parents=True)
    assert leftovers(site) == ()


def test_an_editable_install_owns_its_module(site: Path) -> None:
    source = site.parents[2] / "source"
    source.mkdir()
    (site / "torch").rename(source / "torch")
    (site / "__editable__.torch.pth").write_text(f"{source}\n", encoding="utf-8")
    assert leftovers(site) == ()


def test_a_record_is_read_for_python_files_and_libraries_outside_tests() -> None:
    text = "a/x.py,sha256=q,3\na/tests/y.py,,1\na/lib/l.so.1,,9\n../../bin/a.py,,1\na/h.hpp,,2\na/no_size.py,,\n"
    assert parse_record(text) == {"a": {"x.py": 3, "no_size.py": -1}, "a/lib": {"l.so.1": 9}}


@pytest.mark.needs("linux")
def test_an_elf_file_ends_with_its_headers_and_segments() -> None:
    assert find_damage(LIBRARY[:4096], len(LIBRARY)) == ""
    assert find_damage(LIBRARY[:4096], len(LIBRARY) - 1) == "shortened"
    assert find_damage(LIBRARY[:4096], len(LIBRARY) // 2) == "truncated"
    assert find_damage(LIBRARY[:20], 20) == "truncated"
    assert find_damage(b"INPUT(libc.so.6)", 16) == "not-elf"


@pytest.mark.parametrize(
    ("beside", "kind"),
    [
        ((), "other-python"),
        (("_c.abi3.so",), ""),
        ((f"_c.cpython-{sys.version_info.major}{sys.version_info.minor}-x86_64-linux-gnu.so",), ""),
        (("_d.so",), "other-python"),
    ],
)
@pytest.mark.needs("linux")
def test_a_module_that_is_built_for_another_python(
    site: Path, beside: tuple[str, ...], kind: str
) -> None:
    name = "torch/_c.cpython-32-x86_64-linux-gnu.so"
    files = {name: LIBRARY, **{f"torch/{each}": LIBRARY for each in beside}}
    shutil.rmtree(site / "torch-2.13.0.dist-info")
    install(site, {"torch/__init__.py": b"x = 1\n", **files})
    assert faults(site) == ([(name, kind)] if kind else [])


_CHECK = b"module compiled against ABI version 0x%x but this version of numpy is 0x%x"


@pytest.mark.parametrize(
    ("numpy", "texts", "kinds"),
    [
        ("2.0.2", b"numpy.core._multiarray_umath\0" + _CHECK, ["numpy-1"]),
        ("1.26.4", b"numpy.core._multiarray_umath\0" + _CHECK, []),
        ("2.0.2", b"numpy._core._multiarray_umath\0numpy.core._multiarray_umath\0" + _CHECK, []),
        ("2.0.2", b"numpy.core.multiarray\0", []),
    ],
)
def test_a_compiled_module_states_the_numpy_that_it_was_built_for(
    site: Path, numpy: str, texts: bytes, kinds: list[str]
) -> None:
    """Texts as h5py 3.10 and 3.16 hold them; the smallest module that asks NumPy answers."""
    metadata(site, "numpy", numpy, "numpy")
    files = {"torch/a.so": b"nothing", "torch/part/b.so": b"\x7fELF" + texts}
    shutil.rmtree(site / "torch-2.13.0.dist-info")
    install(site, {"torch/__init__.py": b"x = 1\n", **files})
    place = next(site.glob("torch-*/METADATA"))
    place.write_text(place.read_text().strip() + "\nRequires-Dist: numpy>=1.17\n", encoding="utf-8")
    assert faults(site) == [("torch/part/b.so", kind) for kind in kinds]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("from .part import X", "empty"),
        ("from torch.nn.part import (X,\n    Y)", "empty"),
        ("if 1:\n    from ..nn.part import X", "empty"),
        ("if TYPE_CHECKING:\n    from .part import X", "emptied"),
        ("def f():\n    from .part import X", "emptied"),
        ("from ..part import X", "emptied"),
        ("from torch.nn import part", "emptied"),
        ("from .partly import X", "emptied"),
    ],
)
def test_an_empty_module_stops_only_what_takes_names_from_it(
    site: Path, line: str, kind: str
) -> None:
    shutil.rmtree(site / "torch-2.13.0.dist-info")
    texts = {"torch/__init__.py": b"x = 1\n", "torch/nn/part.py": b"X = 1\n"}
    install(site, {**texts, "torch/nn/user.py": f"{line}\n".encode()})
    (site / "torch/nn/part.py").write_text("")
    assert faults(site) == [("torch/nn/part.py", kind)]


@pytest.mark.parametrize(
    ("left", "kind"),
    [
        ("X = 1\nY = 2\n", "edited"),
        ("from .other import *\n", "edited"),
        ("from .part import X, Y\n", "misplaced"),
        ("class X: ...\n", "lacking"),
        ("X = Y = 1\nprint(X, sorted)", "shortened"),
        ("X = Y = 1\nprin", "lacking"),
    ],
)
def test_a_module_that_lost_what_others_import_from_it(site: Path, left: str, kind: str) -> None:
    shutil.rmtree(site / "torch-2.13.0.dist-info")
    whole = b"X = 1\n" if left.endswith("\n") else b"X = 1\n" * 9  # of which an end was cut off
    texts = {"torch/__init__.py": b"x = 1\n", "torch/nn/part.py": whole}
    install(site, {**texts, "torch/nn/user.py": b"from .part import X, Y\n"})
    (site / "torch/nn/part.py").write_text(left)
    assert faults(site) == [("torch/nn/part.py", kind)]


_GUARDED = "try:\n    from ._fast import f\nexcept ImportError:\n"


@pytest.mark.parametrize(
    ("user", "kind"),
    [
        (f"{_GUARDED}    pass\n", "optional"),
        (f"{_GUARDED}    from .slow import f\n", "optional"),
        (f"{_GUARDED}    raise OSError\n", "missing"),
        (f"{_GUARDED.replace('ImportError', 'ValueError')}    pass\n", "missing"),
        (f"{_GUARDED}    pass\nfrom . import _fast\n", "missing"),
        ("import numpy\n", "missing"),
    ],
)
@pytest.mark.needs("linux")
def test_a_compiled_module_is_optional_where_its_sources_go_on_without_it(
    site: Path, user: str, kind: str
) -> None:
    name = "torch/_fast.cpython-311-x86_64-linux-gnu.so"
    shutil.rmtree(site / "torch-2.13.0.dist-info")
    install(site, {"torch/__init__.py": user.encode(), name: LIBRARY})
    (site / name).unlink()
    assert faults(site) == [(name, kind)]


@pytest.mark.needs("linux")
def test_a_folder_of_another_python_is_not_damaged(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PYTHONPATH is at fault, not the files in it."""
    shutil.rmtree(site / "torch-2.13.0.dist-info")
    (tmp_path / "other").mkdir()
    name = "torch/_c.cpython-32-x86_64-linux-gnu.so"
    install(tmp_path / "other", {"torch/__init__.py": b"x = 1\n", name: LIBRARY})
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "other"))
    assert faults(site) == []
