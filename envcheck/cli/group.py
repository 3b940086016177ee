"""The group of commands; each is imported when it runs."""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

import click

from envcheck import __version__
from envcheck.model import UserError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Task -> name -> (module beside this one that holds a click command of that name, its line in
# --help).
TASKS = {
    "Find out what is wrong": {
        "doctor": ("doctor", "Check this machine: what is wrong, why, what to type."),
        "explain": ("explain", "Find the line of a log that matters, and what to type."),
        "run": ("run", "Run a command, and explain it if it fails."),
        "smoke": ("smoke", "Compute on each GPU and the CPU, and check the results."),
        "gpus": ("gpus", "Show GPUs, who holds their memory, whether a job fits."),
    },
    "Plan and install": {
        "plan": ("plan", "Print the commands that install a framework here."),
        "onboard": ("onboard", "Bring a machine to a passed smoke test, step by step."),
        "install": ("install", "Run the plan and verify it, or restore what was there."),
        "fix": ("fix", "Do what the doctor proposes, verified or undone."),
    },
    "Many machines, CI": {
        "check": ("check", "Gate a project on its [tool.envcheck] requirements."),
        "fleet": ("fleet", "Read every machine of an inventory and judge them."),
        "snapshot": ("snapshot", "Save this machine in a file, to judge it elsewhere."),
        "diff": ("diff", "Compare two saved machines, most likely cause first."),
    },
    "Matrix, shell, agents": {
        "rule": ("rule", "Explain a finding: its messages, the fix, how to ignore it."),
        "matrix": ("matrix", "Query, refresh and verify which releases work together."),
        "mcp": ("mcp", "Answer coding agents over MCP; changes nothing."),
        "completion": ("group", "Print the script that completes commands in your shell."),
        "help": ("group", "Show the help of a command."),
        "version": ("group", "Show the version."),
    },
}
_FUNCTIONS = {"help": "help_"}  # a name of Python's own
COMMANDS = {name: command for commands in TASKS.values() for name, command in commands.items()}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one at a time."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """List the command names."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command's module and return the command."""
        if cmd_name not in COMMANDS:
            return None
        command = cast(
            "click.Command",
            getattr(
                import_module(f"envcheck.cli.{COMMANDS[cmd_name][0]}"),
                _FUNCTIONS.get(cmd_name, cmd_name),
            ),
        )
        if ctx.resilient_parsing:  # a shell asks for completions
            _complete_files(command)
        else:
            _refuse_empty(command)
        return command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by task, without importing them, then the options."""
        for task, commands in TASKS.items():
            with formatter.section(task):
                formatter.write_dl([(f"{name:<10}", line) for name, (_, line) in commands.items()])
        click.Command.format_options(self, ctx, formatter)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands, without importing them, and the options."""
        from click.shell_completion import CompletionItem  # only a shell asks: 2 ms

        names = [
            CompletionItem(name, help=line)
            for name, (_, line) in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, with a suggestion for a misspelt one."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            raise UserError(_describe_unknown(name))
        return super().resolve_command(ctx, args)


class _Stated(click.types.StringParamType):
    """A text that is not empty: `--env "$UNSET"` must not mean what no --env means."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Refuse an empty text on the command line."""
        name = param.name if param is not None else None
        if value == "" and ctx and name and ctx.get_parameter_source(name) is _TYPED:
            self.fail("it is empty: is a variable of your shell not set?", param, ctx)
        return super().convert(value, param, ctx)


_TYPED = click.core.ParameterSource.COMMANDLINE


def _refuse_empty(command: click.Command) -> None:
    """Refuse an empty text for every option and argument."""
    for each in getattr(command, "commands", {}).values():
        _refuse_empty(each)
    for parameter in command.params:
        if parameter.type is click.STRING:
            parameter.type = _Stated()


def _complete_files(command: click.Command) -> None:
    """Let a shell complete the names of files where an option or an argument takes one."""
    for each in getattr(command, "commands", {}).values():
        _complete_files(each)
    for parameter in command.params:
        if parameter.type is click.STRING and re.search(
            "FILE|PATH|DIR|^[AB]$", parameter.metavar or ""
        ):
            parameter.type = click.Path()


def _describe_unknown(name: str) -> str:
    from difflib import get_close_matches

    from envcheck.cli.matrix import matrix

    names = {word: f"matrix {word}" for word in matrix.commands} | {word: word for word in COMMANDS}
    close = get_close_matches(name, names, n=1)
    hint = "`envcheck --help` lists the commands."
    if close:
        hint = f"Did you mean `envcheck {names[close[0]]}`?"
    return f"there is no command {name!r}. {hint}"


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
    epilog="Start with: envcheck doctor. Every command has --help with an example.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", prog_name="envcheck")
@click.pass_context
def group(context: click.Context) -> None:
    """Check whether GPU deep learning works on this machine.

    If not, report what is wrong, why, and what to type.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@click.command(name="help", epilog="Example: envcheck help plan")
@click.argument("names", metavar="[COMMAND]...", nargs=-1)
@click.pass_context
def help_(context: click.Context, names: tuple[str, ...]) -> None:
    """Show the help of COMMAND, as `envcheck COMMAND --help` does."""
    parent = context.parent
    assert parent is not None  # noqa: S101 - it is called by the group
    command: click.Command = group
    for name in names:
        found = command.get_command(parent, name) if isinstance(command, click.Group) else None
        if found is None:
            raise UserError(_describe_unknown(" ".join(names)))
        command, parent = found, click.Context(found, parent, info_name=name)
    click.echo(command.get_help(parent))


@click.command(epilog="Example: envcheck version")
def version() -> None:
    """Show the version, as `envcheck --version` does."""
    click.echo(f"envcheck, version {__version__}")


_SHELLS = ("bash", "zsh", "fish", "powershell")


@click.command(
    epilog="Example: envcheck completion fish > ~/.config/fish/completions/envcheck.fish",
    help="""Print the script that lets SHELL complete commands and options with the Tab key.

\b
To turn it on for every new shell, type once:
  bash        echo 'eval "$(envcheck completion bash)"' >> ~/.bashrc
  zsh         echo 'eval "$(envcheck completion zsh)"' >> ~/.zshrc
  fish        envcheck completion fish > ~/.config/fish/completions/envcheck.fish
  PowerShell  Add-Content $PROFILE 'envcheck completion powershell | Out-String | iex'

zsh needs `autoload -Uz compinit && compinit` before that line. PowerShell needs the folder of its
profile: `mkdir -Force (Split-Path $PROFILE)`.
""",
)
@click.argument("shell", type=click.Choice(_SHELLS, case_sensitive=False))
def completion(shell: str) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import get_completion_class  # with what it imports 2 ms

    _add_powershell()
    made = get_completion_class(shell)
    if made is not None:
        script = made(group, {}, "envcheck", _COMPLETE).source()
        # fish: a description may have commas
        click.echo(script.replace('string split ","', 'string split -m 1 ","'))


_COMPLETE = "_ENVCHECK_COMPLETE"
_POWERSHELL = """\
Register-ArgumentCompleter -Native -CommandName %(prog_name)s -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $line = $commandAst.ToString()
    $end = [Math]::Min($line.Length, $cursorPosition - $commandAst.Extent.StartOffset)
    $env:COMP_WORDS = $line.Substring(0, $end).Replace('\\', '/')
    $env:COMP_CWORD = $wordToComplete.Replace('\\', '/')
    $env:%(complete_var)s = 'powershell_complete'
    try {
        & %(prog_name)s | ForEach-Object {
            $kind, $rest = $_ -split ',', 2
            $value, $about = $rest -split "`t", 2
            if ($kind -eq 'plain') {
                if (-not $about) { $about = $value }
                [System.Management.Automation.CompletionResult]::new(
                    $value, $value, 'ParameterValue', $about)
            }
        }
    } finally {
        Remove-Item -ErrorAction SilentlyContinue `
            Env:COMP_WORDS, Env:COMP_CWORD, Env:%(complete_var)s
    }
}
"""


def _add_powershell() -> None:
    """Add PowerShell to the shells that click writes a script for; it asks as fish does."""
    from click.shell_completion import FishComplete, add_completion_class

    class PowerShellComplete(FishComplete):
        name, source_template = "powershell", _POWERSHELL

    os.environ.setdefault("COMP_CWORD", "")  # PowerShell has no empty variables
    add_completion_class(PowerShellComplete)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code.

    Usage errors become UserError, a reader that left BrokenPipeError.
    """
    stdout = sys.stdout
    if _COMPLETE in os.environ:
        _add_powershell()
    try:
        code = group.main(args=arguments, prog_name="envcheck", standalone_mode=False)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except SystemExit:
        if sys.stdout is stdout:
            raise  # a shell asked for completions
        # click replaced it and would exit with 1, which means "incompatible" here
        sys.stdout = stdout
        raise BrokenPipeError from None
    except click.ClickException as error:
        raise UserError(_with_usage(error)) from None
    return code if isinstance(code, int) else 0


def _with_usage(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    where = ""
    if context is not None:
        where = f" Try `{context.command_path} --help`."
    message = error.format_message()
    return message + ("" if message.endswith((".", "?", "!", ")")) else ".") + where
