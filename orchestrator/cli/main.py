"""The command line `orc`: parses, calls, and turns every error into one message and a status."""

from __future__ import annotations

import sys
import traceback

import typer

from orchestrator.cli import recipes
from orchestrator.errors import ExitStatus, OrcError

app = typer.Typer(
    name="orc",
    help="Deploy vLLM on many nodes over SSH: plan, launch, watch, restart.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
recipes.register(app)


def main() -> None:
    """Run `orc` with the process's arguments and exit with its status."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run `orc` with `arguments`; returns the exit status. No traceback without -vv."""
    try:
        result = app(args=arguments, prog_name="orc", standalone_mode=False)
        return int(result or 0)
    except OrcError as error:
        return _fail(f"error: {error}", error.exit_status, arguments)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", ExitStatus.INTERRUPTED, arguments)
    except typer.TyperException as error:
        return _fail(error.format_message(), ExitStatus.USAGE, arguments)
    except BrokenPipeError:
        return ExitStatus.OK
    except Exception as error:
        text = f"internal error: {type(error).__name__}: {error} (run with -vv for the traceback)"
        return _fail(text, ExitStatus.INVALID, arguments)


def _fail(message: str, status: ExitStatus, arguments: list[str]) -> int:
    sys.stderr.write(message + "\n")
    if "-vv" in arguments:
        traceback.print_exc()
    return int(status)
