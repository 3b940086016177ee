"""Derive the JSON schema of snapshots from annotations; `python -m tests.model.snapshot_schema` rewrites it."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from envcheck.model import SCHEMA_VERSION, UNKNOWN_REASONS, Snapshot

SOURCE_KINDS = ("command", "file", "env", "library", "override", "report", "matrix")
PATH = Path(__file__).parents[2] / "envcheck" / "schemas" / "snapshot.schema.json"
PRIMITIVES = {"str": "string", "int": "integer", "bool": "boolean", "float": "number"}
STRINGS = {"type": "array", "items": {"type": "string"}}
SOURCE = {
    "type": "object",
    "additionalProperties": False,
    "required": ["kind", "where"],
    "properties": {
        "kind": {"enum": list(SOURCE_KINDS)},
        "where": {"type": "string"},
        "excerpt": {"type": "string"},
    },
}
ABSENT = {
    "type": "object",
    "additionalProperties": False,
    "required": ["absent"],
    "properties": {"absent": STRINGS},
}
UNKNOWN = {
    "type": "object",
    "additionalProperties": False,
    "required": ["unknown"],
    "properties": {
        "unknown": {"enum": list(UNKNOWN_REASONS)},
        "detail": {"type": "string"},
        "tried": STRINGS,
    },
}


def of_annotation(annotation: str, owner: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if annotation in PRIMITIVES:
        return {"type": PRIMITIVES[annotation]}
    generic = re.match(r"(\w+)\[(.*)\]$", annotation)
    if generic is None:
        return of_model(getattr(sys.modules[owner.__module__], annotation), definitions)
    kind, inner = generic.groups()
    if kind == "Fact":
        known = of_annotation(inner, owner, definitions)
        return {
            "oneOf": [
                known_fact(known),
                {"$ref": "#/definitions/absent"},
                {"$ref": "#/definitions/unknown"},
            ]
        }
    if kind == "Tuple":
        return {
            "type": "array",
            "items": of_annotation(inner.rsplit(",", 1)[0], owner, definitions),
        }
    value = of_annotation(inner.split(",", 1)[1].strip(), owner, definitions)
    return {"type": "object", "additionalProperties": value}


def known_fact(value: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["known", "source"],
        "properties": {"known": value, "source": {"$ref": "#/definitions/source"}},
    }


def of_model(model: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if model.__name__ not in definitions:
        definitions[model.__name__] = {}
        properties = {
            field.name: of_annotation(str(field.type), model, definitions)
            for field in fields(model)
        }
        definitions[model.__name__] = {
            "type": "object",
            "additionalProperties": False,
            "properties": properties,
        }
    return {"$ref": f"#/definitions/{model.__name__}"}


def schema() -> dict[str, Any]:
    definitions: dict[str, Any] = {"source": SOURCE, "absent": ABSENT, "unknown": UNKNOWN}
    of_model(Snapshot, definitions)
    top = definitions.pop("Snapshot")
    properties = {"schema": {"const": f"envcheck/snapshot/{SCHEMA_VERSION}"}, **top["properties"]}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A machine as envcheck read it",
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": properties,
        "definitions": definitions,
    }


def text() -> str:
    return json.dumps(schema(), indent=1) + "\n"


if __name__ == "__main__":
    PATH.write_text(text(), encoding="utf-8")
