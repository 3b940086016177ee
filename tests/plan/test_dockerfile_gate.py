"""The gate of a planned image: it runs on a Python of its own where need be, and knows the machine planned for."""

from __future__ import annotations

import pytest

from envcheck.model import Absent, Environment, Plan, replace
from envcheck.plan import requests as stated
from envcheck.plan.data import Images, images_for
from envcheck.probes import collection as overrides
from envcheck.render.plan import render_dockerfile
from envcheck.rules.described_machine import in_an_image
from tests.hosts.test_hosts import snapshot_of
from tests.plan.machines import machine, planned

GPU = planned("tensorflow==2.21.*", on=machine("3.12", "580.65.06", "8.0"))


def dockerfile(plan: Plan) -> list[str]:
    return render_dockerfile(plan, images_for(plan.environments[0])).splitlines()


@pytest.mark.parametrize(
    ("python", "installer", "checker"),
    [
        ("3.7", "pip", "docker.io/library/python:3.12-slim-bookworm"),
        ("3.6", "pip", "docker.io/library/python:3.12-slim-bullseye"),
        ("3.10", "pip", ""),
        ("3.7", "conda", ""),
    ],
)
def test_an_old_python_is_checked_by_a_newer_one_of_the_same_debian(
    python: str, installer: str, checker: str
) -> None:
    made = Environment(installer=installer, folder=".venv", python=python, platform="linux_x86_64")
    assert images_for(made).checker == checker


def test_the_gate_of_an_old_python_starts_the_newer_one() -> None:
    lines = dockerfile(planned("tensorflow==1.15.*", on=machine("3.7")))
    assert (
        "COPY --from=docker.io/library/python:3.12-slim-bookworm /usr/local /opt/checker" in lines
    )
    assert 'RUN ["/opt/checker/bin/python3", "-m", "venv", "/home/app/.envcheck"]' in lines


def test_uv_is_in_the_image_that_is_installed_with_it() -> None:
    assert images_for(Environment(".venv", "uv", "3.12", "linux_x86_64")).uv
    lines = dockerfile(planned("tensorflow", on=machine("3.12"), installer="uv"))
    assert lines.index(
        "COPY --from=ghcr.io/astral-sh/uv:0.9.26 /uv /usr/local/bin/uv"
    ) < lines.index("USER app")


def test_the_gate_judges_for_the_machine_planned_for_with_its_loader_paths() -> None:
    lines = dockerfile(GPU)
    assert lines[-6:-3] == [
        "ARG ENVCHECK_DRIVER_RELEASE=580.65.06",
        "ARG ENVCHECK_CUDA_DRIVER_VERSION=13.0",
        "ARG ENVCHECK_COMPUTE_CAPABILITIES=8.0",
    ]
    assert lines[-3].startswith(
        'RUN ["sh", "/home/app/venv/bin/envcheck-cuda", "/home/app/.envcheck/bin/envcheck", "ch'
    )
    assert 'ENTRYPOINT ["sh", "/home/app/venv/bin/envcheck-cuda"]' in lines


def test_an_image_is_not_built_upon_the_cuda_of_its_host() -> None:
    on = machine("3.8", "470.256.02", "7.0")
    with pytest.raises(ValueError, match="--installer conda"):
        dockerfile(planned("tensorflow==2.4.*", on=on, installer="pip"))
    assert any(
        "cudatoolkit=11.0" in line for line in dockerfile(planned("tensorflow==2.4.*", on=on))
    )


def test_of_the_machine_that_is_read_an_image_sees_no_cuda() -> None:
    there = snapshot_of("reported-tensorflow-1.13-cuda-9.0").facts
    assert there.toolkits.installs.value is not None
    seen = in_an_image(there)
    assert isinstance(seen.toolkits.installs, Absent)
    assert isinstance(seen.cudnn, Absent)
    assert seen.driver == there.driver


def test_nothing_but_a_version_becomes_an_argument_of_the_build() -> None:
    hostile = replace(
        GPU, machine={"ENVCHECK_DRIVER_RELEASE": "1\nRUN evil", "ENVCHECK_GLIBC": "$(id)"}
    )
    text = render_dockerfile(hostile, Images("python:3.12"))
    assert "evil" not in text
    assert "$(id)" not in text


def test_the_checker_is_installed_before_the_project_is_copied() -> None:
    lines = dockerfile(GPU)
    assert lines.index("ARG ENVCHECK") < lines.index("COPY --chown=app pyproject.toml ./")


def test_the_probes_read_what_a_plan_states() -> None:
    for name in ("DRIVER_RELEASE", "CUDA_DRIVER_VERSION", "COMPUTE_CAPABILITIES"):
        assert getattr(stated, name) == getattr(overrides, name)
