"""Real imports of stand-in frameworks in a real environment: what each ending shows, and what none of them changes."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from envcheck.host.limits import EXITED, MEMORY, LimitedRun, Limits
from envcheck.host.local import LocalHost
from envcheck.model import (
    FAILED,
    IMPORT,
    PASSED,
    UNPROVEN,
    USE,
    Distribution,
    ImportTest,
    Known,
    replace,
)
from envcheck.probes import imports
from envcheck.probes.collection import collect_here
from envcheck.probes.imports import (
    choose_modules,
    collect_imports,
    find_reason_not_to_import,
    read_ending,
)
from tests.install.wheels import tree_hash
from tests.probes.pythons import add_distribution, make_venv

pytestmark = pytest.mark.needs("posix")

TEST = ImportTest("torch", "2.8.0", "torch", UNPROVEN)
LIMITS = Limits(20.0, 1 << 30)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment whose torch is a stand-in, and a HOME of its own."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USER", "stranger")
    for name in ("XDG_CACHE_HOME", "KERAS_HOME", "TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    site = make_venv(tmp_path / "env")
    write_package(site, "torch", "2.8.0", "VERSION = '2.8.0'")
    return site


def write_package(site: Path, name: str, version: str, code: str, *needs: str) -> None:
    """Write a package of one module, with its metadata."""
    (site / name).mkdir()
    (site / name / "__init__.py").write_text(code)
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    metadata += "".join(f"Requires-Dist: {need}\n" for need in needs)
    record = f"{name}/__init__.py,,\n{name}-{version}.dist-info/METADATA,,\n"
    add_distribution(site, name, version, METADATA=metadata, RECORD=record, top_level=f"{name}\n")


def tried(site: Path, code: str, seconds: float = 20.0) -> ImportTest:
    """Import a torch of this code for real."""
    (site / "torch/__init__.py").write_text(f"VERSION = '2.8.0'\n{code}")
    return all_tried(site, seconds)["torch"]


def all_tried(site: Path, seconds: float = 20.0) -> dict[str, ImportTest]:
    environment = site.parents[2]
    python = collect_here("", str(environment)).facts.python
    return {
        test.distribution: test
        for test in collect_imports(python, seconds, lambda *_: None).value or ()
    }


def test_an_import_that_works_passes(site: Path) -> None:
    found = tried(site, "import time; time.sleep(0.05)")
    assert (found.outcome, found.version, found.module, found.printed) == (
        PASSED,
        "2.8.0",
        "torch",
        "",
    )
    assert 0.05 <= found.seconds < 15


@pytest.mark.parametrize(
    ("code", "last"),
    [
        (
            "import no_such_module_of_torch",
            "ModuleNotFoundError: No module named 'no_such_module_of_torch'",
        ),
        (
            "import ctypes; ctypes.CDLL('libno_such.so.12')",
            "OSError: libno_such.so.12: cannot open shared object file",
        ),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("def", "SyntaxError: "),
        ("import os; os._exit(0)", "its Python ended with status 0"),
        ("import os; print('said before'); os.abort()", "it was ended by SIGABRT"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "it was ended by SIGSEGV"),
        (
            "raise ImportError('x.so: undefined symbol: MPI_Init')",
            "ImportError: x.so: undefined symbol: MPI_Init",
        ),
        ("input()", "EOFError: EOF when reading a line"),  # it has no terminal
    ],
)
def test_a_death_is_told_with_its_last_words(site: Path, code: str, last: str) -> None:
    found = tried(site, code)
    assert found.outcome == FAILED
    assert found.printed.splitlines()[-1].startswith(last)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import os, signal; os.killpg(0, signal.SIGKILL)", "SIGKILL ended it"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "SIGTERM ended it"),
        ("raise MemoryError", "the system has not enough free memory"),
        ("raise OSError(28, 'No space left on device')", "a limit of the system is reached"),
        ("raise RuntimeError('CUDA error: all CUDA-capable devices are busy or unavailable')",
         "the GPU is busy or set to one process"),
        ("raise RuntimeError('cannot connect: could not connect to display')", "it needs a display"),
        ("raise RuntimeError('License file not found')", "it needs a licence"),
        ("raise RuntimeError('MPI_Init failed')", "it starts MPI"),
    ],
)  # fmt: skip
def test_what_is_no_fault_of_the_environment_proves_nothing(
    site: Path, code: str, reason: str
) -> None:
    found = tried(site, code)
    assert (found.outcome, found.reason, found.printed) == (UNPROVEN, reason, "")


def test_words_before_the_last_ones_excuse_nothing(site: Path) -> None:
    code = "try:\n raise MemoryError\nexcept MemoryError:\n pass\nimport sys\nprint('MemoryError')\n\n\n\nimport nowhere_x"
    assert tried(site, code).outcome == FAILED


def test_a_hanging_import_and_its_children_are_ended_in_time(site: Path, tmp_path: Path) -> None:
    child = tmp_path / "child"
    code = f"""
import os, time
if os.fork() == 0:
    os.setsid()
    open({str(child)!r}, "w").write(str(os.getpid()))
    time.sleep(600)
time.sleep(600)
"""
    start = time.monotonic()
    found = tried(site, code, 2.0)
    assert (found.outcome, found.reason) == (UNPROVEN, "it did not end within 2 s")
    assert time.monotonic() - start < 15
    for _ in range(100):
        if not is_running(int(child.read_text())):
            break
        time.sleep(0.05)
    assert not is_running(int(child.read_text()))


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_memory_and_output_are_bounded(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "read_available_memory", lambda: 200 << 20)
    greedy = "held = []\nimport time\nwhile True:\n held.append(b'x' * (8 << 20)); time.sleep(0.01)"
    assert tried(site, greedy).reason == "it took more than half of the free memory (100 MiB)"
    assert tried(site, "while True: print('x' * 1000000)").reason == "it printed without end"


def test_a_megabyte_of_words_hides_no_success(site: Path) -> None:
    assert tried(site, "print('x' * 1000000)").outcome == PASSED


def test_the_last_words_of_a_long_log_are_kept(site: Path) -> None:
    found = tried(site, "for n in range(100000): print('line', n)\nraise ImportError('the reason')")
    assert found.outcome == FAILED
    assert found.printed.endswith("ImportError: the reason")
    assert len(found.printed) <= 12000


def test_an_import_changes_neither_environment_nor_home(site: Path, tmp_path: Path) -> None:
    code = """
import os
for name in ("KERAS_HOME", "XDG_CACHE_HOME", "MPLCONFIGDIR", "TORCH_HOME"):
    place = os.environ[name]
    os.makedirs(os.path.join(place, name), exist_ok=True)
import tempfile
tempfile.mkdtemp()
"""
    (site / "torch/__init__.py").write_text(code)
    before = tree_hash(tmp_path / "env"), tree_hash(tmp_path / "home"), sorted(os.listdir(tmp_path))  # noqa: PTH208
    assert all_tried(site)["torch"].outcome == PASSED
    after = tree_hash(tmp_path / "env"), tree_hash(tmp_path / "home"), sorted(os.listdir(tmp_path))  # noqa: PTH208
    assert before == after


def test_keras_finds_the_settings_of_its_user(site: Path, tmp_path: Path) -> None:
    settings = tmp_path / "home/.keras/keras.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"backend": "theano"}))
    code = "import os, json; json.load(open(os.environ['KERAS_HOME'] + '/keras.json'))['backend'] == 'jax' or 1 / 0"
    assert tried(site, code).printed.endswith("ZeroDivisionError: division by zero")


def test_nothing_of_the_working_folder_is_imported(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    for name in ("torch.py", "sitecustomize.py", "random.py"):
        (work / name).write_text(f"open({str(work / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(work)
    assert tried(site, "import random").outcome == PASSED
    assert not (work / "ran").exists()


def test_a_start_that_dies_is_a_death(site: Path) -> None:
    # a Python may have a sitecustomize of its own
    (site / "stop.pth").write_text("import os; os._exit(7)\n")
    (site / "torch/__init__.py").write_text("")
    python = collect_here("", str(site.parents[2])).facts.python
    found = collect_imports(python, 20.0, lambda *_: None).value
    assert found is not None
    assert (found[0].outcome, found[0].printed) == (FAILED, "its Python ended with status 7")


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_framework_without_content_is_dead(site: Path, is_folder: bool) -> None:
    (site / "torch/__init__.py").write_text("")
    if is_folder:
        (site / "torch/__init__.py").unlink()
    found = all_tried(site)["torch"]
    assert found.printed.splitlines()[-1] == "ImportError: module 'torch' is empty"


def test_what_requires_a_framework_is_imported_after_it(site: Path) -> None:
    write_package(site, "flax", "0.1", "import nowhere_y", "torch>=2")
    write_package(site, "unrelated", "0.1", "import nowhere_z", "numpy", "optional")
    write_package(site, "optional", "0.1", "import nowhere_z", "torch; extra == 'torch'")
    write_package(site, "mpi4py", "4.0", "import nowhere_z", "torch")
    found = all_tried(site)
    assert next(iter(found)) == "torch"
    assert {name: test.outcome for name, test in found.items()} == {
        "torch": PASSED, "flax": FAILED, "mpi4py": UNPROVEN,
    }  # fmt: skip
    assert found["mpi4py"].reason == "its import starts MPI"


def test_what_imports_a_framework_by_a_detour_is_imported_too(site: Path, tmp_path: Path) -> None:
    """A package on top of one, one that a person installed for an extra, Keras."""
    write_package(site, "tf-keras", "2.18", "", "torch")
    write_package(site, "hub", "0.16", "import nowhere_h", "tf-keras>=2")
    write_package(site, "transformers", "5.0", "", "torch; extra == 'torch'", "safetensors")
    write_package(site, "safetensors", "0.8", "import nowhere_s", "torch; extra == 'torch'")
    code = "import json, os; open(os.path.join(os.environ['KERAS_HOME'], 'keras.json'))"
    write_package(site, "keras", "3.15", f"{code}\nopen('written', 'w')", "numpy")
    settings = tmp_path / "home/.keras/keras.json"
    settings.parent.mkdir()
    settings.write_text('{"backend": "torch"}')
    before = tree_hash(tmp_path / "home")
    found = all_tried(site)
    assert {name: test.outcome for name, test in found.items()} == {
        "torch": PASSED, "tf-keras": PASSED, "hub": FAILED, "keras": PASSED, "transformers": PASSED,
    }  # fmt: skip
    assert tree_hash(tmp_path / "home") == before


def test_code_of_the_start_takes_only_what_the_import_itself_needs(
    site: Path, tmp_path: Path
) -> None:
    """What the trial itself could load is not taken for the framework's; folders in front are named."""
    front = tmp_path / "front"
    front.mkdir()
    code = f"import sys; sys.modules['json'] = sys.modules['traceback'] = None; sys.path[:0] = [{str(front)!r}]\n"
    (site / "at-start.pth").write_text(code)
    (site / "torch/__init__.py").write_text("VERSION = '2.8.0'")
    assert all_tried(site)["torch"].outcome == PASSED
    (site / "at-start.pth").write_text(code.replace(" = sys.modules['traceback']", ""))
    found = tried(site, "import json")
    assert (found.outcome, found.front) == (FAILED, (str(front),))
    assert "import of json halted; None in sys.modules" in found.printed


def test_without_time_left_nothing_is_begun(site: Path) -> None:
    write_package(site, "flax", "0.1", "", "torch")
    found = all_tried_with_clock(site)
    assert (found["torch"].outcome, found["flax"].reason) == (UNPROVEN, "no time was left of 1 s")


def all_tried_with_clock(site: Path) -> dict[str, ImportTest]:
    (site / "torch/__init__.py").write_text("import time; time.sleep(60)")
    return all_tried(site, 1.0)


@pytest.mark.parametrize(
    ("name", "modules", "expected"),
    [
        ("opencv-python", ("cv2",), ("cv2",)),
        ("torchvision", ("torchvision", "tests"), ("torchvision",)),
        ("pytorch-lightning", ("_x", "tests", "lightning", "pl", "third"), ("lightning", "pl")),
        ("some-thing", (), ("some_thing",)),
        ("only-tests", ("tests",), ("tests",)),
    ],
)
def test_the_modules_of_a_distribution(
    name: str, modules: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert choose_modules(Distribution(name, "1", modules=modules)) == expected


def test_an_environment_that_nobody_named_is_not_run(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = site.parents[2]
    python = collect_here("", str(folder)).facts.python
    assert find_reason_not_to_import(LocalHost(), python) == ""
    found = replace(python, is_found=True)
    monkeypatch.chdir(folder.parent)
    assert find_reason_not_to_import(LocalHost(), found) == (
        f"found here; envcheck doctor --env {folder.name}"
    )
    monkeypatch.chdir("/")
    assert find_reason_not_to_import(LocalHost(), found).endswith(f"--env {str(folder)[1:]}")


@pytest.mark.needs("root")
def test_root_runs_no_code_that_others_may_change(site: Path) -> None:
    python = collect_here("", str(site.parents[2])).facts.python
    site.chmod(0o777)
    assert find_reason_not_to_import(LocalHost(), python).startswith(
        "root runs no code that others may change: "
    )


@pytest.mark.parametrize("is_edited", [True, False])
def test_a_file_that_differs_from_its_record_is_named_where_the_import_dies_in_it(
    site: Path, is_edited: bool
) -> None:
    content = b"import nowhere_q\n"
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    record = f"torch/__init__.py,,\ntorch/part.py,sha256={digest},{len(content)}\n"
    (site / "torch-2.8.0.dist-info/RECORD").write_text(record)
    (site / "torch/part.py").write_bytes(b"import nowhere_p\n" if is_edited else content)
    found = tried(site, "from . import part")
    assert found.altered == ((str(site / "torch/part.py"),) if is_edited else ())


def test_an_ending_without_a_report() -> None:
    crashed = read_ending(
        TEST, LimitedRun(EXITED, -signal.SIGILL), "Illegal instruction here", LIMITS
    )
    assert (crashed.outcome, crashed.printed) == (
        FAILED,
        "Illegal instruction here\nit was ended by SIGILL",
    )
    assert (
        read_ending(TEST, LimitedRun(EXITED, -99), "", LIMITS).printed
        == "it was ended by signal 99"
    )
    assert read_ending(TEST, LimitedRun(EXITED, 0, report="no JSON"), "", LIMITS).outcome == FAILED
    assert read_ending(TEST, LimitedRun(EXITED, 0, report="[1]"), "", LIMITS).outcome == FAILED
    assert read_ending(TEST, LimitedRun(MEMORY), "", LIMITS).reason.endswith("(1024 MiB)")


def test_a_python_that_is_gone_is_a_death(site: Path) -> None:
    python = collect_here("", str(site.parents[2])).facts.python
    assert isinstance(python.executable, Known)
    gone = replace(python, executable=Known("/nowhere/bin/python", python.executable.source))
    found = collect_imports(gone, 20.0, lambda *_: None).value
    assert found is not None
    assert found[0].printed == "/nowhere/bin/python could not be started: No such file or directory"


def test_a_framework_that_lost_its_metadata_is_imported_too(site: Path) -> None:
    """Its code is all there: what claims that its installation was cut off is refuted by the import."""
    shutil.rmtree(site / "torch-2.8.0.dist-info")
    (site / "torch/version.py").write_text("__version__ = '2.8.0'\n")
    python = collect_here("", str(site.parents[2])).facts.python
    left = [item for item in python.install_leftovers.value or () if item.kind == "unowned"]
    found = collect_imports(python, 20.0, lambda *_: None).value
    assert [item.distribution for item in left] == ["torch"]
    assert found is not None
    assert [(test.distribution, test.outcome) for test in found] == [("torch", PASSED)]


def test_a_package_in_a_namespace_is_imported_itself(tmp_path: Path) -> None:
    (tmp_path / "orbax/checkpoint").mkdir(parents=True)
    item = Distribution("orbax-checkpoint", "0.12", str(tmp_path), modules=("orbax",))
    assert choose_modules(item) == ("orbax",)
    (tmp_path / "orbax/checkpoint/__init__.py").touch()
    assert choose_modules(item) == ("orbax.checkpoint",)


@pytest.mark.parametrize("is_damaged", [True, False])
def test_beside_damaged_files_a_framework_computes_too(site: Path, is_damaged: bool) -> None:
    """An import needs few names of what it loads; without damage nothing is computed."""
    record = "torch/__init__.py,,\ntorch/part.py,sha256=x,6\n"
    (site / "torch-2.8.0.dist-info/RECORD").write_text(record if is_damaged else "")
    (site / "torch/part.py").write_text("")
    found = tried(site, "from . import part")
    assert (found.outcome, found.stage) == ((FAILED, USE) if is_damaged else (PASSED, IMPORT))
    if is_damaged:
        assert found.printed.endswith("AttributeError: module 'torch' has no attribute 'ones'")
