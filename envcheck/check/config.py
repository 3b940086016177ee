"""What a project requires: the [tool.envcheck] table of its pyproject.toml."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import date
from typing import Any

from envcheck.host.data_files import read_packaged
from envcheck.host.documents import dig, parse_toml
from envcheck.model import UserError, dataclass, field
from envcheck.rules.catalogue import catalogue

SCHEMA = "schemas/config.schema.json"
GPU_KEYS = ("gpu-count", "gpu-model", "pcie-width", "pcie-generation", "nvlinks")


class ConfigError(UserError):
    """A configuration that cannot be used; the message names the key and what it should be."""


@dataclass
class Ignored:
    """One finding id that does not count until a date, inclusive, or for good."""

    id: str
    reason: str
    until: date = date.max  # for good


@dataclass
class NamedMachine:
    """A machine that a project's files are judged for; "" and () where nothing is stated."""

    driver: str = ""
    gpus: tuple[str, ...] = ()  # names or compute capabilities


@dataclass
class Config:
    """What a project requires; "" where it sets no floor."""

    requires: tuple[str, ...] = ()
    expect: str = "auto"
    min_driver: str = ""  # a driver release: 535.54.03, or its first parts
    min_compute_capability: str = ""  # 7.5
    ignored: tuple[Ignored, ...] = ()
    imports: bool = True  # whether a doctor may import frameworks for real
    min_memory: int = 0  # bytes that a GPU must have free
    machines: Mapping[str, NamedMachine] = field(default_factory=dict)  # by name
    gpus: tuple[tuple[str, int | str], ...] = ()  # what the machine has: gpu-count, nvlinks ...


def parse_config(text: str) -> Config:
    """Read the table out of a pyproject.toml; raises ConfigError.

    Sample: [tool.envcheck]
            requires = ["tensorflow>=2.15"]
            expect = "gpu"
            min-driver = "535.54"
            ignore = [{id = "toolkit-path-conflict", reason = "two toolkits on purpose", until =
            2027-01-31}]
            machines = {node-a = {driver = "570", gpu = "A100"}}
    """
    table = _read_table(text)
    if not isinstance(table, dict):
        raise ConfigError(
            "it has no [tool.envcheck] table. Add one: [tool.envcheck] with requires ="
            ' ["tensorflow>=2.15"]'
        )
    return _config(table)


def allows_imports(text: str) -> bool:
    """Return whether a file lets a doctor import frameworks; its other keys are not read.

    Raises ConfigError.

    Sample: [tool.envcheck]
            import = false
    """
    return dig(_read_table(text), "import") is not False


def _read_table(text: str) -> object:
    try:
        return dig(parse_toml(text), "tool", "envcheck")
    except ValueError as error:
        raise ConfigError(f"it is not TOML: {error}") from None


def _config(table: Mapping[str, Any]) -> Config:
    rows = table.get("ignore", [])
    if not isinstance(rows, list):
        raise ConfigError('tool.envcheck.ignore must be an array, such as ["numpy-abi: why"]')
    plain = {**table, "ignore": [_spell_out(row) for row in rows]}
    _validate(plain)
    return Config(
        requires=tuple(plain.get("requires", ())),
        expect=plain.get("expect", "auto"),
        min_driver=plain.get("min-driver", ""),
        min_compute_capability=plain.get("min-compute-capability", ""),
        imports=plain.get("import", True),
        ignored=tuple(_parse_ignored(row) for row in plain["ignore"]),
        machines={name: _parse_machine(row) for name, row in plain.get("machines", {}).items()},
        gpus=tuple((key, plain[key]) for key in GPU_KEYS if key in plain),
    )


def _parse_machine(row: Mapping[str, Any]) -> NamedMachine:
    gpus = row.get("gpu", ())
    return NamedMachine(row.get("driver", ""), (gpus,) if isinstance(gpus, str) else tuple(gpus))


def _spell_out(row: object) -> object:
    """Write "ID: REASON" as the table that it is short for, and TOML's own dates as text."""
    if isinstance(row, str):
        name, _, reason = row.partition(":")
        if not reason.strip():
            raise ConfigError(f"tool.envcheck.ignore: {row!r} must say why, such as '{row}: why'")
        return {"id": name.strip(), "reason": reason.strip()}
    if isinstance(row, dict) and isinstance(row.get("until"), date):
        return {**row, "until": row["until"].isoformat()[:10]}
    return row


def _parse_ignored(row: dict[str, str]) -> Ignored:
    if row["id"] not in catalogue():
        raise ConfigError(
            "tool.envcheck.ignore: no finding has the id"
            f" {row['id']!r}{_closest(row['id'], catalogue())}"
        )
    try:
        if "until" not in row:
            return Ignored(row["id"], row["reason"])
        return Ignored(row["id"], row["reason"], date.fromisoformat(row["until"]))
    except ValueError:
        raise ConfigError(
            f"tool.envcheck.ignore: until = {row['until']!r} is not a date such as 2027-01-31"
        ) from None


def _validate(table: dict[str, Any]) -> None:
    import fastjsonschema

    schema = json.loads(read_packaged(SCHEMA))
    unknown = set(table) - set(schema["properties"])
    if unknown:
        name = min(unknown)
        raise ConfigError(
            f"tool.envcheck has no key {name!r}{_closest(name, schema['properties'])}"
        )
    try:
        fastjsonschema.validate(schema, table)
    except fastjsonschema.JsonSchemaValueException as error:
        raise ConfigError(_describe_error(error)) from None


def _describe_error(error: Any) -> str:
    """Say what a value must be, with the schema's example of one."""
    message = re.sub(r"^data\b", "tool.envcheck", error.message)
    for json_type, plain in (
        ("array", "an array"),
        ("string", "a string in quotes"),
        ("object", "a table"),
    ):
        message = re.sub(rf"must be {json_type}$", f"must be {plain}", message)
    examples = (error.definition or {}).get("examples", ())
    if not examples:
        return message
    subject, is_pattern, _ = message.partition(" must match pattern ")
    message = f"{subject} is {error.value!r}, but must be" if is_pattern else message
    return f"{message} such as {json.dumps(examples[0])}"


def _closest(name: str, names: Mapping[str, Any]) -> str:
    from difflib import get_close_matches

    matches = get_close_matches(name, list(names), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else ""
