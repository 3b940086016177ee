"""The [tool.envcheck] table: what it may hold, and what is said of what it may not."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest

from envcheck.check.config import Config, ConfigError, Ignored, parse_config
from envcheck.cli.group import run
from envcheck.model import UserError

WHOLE = """
[project]
name = "x"
[tool.envcheck]
requires = ["tensorflow>=2.15", "torch"]
expect = "gpu"
min-driver = "535.54"
min-compute-capability = "7.5"
[[tool.envcheck.ignore]]
id = "toolkit-path-conflict"
reason = "two toolkits on purpose"
until = 2027-01-31
[[tool.envcheck.ignore]]
id = "env-mixed"
reason = "to be cleaned up"
until = "2027-02-28"
"""


def test_every_key_is_read() -> None:
    assert parse_config(WHOLE) == Config(
        ("tensorflow>=2.15", "torch"),
        "gpu",
        "535.54",
        "7.5",
        (
            Ignored("toolkit-path-conflict", "two toolkits on purpose", date(2027, 1, 31)),
            Ignored("env-mixed", "to be cleaned up", date(2027, 2, 28)),
        ),
    )


def test_an_empty_table_demands_what_doctor_does() -> None:
    assert parse_config("[tool.envcheck]\n") == Config()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool", "is not TOML"),
        ("a = 1\n" + "b = [" * 5000, "is not TOML"),
        ("[project]\nname = 'x'\n", "no [tool.envcheck] table"),
        ("tool = 3", "no [tool.envcheck] table"),
        ("[tool.envcheck]\nrequire = ['torch']", "no key 'require'; did you mean 'requires'?"),
        (
            "[tool.envcheck]\nrequires = 'torch'",
            'requires must be an array such as ["tensorflow>=2.15"]',
        ),
        ("[tool.envcheck]\nexpect = 'tpu'", "tool.envcheck.expect must be one of"),
        (
            "[tool.envcheck]\nmin-driver = '>=535'",
            "min-driver is '>=535', but must be such as \"535.54\"",
        ),
        (
            "[tool.envcheck]\nmin-compute-capability = 7.5",
            'must be a string in quotes such as "7.5"',
        ),
        ("[tool.envcheck]\nignore = 'x'", "ignore must be an array, such as"),
        ("[tool.envcheck]\nignore = ['x']", "'x' must say why, such as 'x: why'"),
        ("[tool.envcheck]\nignore = ['x: why']", "no finding has the id 'x'"),
        ("[tool.envcheck]\nignore = [1]", "tool.envcheck.ignore[0] must be a table"),
        (
            "[tool.envcheck]\nignore = [{id = 'env-mixed'}]",
            "must contain ['reason'] properties",
        ),
        (
            "[tool.envcheck]\nignore = [{id = 'env-mixed', reason = '   ', until = 2027-01-01}]",
            "ignore[0].reason is '   '",
        ),
        (
            "[tool.envcheck]\nignore = [{id = 'env-mixed', reason = 'why', until = 'soon'}]",
            'such as "2027-01-31"',
        ),
        (
            "[tool.envcheck]\nignore = [{id = 'env-mix', reason = 'why', until = 2027-01-01}]",
            "no finding has the id 'env-mix'; did you mean 'env-mixed'?",
        ),
        (
            "[tool.envcheck]\nignore = [{id = 'env-mixed', reason = 'why', until = '2027-02-30'}]",
            "'2027-02-30' is not a date",
        ),
    ],
)
def test_a_mistake_is_named(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_config(text)
    assert said in str(raised.value)


def test_a_value_that_cannot_be_shown_as_it_is_is_refused_in_a_sentence() -> None:
    with pytest.raises(ConfigError, match="min-driver is"):
        parse_config('[tool.envcheck]\nmin-driver = "535.\u202e4"')


def test_an_id_with_its_reason_is_ignored_for_good() -> None:
    config = parse_config("[tool.envcheck]\nignore = ['env-mixed: two on purpose: A']")
    assert config.ignored == (Ignored("env-mixed", "two on purpose: A", date.max),)


LOCK = """version = 1
requires-python = ">=3.11"

[[package]]
name = "torch"
version = "2.13.0+cu130"
source = { registry = "https://download.pytorch.org/whl/cu130" }
"""
MACHINES = """
[tool.envcheck.machines]
node-a = {driver = "570.86.15", gpu = "A100"}
node-b = {driver = "580.65.06", gpu = ["A100", "L4"]}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("uv.lock").write_text(LOCK, encoding="utf-8")
    return tmp_path / "pyproject.toml"


def check(*words: str) -> int:
    return run(["check", "uv.lock", *words])


def test_a_file_is_judged_for_each_named_machine(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write_text(MACHINES, encoding="utf-8")
    assert check("--format", "github") == 1
    printed = capsys.readouterr().out
    assert printed.startswith("::error file=uv.lock,line=5,title=envcheck driver-too-old")
    assert "needs driver >= 580.65.06; node-a has 570.86.15." in printed
    assert check("--format", "sarif") == 1
    (found, *_) = json.loads(capsys.readouterr().out)["runs"][0]["results"]
    assert "node-a has 570.86.15." in found["message"]["text"]
    (place,) = found["locations"]
    assert place["physicalLocation"]["region"] == {"startLine": 5}
    assert check("-q") == 1
    assert "node-a has 570.86.15. No problem on node-b." in capsys.readouterr().out
    assert check("-q", "--driver", "580.65.06", "--gpu", "A100") == 0  # what is typed stands
    assert "node" not in capsys.readouterr().out


def test_what_is_wrong_on_one_machine_hides_nothing_of_another(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = (
        'node-c = {driver = "580", gpu = "GTX 1080"}\nnode-d = {driver = "570.86.15", gpu = "L4"}'
    )
    project.write_text(MACHINES + more, encoding="utf-8")
    assert check("--json") == 1
    findings = json.loads(capsys.readouterr().out)["findings"]
    roots = [each for each in findings if each["severity"] == "error" and not each["caused_by"]]
    assert [each["id"] for each in roots] == ["driver-too-old", "gpu-arch-too-old"]
    assert [each["primary"] for each in roots] == [True, False]
    assert roots[0]["message"].endswith("node-a and node-d have 570.86.15.")
    assert roots[1]["message"].startswith("node-c: GTX 1080 has compute capability 6.1")


def test_what_fits_every_machine_and_what_is_left_open_name_them(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write_text(MACHINES.replace("570.86.15", "590"), encoding="utf-8")
    assert check("-q") == 0
    assert "node-a and node-b: uv.lock has no problem for GPU" in capsys.readouterr().out
    project.write_text(MACHINES.replace('570.86.15", gpu = "A100"', '590"'), encoding="utf-8")
    assert check("-q") == 3
    printed = capsys.readouterr().out
    assert "node-a: uv.lock does not show" in printed
    assert "State the GPU, too." in printed


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('driver = "newest"', r"machines.node-a.driver is 'newest', but must be such as \"570\""),
        ("gpu = 4", r'machines.node-a.gpu must be string or array such as "A100"'),
        ("", r"machines.node-a must contain at least 1 properties"),
        ('gpu = "Bogus"', r"machines.node-a: --gpu 'Bogus': no such GPU is known"),
    ],
)
def test_a_mistake_in_a_named_machine_is_one_sentence(project: Path, row: str, said: str) -> None:
    project.write_text(f"[tool.envcheck.machines]\nnode-a = {{{row}}}\n", encoding="utf-8")
    with pytest.raises(UserError, match=said):
        check()
