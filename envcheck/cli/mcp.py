"""`envcheck mcp`: answer coding agents over the Model Context Protocol.

It speaks on standard input and output.
"""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from inspect import Parameter, Signature
from typing import Any, Literal, TypeAlias

import click

from envcheck import __version__, api
from envcheck.actions.extras import needs_extra
from envcheck.cli.common import UserError
from envcheck.model import inert

_TEXT_LIMIT = 1 << 20  # characters of a log
_WORD_LIMIT = 1000  # characters of any other text
_LIST_LIMIT = 20  # texts of a list
# characters of a report: 2,000 tokens; a longer one is cut at the end of a line
_REPORT_LIMIT = 8_000
_FULL_LIMIT = 60_000  # of one that is asked for in full
# of an answer of the matrix: with the line that says what was cut below 800 tokens
_MATRIX_LIMIT = 3_000
_DOCUMENT_LIMIT = 1_000_000  # characters of a JSON document; there is no part of a longer one
_SECONDS = 60.0  # for one answer
_AT_ONCE = 4  # answers
_INSTRUCTIONS = """\
envcheck finds out whether GPU deep learning (TensorFlow, PyTorch, JAX, ONNX Runtime, CuPy) works
here, with packages on top of it such as vllm, flash-attn or xformers. If not, it says what is
wrong, why, and which commands fix it. Call `doctor` first, or `explain` with the output of a failed
run. Every tool only reads. Propose the commands of a report to the user, and run none that needs an
administrator without consent.
"""


@click.command(
    epilog="Example: envcheck mcp, as an agent starts it: claude mcp add envcheck -- envcheck mcp"
)
def mcp() -> int:
    """Answer coding agents over the Model Context Protocol, on standard input and output.

    Tools: doctor, explain, plan, matrix, check, diff, rule. They change nothing: reports name the
    commands to type. Files are read in and below the current folder only. Needs the extra mcp.
    """
    server = _make_server()
    if sys.stdin.isatty():
        click.echo("envcheck: waiting for an agent on standard input; Ctrl-C ends this.", err=True)
    server.run("stdio")
    return 0


def _make_server() -> Any:
    with needs_extra("mcp", "envcheck mcp"):
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
        from mcp.types import ToolAnnotations

    class Server(MCPServer):
        async def call_tool(self, name: str, arguments: dict[str, Any], context: Any = None) -> Any:
            """Call a tool; what is wrong with its arguments becomes one line."""
            try:
                return await super().call_tool(name, arguments, context)
            except ToolError as error:
                said = str(error).removeprefix(f"Error executing tool {name}: ")
                sentence = _name_arguments(_replace_surrogates(said))
                raise ToolError(inert(sentence)[:_WORD_LIMIT]) from None

    server = Server("envcheck", version=__version__, instructions=_INSTRUCTIONS, log_level="ERROR")
    hints = ToolAnnotations(
        read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    for tool, (_, words) in TOOLS.items():
        server.add_tool(_answer_within_limits(tool), tool, description=words, annotations=hints)
    return server


# an argument that is wrong, as pydantic says it: its name, then below it what is wrong
_WRONG = re.compile(r"^([a-z_]\w*)[^\n]*\n  (.+?) \[type=", re.MULTILINE)


def _name_arguments(error: str) -> str:
    """Return the sentence on arguments of a wrong kind; any other error as it is."""
    wrong = dict(reversed(_WRONG.findall(error)))
    if not wrong:
        return error
    return "; ".join(f"{name}: {words}" for name, words in reversed(wrong.items())) + "."


def _answer_within_limits(tool: str) -> Callable[..., Any]:
    """Let a tool answer within limits, and refuse in one sentence."""
    import anyio
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import CallToolResult, TextContent

    limiter: list[anyio.CapacityLimiter] = []  # made in the event loop

    async def call(**arguments: Any) -> CallToolResult:
        limiter[:] = limiter or [anyio.CapacityLimiter(_AT_ONCE)]
        try:
            _check_sizes(arguments)
            api.ASKED_BY.set(api.AGENT)  # in this call's context alone
            with anyio.fail_after(_SECONDS):
                work = functools.partial(answer, tool, **arguments)
                found = await anyio.to_thread.run_sync(
                    work, abandon_on_cancel=True, limiter=limiter[0]
                )
            text = found.pop("text")
            return CallToolResult(content=[TextContent(text=text)], structured_content=found)
        except UserError as error:
            sentence = str(error)
        except TimeoutError:
            sentence = f"{tool} did not answer within {_SECONDS:g} s."
        except Exception as error:  # noqa: BLE001 - the last guard
            sentence = (
                f"internal error: {type(error).__name__}: {error}. This is a bug in envcheck."
            )
        raise ToolError(sentence)

    parameters = []
    for name in TOOLS[tool][0].split():
        kind, default = _ARGUMENTS.get(f"{tool}.{name}") or _ARGUMENTS.get(name, (str, ""))
        parameters.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind))
    signature = Signature(parameters, return_annotation=dict[str, str])
    vars(call).update(__signature__=signature)
    return call


def _check_sizes(arguments: dict[str, Any]) -> None:
    for name, value in arguments.items():
        texts = value if isinstance(value, list) else [value]
        limit = _TEXT_LIMIT if name == "text" else _WORD_LIMIT
        size = ""
        if any(isinstance(each, str) and len(each) > limit for each in texts):
            size = f"{limit:,} characters"
        if len(texts) > _LIST_LIMIT:
            size = f"{_LIST_LIMIT} texts"
        if size:
            raise UserError(f"{name} is too long: give at most {size}.")


def _replace_surrogates(text: str) -> str:
    """Replace half characters, which no JSON document may hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _shorten(text: str, limit: int, narrower: str) -> str:
    """Cut a text at the end of a line; `narrower` says what to ask for in place of the rest."""
    if len(text) <= limit:
        return text
    whole, _, _ = text[:limit].rpartition("\n")
    return f"{whole}\n({text.count(chr(10)) - whole.count(chr(10))} more lines{narrower})\n"


def _check_path(option: str, path: str, pattern: str = "") -> None:
    """Raise UserError for a path that is not below the current folder, or of another name."""
    if not path:
        return
    try:
        real, folder = os.path.realpath(path), os.path.realpath(".")
    except FileNotFoundError:
        raise UserError(f"{option} {path[:80]!r}: the working folder no longer exists.") from None
    except (OSError, ValueError):
        raise UserError(f"{option} {path[:80]!r}: no file has such a name.") from None
    if not real.startswith(folder.rstrip(os.sep) + os.sep):
        raise UserError(f"{option} {path[:80]!r} is not below the folder in which envcheck runs.")
    if pattern and not re.fullmatch(pattern, os.path.basename(real), re.IGNORECASE):  # noqa: PTH119 - pathlib is slow
        raise UserError(f"{option} {path[:80]!r}: a file of that name is not read.")


_SNAPSHOT = r".+\.json"
_BUILD_FILE = r"(.*(docker|container)file.*|.+\.(ya?ml|txt|in|lock)|py(project|lock.*)\.toml)"
# What the file of an argument is called.
_FILES = {
    "snapshot": _SNAPSHOT,
    "a": _SNAPSHOT,
    "b": _SNAPSHOT,
    "config": r".+\.toml",
    "file": _BUILD_FILE,
}


Expectation: TypeAlias = Literal["auto", "gpu", "cpu"]
Texts: TypeAlias = str | Sequence[str]
# Of an argument its kind, and what stands where an agent leaves it out; any other is a text.
_ARGUMENTS: dict[str, tuple[Any, Any]] = {
    **dict.fromkeys(("text", "a", "b", "finding"), (str, Parameter.empty)),
    **dict.fromkeys(("requirements", "with_requirements", "gpu"), (Texts, ())),
    **dict.fromkeys(("here", "as_json", "full"), (bool, False)),
    "expect": (Expectation, "auto"),
    "installer": (Literal["", "pip", "uv", "conda"], ""),
    "plan.requirements": (Texts, Parameter.empty),
    "matrix.gpu": (str, ""),
}
# Each is the function of the API with this name: its arguments, and what an agent knows of it.
TOOLS: dict[str, tuple[str, str]] = {
    "doctor": (
        "env expect requirements snapshot as_json full",
        """Check whether GPU deep learning works on this machine.

The verdict, what is wrong, why, and what to type.

env: the name of a conda environment, or a folder below the current one; without it, the active
environment or the project's .venv. It is read from its files, and nothing of it is run. expect:
what must work, auto, gpu or cpu. requirements: releases to judge too, installed or not, such as
torch>=2.4. snapshot: a saved machine, a .json file below the current folder. as_json: the JSON
document in place of the text. full: the whole text, where it was cut.""",
    ),
    "explain": (
        "text expect here snapshot as_json full",
        """Find the root cause in the output of a failed run.

The line that matters, why, and what to type.

text: the log or the error message; its last 1,000,000 characters suffice. here: the log was
written on this machine, whose facts are added. snapshot: the saved machine that wrote it, a
.json file below the current folder.""",
    ),
    "plan": (
        (
            "requirements with_requirements python driver gpu glibc platform expect installer"
            " snapshot as_json full"
        ),
        """Plan the exact commands that install frameworks on this machine, or on a described one.

Installs nothing.

requirements: such as tensorflow>=2.15, or packages on top of one, such as vllm.
with_requirements: chosen together with them, such as torch==2.8.*. python: 3.11. driver:
535.104.05. gpu: product names or compute capabilities, or none. platform: linux_x86_64.
installer: pip, uv or conda. snapshot: a saved machine.""",
    ),
    "matrix": (
        "requirement python driver gpu platform framework as_json",
        """Query the matrix of releases that work together.

The newest release of each framework that works, or rows.

Any of: python 3.11, driver 535.104, gpu "RTX 4090", platform linux_x86_64, framework torch. Or
requirement: a release such as tensorflow==2.15.*, or a table: cuda==12.4, driver==550,
architecture==8.9, cudnn==9.10, tensorrt, conda. as_json: the whole JSON document, with every
row and its sources.""",
    ),
    "check": (
        "config file driver gpu env snapshot as_json full",
        """Check whether this machine, or what a file will build, meets [tool.envcheck].

config: the .toml file below the current folder with the table; pyproject.toml without it. file:
a Dockerfile, compose file, environment.yml, requirements file, pyproject.toml or lock file to
judge before it is built. driver, gpu: of the machines that run it, such as 570 and L4.""",
    ),
    "diff": (
        "a b requirements expect as_json full",
        """Report what differs between two machines saved by `envcheck snapshot`.

The most likely cause stands first.

a, b: .json files below the current folder, such as that of a machine that works and of one that
does not.""",
    ),
    "rule": (
        "finding",
        """Explain a finding in general: what states it, how it is decided, what to do about it.

finding: the id of one, such as numpy-abi.""",
    ),
}


def _is_name(env: str) -> bool:
    """Return whether `env` can be the name of a conda environment: no folder here has it."""
    return bool(re.fullmatch(r"[\w.-]*\w[\w.-]*", env)) and not os.path.lexists(env)


def answer(tool: str, *, as_json: bool = False, full: bool = False, **given: Any) -> dict[str, str]:
    """Ask the API, and return the verdict with the report: a text, or the command's document."""
    for name, value in given.items():
        if name in _FILES or (name == "env" and not _is_name(value)):
            _check_path(name, value, _FILES.get(name, ""))
    asked = [given.pop("requirements")] if tool == "plan" else []
    found: api.Result = getattr(api, tool)(*asked, **given)
    if as_json:
        document = {name: value for name, value in found.to_dict().items() if name != "snapshot"}
        text = _replace_surrogates(json.dumps(document, ensure_ascii=False))
        if len(text) > _DOCUMENT_LIMIT:
            raise UserError(
                f"the document has {len(text):,} characters, too many: ask for the text."
            )
        return {"verdict": found.verdict, "text": text}
    limit, narrower = _REPORT_LIMIT, "; full=true shows them"
    if full:
        limit = _FULL_LIMIT
    elif tool == "matrix":
        limit, narrower = _MATRIX_LIMIT, "; ask for one release, such as torch==2.9.0"
    text = _shorten(_replace_surrogates(str(found)), limit, narrower)
    return {"verdict": found.verdict, "text": text}
