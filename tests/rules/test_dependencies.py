"""Rules about what a framework stands on, and the pins behind them."""

from __future__ import annotations

from typing import Any

import pytest

from envcheck.model import NUMPY_1, Absent, FileFault, LibraryInstall, replace
from envcheck.model.fixes import InstallRequirements
from envcheck.model.versions import name_of
from envcheck.rules.dependencies import violations
from envcheck.rules.requirements import tried_release
from tests.rules.factory_python import (
    build,
    context,
    distribution,
    edited_matrix,
    facts,
    findings,
    found,
    gpu,
    known,
    lookup,
)
from tests.typed import argv

CPU = known(False)


def tensorflow(
    version: str, *others: tuple[str, str], requires: tuple[str, ...] = (), **python: Any
) -> Any:
    items = [distribution("tensorflow-cpu", version, requires=requires)]
    items += [distribution(name, number) for name, number in others]
    built = build("tensorflow", version, "tensorflow-cpu", cuda_build=CPU)
    return context(facts(built, distributions=tuple(items), **python))


@pytest.mark.parametrize(
    ("rule_id", "version", "other", "expected"),
    [
        ("numpy-abi", "2.14.0", ("numpy", "2.0.0"), "error"),
        ("numpy-abi", "2.14.0", ("numpy", "1.26.4"), ""),
        ("numpy-abi", "2.15.1", ("numpy", "2.0.0"), "error"),
        ("numpy-abi", "2.13.1", ("numpy", "1.26.4"), "warning"),
        ("protobuf-conflict", "2.9.0", ("protobuf", "3.21.0"), "error"),
        ("protobuf-conflict", "2.9.0", ("protobuf", "3.19.6"), ""),
        # fit, save and load work
        ("protobuf-conflict", "2.15.1", ("protobuf", "5.29.0"), "warning"),
        ("protobuf-conflict", "2.15.1", ("protobuf", "3.19.6"), "error"),
        ("keras-mismatch", "2.15.1", ("keras", "3.3.3"), "warning"),
        ("keras-mismatch", "2.15.1", ("keras", "2.14.0"), "warning"),
        ("keras-mismatch", "2.15.1", ("keras", "2.15.0"), ""),
        ("keras-mismatch", "2.6.0", ("keras", "2.15.0"), "error"),
        ("dependency-conflict", "2.15.1", ("h5py", "2.8.0"), "warning"),
        ("dependency-conflict", "2.10.1", ("setuptools", "82.0.0"), "warning"),
        ("dependency-conflict", "2.10.1", ("setuptools", "81.0.0"), ""),
    ],
)
def test_known_problems_and_pins(
    rule_id: str, version: str, other: tuple[str, str], expected: str
) -> None:
    report = findings(rule_id, tensorflow(version, other))
    assert [(item.id, item.severity) for item in report] == (
        [(rule_id, expected)] if expected else []
    )
    assert all(any(each.citation for each in item.evidence) for item in report)
    assert all(item.fix and item.fix.actions for item in report)


def test_nothing_without_frameworks() -> None:
    alone = facts(
        distributions=(
            distribution("keras", "3.0", requires=("numpy<1",)),
            distribution("numpy", "2.0"),
        )
    )
    for rule_id in ("numpy-abi", "protobuf-conflict", "keras-mismatch", "dependency-conflict"):
        assert found(rule_id, context(alone)) == []


def test_conda_builds_have_problems_of_their_own() -> None:
    items = (
        distribution("tensorflow", "2.14.0", installer="conda"),
        distribution("numpy", "2.0.0", installer="conda"),
    )
    assert (
        found("numpy-abi", context(facts(build("tensorflow", "2.14.0"), distributions=items))) == []
    )


def test_missing_requirements_are_told_once() -> None:
    requires = (
        "numpy<2",
        "absl-py>=1",
        "wrapt",
        "six",
        "gast",
        "termcolor",
        'sphinx; extra == "docs"',
    )
    report = findings("dependency-conflict", tensorflow("2.15.1", requires=requires))
    assert [(item.id, item.severity) for item in report] == [("dependency-conflict", "error")]
    assert "and 1 more" in report[0].message
    assert "sphinx" not in report[0].message
    assert report[0].message.endswith("Importing tensorflow-cpu 2.15.1 fails without them.")
    unneeded = findings("dependency-conflict", tensorflow("2.15.1", requires=("libclang",)))
    assert [item.severity for item in unneeded] == ["warning"]


def test_what_a_package_on_top_lacks_in_turn_is_named_with_what_requires_it() -> None:
    items = (
        distribution("tensorflow", "2.15.1"),
        distribution("tensorflow-probability", "0.24", requires=("tensorflow", "dm-tree", "attrs")),
        distribution("dm-tree", "0.1.8", requires=("absl-py", "wrapt>2")),
        distribution("absl-py", "0.11.0", requires=("immutabledict",)),
        distribution("wrapt", "1.0"),
        distribution("unrelated", "1.0", requires=("nothing-here",)),
    )
    given = facts(build("tensorflow", "2.15.1"), distributions=items)
    report = findings("dependency-conflict", context(given))
    assert {(item.message, item.severity) for item in report} == {
        ("absl-py 0.11.0 requires immutabledict, which is not installed.", "warning"),
        ("tensorflow-probability 0.24 requires attrs, which is not installed.", "warning"),
    }


def test_what_conda_calls_otherwise_is_not_missing() -> None:
    item = distribution("tensorflow-cpu", "2.15.1", requires=("absl-py",), installer="conda")
    built = build("tensorflow", "2.15.1", "tensorflow-cpu", cuda_build=CPU)
    assert found("dependency-conflict", context(facts(built, distributions=(item,)))) == []


@pytest.mark.parametrize(
    ("line", "broken"),
    [
        ("numpy<2; python_version >= '3.12'", False),
        ("numpy<2; python_version < '3.12'", True),
        ("numpy (<2)", True),
        ("numpy", False),
        ("numpy<2; platform_machine == 'aarch64'", False),
        ("numpy<2; sys_platform == 'linux' and implementation_name == 'cpython'", True),
        ("numpy<2; no_such_variable == '1'", False),
        ("numpy<2; !!", False),
        ("!!", False),
        ("numpy @ https://example.org/numpy.whl", False),
        ("numpy<two", False),
    ],
)
def test_which_requirements_hold(line: str, broken: bool) -> None:
    given = tensorflow("2.15.1", ("numpy", "2.1.0"), requires=(line,))
    assert bool(violations(given)) == broken


def test_markers_of_other_systems() -> None:
    line = "numpy<2; sys_platform == 'win32'"
    there = tensorflow(
        "2.15.1", ("numpy", "2.1.0"), requires=(line,), host={"os": known("windows")}
    )
    assert violations(there)


def test_requirements_of_requirements() -> None:
    items = (
        distribution("torch", "2.8.0", requires=("sympy>=1.13",)),
        distribution("sympy", "1.13.3", requires=("mpmath<1.4,>=1.1",)),
        distribution("mpmath", "1.4.0"),
        distribution("unrelated", "1.0", requires=("mpmath<1",)),
    )
    report = findings(
        "dependency-conflict",
        context(facts(build("torch", "2.8.0", cuda_build=CPU), distributions=items)),
    )
    assert [item.severity for item in report] == ["warning"]
    assert "sympy 1.13.3 requires mpmath" in report[0].message


def test_dependant_made_for_another_framework_release() -> None:
    items = (
        distribution("torch", "2.8.0+cpu"),
        distribution("torchvision", "0.19.1", requires=("numpy", "torch (==2.4.1)")),
        distribution("torchmetrics", "1.0", requires=("torch>=1.10",)),
        distribution("numpy", "1.26.4"),
    )
    unread = context(facts(build("torch", "2.8.0+cpu", cuda_build=CPU), distributions=items))
    python = replace(unread.facts.python, link_faults=Absent(("the loader finds all",)))
    loads = context(replace(unread.facts, python=python))
    for given, finding_id, severity in (
        (unread, "extension-build-mismatch", "error"),
        (loads, "dependency-conflict", "warning"),  # what the loader shows outranks the release
    ):
        report = findings(finding_id, given)
        assert [(item.severity, item.message.split()[0]) for item in report] == [
            (severity, "torchvision")
        ]
        assert report[0].fix is not None
        index = ("--index-url", "https://download.pytorch.org/whl/cpu")
        assert argv(report[0].fix.actions[0])[-4:] == (
            *index,
            "torch==2.8.0",
            "torchvision==0.23.0",
        )


@pytest.mark.parametrize(("name", "severity"), [("pillow", "error"), ("requests", "warning")])
def test_what_a_companion_lacks_is_an_error_where_its_import_was_seen_to_die(
    name: str, severity: str
) -> None:
    items = (
        distribution("torch", "2.8.0+cpu"),
        distribution(
            "torchvision", "0.23.0", requires=(name, "torch==2.8.0", "gdown; extra == 'x'")
        ),
    )
    (item,) = findings(
        "dependency-conflict", context(facts(build("torch", "2.8.0+cpu"), distributions=items))
    )
    assert (
        item.severity,
        f"torchvision 0.23.0 requires {name}, which is not installed." in item.message,
    ) == (
        severity,
        True,
    )


@pytest.mark.parametrize(
    ("requires", "goal", "severity", "typed"),
    [
        ("jaxlib<=0.4.31,>=0.4.30", "gpu", "error", "jax==0.4.31"),
        (
            'jax-cuda12-plugin[with_cuda]<=0.4.31,>=0.4.31; extra == "cuda12"',
            "gpu",
            "error",
            "jax[cuda12]==0.4.31",
        ),
        (
            'jax-cuda12-plugin[with_cuda]<=0.4.31,>=0.4.31; extra == "cuda12"',
            "cpu",
            "warning",
            "jax[cuda12]==0.4.31",
        ),
    ],
)
def test_parts_of_one_framework_fit_each_other(
    requires: str, goal: str, severity: str, typed: str
) -> None:
    items = (
        distribution("jax", "0.4.31", requires=(requires,)),
        distribution("jaxlib", "0.4.29"),
        distribution("jax-cuda12-plugin", "0.4.29"),
    )
    built = build("jax", "0.4.29", "jax-cuda12-plugin", cuda_build=known(True))
    report = findings(
        "dependency-conflict", context(facts(built, distributions=items), expect=goal)
    )
    assert [item.severity for item in report] == [severity]
    assert report[0].fix is not None
    assert argv(report[0].fix.actions[0])[-1] == typed


@pytest.mark.parametrize(("plugin", "found"), [((), []), (("jax-cuda12-plugin",), ["jaxlib"])])
def test_an_extra_that_nobody_asked_for_binds_nothing(
    plugin: tuple[str, ...], found: list[str]
) -> None:
    """As METADATA of jax 0.4.35 states it, of which `pip install jax` brings jaxlib 0.4.35."""
    lines = (
        "jaxlib<=0.4.35,>=0.4.34",
        'jaxlib==0.4.34; extra == "cuda12"',
        'jax-cuda12-plugin<=0.4.35,>=0.4.34; extra == "cuda12"',
    )
    items = (
        distribution("jax", "0.4.35", requires=lines),
        distribution("jaxlib", "0.4.35"),
        *(distribution(name, "0.4.35") for name in plugin),
    )
    judged = context(facts(build("jax", "0.4.35", "jaxlib"), distributions=items), expect="cpu")
    assert [item.name for item in violations(judged)] == found


def test_what_a_plugin_requires_breaks_no_import_on_a_cpu() -> None:
    items = (
        distribution("jax", "0.6.2", requires=("jaxlib<=0.6.2,>=0.6.2",)),
        distribution("jaxlib", "0.6.2"),
        distribution("jax-cuda12-plugin", "0.6.2", requires=("jax-cuda12-pjrt==0.6.2",)),
        distribution("jax-cuda12-pjrt", "0.9.0"),
    )
    given = facts(
        build("jax", "0.6.2", "jax-cuda12-plugin", cuda_build=known(True)), distributions=items
    )
    for goal, severity in (("cpu", "warning"), ("gpu", "error")):
        assert found("dependency-conflict", context(given, expect=goal)) == [
            ("dependency-conflict", severity)
        ]
    other = replace(
        given.python, distributions=known((items[0], distribution("jaxlib", "0.5.3"), *items[2:]))
    )
    assert ("dependency-conflict", "error") in found(
        "dependency-conflict", context(replace(given, python=other), expect="cpu")
    )


@pytest.mark.parametrize(
    ("names", "variable", "expected"),
    [
        (
            {"flashinfer-python": "0.6.10", "flashinfer-cubin": "0.6.8.post1"},
            "",
            ["flashinfer-cubin==0.6.10"],
        ),
        ({"flashinfer-python": "0.6.10", "flashinfer-jit-cache": "0.6.10+cu129"}, "", []),
        (
            {"flashinfer-python": "0.6.10", "flashinfer-cubin": "0.6.8"},
            "FLASHINFER_DISABLE_VERSION_CHECK",
            [],
        ),
        ({"flashinfer-cubin": "0.6.8"}, "", []),
        (
            {"transformer-engine": "2.20.2", "transformer-engine-cu12": "2.9.0"},
            "",
            ["transformer-engine-cu12==2.20.2"],
        ),
    ],
)
def test_parts_of_a_package_of_another_release(
    names: dict[str, str], variable: str, expected: list[str]
) -> None:
    given = facts(
        distributions=tuple(distribution(name, version) for name, version in names.items())
    )
    given = replace(
        given, host=replace(given.host, environment=known({variable: "1"} if variable else {}))
    )
    items = findings("dependency-conflict", context(given))
    assert [
        list(item.cure.requirements) for item in items if isinstance(item.cure, InstallRequirements)
    ] == [expected] * bool(expected)
    assert all(item.severity == "error" for item in items)


@pytest.mark.parametrize(
    ("versions", "system", "expected"),
    [
        ({"-bindings": "10.9.0.34", "-libs": "11.4.0.106"}, "", ["tensorrt-cu12-libs==10.9.0.34"]),
        (
            {"": "11.4.0.106", "-bindings": "10.9.0.34", "-libs": "11.4.0.106"},
            "",
            ["tensorrt-cu12-bindings==11.4.0.106"],
        ),
        # the loader finds libnvinfer.so.10 there
        ({"-bindings": "10.9.0.34", "-libs": "11.4.0.106"}, "10.9.0", []),
        ({"-bindings": "10.9.0.34", "-libs": "10.12.0.36"}, "", []),
        ({"-bindings": "11.4.0.106"}, "", []),
    ],
)
def test_bindings_of_tensorrt_need_libraries_of_their_major(
    versions: dict[str, str], system: str, expected: list[str]
) -> None:
    items = tuple(
        distribution(f"tensorrt-cu12{part}", version) for part, version in versions.items()
    )
    copy = LibraryInstall("tensorrt", "/usr", "system", library_version=known(system))
    given = replace(facts(distributions=items), tensorrt=known((copy,) if system else ()))
    report = findings("dependency-conflict", context(given))
    assert [
        list(item.cure.requirements)
        for item in report
        if isinstance(item.cure, InstallRequirements)
    ] == [expected] * bool(expected)
    assert all(
        item.severity == "error" and "the major releases must be equal" in item.message
        for item in report
    )


def test_torch_tensorrt_beside_tensorrt_of_another_major() -> None:
    items = (
        distribution("torch", "2.8.0"),
        distribution(
            "torch-tensorrt", "2.8.0", requires=("torch<2.9,>=2.8.0", "tensorrt<10.13.0,>=10.12.0")
        ),
        distribution("tensorrt", "11.4.0.106"),
    )
    (item,) = findings(
        "dependency-conflict", context(facts(build("torch", "2.8.0"), distributions=items))
    )
    assert item.severity == "warning"
    assert item.fix is not None
    assert argv(item.fix.actions[0])[-1] == "tensorrt<10.13.0,>=10.12.0"


def test_tf_keras_of_another_minor() -> None:
    items = (
        distribution("tensorflow-cpu", "2.17.0"),
        distribution("tf-keras", "2.16.0", requires=("tensorflow-cpu<2.17,>=2.16",)),
    )
    built = build("tensorflow", "2.17.0", "tensorflow-cpu", cuda_build=CPU)
    assert found("keras-mismatch", context(facts(built, distributions=items))) == [
        ("keras-mismatch", "warning")
    ]


@pytest.mark.parametrize(
    ("pin", "version", "warns"),
    [
        ("setuptools>=41", "40.8.0", False),
        ("setuptools<80", "84.0.0", True),
        ("wheel<1,>=0.23", "0.20", False),
        ("six>=1.15", "1.10", True),
    ],
)
def test_an_old_tool_that_nothing_installed_needs_is_no_warning(
    pin: str, version: str, *, warns: bool
) -> None:
    there = tensorflow("2.18.1", (name_of(pin), version), requires=(pin,))
    assert bool(found("dependency-conflict", there)) is warns


@pytest.mark.parametrize(
    ("name", "severity", "cure"),
    [("h5py", "error", "h5py>=3.11"), ("pandas", "warning", "pandas>2.1.4")],
)
def test_what_was_built_for_numpy_1_fails_beside_numpy_2(
    name: str, severity: str, cure: str
) -> None:
    fault = FileFault(name, "2.1.4", f"{name}/utils.so", NUMPY_1, "pip", "/env")
    there = (("numpy", "2.0.2"), (name, "2.1.4"))
    made = tensorflow("2.20.0", *there, requires=("h5py>=3.11",), file_faults=known((fault,)))
    finding = next(item for item in findings("numpy-abi", made) if "built for" in item.message)
    assert (finding.severity, finding.cure) == (severity, InstallRequirements((cure,)))


def test_a_build_for_numpy_1_that_the_matrix_knows_is_said_once() -> None:
    fault = FileFault("onnxruntime", "1.17.3", "onnxruntime/capi/x.so", NUMPY_1, "pip", "/env")
    there = (distribution("numpy", "2.0.2"), distribution("onnxruntime", "1.17.3"))
    made = facts(build("onnxruntime", "1.17.3"), distributions=there, file_faults=known((fault,)))
    said = findings("numpy-abi", context(made))
    assert [item.severity for item in said] == ["error"]
    assert "compiled with NumPy 1" in said[0].message


def test_targets_are_told_what_to_install_with_them() -> None:
    report = findings(
        "protobuf-conflict", context(facts(version=known("3.10.1")), "tensorflow==2.9.0")
    )
    assert [(item.id, item.severity) for item in report] == [("protobuf-conflict", "warning")]
    assert report[0].fix is not None
    assert argv(report[0].fix.actions[0])[-2:] == ("tensorflow==2.9.0", "protobuf<3.20")
    there = facts(version=known("3.10.1"), distributions=(distribution("protobuf", "3.19.6"),))
    assert found("protobuf-conflict", context(there, "tensorflow==2.9.0")) == []


def test_conditions_of_known_problems() -> None:
    noted = found("dependency-conflict", tensorflow("2.21.0"))
    assert noted == [("dependency-conflict", "note")]
    assert found("dependency-conflict", tensorflow("2.21.0", ("tensorboard", "2.20.0"))) == []
    assert found("dependency-conflict", tensorflow("2.10.1", ("setuptools", "a-fork"))) == []
    assert found("dependency-conflict", context(facts(), "tensorflow[and-cuda]==2.15.0")) == [
        ("dependency-conflict", "error"),
        ("dependency-conflict", "note"),
    ]


def test_problem_bound_to_a_gpu() -> None:
    def edit(document: Any) -> None:
        document["problems"].append(
            {
                "citations": document["problems"][0]["citations"],
                "compute_capabilities": ">=12",
                "distributions": ["torch"],
                "finding": "dependency-conflict",
                "id": "composed",
                "specifier": "==2.8.0",
                "what": "Composed for this test.",
            }
        )

    rows = edited_matrix(edit)
    for capability, count in (("12.0", 1), ("8.6", 0), ("unreadable", 0)):
        given = facts(build("torch", "2.8.0", cuda_build=CPU), gpus=known((gpu(capability),)))
        report = findings("dependency-conflict", context(given, rows=rows))
        assert len(report) == count
        assert all(item.fix is None for item in report)


@pytest.mark.parametrize(
    ("version", "numpy", "severities"),
    [("2.2.2", "2.0.2", ["warning"]), ("2.2.2", "1.26.4", []), ("2.3.1", "2.0.2", [])],
)
def test_torch_compiled_with_numpy_1(version: str, numpy: str, severities: list[str]) -> None:
    given = facts(
        build("torch", version),
        distributions=(distribution("torch", version), distribution("numpy", numpy)),
    )
    assert [item.severity for item in findings("numpy-abi", context(given))] == severities


@pytest.mark.parametrize(
    ("framework", "version", "requires", "other", "severity"),
    [
        ("jax", "0.6.0", "ml-dtypes>=0.5.0", ("ml-dtypes", "0.3.2"), "error"),  # of the same major
        ("jax", "0.6.1", "ml-dtypes>=0.5.0", ("ml-dtypes", "0.3.2"), "error"),  # of the same minor
        # too old for an older release already
        ("jax", "0.7.0", "ml-dtypes>=0.5.0", ("ml-dtypes", "0.3.2"), "error"),
        # only a newer release was tried
        ("jax", "0.5.0", "ml-dtypes>=0.4.0", ("ml-dtypes", "0.3.2"), "warning"),
        ("jax", "0.4.36", "jaxlib<=0.4.36,>=0.4.36", ("jaxlib", "0.5.3"), "error"),
        # it imports
        ("tensorflow", "2.15.1", "wrapt<1.15,>=1.11.0", ("wrapt", "2.0.0"), "warning"),
        ("tensorflow", "2.15.1", "numpy<2.0.0,>=1.23.5", ("numpy", "2.0.2"), "error"),
        ("tensorflow", "2.18.0", "numpy<2.1.0,>=1.26.0", ("numpy", "2.3.0"), "warning"),
        ("tensorflow", "2.18.1", "ml-dtypes<1.0.0,>=0.4.0", ("ml-dtypes", "0.3.2"), "error"),
        ("tensorflow", "2.19.0", "ml-dtypes<1.0.0,>=0.5.1", ("ml-dtypes", "0.3.2"), "error"),
        ("tensorflow", "2.18.1", "keras>=3.5.0", ("keras", "2.1.3"), "error"),
        ("tensorflow", "2.10.0", "protobuf<3.20,>=3.9.2", ("protobuf", "4.25.3"), "error"),
        # too new for a newer one
        ("tensorflow", "2.9.3", "protobuf<3.20,>=3.9.2", ("protobuf", "4.25.3"), "error"),
        ("tensorflow", "2.10.1", "protobuf<3.20,>=3.9.2", ("protobuf", "3.20.3"), "warning"),
        ("tensorflow", "2.16.1", "numpy<2.0.0,>=1.26.0", ("numpy", "2.0.2"), "error"),
        ("tensorflow", "2.21.0", "protobuf>=6.31.1", ("protobuf", "5.29.3"), "error"),
        (
            "tensorflow",
            "2.21.0",
            "typing_extensions>=3.6.6",
            ("typing-extensions", "3.6.2"),
            "error",
        ),  # an older one
    ],
)
def test_a_pin_is_an_error_where_it_is_known_to_break(
    framework: str, version: str, requires: str, other: tuple[str, str], severity: str
) -> None:
    items = (distribution(framework, version, requires=(requires,)), distribution(*other))
    given = context(
        facts(build(framework, version, cuda_build=CPU), distributions=items), expect="cpu"
    )
    report = [
        item
        for rule_id in ("dependency-conflict", "numpy-abi", "keras-mismatch", "protobuf-conflict")
        for item in findings(rule_id, given)
    ]
    judged = [item for item in report if item.severity != "note"]
    assert {(item.severity, "known to fail" in item.message) for item in judged} == {
        (severity, severity == "error")
    }


def test_what_a_release_was_not_tried_with_its_neighbours_tell() -> None:
    old = tried_release("tensorflow", "1.15.5")
    assert old is not None
    assert old.find_break(distribution("protobuf", "4.25.3"))  # too new for 2.10 already
    assert not old.find_break(distribution("keras", "3.5.0"))  # which its import does without


def test_one_command_restores_all_that_a_framework_requires() -> None:
    requires = ("numpy<2.0.0,>=1.23.5", "keras<2.16,>=2.15.0")
    given = tensorflow("2.15.1", ("numpy", "2.0.2"), ("keras", "3.5.0"), requires=requires)
    report = [
        item for rule_id in ("numpy-abi", "keras-mismatch") for item in findings(rule_id, given)
    ]
    assert len({argv(item.fix.actions[0]) for item in report if item.fix}) == 1
    assert report[0].fix
    restored = ("tensorflow-cpu==2.15.1", "numpy<2.0.0,>=1.23.5", "keras<2.16,>=2.15.0")
    assert argv(report[0].fix.actions[0])[-3:] == restored


@pytest.mark.parametrize(
    ("line", "typed"),
    [
        ("numpy>=1.25", "numpy<2.0.0,>=1.23.5,>=1.25"),
        ("numpy<3", "numpy<2.0.0,>=1.23.5"),
        ("numpy>=2", ""),  # nothing serves both
        ("numpy<1", "numpy<2.0.0,>=1.23.5"),  # broken already
    ],
)
def test_a_fix_breaks_no_other_package(line: str, typed: str) -> None:
    items = (
        distribution("tensorflow-cpu", "2.15.1", requires=("numpy<2.0.0,>=1.23.5",)),
        distribution("numpy", "2.0.2"),
        distribution("pandas", "2.2.3", requires=(line,)),
    )
    built = build("tensorflow", "2.15.1", "tensorflow-cpu", cuda_build=CPU)
    fix = findings("numpy-abi", context(facts(built, distributions=items)))[0].fix
    assert fix
    assert (argv(fix.actions[0])[-1] if fix.actions else "") == typed
    assert bool(typed) != ("Use separate environments" in fix.summary)


def test_torchaudio_is_the_one_of_the_installed_torch_from_its_index() -> None:
    items = (
        distribution("torch", "2.2.2+cu121"),
        distribution("torchaudio", "2.1.0", requires=("torch==2.1.0",)),
    )
    given = context(
        facts(build("torch", "2.2.2+cu121", cuda_build=known(True)), distributions=items)
    )
    fix = findings("extension-build-mismatch", given)[0].fix
    assert fix
    assert argv(fix.actions[0])[-3:] == (
        "https://download.pytorch.org/whl/cu121",
        "torch==2.2.2",
        "torchaudio==2.2.2",
    )


def test_pins_of_cuda_wheels_are_one_finding_on_every_goal() -> None:
    wheels = (("nvidia-nccl-cu12", "2.18.1"), ("nvidia-nvjitlink-cu12", "12.0.76"))
    requires = ("nvidia-nccl-cu12==2.19.3", "nvidia-nvjitlink-cu12==12.1.105")
    items = (
        distribution("torch", "2.2.2", requires=requires),
        *(distribution(*item) for item in wheels),
    )
    for goal in ("cpu", "gpu"):
        given = context(
            facts(build("torch", "2.2.2", cuda_build=known(True)), distributions=items), expect=goal
        )
        (finding,) = findings("cuda-wheel-conflict", given)
        assert finding.fix
        assert argv(finding.fix.actions[0])[-3:] == ("torch==2.2.2", *requires)


@pytest.mark.parametrize(
    ("place", "severity"), [("", "error"), ("/usr/local/cuda/lib64/libcublas.so.12", "warning")]
)
def test_a_missing_cuda_wheel_that_importing_loads(place: str, severity: str) -> None:
    torch = distribution("torch", "2.2.2", requires=("nvidia-cublas-cu12==12.1.3.1",))
    libraries = known((lookup("libcublas.so.12", place),))
    installed = build("torch", "2.2.2", cuda_build=known(True), libraries=libraries)
    report = findings(
        "dependency-conflict", context(facts(installed, distributions=(torch,)), expect="cpu")
    )
    assert [item.severity for item in report] == [severity]


def test_lost_metadata_is_no_lost_module() -> None:
    """numpy's folder is there, its .dist-info is not: one warning, whoever requires it."""
    needs = {"requires": ("numpy>=1.26",)}
    installed = (distribution("jax", "0.6.2", **needs), distribution("jaxlib", "0.6.2", **needs))
    given = facts(
        build("jax", "0.6.2", "jaxlib"), distributions=installed, unowned_modules=known(("numpy",))
    )
    (finding,) = findings("dependency-conflict", context(given, expect="cpu"))
    assert finding.severity == "warning"
    assert "metadata of numpy" in finding.message
