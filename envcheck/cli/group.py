"""The group of commands; each is imported when it runs."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import cast

import click

from envcheck import __version__
from envcheck.cli.exits import UserError

# Name -> (module that holds a click command of that name, its line in --help).
COMMANDS = {
    "check": ("envcheck.cli.check", "Gate a project on its [tool.envcheck] requirements, for CI."),
    "diff": ("envcheck.cli.diff", "Compare two saved machines, most likely cause first."),
    "doctor": ("envcheck.cli.doctor", "Check whether GPU deep learning works here; if not, what to type."),
    "explain": ("envcheck.cli.explain", "Find the line of a log that matters, and what to type."),
    "fix": ("envcheck.cli.fix", "Do what the doctor proposes for the environment, verified, or undone."),
    "fleet": ("envcheck.cli.fleet", "Read every machine of an inventory and judge them here."),
    "gpus": ("envcheck.cli.gpus", "Show the GPUs, what holds their memory, and whether a job fits."),
    "install": ("envcheck.cli.install", "Run the plan, verify it, and restore the old environment if it fails."),
    "plan": ("envcheck.cli.plan", "Print the exact commands that install a framework on this machine."),
    "matrix": ("envcheck.cli.matrix", "Query, update and verify the compatibility matrix."),
    "run": ("envcheck.cli.run", "Run a command, and explain it if it fails."),
    "smoke": ("envcheck.cli.smoke", "Compute on each GPU and the CPU, and check the results."),
    "snapshot": ("envcheck.cli.snapshot", "Save the facts of this machine, to judge it elsewhere."),
}


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports one at a time."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """List the command names."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command's module and return the command."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(COMMANDS[cmd_name][0]), cmd_name)
        return cast("click.Command", command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the command list without importing the commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, with a suggestion for a misspelt one."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            raise UserError(_unknown(name))
        return super().resolve_command(ctx, args)


def _unknown(name: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, COMMANDS, n=1)
    hint = f"Did you mean `envcheck {close[0]}`?" if close else "`envcheck --help` lists the commands."
    return f"there is no command {name!r}. {hint}"


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", prog_name="envcheck")
@click.pass_context
def group(context: click.Context) -> None:
    """Check whether GPU deep learning works on this machine; if not, report what is wrong, why, and what to type."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; usage errors become UserError, a reader that left BrokenPipeError."""
    stdout = sys.stdout
    try:
        code = group.main(args=arguments, prog_name="envcheck", standalone_mode=False)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.Abort:
        raise KeyboardInterrupt from None
    except SystemExit:
        if sys.stdout is stdout:
            raise  # a shell asked for completions
        sys.stdout = stdout  # click replaced it and would exit with 1, which means "incompatible" here
        raise BrokenPipeError from None
    except click.ClickException as error:
        raise UserError(_with_usage(error)) from None
    except LookupError as error:
        from envcheck.frameworks import UnknownFrameworkError  # for an error only: the smoke test needs no data files

        if isinstance(error, UnknownFrameworkError):  # in a matrix or a snapshot that another version wrote
            raise UserError(str(error)) from None
        raise
    return code if isinstance(code, int) else 0


def _with_usage(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    where = f" Try `{context.command_path} --help`." if context is not None else ""
    message = error.format_message()
    return message + ("" if message.endswith((".", "?", "!")) else ".") + where
