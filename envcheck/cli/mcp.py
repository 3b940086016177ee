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
Expectation: TypeAlias = Literal["auto", "gpu", "cpu"]
Texts: TypeAlias = str | Sequence[str]
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
    for answer in (doctor, explain, plan, matrix, check, diff, rule):
        server.add_tool(_answer_within_limits(answer), annotations=hints)
    return server


# an argument that is wrong, as pydantic says it: its name, then below it what is wrong
_WRONG = re.compile(r"^([a-z_]\w*)[^\n]*\n  (.+?) \[type=", re.MULTILINE)


def _name_arguments(error: str) -> str:
    """Return the sentence on arguments of a wrong kind; any other error as it is."""
    wrong = dict(reversed(_WRONG.findall(error)))
    if not wrong:
        return error
    return "; ".join(f"{name}: {words}" for name, words in reversed(wrong.items())) + "."


def _answer_within_limits(answer: Callable[..., dict[str, str]]) -> Callable[..., Any]:
    """Let a tool answer within limits, and refuse in one sentence."""
    import anyio
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import CallToolResult, TextContent

    limiter: list[anyio.CapacityLimiter] = []  # made in the event loop

    @functools.wraps(answer)
    async def call(**arguments: Any) -> CallToolResult:
        limiter[:] = limiter or [anyio.CapacityLimiter(_AT_ONCE)]
        try:
            _check_sizes(arguments)
            api.ASKED_BY.set(api.AGENT)  # in this call's context alone
            with anyio.fail_after(_SECONDS):
                work = functools.partial(answer, **arguments)
                found = await anyio.to_thread.run_sync(
                    work, abandon_on_cancel=True, limiter=limiter[0]
                )
            text = found.pop("text")
            return CallToolResult(content=[TextContent(text=text)], structured_content=found)
        except UserError as error:
            sentence = str(error)
        except TimeoutError:
            sentence = f"{answer.__name__} did not answer within {_SECONDS:g} s."
        except Exception as error:  # noqa: BLE001 - the last guard
            sentence = (
                f"internal error: {type(error).__name__}: {error}. This is a bug in envcheck."
            )
        raise ToolError(sentence)

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


def _answer(
    result: api.Result,
    *,
    as_json: bool = False,
    full: bool = False,
    limit: int = _REPORT_LIMIT,
    narrower: str = "; full=true shows them",
) -> dict[str, str]:
    """Return the verdict with the report, as text or as the JSON document of the command.

    A text is cut to `limit` characters; `narrower` says what to ask for in place of the rest.
    """
    if as_json:
        document = {name: value for name, value in result.to_dict().items() if name != "snapshot"}
        text = _replace_surrogates(json.dumps(document, ensure_ascii=False))
        if len(text) > _DOCUMENT_LIMIT:
            raise UserError(
                f"the document has {len(text):,} characters, too many: ask for the text."
            )
        return {"verdict": result.verdict, "text": text}
    text = _replace_surrogates(str(result))
    limit = _FULL_LIMIT if full else limit
    if len(text) > limit:
        whole, _, _ = text[:limit].rpartition("\n")
        text = f"{whole}\n({text.count(chr(10)) - whole.count(chr(10))} more lines{narrower})\n"
    return {"verdict": result.verdict, "text": text}


def _resolve_below(option: str, path: str, pattern: str = "") -> str:
    """Return a path in or below the current folder.

    Raises UserError for any other, or with another name.
    """
    if not path:
        return ""
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
    return path


_SNAPSHOT = r".+\.json"
_CONFIG = r".+\.toml"
_BUILD_FILE = r"(.*(docker|container)file.*|.+\.(ya?ml|txt|in|lock)|py(project|lock.*)\.toml)"


def _resolve_environment(env: str) -> str:
    """Return the name of an environment, or its folder below the current one."""
    if re.fullmatch(r"[\w.-]*\w[\w.-]*", env) and not os.path.lexists(env):
        return env
    return _resolve_below("env", env)


def doctor(
    *,
    env: str = "",
    expect: Expectation = "auto",
    requirements: Texts = (),
    snapshot: str = "",
    as_json: bool = False,
    full: bool = False,
) -> dict[str, str]:
    """Check whether GPU deep learning works on this machine.

    The verdict, what is wrong, why, and what to type.

    env: the name of a conda environment, or a folder below the current one; without it, the active
    environment or the project's .venv. It is read from its files, and nothing of it is run. expect:
    what must work, auto, gpu or cpu. requirements: releases to judge too, installed or not, such as
    torch>=2.4. snapshot: a saved machine, a .json file below the current folder. as_json: the JSON
    document in place of the text. full: the whole text, where it was cut.
    """
    found = api.doctor(
        env=_resolve_environment(env),
        expect=expect,
        requirements=requirements,
        snapshot=_resolve_below("snapshot", snapshot, _SNAPSHOT) or None,
    )
    return _answer(found, as_json=as_json, full=full)


def explain(
    text: str,
    *,
    expect: Expectation = "auto",
    here: bool = False,
    snapshot: str = "",
    as_json: bool = False,
    full: bool = False,
) -> dict[str, str]:
    """Find the root cause in the output of a failed run.

    The line that matters, why, and what to type.

    text: the log or the error message; its last 1,000,000 characters suffice. here: the log was
    written on this machine, whose facts are added. snapshot: the saved machine that wrote it, a
    .json file below the current folder.
    """
    machine = _resolve_below("snapshot", snapshot, _SNAPSHOT) or None
    found = api.explain(text, expect=expect, here=here, snapshot=machine)
    return _answer(found, as_json=as_json, full=full)


def plan(
    requirements: Texts,
    *,
    with_requirements: Texts = (),
    python: str = "",
    driver: str = "",
    gpu: Texts = (),
    glibc: str = "",
    platform: str = "",
    expect: Expectation = "auto",
    installer: Literal["", "pip", "uv", "conda"] = "",
    snapshot: str = "",
    as_json: bool = False,
    full: bool = False,
) -> dict[str, str]:
    """Plan the exact commands that install frameworks on this machine, or on one that is described.

    Installs nothing.

    requirements: such as tensorflow>=2.15, or packages on top of one, such as vllm.
    with_requirements: chosen together with them, such as torch==2.8.*. python: 3.11. driver:
    535.104.05. gpu: product names or compute capabilities, or none. platform: linux_x86_64.
    installer: pip, uv or conda. snapshot: a saved machine.
    """
    found = api.plan(
        requirements,
        with_requirements=with_requirements,
        python=python,
        driver=driver,
        gpu=gpu,
        glibc=glibc,
        platform=platform,
        expect=expect,
        installer=installer,
        snapshot=_resolve_below("snapshot", snapshot, _SNAPSHOT) or None,
    )
    return _answer(found, as_json=as_json, full=full)


def matrix(
    *,
    requirement: str = "",
    python: str = "",
    driver: str = "",
    gpu: str = "",
    platform: str = "",
    framework: str = "",
    as_json: bool = False,
) -> dict[str, str]:
    """Query the matrix of releases that work together.

    The newest release of each framework that works, or rows.

    Any of: python 3.11, driver 535.104, gpu "RTX 4090", platform linux_x86_64, framework torch. Or
    requirement: a release such as tensorflow==2.15.*, or a table: cuda==12.4, driver==550,
    architecture==8.9, cudnn==9.10, tensorrt, conda. as_json: the whole JSON document, with every
    row and its sources.
    """
    found = api.matrix(
        requirement, python=python, driver=driver, gpu=gpu, platform=platform, framework=framework
    )
    return _answer(
        found,
        as_json=as_json,
        limit=_MATRIX_LIMIT,
        narrower="; ask for one release, such as torch==2.9.0",
    )


def check(
    *,
    config: str = "",
    file: str = "",
    driver: str = "",
    gpu: Texts = (),
    env: str = "",
    snapshot: str = "",
    as_json: bool = False,
    full: bool = False,
) -> dict[str, str]:
    """Check whether this machine, or what a file will build, meets [tool.envcheck].

    config: the .toml file below the current folder with the table; pyproject.toml without it. file:
    a Dockerfile, compose file, environment.yml, requirements file, pyproject.toml or lock file to
    judge before it is built. driver, gpu: of the machines that run it, such as 570 and L4.
    """
    found = api.check(
        _resolve_below("config", config, _CONFIG),
        file=_resolve_below("file", file, _BUILD_FILE),
        driver=driver,
        gpu=gpu,
        env=_resolve_environment(env),
        snapshot=_resolve_below("snapshot", snapshot, _SNAPSHOT) or None,
    )
    return _answer(found, as_json=as_json, full=full)


def diff(
    a: str,
    b: str,
    *,
    requirements: Texts = (),
    expect: Expectation = "auto",
    as_json: bool = False,
    full: bool = False,
) -> dict[str, str]:
    """Report what differs between two machines saved by `envcheck snapshot`.

    The most likely cause stands first.

    a, b: .json files below the current folder, such as that of a machine that works and of one that
    does not.
    """
    found = api.diff(
        _resolve_below("a", a, _SNAPSHOT),
        _resolve_below("b", b, _SNAPSHOT),
        requirements=requirements,
        expect=expect,
    )
    return _answer(found, as_json=as_json, full=full)


def rule(finding: str) -> dict[str, str]:
    """Explain a finding in general: messages that state it, how it is decided, what to do about it.

    finding: the id of one, such as numpy-abi.
    """
    return _answer(api.rule(finding))
