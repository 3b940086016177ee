"""What real imports say against the findings of files, and what nothing else says of a death."""

from __future__ import annotations

import pytest

from envcheck.model import (
    ERROR,
    FAILED,
    INCOMPATIBLE,
    NOTE,
    PASSED,
    UNPROVEN,
    USE,
    WARNING,
    About,
    Distribution,
    FileFault,
    Finding,
    ImportTest,
    InterpreterFault,
    Report,
    replace,
)
from envcheck.model.fixes import ChangeVariable, InstallPython, LeaveOutFolders, ReinstallFiles
from envcheck.rules import Context, Target, engine
from envcheck.rules.imports import last_words, weigh_imports
from envcheck.rules.variables import missing_choice
from tests.rules.factory_machine import build, context, known

SITE = "/env/lib/python3.11/site-packages"
GRAMMAR = "tensorflow, jax, torch, numpy, openvino"
TORCH = Distribution("torch", "2.8.0", SITE, modules=("torch",))
NUMPY = Distribution("numpy", "2.1.0", SITE, modules=("numpy",))
VISION = Distribution("torchvision", "0.23.0", SITE, requires=("torch",), modules=("torchvision",))


def trace(file: str, words: str) -> str:
    return f'Traceback (most recent call last):\n  File "{file}", line 3, in <module>\n    import it\n{words}'


def tried(name: str, outcome: str, printed: str = "", reason: str = "") -> ImportTest:
    return ImportTest(name, "2.8.0", name, outcome, 1.5, reason, printed)


def machine(*tests: ImportTest, target: Target = Target("cpu")) -> Context:  # noqa: B008 - a value that never changes
    made = context()
    python = replace(
        made.facts.python,
        distributions=known((TORCH, NUMPY, VISION)),
        frameworks=known((build("torch", "2.8.0"),)),
        imports=known(tests),
    )
    return Context(replace(made.facts, python=python), made.matrix, target)


def claim(finding_id: str, message: str, severity: str = ERROR, about: About = About()) -> Finding:  # noqa: B008
    return Finding(finding_id, INCOMPATIBLE, severity, message, about=about)


def weighed(claims: list[Finding], *tests: ImportTest) -> list[Finding]:
    return weigh_imports(machine(*tests), claims)


def report(*tests: ImportTest) -> Report:
    return engine.evaluate(machine(*tests))


def test_a_passed_import_refutes_what_claims_to_stop_it() -> None:
    found = weighed([claim("numpy-abi", "torch 2.8.0 requires numpy<2.")], tried("torch", PASSED))
    assert [(item.id, item.severity) for item in found] == [("numpy-abi", WARNING)]
    assert found[0].message == "torch 2.8.0 requires numpy<2. torch 2.8.0 imports all the same."
    assert found[0].evidence[-1].fact == "python.imports"


@pytest.mark.parametrize(
    "finding_id", ["driver-too-old", "gpu-arch-too-old", "cudnn-missing", "host-compiler-too-new"]
)
def test_it_refutes_nothing_that_an_import_does_without(finding_id: str) -> None:
    claims = [claim(finding_id, "It is so.")]
    assert weighed(claims, tried("torch", PASSED)) == claims


def test_it_refutes_nothing_about_another_package() -> None:
    claims = [
        claim("library-missing", "torchvision needs libx.", about=About(distribution="torchvision"))
    ]
    assert weighed(claims, tried("torch", PASSED)) == claims
    assert (
        weighed(claims, tried("torch", PASSED), tried("torchvision", PASSED))[0].severity == WARNING
    )


def test_a_finding_that_names_nothing_stands_while_something_else_dies() -> None:
    claims = [claim("numpy-abi", "Something was built for NumPy 1.")]
    dead = tried(
        "torchvision", FAILED, trace(f"{SITE}/torchvision/a.py", "ImportError: no reason is given")
    )
    assert weighed(claims, tried("torch", PASSED), dead)[0].severity == ERROR


def test_a_death_that_nothing_explains_is_an_error_with_its_exception() -> None:
    found = report(
        tried("torch", FAILED, trace(f"{SITE}/torch/__init__.py", "ImportError: nobody knows this"))
    )
    assert found.verdict == INCOMPATIBLE
    assert found.headline.startswith("torch 2.8.0 does not import: ImportError: nobody knows this")
    assert found.findings[0].id == "import-failed"
    assert found.findings[0].primary


def test_a_death_confirms_the_finding_that_names_what_the_traceback_names() -> None:
    claims = [
        claim("dependency-conflict", "TensorBoard's command fails: setuptools 82.", WARNING),
        claim("numpy-abi", "torch 2.8.0 requires numpy<2, but numpy 2.1.0 is installed.", WARNING),
    ]
    dead = tried(
        "torch",
        FAILED,
        trace(f"{SITE}/numpy/core.py", "ImportError: numpy.core.multiarray failed to import"),
    )
    found = weighed(claims, dead)
    assert [(item.id, item.severity) for item in found] == [
        ("dependency-conflict", WARNING),
        ("numpy-abi", ERROR),
    ]
    assert (
        found[1].evidence[-1].shown
        == "torch 2.8.0: ImportError: numpy.core.multiarray failed to import"
    )


@pytest.mark.parametrize(
    ("installed", "stated", "value"),
    [
        ("torch", "", "torch"),
        ("torch", "jax", "torch"),
        ("torch", "torch", ""),
        ("torch", "numpy", ""),
        ("onnxruntime", "", ""),
    ],
)
@pytest.mark.parametrize("outcome", [FAILED, PASSED, None])
def test_what_chooses_a_framework_can_take_one_that_is_there(
    installed: str, stated: str, value: str, outcome: str | None
) -> None:
    words = f"ModuleNotFoundError: No module named '{stated or 'tensorflow'}'"
    tests = [tried("keras", outcome, trace(f"{SITE}/keras/a.py", words))] if outcome else []
    made = machine(*tests)
    items = (
        Distribution(installed, "2.8.0", SITE, modules=(installed,)),
        Distribution("keras", "3.15.1", SITE),
    )
    python = replace(made.facts.python, distributions=known(items))
    host = replace(made.facts.host, environment=known({"KERAS_BACKEND": stated}))
    facts = replace(made.facts, python=python, host=host)
    context = Context(facts, made.matrix, made.target)
    found = weigh_imports(context, list(missing_choice(context)))
    expected = ["import-failed"] if outcome == FAILED else []
    if value:
        expected = ["environment-variable"]
        assert found[0].cure == ChangeVariable("KERAS_BACKEND", GRAMMAR, value)
    assert [item.id for item in found] == expected
    assert all(item.severity == (NOTE if outcome == PASSED else WARNING) for item in found)


def test_a_missing_module_is_the_requirement_that_is_not_met() -> None:
    claims = [
        claim(
            "dependency-conflict",
            "torch 2.8.0 requires typing-extensions, which is not installed.",
            WARNING,
        )
    ]
    dead = tried(
        "torch",
        FAILED,
        trace(f"{SITE}/torch/a.py", "ModuleNotFoundError: No module named 'typing_extensions'"),
    )
    assert [(item.id, item.severity) for item in weighed(claims, dead)] == [
        ("dependency-conflict", ERROR)
    ]


def test_a_package_on_top_that_dies_is_a_warning_and_an_error_where_it_was_asked_for() -> None:
    dead = tried(
        "torchvision", FAILED, trace(f"{SITE}/torchvision/a.py", "ImportError: nobody knows this")
    )
    assert [item.severity for item in weigh_imports(machine(tried("torch", PASSED), dead), [])] == [
        WARNING
    ]
    asked = machine(tried("torch", PASSED), dead, target=Target("cpu", ("torchvision",)))
    assert [item.severity for item in weigh_imports(asked, [])] == [ERROR]


def test_what_proves_nothing_is_one_note_for_each_reason() -> None:
    late = [
        tried(name, UNPROVEN, reason="no time was left of 20 s")
        for name in ("torch", "torchvision")
    ]
    found = weighed([], *late)
    assert [(item.severity, item.message) for item in found] == [
        (
            NOTE,
            "Not proven by an import: torch 2.8.0 (1.5 s), torchvision 2.8.0 (1.5 s): no time was left of 20 s.",
        )
    ]
    assert report(*late).verdict != INCOMPATIBLE


def test_an_import_of_another_release_than_the_one_asked_for_says_nothing() -> None:
    dead = tried("torch", FAILED, trace(f"{SITE}/torch/a.py", "ImportError: nobody knows this"))
    asked = machine(dead, target=Target("cpu", ("torch==2.6.0",)))
    assert not any(item.id == "import-failed" for item in engine.evaluate(asked).findings)


@pytest.mark.parametrize(
    ("file", "words", "requirement"),
    [
        (
            f"{SITE}/numpy/x.py",
            "SyntaxError: source code string cannot contain null bytes",
            "numpy==2.1.0",
        ),
        (f"{SITE}/torch/x.py", "SyntaxError: invalid syntax", "torch==2.8.0"),
        (f"{SITE}/torch/x.py", "ModuleNotFoundError: No module named 'numpy.core'", "numpy==2.1.0"),
        (f"{SITE}/torch/x.py", "ModuleNotFoundError: No module named 'torch._C'", "torch==2.8.0"),
    ],
)
def test_what_lacks_or_garbles_a_file_is_installed_again(
    file: str, words: str, requirement: str
) -> None:
    found = weighed([], tried("torch", FAILED, trace(file, words)))
    assert found[0].cure == ReinstallFiles((requirement,))


LONG = trace("/x.py", "ImportError: libx.so: cannot open\n\nSee the page of installation.")
CHAIN = (
    trace("/x.py", "RuntimeError: first")
    + "\n\nDuring handling ...\n\n"
    + trace("/y.py", "ImportError: second")
)
CRASH = 'Fatal Python error: Aborted\n\n  File "/x.py", line 1 in <module>\nit was ended by SIGABRT'


def test_a_file_on_the_way_that_is_not_the_installed_one_is_the_cause() -> None:
    words = "ImportError: cannot import name 'a' from 'numpy.b'"
    test = replace(
        tried("torch", FAILED, trace(f"{SITE}/torch/x.py", words)), altered=(f"{SITE}/numpy/b.py",)
    )
    found = weighed([claim("dependency-conflict", "TensorBoard's command fails.", WARNING)], test)
    assert [(item.id, item.severity) for item in found] == [
        ("dependency-conflict", WARNING),
        ("install-damaged", ERROR),
    ]
    assert (
        found[1].message == "numpy 2.1.0 is damaged: numpy/b.py is not the file that was installed."
    )
    assert found[1].cure == ReinstallFiles(("numpy==2.1.0",))


def test_a_requirement_that_is_not_met_explains_more_than_an_edited_file() -> None:
    words = "ImportError: cannot import name 'a' from 'numpy.b'"
    test = replace(
        tried("torch", FAILED, trace(f"{SITE}/torch/x.py", words)), altered=(f"{SITE}/torch/x.py",)
    )
    found = weighed([claim("numpy-abi", "torch 2.8.0 requires numpy<2.", WARNING)], test)
    assert [(item.id, item.severity) for item in found] == [("numpy-abi", ERROR)]


def test_the_first_cause_of_a_chain_is_read_too() -> None:
    chain = (
        trace(f"{SITE}/numpy/x.py", "SyntaxError: invalid syntax")
        + "\n\nThe above exception ...\n\n"
    )
    found = weighed(
        [], tried("torch", FAILED, chain + trace(f"{SITE}/torch/y.py", "ImportError: numpy failed"))
    )
    assert found[0].cure == ReinstallFiles(("numpy==2.1.0",))
    assert found[0].message == "torch 2.8.0 does not import: ImportError: numpy failed"


@pytest.mark.parametrize(
    ("printed", "words"),
    [
        (LONG, "ImportError: libx.so: cannot open"),
        (CHAIN, "ImportError: second"),
        (CRASH, "it was ended by SIGABRT"),
        ("", ""),
    ],
)
def test_the_last_words_are_the_exception(printed: str, words: str) -> None:
    assert last_words(tried("torch", FAILED, printed)) == words


def test_a_computation_that_dies_after_a_passed_import_keeps_the_claim() -> None:
    claims = [claim("install-damaged", "numpy 2.1.0 is damaged: numpy/core.py is empty.")]
    words = "AttributeError: module 'numpy.core' has no attribute 'array'"
    dead = replace(tried("torch", FAILED, trace(f"{SITE}/torch/a.py", words)), stage=USE)
    (found,) = weighed(claims, dead)
    assert (found.severity, found.stops) == (ERROR, USE)
    assert found.evidence[-1].shown == f"torch 2.8.0, computing: {words}"
    (found,) = weighed([], dead)
    assert found.message == f"torch 2.8.0 imports, but does not compute: {words}"


def test_a_requirement_without_consequence_is_a_note() -> None:
    words = "torch 2.8.0 requires setuptools>=70, but setuptools 65.5 is installed."
    claims = [claim("dependency-conflict", words, WARNING)]
    assert [item.severity for item in weighed(claims, tried("torch", PASSED))] == [NOTE]
    claims = [claim("install-damaged", "torch 2.8.0 is damaged: a.so is empty.", WARNING)]
    assert weighed(claims, tried("torch", PASSED)) == claims


def test_a_module_of_python_itself_that_is_missing_is_the_interpreter_s_fault() -> None:
    made = machine(
        tried(
            "torch", FAILED, trace("/base/lib/x.py", "ModuleNotFoundError: No module named 'array'")
        )
    )
    faults = known((InterpreterFault("lacks", "array"),))
    facts = replace(made.facts, python=replace(made.facts.python, interpreter_faults=faults))
    (found,) = weigh_imports(Context(facts, made.matrix, made.target), [])
    assert (found.id, found.severity, found.cure) == (
        "import-failed",
        ERROR,
        InstallPython(lacks=("array",)),
    )


def test_a_death_in_a_folder_of_pythonpath_is_laid_to_it() -> None:
    mixed = replace(
        claim("env-mixed", "PYTHONPATH puts /old first."), cure=LeaveOutFolders(("/old",))
    )
    words = "ImportError: /old/jaxlib/x.so: undefined symbol: _PyObject_Old"
    (found,) = weighed([mixed], tried("torch", FAILED, trace(f"{SITE}/torch/x.py", words)))
    assert (found.id, found.severity) == ("env-mixed", ERROR)
    other = words.replace("/old/", "/older/")
    found_ids = [
        item.id
        for item in weighed([mixed], tried("torch", FAILED, trace(f"{SITE}/numpy/x.py", other)))
    ]
    assert found_ids == ["env-mixed", "import-failed"]


def test_compiled_code_points_to_the_package_that_loads_it() -> None:
    """Its frames name files that are not installed: numpy/core.pyx."""
    claims = [claim("install-damaged", "numpy 2.1.0 is damaged: numpy/h.so is empty.", WARNING)]
    printed = trace(
        f"{SITE}/numpy/__init__.py", '  File "numpy/core.pyx", line 1, in init\nKeyError: 1'
    )
    assert [item.severity for item in weighed(claims, tried("torch", FAILED, printed))] == [ERROR]


@pytest.mark.parametrize("is_computed", [False, True])
def test_a_death_in_a_folder_that_code_of_the_start_puts_first(*, is_computed: bool) -> None:
    printed = trace("/old/numpy/__init__.py", "ImportError: cannot import name 'a' from 'numpy'")
    dead = replace(tried("torch", FAILED, printed), front=("/other", "/old"))
    fault = InterpreterFault("front", "" if is_computed else "/old", f"{SITE}/at-start.pth")
    made = machine(dead)
    python = replace(made.facts.python, interpreter_faults=known((fault,)))
    (found,) = weigh_imports(
        Context(replace(made.facts, python=python), made.matrix, made.target), []
    )
    assert (found.id, found.severity) == ("env-mixed", ERROR)
    assert f"finds in /old, which {SITE}/at-start.pth puts before" in found.message
    assert found.cure == LeaveOutFolders(("/old",), f"{SITE}/at-start.pth")


@pytest.mark.parametrize(
    ("path", "kind", "words"),
    [
        (
            "torch/ao/nn.py",
            "missing",
            "ImportError: cannot import name 'nn' from partially initialized module 'torch.ao'",
        ),
        (
            "torch/lax/__init__.py",
            "emptied",
            "AttributeError: module 'torch.lax' has no attribute 'Mode'",
        ),
        ("numpy/_core/_x.cpython-311-x86_64-linux-gnu.so", "truncated", "it was ended by SIGBUS"),
    ],
)
def test_a_damaged_file_that_ended_the_import_is_its_cause(
    path: str, kind: str, words: str
) -> None:
    """No table knows that an import loads the file: what ended it names the file."""
    owner = path.partition("/")[0]
    is_signal = words.startswith("it was")
    dead = tried("torch", FAILED, words if is_signal else trace(f"{SITE}/torch/x.py", words))

    def judged(fault_path: str) -> list[tuple[str, str]]:
        made = machine(dead)
        version = {"torch": "2.8.0", "numpy": "2.1.0"}[owner]
        fault = FileFault(owner, version, fault_path, kind, "pip", SITE)
        python = replace(made.facts.python, file_faults=known((fault,)))
        found = engine.evaluate(Context(replace(made.facts, python=python), made.matrix)).findings
        errors = [item for item in found if item.verdict == INCOMPATIBLE and item.severity == ERROR]
        return [(item.id, item.message) for item in errors]

    ((finding, message),) = judged(path)
    assert finding == "install-damaged"
    assert message.endswith("`import torch` needs it.")
    other = path.replace("nn.py", "qq.py").replace("lax", "qq").replace(".so", ".txt")
    assert judged(other)[0][0] == "import-failed"


def test_one_damaged_file_is_the_cause_of_each_death_that_names_it() -> None:
    first = tried("torch", FAILED, trace(f"{SITE}/torch/x.py", "ImportError: import numpy failed"))
    words = "ModuleNotFoundError: No module named 'numpy'"
    made = machine(first, tried("torchvision", FAILED, trace(f"{SITE}/torchvision/x.py", words)))
    fault = FileFault("numpy", "2.1.0", "numpy/__init__.py", "missing", "pip", SITE)
    python = replace(made.facts.python, file_faults=known((fault,)))
    found = engine.evaluate(Context(replace(made.facts, python=python), made.matrix)).findings
    assert [item.id for item in found if item.verdict == INCOMPATIBLE] == ["install-damaged"]
