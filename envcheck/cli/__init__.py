"""The command line: `envcheck COMMAND`; a command's module is imported only when it runs."""

from __future__ import annotations

# Nothing is imported here: until main() has begun, Python itself answers an interruption.


def main() -> None:
    """Run the command line and exit with a code from the README's table."""
    try:
        from envcheck.host import interruption

        interruption.install_handler()
        from envcheck.cli import exits

        code = exits.guarded(_run_command)
    except KeyboardInterrupt:
        from envcheck.host import interruption  # the interruption may have come before the first

        interruption.ignore_interrupts()
        from envcheck.cli import exits

        code = exits.end_interrupted()
    exits.leave(code)


def _run_command(arguments: list[str]) -> int:
    # here, so that a failing import is reported as a sentence, too
    from envcheck.cli.group import run

    return run(arguments)
