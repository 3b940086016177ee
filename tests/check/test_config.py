"""The [tool.envcheck] table: what it may hold, and what is said of what it may not."""

from __future__ import annotations

from datetime import date

import pytest

from envcheck.check.config import Config, ConfigError, Ignored, parse_config

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
