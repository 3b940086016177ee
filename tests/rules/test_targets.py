"""Requirements asked with --for, resolved against the matrix."""

from __future__ import annotations

from typing import Any

import pytest
from packaging.version import Version

from envcheck.model import ERROR, INCOMPATIBLE, Absent, Facts, Finding, RequestError
from envcheck.model.fixes import InstallRequirements
from envcheck.rules import evaluate
from envcheck.rules.engine import write_headline
from envcheck.rules.targets import (
    BITS,
    GLIBC,
    LIBC,
    OLDER,
    PLATFORM,
    PYTHON,
    REMOVED,
    UNLISTED,
    WantedRelease,
    check_requirements,
    judged_builds,
    target_builds,
    wanted_releases,
)
from tests.rules.factory_python import build, context, edited_matrix, facts, known, matrix


def resolve(text: str, given: Facts | None = None, **fields: Any) -> WantedRelease:
    return wanted_releases(context(given or facts(), text, **fields))[0]


def label(text: str, given: Facts | None = None) -> str:
    found = resolve(text, given).build
    return found.label if found else ""


def test_newest_release_that_satisfies_the_specifier() -> None:
    assert label("tensorflow==2.15.*") == "tensorflow 2.15.1"
    assert label("TensorFlow>=2.14,<2.16") == "tensorflow 2.15.1"
    assert label("tensorflow==2.15") == "tensorflow 2.15.0"


def test_a_release_before_the_first_is_compared_as_a_version() -> None:
    assert resolve("torch==1.0", facts(version=known("3.7.9"))).obstacle == ""
    assert resolve("torch==0.4.1", facts(version=known("3.6.9"))).obstacle == OLDER


@pytest.mark.parametrize(("python", "obstacle"), [("2.7.18", UNLISTED), ("2.6.9", OLDER)])
def test_only_a_python_before_the_oldest_known_takes_an_older_release(
    python: str, obstacle: str
) -> None:
    assert resolve("torch<1.0", facts(version=known(python))).obstacle == obstacle


@pytest.mark.parametrize("asked", ["cupy-cuda12x", "vllm"])
def test_what_computes_on_gpus_alone_is_refused_where_none_is(asked: str) -> None:
    refused = evaluate(context(facts(), asked, expect="cpu"))
    assert ("gpu-absent", "error") in {(item.id, item.severity) for item in refused.findings}
    fine = evaluate(context(facts(), "torch", expect="cpu"))
    assert "gpu-absent" not in {item.id for item in fine.findings if item.severity == "error"}


def test_unpinned_takes_the_newest_for_this_python() -> None:
    older = facts(version=known("3.9.18"))
    newest = resolve("tensorflow").build
    assert newest is not None
    assert Version(newest.version) > Version(resolve("tensorflow", older).build.version)  # type: ignore[union-attr]


def test_installed_release_comes_first_when_it_satisfies() -> None:
    given = facts(build("tensorflow", "2.14.0"))
    assert resolve("tensorflow>=2.10", given).build.installed  # type: ignore[union-attr]
    assert not resolve("tensorflow>=2.15", given).build.installed  # type: ignore[union-attr]


def test_asked_release_replaces_the_installed_one_of_its_framework() -> None:
    given = facts(build("tensorflow", "2.14.0"), build("torch", "2.8.0"))
    labels = [item.label for item in judged_builds(context(given, "tensorflow==2.15.1"))]
    assert labels == ["torch 2.8.0", "tensorflow 2.15.1"]
    assert [item.label for item in judged_builds(context(given, "tensorflow"))] == [
        "tensorflow 2.14.0",
        "torch 2.8.0",
    ]


def test_jax_brings_its_plugin_for_gpu_work() -> None:
    asked = [item.distribution for item in target_builds(context(facts(), "jax[cuda12]==0.4.31"))]
    assert asked == ["jax", "jax-cuda12-plugin"]
    on_cpu = context(facts(gpus=Absent(("PCI",))), "jax==0.4.31")
    assert [item.distribution for item in target_builds(on_cpu)] == ["jax"]


def test_marker_that_does_not_hold_here_asks_for_nothing() -> None:
    given = context(
        facts(), "tensorflow==2.15.1; python_version < '3.10'", "torch; sys_platform == 'linux'"
    )
    assert [wanted.framework for wanted in wanted_releases(given)] == ["torch"]


def test_yanked_releases_only_when_pinned() -> None:
    assert label("jax>=0.4.32,<0.4.33") == ""
    assert label("jax==0.4.32") == "jax 0.4.32"


@pytest.mark.parametrize(
    ("text", "given", "obstacle"),
    [
        ("tensorflow==2.18.*", facts(version=known("3.13.0")), PYTHON),
        ("torch", facts(abi_tag=known("cp312t"), version=known("3.12.0")), PYTHON),
        ("tensorflow==2.21.0", facts(host={"libc_version": known("2.26")}), GLIBC),
        ("torch", facts(host={"libc_kind": known("musl"), "libc_version": known("1.2")}), LIBC),
        ("torch", facts(bits=known(32)), BITS),
        ("tensorflow-gpu==2.9.*", facts(architecture=known("aarch64")), REMOVED),
        ("tensorflow==1.15.2", facts(architecture=known("aarch64")), PLATFORM),
        ("tensorflow>=99", facts(), UNLISTED),
        ("tensorflow==2.19.0rc0", facts(), UNLISTED),
        ("tensorflow-gpu", facts(), REMOVED),
        ("tensorflow-gpu>=2.5", facts(), REMOVED),
        ("tensorflow-gpu==2.12.0rc0", facts(), REMOVED),
        ("tensorflow-gpu<2.12", facts(version=known("3.10.1")), ""),
        ("tensorflow==2.21.0", facts(host={"libc_version": known("2.27")}), ""),
        ("tensorflow==2.21.0", facts(host={"libc_version": known("unreadable")}), ""),
        ("torch", facts(version=known("3.13.1"), abi_tag=known("cp313t")), ""),
    ],
)
def test_obstacles(text: str, given: Facts, obstacle: str) -> None:
    assert resolve(text, given).obstacle == obstacle


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("numpy", "no framework"),
        ("tensorflow ==", "not a requirement"),
        ("", "not a requirement"),
        ("torch @ https://example.org/torch.whl", "names a URL"),
    ],
)
def test_what_cannot_be_judged_is_refused(text: str, said: str) -> None:
    with pytest.raises(RequestError, match=said):
        check_requirements([text], matrix())
    with pytest.raises(RequestError, match=said):
        evaluate(context(facts(), text))


def test_withdrawn_distribution_without_rows_is_still_known() -> None:
    def edit(document: Any) -> None:
        known = document["frameworks"]["tensorflow"]
        known["distributions"] = [
            item for item in known["distributions"] if item["name"] != "tensorflow-gpu"
        ]

    assert resolve("tensorflow-gpu", rows=edited_matrix(edit)).obstacle == REMOVED


def test_no_wheel_is_made_for_pypy() -> None:
    pypy = facts(
        version=known("3.10.14"), implementation=known("pypy"), abi_tag=known("pypy310_pp73")
    )
    assert resolve("torch", pypy).obstacle == PYTHON


def together(*texts: str, **fields: Any) -> list[str]:
    """Write what requirements mean together: the release, or its obstacle, and the package that brings it."""
    found = wanted_releases(context(facts(**fields), *texts))
    releases = [item.package or (item.build.release if item.build else None) for item in found]
    return [
        f"{item.distribution} {row.version if row else item.obstacle}"
        + (f" by {item.required_by}" * bool(item.required_by))
        for item, row in zip(found, releases, strict=True)
    ]


def test_a_package_brings_the_framework_that_it_requires() -> None:
    on_311 = {"version": known("3.11.9")}
    assert together("vllm==0.33.0", **on_311) == ["vllm 0.33.0", "torch 2.14.0 by vllm 0.33.0"]
    assert together("tensorflow-text==2.20.1", **on_311)[1].startswith("tensorflow 2.20.")
    assert together("ctranslate2==4.8.5", **on_311) == ["ctranslate2 4.8.5"], (
        "it needs no framework"
    )


def test_the_framework_that_is_asked_for_chooses_the_release_of_the_package() -> None:
    on_311 = {"version": known("3.11.9")}
    assert together("torch==2.8.0", "vllm", **on_311) == ["torch 2.8.0", "vllm 0.11.0"]
    assert together("vllm==0.33.0", "torch>=2.4", "xformers", **on_311) == [
        "torch 2.14.0",
        "vllm 0.33.0",
        "xformers 0.0.35",
    ]


def test_a_package_that_no_requested_framework_goes_with_is_a_conflict() -> None:
    given = facts(version=known("3.11.9"))
    assert together("torch==2.8.0", "vllm==0.33.0", version=known("3.11.9"))[1] == "vllm peer"
    finding = next(
        item
        for item in evaluate(context(given, "torch==2.8.0", "vllm==0.33.0")).findings
        if item.id == "dependency-conflict"
    )
    assert "vllm 0.33.0 requires torch==2.14.0" in finding.message
    assert finding.cure == InstallRequirements(("vllm==0.11.0", "torch==2.8.0"))


def test_a_package_without_a_wheel_for_this_python_says_so() -> None:
    assert together("vllm==0.33.0", version=known("3.9.18")) == ["vllm python"]
    assert together("keras-hub==0.32.0", version=known("3.13.1"))[0] == "keras-hub 0.32.0", (
        "no binaries in it"
    )


def test_a_report_names_what_was_asked_for_with_its_cuda() -> None:
    assert evaluate(context(facts(), "torch==2.6.0")).asked == ("torch 2.6.0 (CUDA 12.4)",)
    assert evaluate(context(facts(), "torch==2.6.0+cpu")).asked == ("torch 2.6.0+cpu",)


@pytest.mark.parametrize(
    ("message", "headline"),
    [
        ("Something else is wrong.", "torch 2.6.0 cannot use the GPU: Something else is wrong."),
        ("vllm 0.8.5 needs more.", "vllm 0.8.5 needs more."),  # it names its subject itself
        ("torch 2.6.0 needs more.", "torch 2.6.0 needs more."),
    ],
)
def test_a_headline_names_what_fails_once(message: str, headline: str) -> None:
    cause = Finding("driver-too-old", INCOMPATIBLE, ERROR, message)
    judged = context(facts(), "vllm==0.8.5")
    assert write_headline(INCOMPATIBLE, "gpu", judged, (cause,)) == headline
