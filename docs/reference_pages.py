"""Write the pages of the reference that state what the program itself states."""

from __future__ import annotations

import html
import inspect
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click

from docs.fact_page import facts_page
from envcheck.explain.rule_page import describe_rule
from envcheck.render.document import type_command
from envcheck.rules.catalogue import Entry, catalogue

ROOT = Path(__file__).parent.parent


def pages() -> Iterator[tuple[str, Callable[[], str]]]:
    """Yield the name of each generated page, and what writes it."""
    yield "reference/commands.md", commands
    yield "reference/python-api.md", python_api
    yield "reference/exit-codes.md", exit_codes
    yield "reference/environment.md", variables
    yield "reference/findings.md", findings
    for entry in catalogue().values():
        yield f"reference/findings/{entry.id}.md", partial(finding, entry)
    yield "reference/facts.md", facts_page
    yield "reference/schemas.md", schemas
    yield "reference/releases.md", releases
    yield "reference/matrix-tables.md", matrix_tables
    for path in SCHEMAS:
        yield f"reference/schemas/{path.name}", partial(path.read_text, encoding="utf-8")


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table; `|` stands in code only."""
    lines = [tuple(heads), *map(tuple, rows)]
    lines.insert(1, ("---",) * len(lines[0]))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


COMMANDS = """# Commands

Every command has `--help`, which prints what this page shows. A command prints its report on standard output. Progress
and diagnostics go to standard error. With `--json`, standard output is exactly one JSON document, on failure too.
"""


def commands() -> str:
    """Return the page of the commands and their options."""
    from envcheck.cli.group import TASKS, group

    context = click.Context(group, info_name="envcheck")
    text = COMMANDS
    for task, names in TASKS.items():
        text += f"\n## {task}\n"
        for name in names:
            command = group.get_command(context, name)
            assert command
            text += "".join(_command(click.Context(command, context, info_name=name), "###"))
    return text


def _command(context: click.Context, level: str) -> Iterator[str]:
    """Yield the section of a command, and those of its subcommands."""
    command, path = context.command, context.command_path
    yield (
        f"\n{level}"
        f" {path}\n\n```text\n{command.get_usage(context).removeprefix('Usage: ')}\n```\n\n"
    )
    yield f"{_prose(command.help or '')}\n\n"
    if command.epilog:
        example = command.epilog.removeprefix("Example: ")
        yield "Example:\n\n```sh\n" + example.replace(", or ", "\n") + "\n```\n\n"
    records = [param.get_help_record(context) for param in command.get_params(context)]
    yield table(
        ("option", "does"),
        ((f"`{names}`", _prose(words)) for names, words in filter(None, records) if words),
    )
    for name, sub in getattr(command, "commands", {}).items():
        yield from _command(click.Context(sub, context, info_name=name), level + "#")


PYTHON_API = r"""# Python API

The functions of `envcheck` answer what the commands answer, as immutable results:

```python
import envcheck

result = envcheck.doctor(env=".venv", expect="gpu")
if not result.ok:
    print(result.cause.message if result.cause else result.report.headline)
    print(*result.commands, sep="\n")  # quoted for the shell
```

A program that needs a GPU [requires one](require.md) in its first line.

Packages on top of a framework, such as vLLM, are asked for in the same way:

```python
plan = envcheck.plan("vllm>=0.30", driver="570", gpu="L4", python="3.12", platform="linux_x86_64")
print(plan.verdict)  # incompatible: its torch is for CUDA 13
for change in plan.plan.changes:
    print(change.what, change.requirement)  # what would make it possible

for row in envcheck.matrix("torch==2.8.0").rows:
    print(row.companions)  # vllm==0.11.0, torchvision==0.23.0, ...

found = envcheck.explain("ImportError: .../flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEa")
print(found.cause.message)  # built for torch 2.3 to 2.7

built = envcheck.check(file="Dockerfile", driver="570", gpu="L4")
print([finding.message for finding in built.findings])
```

`to_dict()` of an answer is the JSON document that the command prints with `--json`. `print(result)` shows the text of
the command, and `found.render("markdown")` any other format. A Jupyter notebook shows the answer; with the extra `html`,
as the page of `--format html`, in the colours of the notebook's theme.

A request that cannot be carried out raises `envcheck.UserError`. Its sentence names an argument as the option of the
command line. No function prints, or changes the machine.

Importing `envcheck` loads nothing else: the first use of a function imports what it needs. The package has type hints
for mypy and pyright.

## What may change

| Part | Promise |
| --- | --- |
| Public names, parameters and attributes | From 1.0 on, only a major version removes one, after a warning. |
| JSON documents | Additions keep the version of the schema. All else gets a new one: `envcheck/report/2`. |
| Finding ids | Kept. Where a new id takes cases from an old one, the changelog says so. |
| Messages, summaries, texts and pages | May change in every version: match ids and keys, never texts. |
| All other modules, such as `envcheck.rules` | May change in every version. |
"""


def python_api() -> str:
    """Return the page of the Python API: its promise, then what each public name says of itself."""
    import envcheck

    public = [(name, getattr(envcheck, name)) for name in envcheck.__all__]
    functions = [item for item in public if inspect.isfunction(item[1])]
    answers = [item for item in public if item[0].endswith("Result")]
    values = [item for item in public if item not in functions and item not in answers]
    parts = (("Functions", functions), ("Answers", answers), ("Values", values))
    return PYTHON_API + "".join(
        f"\n## {title}\n{''.join(_public(*item) for item in items)}" for title, items in parts
    )


def _public(name: str, value: Any) -> str:
    """Return the section of a public name."""
    text = f"\n### {name}\n\n"
    if inspect.isfunction(value):
        text += f"```python\nenvcheck.{name}{_signature(value)}\n```\n\n"
    text += f"{_prose(inspect.getdoc(value) or '')}\n\n"
    holds = [*_fields(value), *_methods(value)] if inspect.isclass(value) else []
    return text + (table(("attribute", "type", "holds"), holds) if holds else "")


def _signature(item: Callable[..., Any]) -> str:
    """Return the parameters of a function, one a line, and what it returns."""
    signature = inspect.signature(item)
    parameters = [_unquoted(str(parameter)) for parameter in signature.parameters.values()]
    keywords = [
        parameter.kind is parameter.KEYWORD_ONLY for parameter in signature.parameters.values()
    ]
    if True in keywords and not any(text.startswith("*") for text in parameters):
        parameters.insert(keywords.index(True), "*")
    lines = "".join(f"    {text},\n" for text in parameters)
    return f"(\n{lines}) -> {signature.return_annotation}"


def _unquoted(text: str) -> str:
    return re.sub(r"""(: )(?:'([^']*)'|"([^"]*)")""", r"\1\2\3", text)


def _fields(item: type) -> Iterator[tuple[str, str, str]]:
    """Yield the fields of a dataclass, with the comments beside them."""
    for name, kind in inspect.get_annotations(item).items():
        comment = re.search(rf"^    {name}: [^#\n]*# (.*)$", inspect.getsource(item), re.MULTILINE)
        yield f"`{name}`", f"`{kind}`", comment[1] if comment else ""


def _methods(item: type) -> Iterator[tuple[str, str, str]]:
    """Yield the public properties and methods of a class, inherited ones too."""
    for name, member in inspect.getmembers(
        item, lambda it: isinstance(it, property) or inspect.isfunction(it)
    ):
        if not name.startswith("_"):
            is_property = isinstance(member, property)
            returned = inspect.signature(member.fget if is_property else member).return_annotation
            yield (
                f"`{name}`" if is_property else f"`{name}()`",
                f"`{returned}`",
                _prose(inspect.getdoc(member) or "").split("\n")[0],
            )


def _prose(text: str) -> str:
    """Return a help text as Markdown: only code is markup in it, and what click prints as it is becomes a block."""

    def paragraph(part: str) -> str:
        if part.startswith("\b\n"):
            return f"```text\n{part[2:]}\n```"
        return re.sub(r"([<>*\[\]])", r"\\\1", part)

    return "\n\n".join(map(paragraph, inspect.cleandoc(text).split("\n\n")))


EXIT_CODES = {
    "compatible": "Compatible or done, warnings included. `explain`: only harmless lines.",
    "incompatible": "Incompatible. `explain`: a cause was found, in the environment or outside it.",
    "USAGE": "The command line, or a file that it names, is wrong.",
    "undetermined": (
        "Undetermined: something decisive could not be read. `explain`: nothing known in the log."
    ),
    "STEP_FAILED": (
        "A step or a smoke test failed, or the machine lacks what an installation needs."
    ),
    "INTERNAL": "Internal error: a defect of envcheck.",
    "INTERRUPTED": "Interrupted (Ctrl-C).",
    "READER_GONE": "The reader of the output went away, as in `| head`.",
}


def exit_codes() -> str:
    """Return the page of the exit codes."""
    from envcheck.cli import exits
    from envcheck.model import OTHER_CAUSE

    own = {
        name: value
        for name, value in vars(exits).items()
        if name.isupper() and isinstance(value, int)
    }
    codes = {**exits.OF_VERDICT, **own}
    del codes[OTHER_CAUSE]  # a cause outside the environment: the code of "incompatible"
    _require_same(codes, EXIT_CODES, "exit codes")
    rows = sorted((code, EXIT_CODES[name]) for name, code in codes.items())
    return f"""# Exit codes

The codes are the same in every command and format. Only `envcheck run` differs: it returns the status of its command.

{table(("code", "means"), ((f"`{code}`", words) for code, words in rows))}
A command that judges many machines returns the worst of their codes, in the order 5, 4, 1, 3, 0. If nothing was
checked, the code is never 0.
"""


VARIABLES = {
    "ENVCHECK_BUILT_IN_MATRIX": "`1` uses the built-in data, even after `matrix update`.",
    "ENVCHECK_COMPUTE_CAPABILITIES": (
        "The compute capabilities of the GPUs (`8.0,8.6`), instead of what is read."
    ),
    "ENVCHECK_CUDA_DRIVER_VERSION": (
        "The CUDA version that the driver supports, instead of what is read."
    ),
    "ENVCHECK_DRIVER_RELEASE": "The release of the driver, instead of what is read.",
    "ENVCHECK_MATRIX_REPOSITORY": (
        "The repository `OWNER/NAME` whose attestation proves what `matrix update` takes."
    ),
    "ENVCHECK_MATRIX_URL": "The address that [`matrix update`](matrix.md#update-the-data) fetches.",
    "ENVCHECK_PLUGINS": (
        "`1` lets envcheck load [plugins](plugins.md), which other packages add by entry points."
    ),
    "ENVCHECK_GLIBC": "The release of the C library, instead of what is read.",
    "ENVCHECK_TORCH_INDEX": "A mirror of `https://download.pytorch.org/whl`, like `--torch-index`.",
    "ENVCHECK_IMPORT": (
        "`0` is like `--no-import` of `doctor`: it judges by files alone. `1` is like `--import`."
    ),
    "ENVCHECK_VERIFY": (
        "`0` is like `--no-verify` of `plan` and `install`: no index is asked. `1` is like"
        " `--verify`."
    ),
    "ENVCHECK_TRACEBACK": "If it is set, an internal error prints its traceback.",
}
# Set by the program, for processes of its own.
OWN_VARIABLES = {"ENVCHECK_COMPLETE", "ENVCHECK_EVENT_MARK", "ENVCHECK_RUN"}


def variables() -> str:
    """Return the page of the environment variables."""
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "envcheck").rglob("*.py"))
    _require_same(
        set(re.findall(r"\bENVCHECK_[A-Z_]+", source)) - OWN_VARIABLES, VARIABLES, "variables"
    )
    kept = _data("program/environment_variables")
    prefixes = ", ".join(f"`{name}`" for name in kept["prefixes"])
    return f"""# Environment variables

## Variables of envcheck

{table(("variable", "does"), ((f"`{name}`", words) for name, words in VARIABLES.items()))}
The first four override a fact. The evidence of a report shows an override as such.

`NO_COLOR` switches colours off; `FORCE_COLOR` and `CLICOLOR_FORCE` switch them on where no terminal is. `CONDA_OVERRIDE_CUDA` counts where conda honours it, `UV_CUDA_DRIVER_VERSION` where uv
does.

## Variables that a snapshot keeps

A snapshot keeps the values of these variables. Of other variables that begin with {prefixes} it keeps only the name.

{table(("variable", "means"), ((f"`{name}`", words) for name, words in kept["variables"].items()))}"""


def _require_same(stated: Iterable[str], described: Iterable[str], what: str) -> None:
    """Stop unless this file describes exactly what the program has."""
    if different := set(stated) ^ set(described):
        raise SystemExit(f"docs/reference_pages.py: {what}: {', '.join(sorted(different))}")


SCHEMAS = sorted((ROOT / "envcheck/schemas").glob("*.json"))


def schemas() -> str:
    """Return the page of the JSON documents."""
    text = """# JSON documents

With `--format json` a command prints one document. Its member `schema` names its kind and version. The package holds a
JSON Schema for each kind, in `envcheck/schemas`.
"""
    for path in SCHEMAS:
        schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        name = path.name.removesuffix(".schema.json")
        text += f"\n## {name}\n\n{schema['title']}: [{path.name}](schemas/{path.name}).\n\n"
        rows = (
            (
                f"`{key}`",
                _type(value),
                "yes" if key in schema.get("required", ()) else "",
                value.get("description", ""),
            )
            for key, value in schema.get("properties", {}).items()
        )
        text += table(("member", "type", "always there", "is"), rows)
    return text


def _type(value: Mapping[str, Any]) -> str:
    """Return the type of a member in words."""
    if "const" in value:
        return f"`{value['const']}`"
    if "enum" in value:
        return ", ".join(f"`{item}`" for item in value["enum"])
    if "$ref" in value:
        return str(value["$ref"]).rpartition("/")[2]
    kind = value.get("type", "any")
    return kind if isinstance(kind, str) else " or ".join(kind)


FINDINGS = """# Findings

A finding id is a public contract: it is stable. One id is one root cause with one kind of remedy.

The severity of a finding is about the goal (`--expect gpu`, `cpu` or `auto`):

- **error**: the goal cannot be met.
- **warning**: the goal is met, but the machine is degraded or fragile.
- **note**: worth knowing.

At most one finding is **primary**: the root cause. What follows from it names it in `caused_by`. A check that could
not be decided is a finding with verdict `undetermined`, and says what could not be read.

The list is in the order of causes. When two findings of one severity explain nothing about each other, the upper one
is primary.

A `fix` is a sentence with `commands`, one after the other, and `alternatives`. An alternative replaces the first way:
it has its own sentence and commands. Only the first way becomes steps of a plan.
"""


def findings() -> str:
    """Return the page that lists the findings by layer."""
    text = FINDINGS
    for layer, entries in itertools.groupby(catalogue().values(), lambda entry: entry.layer):
        rows = ((f"[`{entry.id}`](findings/{entry.id}.md)", entry.headline) for entry in entries)
        text += f"\n## Layer: {layer}\n\n{table(('finding', 'says'), rows)}"
    return text


def finding(entry: Entry) -> str:
    """Return the page of a finding, which says what `envcheck rule` says."""
    page = describe_rule(entry.id)
    text = f"# {entry.headline.rstrip('.')}\n\n"
    text += f"{entry.means[0].upper()}{entry.means[1:]}. Reports name this finding `{entry.id}`.\n"
    if messages := "\n".join(page.messages):
        text += f"\nMessages that state it, as logs hold them:\n\n```text\n{messages}\n```\n"
    text += "\n**What to do.** `envcheck doctor` prints the commands for your machine."
    text += " `envcheck explain FILE` prints them for the machine that wrote a log.\n"
    for fix in page.fixes:
        lines = "\n".join(type_command(action, "").typed for action in fix.actions)
        text += f"\n{_prose(fix.summary)}\n"
        text += f"\n```sh\n{lines}\n```\n" if lines else ""
    text += "\n**How it is decided.**\n\n"
    text += "".join(f"- {_prose(line)}\n" for line in page.decided_by or ("Only a log shows it.",))
    related = (
        ("It may follow from", page.follows_from),
        ("It may cause", entry.explains),
    )
    for words, names in related:
        linked = ", ".join(f"[`{name}`]({name}.md)" for name in names if name != entry.id)
        text += f"- {words} {linked}.\n" if linked else ""
    text += "\n**Ignore it.** In `pyproject.toml`, for `envcheck check`:\n\n"
    text += f'```toml\n[tool.envcheck]\nignore = ["{entry.id}: why"]\n```\n'
    if entry.stops == "import":
        text += "\nAn error that stops an import counts all the same.\n"
    return text


def _data(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((ROOT / f"data/{name}.json").read_text(encoding="utf-8"))
    return loaded


# their rows would bury every other page in the site's search
NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"
RELEASES = f"""{NOT_SEARCHED}# Releases

The releases that the matrix knows, one row for each distribution and platform. Filter by any words, such as
`torch linux_x86_64 12.8`. Click a column to sort. `*` marks what a document states and no artifact shows.

`envcheck matrix show 'torch==2.9.*' --sources` prints the same rows with their sources: [the matrix](matrix.md).
"""


def releases() -> str:
    """Return the page of the framework releases in the matrix."""
    from envcheck.matrix import load_matrix
    from envcheck.render.matrix import format_target
    from envcheck.rules.matrix_question import find_rows

    matrix = load_matrix()
    heads = ("release", "platform", "Pythons", "CUDA", "cuDNN", "GPU code", "glibc")
    text = RELEASES
    for framework in matrix.frameworks():
        rows = []
        for row in (answer.release for answer in find_rows(matrix, framework)):
            gpu = (
                (row.cuda or "not read", row.cudnn or "not read") if row.cuda_build else ("-", "-")
            )
            code = " ".join(map(format_target, row.compute_capabilities)) or "-"
            shown = (" ".join(row.pythons), *gpu, code, row.glibc or "-")
            cells = zip(
                ("pythons", "cuda", "cudnn", "compute_capabilities", "glibc"), shown, strict=True
            )
            rows.append(
                (
                    f"{row.distribution}=={row.build_version}",
                    row.platform,
                    *_marked(cells, row.proof),
                )
            )
        text += f"\n## {framework}\n\n{_searchable(framework, heads, rows)}"
    return text


TABLES = {
    "cuda": "CUDA Toolkits",
    "driver": "Driver branches",
    "architecture": "GPU architectures",
    "cudnn": "cuDNN",
    "tensorrt": "TensorRT",
    "conda": "Conda builds",
}
MATRIX_TABLES = f"""{NOT_SEARCHED}# Tables of the matrix

Filter a table by any words. Click a column to sort. `*` marks what a document states and no artifact shows.

`envcheck matrix show cudnn==9.10 --sources` prints the same rows with their sources: [the matrix](matrix.md).
"""
# `envcheck matrix show` prints them
LONG_CELLS = ("sonames", "cuda_wheels", "tags", "forward_compatibility")


def matrix_tables() -> str:
    """Return the page of the other tables of the matrix."""
    from envcheck.matrix import load_matrix
    from envcheck.render.matrix import format_cell
    from envcheck.rules.matrix_question import find_table_rows

    matrix = load_matrix()
    text = MATRIX_TABLES
    for name, title in TABLES.items():
        rows = find_table_rows(matrix, name) or ()
        columns = [
            cell
            for cell in dict.fromkeys(key for row in rows for key in row.cells)
            if cell not in LONG_CELLS
        ]
        heads = (title, *(cell.replace("_", " ") for cell in columns))
        shown = []
        for row in rows:
            cells = ((cell, format_cell(row.cells.get(cell, "-"))) for cell in columns)
            shown.append((row.name, *_marked(cells, row.proof)))
        text += f"\n## {title}\n\n{_searchable(title, heads, shown)}"
    return text


def _marked(cells: Iterable[tuple[str, str]], proof: Mapping[str, str]) -> Iterator[str]:
    """Yield cells, those that no artifact shows with a mark."""
    for name, text in cells:
        documented = proof.get(name, proof.get("*")) == "documented" and text not in {
            "-",
            "not read",
        }
        yield text + ("*" if documented else "")


def _searchable(title: str, heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return an HTML table that docs/assets/site.js makes sortable and searchable."""
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{html.escape(cell)}</td>' for cell in row)}</tr>\n" for row in rows
    )
    opened = (
        f'<div class="searchable" role="region" aria-label="{html.escape(title)}" tabindex="0">'
    )
    return f"{opened}<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>\n"
