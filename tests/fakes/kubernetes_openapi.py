"""Kubernetes' OpenAPI document, cut to what a fleet run asks for, and requests judged by it.

    python -m tests.fakes.kubernetes_openapi swagger.json COMMIT      writes the cut document anew

The whole document is the official Python client's kubernetes/swagger.json.unprocessed; no package
that pip installs carries it. Cut are other operations, what no kept operation refers to, and
descriptions. A server drops fields that it does not know; here they are refused, as `kubectl apply`
has it (fieldValidation=Strict).
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import fastjsonschema

FILE = Path(__file__).with_name("kubernetes-openapi.json")
_NAMESPACED = "/api/v1/namespaces/{namespace}"
_RIGHTS = "/apis/rbac.authorization.k8s.io/v1"
KEPT = {  # path: the methods that a run, or an administrator who applies the manifest, uses
    "/api/v1/nodes": ("get",),
    f"{_NAMESPACED}/configmaps": ("post",),
    f"{_NAMESPACED}/configmaps/{{name}}": ("delete",),
    f"{_NAMESPACED}/pods": ("get",),
    f"{_NAMESPACED}/pods/{{name}}/log": ("get",),
    f"{_NAMESPACED}/serviceaccounts": ("post",),
    "/apis/batch/v1/namespaces/{namespace}/jobs": ("post", "delete"),
    f"{_RIGHTS}/namespaces/{{namespace}}/roles": ("post",),
    f"{_RIGHTS}/namespaces/{{namespace}}/rolebindings": ("post",),
    f"{_RIGHTS}/clusterroles": ("post",),
    f"{_RIGHTS}/clusterrolebindings": ("post",),
}
_SHARED = ("parameters", "definitions")
# JSON Schema's word for what OpenAPI 2.0 calls by its own formats
_INT_OR_STRING = {"type": ["integer", "string"]}
_PLAIN = {"integer": r"-?\d+", "boolean": "true|false|True|False"}


def cut(whole: dict[str, Any]) -> dict[str, Any]:
    """Return the kept operations with all that they refer to."""
    kept: dict[str, Any] = {"paths": {}, "parameters": {}, "definitions": {}}
    for path, methods in KEPT.items():
        item = whole["paths"][path]
        kept["paths"][path] = {
            key: _without_words(item[key]) for key in (*methods, "parameters") if key in item
        }
    left = list(_references(kept["paths"]))
    while left:
        section, name = left.pop()
        if name not in kept[section]:
            kept[section][name] = _without_words(whole[section][name])
            left += _references(kept[section][name])
    for section in _SHARED:
        kept[section] = dict(sorted(kept[section].items()))
    return kept


def _without_words(value: Any) -> Any:
    """Leave descriptions and media types out; a property may have such a name."""
    if isinstance(value, list):
        return [_without_words(item) for item in value]
    if not isinstance(value, dict):
        return value
    words = ("description", "consumes", "produces", "schemes", "tags")
    return {
        key: _without_words(item)
        for key, item in value.items()
        if isinstance(item, dict) or key not in words
    }


def _references(value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, list):
        for item in value:
            yield from _references(item)
    if isinstance(value, dict):
        for item in value.values():
            yield from _references(item)
        if isinstance(value.get("$ref"), str):
            section, _, name = value["$ref"].removeprefix("#/").partition("/")
            yield section, name


@cache
def _document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def _as_json_schema(value: Any) -> Any:
    """Return a definition as JSON Schema: an object that names its fields has no others."""
    if not isinstance(value, dict):
        return value
    if value.get("format") == "int-or-string":
        return _INT_OR_STRING
    schema = {
        key: _as_json_schema(item)
        for key, item in value.items()
        if key not in {"format", "properties"} and not key.startswith("x-")
    }
    if "properties" in value:
        fields = value["properties"].items()
        schema["properties"] = {name: _as_json_schema(item) for name, item in fields}
        schema["additionalProperties"] = False
    if value.get("format") == "byte":
        schema["pattern"] = r"^[A-Za-z0-9+/]*={0,2}$"
    return schema


@cache
def _validator(reference: str) -> Any:
    definitions = _document()["definitions"].items()
    schemas = {name: _as_json_schema(item) for name, item in definitions}
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "definitions": schemas,
        "allOf": [{"$ref": reference}],
    }
    return fastjsonschema.compile(schema)


def check(value: Any, reference: str) -> None:
    """Check a value against a definition; raises ValueError with its place."""
    try:
        _validator(reference)(value)
    except fastjsonschema.JsonSchemaValueException as error:
        raise ValueError(error.message) from None


def check_request(method: str, path: str, query: dict[str, list[str]], body: Any) -> Any:
    """Check a request against the operation that it names, and return that operation.

    Raises LookupError where there is none, ValueError for what the document does not allow.
    """
    for template, item in _document()["paths"].items():
        shape = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template))
        if method in item and re.fullmatch(shape, path):
            _check_parameters(item, method, query, body)
            return item[method]
    raise LookupError(f"the document has no {method} {path}")


def _check_parameters(item: dict[str, Any], method: str, query: Any, body: Any) -> None:
    shared = _document()["parameters"]
    stated = [
        shared[each["$ref"].rpartition("/")[2]] if "$ref" in each else each
        for each in (*item.get("parameters", ()), *item[method].get("parameters", ()))
    ]
    by_name = {each["name"]: each for each in stated if each["in"] == "query"}
    for name, values in query.items():
        if name not in by_name:
            raise ValueError(f"{name}: unknown parameter of the query")
        pattern = _PLAIN.get(by_name[name]["type"], ".*")
        if len(values) != 1 or not re.fullmatch(pattern, values[0]):
            raise ValueError(f"{name}: {values} is no {by_name[name]['type']}")
    bodies = [each for each in stated if each["in"] == "body"]
    if body is not None and not bodies:
        raise ValueError("the operation takes no body")
    for each in bodies:
        if body is not None:
            check(body, each["schema"]["$ref"])
        elif each.get("required"):
            raise ValueError("the operation needs a body")


def check_answer(operation: dict[str, Any], code: int, answer: Any) -> None:
    """Check what the stand-in answers; a refusal is a Status, whatever its code."""
    schema = operation["responses"].get(str(code), {}).get("schema")
    if code < 400 and schema is not None and "$ref" in schema:
        check(answer, schema["$ref"])


def path_of(item: dict[str, Any]) -> str:
    """Return the path at which an object of a manifest is created, by its apiVersion and kind."""
    group, _, version = item["apiVersion"].rpartition("/")
    wanted = {"group": group, "kind": item["kind"], "version": version}
    for path, methods in _document()["paths"].items():
        if methods.get("post", {}).get("x-kubernetes-group-version-kind") == wanted:
            namespace = item["metadata"].get("namespace", "")
            assert bool(namespace) == ("{namespace}" in path), "an object's scope is its path's"
            return str(path).replace("{namespace}", namespace)
    raise LookupError(f"the document creates no {wanted}")


def main() -> None:
    """Write the cut document."""
    text = Path(sys.argv[1]).read_bytes()
    kept = cut(json.loads(text))
    source = {
        "of": "github.com/kubernetes-client/python, kubernetes/swagger.json.unprocessed",
        "commit": sys.argv[2],
        "sha256": hashlib.sha256(text).hexdigest(),
        "license": "Apache-2.0, The Kubernetes Authors",
    }
    FILE.write_text(json.dumps({"source": source, **kept}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
