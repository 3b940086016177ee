"""What a plan reads of this machine: the interpreter alone, and CUDA's libraries only where a GPU is planned for."""

from __future__ import annotations

import pytest

from envcheck import api
from envcheck.host.local import LocalHost
from envcheck.model import NOT_STATED, Absent, Facts, Known, ToolkitFacts
from envcheck.probes.environment_choice import PythonSelection
from envcheck.probes.python import collect_python
from envcheck.rules.described_machine import Description
from tests.hosts.test_hosts import snapshot_of
from tests.known import known


def test_of_an_interpreter_alone_nothing_installed_is_read() -> None:
    host = LocalHost()
    told, all_told = (
        collect_python(host, PythonSelection(without_packages=skip)) for skip in (True, False)
    )
    assert told.distributions == NOT_STATED
    assert told.frameworks == NOT_STATED
    assert known(all_told.distributions)
    for name in ("version", "bits", "abi_tag", "executable", "architecture"):
        assert known(getattr(told, name)) == known(getattr(all_told, name))


@pytest.mark.parametrize(
    ("described", "asks"), [(Description(), True), (Description(gpus=("none",)), False)]
)
def test_cuda_is_read_for_a_gpu_only(
    monkeypatch: pytest.MonkeyPatch, described: Description, asks: bool
) -> None:
    whole, asked = snapshot_of("wsl-healthy"), []
    bare = Facts(
        host=whole.facts.host,
        driver=whole.facts.driver,
        gpus=whole.facts.gpus,
        python=whole.facts.python,
    )

    def read(
        _: str, __: str, without: tuple[str, ...] = (), *, without_packages: bool = False
    ) -> object:
        asked.append((without, without_packages))
        return type(whole)(1, "", "", "", bare if "toolkits" in without else whole.facts)

    monkeypatch.setattr(api, "read_machine", read)
    made = api.plan("tensorflow", gpu=described.gpus).plan
    assert [alone for _, alone in asked] == [True] * (1 + asks)
    assert made.goal == ("gpu" if asks else "cpu")
    assert "compilers" in asked[0][0]
    if asks:
        assert "python" in asked[1][0]


def test_toolkits_left_out_are_not_taken_for_missing() -> None:
    assert ToolkitFacts().installs == NOT_STATED
    assert not isinstance(Facts().cudnn, (Known, Absent))
