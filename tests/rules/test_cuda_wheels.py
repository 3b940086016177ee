"""Rules about the nvidia-* wheels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from envcheck.model import Absent, Distribution, Facts, Finding
from envcheck.rules.cuda_wheels import is_wheel_clash
from tests.rules.factory_python import (
    SITE,
    UNREADABLE,
    build,
    context,
    distribution,
    facts,
    findings,
    found,
    known,
    lookup,
)
from tests.typed import argv

UNDECIDED = [("probe-failed", "error")]
EXTRA = "framework-cuda-extra-missing"
HIDDEN = "cuda-wheel-not-found"
CONFLICT = "cuda-wheel-conflict"
COPY = f"{SITE}/nvidia/cusolver/lib/libcusolver.so.11"


def tensorflow(
    *lookups: Any, version: str = "2.20.0", others: tuple[Distribution, ...] = (), **python: Any
) -> Facts:
    installed = build(
        "tensorflow", version, cuda_build=known(True), libraries=known(tuple(lookups))
    )
    return facts(installed, distributions=(distribution("tensorflow", version), *others), **python)


def typed(finding: Finding) -> list[str]:
    return [" ".join(argv(command)) for command in finding.fix.actions] if finding.fix else []


def test_cuda_libraries_missing() -> None:
    report = findings(
        EXTRA, context(tensorflow(lookup("libcudart.so.12"), lookup("libcudnn.so.9")))
    )
    assert [(item.id, item.severity) for item in report] == [(EXTRA, "error")]
    assert typed(report[0]) == ["/env/bin/python -m pip install tensorflow[and-cuda]==2.20.0"]
    assert any(item.citation for item in report[0].evidence)


def test_cuda_libraries_from_elsewhere_are_fine() -> None:
    given = tensorflow(lookup("libcudart.so.12", "/usr/local/cuda/lib64/libcudart.so.12"))
    assert found(EXTRA, context(given)) == []
    optional = replace(lookup("libcupti.so.12"), mandatory=False)
    assert found(EXTRA, context(tensorflow(optional))) == []
    assert found(EXTRA, context(tensorflow(lookup("libnvinfer.so.8")))) == []


def test_wheel_installed_but_of_another_cuda_major_is_missing() -> None:
    lost = lookup("libcublas.so.12")
    same = tensorflow(lost, others=(distribution("nvidia-cublas-cu12", "12.5.3.2"),))
    assert found(EXTRA, context(same)) == []
    other = tensorflow(lost, others=(distribution("nvidia-cublas-cu11", "11.11.3.6"),))
    assert found(EXTRA, context(other)) == [(EXTRA, "error")]


def test_cuda_libraries_unread() -> None:
    unread = facts(build("tensorflow", "2.20.0", cuda_build=known(True), libraries=UNREADABLE))
    assert found(EXTRA, context(unread)) == UNDECIDED
    assert (
        found(
            EXTRA,
            context(
                facts(
                    build("tensorflow", "2.20.0", cuda_build=known(True), libraries=UNREADABLE),
                    gpus=Absent(),
                )
            ),
        )
        == []
    )
    cpu = facts(build("tensorflow", "2.20.0", cuda_build=known(False), libraries=UNREADABLE))
    assert found(EXTRA, context(cpu)) == []
    before_wheels = facts(
        build("tensorflow", "2.10.1", cuda_build=known(True), libraries=UNREADABLE)
    )
    assert found(EXTRA, context(before_wheels)) == []


def test_torch_from_an_index_gets_its_libraries_from_there() -> None:
    installed = build(
        "torch", "2.7.0+cu126", cuda_build=known(True), libraries=known((lookup("libcudnn.so.9"),))
    )
    report = findings(EXTRA, context(facts(installed)))
    assert typed(report[0]) == [
        "/env/bin/python -m pip install --index-url https://download.pytorch.org/whl/cu126 torch==2.7.0"
    ]
    other = facts(
        installed,
        distributions=(
            distribution("torch", "2.7.0+cu126"),
            distribution("nvidia-cudnn-cu11", "9.1"),
        ),
    )
    assert found(EXTRA, context(other)) == []


def test_jax_without_plugin() -> None:
    cpu = build("jax", "0.4.31", "jaxlib", cuda_build=known(False))
    report = findings(EXTRA, context(facts(cpu)))
    assert [(item.id, item.severity) for item in report] == [(EXTRA, "error")]
    assert typed(report[0]) == ["/env/bin/python -m pip install jax[cuda12]==0.4.31"]
    assert (
        found(
            EXTRA,
            context(facts(build("jax", "0.4.31", "jax-cuda12-plugin", cuda_build=known(True)))),
        )
        == []
    )
    assert (
        found(EXTRA, context(facts(build("jax", "0.3.25", "jaxlib", cuda_build=UNREADABLE))))
        == UNDECIDED
    )
    windows = facts(cpu, host={"os": known("windows")}, architecture=known("AMD64"))
    assert found(EXTRA, context(windows)) == []
    conda = (distribution("jaxlib", "0.4.31", installer="conda"),)
    assert typed(findings(EXTRA, context(facts(cpu, distributions=conda)))[0]) == [
        "conda install -c conda-forge jaxlib=*=*cuda*"
    ]


@pytest.mark.parametrize(
    ("requirement", "expected"),
    [
        ("tensorflow==2.20.0", [(EXTRA, "warning")]),
        ("tensorflow[and-cuda]==2.20.0", []),
        ("torch==2.8.0", []),
        ("jax==0.4.31", [(EXTRA, "warning")]),
        ("jax[cuda12]==0.4.31", []),
    ],
)
def test_asked_without_its_extra(requirement: str, expected: list[tuple[str, str]]) -> None:
    assert found(EXTRA, context(facts(), requirement)) == expected


def test_the_extra_that_resolves_is_named() -> None:
    report = findings(EXTRA, context(facts(), "tensorflow==2.15.0"))
    assert typed(report[0]) == ["/env/bin/python -m pip install tensorflow[and-cuda]==2.15.1"]


def test_wheels_off_the_search_path() -> None:
    wheel = (distribution("nvidia-cusolver-cu12", "11.7.0"),)
    report = findings(
        HIDDEN,
        context(
            tensorflow(
                lookup("libcusolver.so.11", elsewhere=(COPY,)), version="2.21.0", others=wheel
            )
        ),
    )
    assert [(item.id, item.severity) for item in report] == [(HIDDEN, "error")]
    assert f'add "$prefix"{SITE.removeprefix("/env")}/nvidia/cusolver/lib ' in typed(report[0])[0]
    (other,) = report[0].fix.alternatives  # type: ignore[union-attr]
    assert "tensorflow[and-cuda]==2.20.0" in argv(other.actions[0])
    assert any("cusolver" in item.shown for item in report[0].evidence if item.citation)


def test_wheels_off_the_search_path_without_a_known_problem() -> None:
    lost = lookup("libcusolver.so.11", elsewhere=(COPY,))
    conda = findings(HIDDEN, context(tensorflow(lost, kind=known("conda"))))
    assert typed(conda[0]) == [
        f"conda env config vars set LD_LIBRARY_PATH={SITE}/nvidia/cusolver/lib"
    ]
    assert typed(findings(HIDDEN, context(tensorflow(lost, prefix=Absent())))[0]) == []
    unknown = findings(HIDDEN, context(tensorflow(lost, version="99.0")))
    assert not any(item.citation for item in unknown[0].evidence)
    elsewhere = lookup("libcusolver.so.11", elsewhere=("/usr/local/cuda/lib64/libcusolver.so.11",))
    assert found(HIDDEN, context(tensorflow(elsewhere))) == []
    assert found(HIDDEN, context(tensorflow(lookup("libcusolver.so.11", COPY)))) == []


def test_wheels_that_the_activation_leads_to() -> None:
    activated = replace(lookup("libcusolver.so.11", COPY), via="activation")
    (told,) = findings(HIDDEN, context(tensorflow(activated, version="2.21.0")))
    assert (told.verdict, told.severity) == ("compatible", "warning")
    assert typed(told) == [". /env/bin/activate"]
    assert any(item.citation for item in told.evidence)
    conda = findings(HIDDEN, context(tensorflow(activated, kind=known("conda"))))
    assert typed(conda[0]) == ["conda activate /env"]
    assert typed(findings(HIDDEN, context(tensorflow(activated, prefix=Absent())))[0]) == []


def test_what_the_activation_sets_already_is_kept() -> None:
    activated = replace(
        lookup("libcudnn.so.9", f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9"), via="activation"
    )
    told = findings(
        HIDDEN, context(tensorflow(lookup("libcusolver.so.11", elsewhere=(COPY,)), activated))
    )
    below = SITE.removeprefix("/env")
    assert (
        f'add "$prefix"{below}/nvidia/cudnn/lib "$prefix"{below}/nvidia/cusolver/lib '
        in typed(told[0])[0]
    )


def test_known_problem_decides_where_the_libraries_were_not_read() -> None:
    wheel = (distribution("tensorflow", "2.21.0"), distribution("nvidia-cusolver-cu12", "11.7.0"))
    unread = build("tensorflow", "2.21.0", cuda_build=known(True), libraries=UNREADABLE)
    assert found(HIDDEN, context(facts(unread, distributions=wheel))) == [(HIDDEN, "error")]
    assert found(HIDDEN, context(facts(unread))) == []
    assert found(HIDDEN, context(facts(), "tensorflow[and-cuda]==2.21.0")) == [(HIDDEN, "error")]
    assert found(HIDDEN, context(facts(), "tensorflow==2.21.0")) == [(HIDDEN, "warning")]
    fix = findings(HIDDEN, context(facts(unread, distributions=wheel)))[0]
    assert typed(fix) == ["/env/bin/python -m pip install tensorflow[and-cuda]<2.21"]


def rivals(*versions: tuple[str, str], **python: Any) -> list[tuple[str, str]]:
    return found(
        CONFLICT,
        context(facts(distributions=tuple(distribution(*item) for item in versions), **python)),
    )


def test_wheels_that_share_a_folder() -> None:
    nccl = (("nvidia-nccl-cu12", "2.29.3"), ("nvidia-nccl-cu13", "2.29.7"))
    assert rivals(*nccl) == [(CONFLICT, "error")]
    assert rivals(nccl[0]) == []
    assert rivals(nccl[0], ("nvidia-nccl-cu13", "0.0.1")) == []
    assert rivals(("nvidia-cublas-cu11", "11.11"), ("nvidia-cublas-cu12", "12.5")) == []
    assert rivals(("nvidia-cudnn-cu11", "8.9.6.50"), ("nvidia-cudnn-cu12", "9.1.0.70")) == []
    assert rivals(("nvidia-cudnn-cu12", "9.1.0.70"), ("nvidia-cudnn-cu13", "9.12.0.46")) == [
        (CONFLICT, "error")
    ]


def nccl_environment(*requires: tuple[str, str]) -> Finding:
    owners = known(
        {f"{SITE}/nvidia/nccl/lib/libnccl.so.2": ("nvidia-nccl-cu12", "nvidia-nccl-cu13")}
    )
    items = [distribution(name, "1.0", requires=(line,)) for name, line in requires]
    items += [
        distribution("nvidia-nccl-cu12", "2.29.3"),
        distribution("nvidia-nccl-cu13", "2.29.7"),
    ]
    given = facts(distributions=tuple(items), duplicate_owners=owners)
    return findings(CONFLICT, context(given))[0]


def test_the_wheel_that_a_framework_asks_for_is_kept() -> None:
    kept = nccl_environment(("torch", "nvidia-nccl-cu12==2.29.3; platform_system == 'Linux'"))
    assert typed(kept) == [
        "/env/bin/python -m pip uninstall -y nvidia-nccl-cu13",
        "/env/bin/python -m pip install --force-reinstall nvidia-nccl-cu12==2.29.3",
    ]
    assert any("libnccl.so.2" in item.shown for item in kept.evidence)
    both = nccl_environment(
        ("torch", "nvidia-nccl-cu12==2.29.3"), ("jax-cuda13-plugin", "nvidia_nccl_cu13>=2.27")
    )
    assert typed(both) == []


def test_pins_on_cuda_wheels() -> None:
    torch = distribution(
        "torch", "2.8.0", requires=("nvidia-cudnn-cu12==9.10.2.21; platform_system == 'Linux'",)
    )
    build_ = build("torch", "2.8.0", cuda_build=known(True))

    def with_cudnn(version: str) -> list[tuple[str, str]]:
        return found(
            CONFLICT,
            context(
                facts(build_, distributions=(torch, distribution("nvidia-cudnn-cu12", version)))
            ),
        )

    assert with_cudnn("9.10.2.21") == []
    assert with_cudnn("9.13.0.50") == [(CONFLICT, "warning")]
    assert with_cudnn("8.9.2.26") == [(CONFLICT, "error")]


@pytest.mark.parametrize(("lost", "severity"), [(True, "error"), (False, "warning")])
def test_pins_of_an_extra_count_as_far_as_libraries_are_not_found(
    lost: bool, severity: str
) -> None:
    needed = lookup("libcudnn.so.8", "" if lost else "/usr/lib/libcudnn.so.8")
    installed = build("tensorflow", "2.15.1", cuda_build=known(True), libraries=known((needed,)))
    line = 'nvidia-cudnn-cu12 ==8.9.4.25 ; extra == "and-cuda"'
    items = (
        distribution("tensorflow", "2.15.1", requires=(line,)),
        distribution("nvidia-cudnn-cu12", "9.1.0.70"),
    )
    assert found(CONFLICT, context(facts(installed, distributions=items))) == [(CONFLICT, severity)]
    assert found(CONFLICT, context(facts(installed, distributions=items[:1]))) == []


@pytest.mark.parametrize(
    ("reached", "typed_lines"),
    [
        (
            f"{SITE}/nvidia/cublas/lib",
            [
                f"ln -s ../../cusolver/lib/libcusolver.so.11 {SITE}/nvidia/cublas/lib/libcusolver.so.11"
            ],
        ),
        # from there libcusolver would not find what lies beside its own folder
        (f"{SITE}/nvidia/lib", []),
        ("/usr/local/cuda/lib64", []),
    ],
)
def test_a_hidden_library_is_linked_where_the_search_path_leads(
    reached: str, typed_lines: list[str]
) -> None:
    cublas = lookup("libcublas.so.12", f"{reached}/libcublas.so.12", via="runpath")
    lost = lookup("libcusolver.so.11", elsewhere=(COPY,))
    (finding,) = findings(HIDDEN, context(tensorflow(cublas, lost, version="2.21.0")))
    assert [line for line in typed(finding) if line.startswith("ln ")] == typed_lines


@pytest.mark.parametrize(
    ("first", "second", "clash"),
    [
        ("nvidia-cudnn-cu12==9.1.0.70", "nvidia-cudnn-cu13==9.1.0.70", True),  # one folder
        ("nvidia-cublas-cu12==12.1", "nvidia-cublas-cu13==13.1", False),  # a folder for each
        ("nvidia-cudnn-cu12==9.1.0.70", "nvidia-cudnn-cu12==9.5.0.50", True),
        ("nvidia-cudnn-cu12==9.1.0.70", "nvidia-cudnn-cu12>=9.0", False),
        ("nvidia-cudnn-cu12", "nvidia-cudnn-cu12==9.1.0.70", False),
        ("nvidia-cudnn-cu12", "nvidia-nccl-cu13", False),
    ],
)
def test_two_wheels_clash_in_one_folder_or_by_their_versions(
    first: str, second: str, clash: bool
) -> None:
    assert is_wheel_clash(first, second) is clash
    assert is_wheel_clash(second, first) is clash
