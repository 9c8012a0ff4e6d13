"""The command line `orc`: parses, calls, and turns every error into one message and a status."""

from __future__ import annotations

import io
import os
import sys
import traceback

import typer

from orchestrator.cli import recipes
from orchestrator.cli.check import check
from orchestrator.cli.down import down
from orchestrator.cli.inventory import inventory
from orchestrator.cli.logs import logs
from orchestrator.cli.plan import plan
from orchestrator.cli.probe import probe
from orchestrator.cli.status import status
from orchestrator.cli.up import up
from orchestrator.errors import ExitStatus, OrcError

app = typer.Typer(
    name="orc",
    help="Deploy vLLM on many nodes over SSH: plan, launch, watch, restart.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.callback()(lambda: None)  # so that even a single command is called by its name
app.command()(inventory)
app.command()(plan)
app.command()(check)
app.command()(up)
app.command()(status)
app.command()(logs)
app.command()(probe)
app.command()(down)
recipes.register(app)


def main() -> None:
    """Run `orc` with the process's arguments and exit with its status."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller (`orc plan >&-`)
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        # What the terminal's encoding does not have is shown escaped, not as an error.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    status = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError as error:
        # Nobody reads on (`orc plan | head`), or there is no room; and the interpreter must not
        # try again when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):
            status = _fail(f"error: {_of_system(error)}", ExitStatus.INVALID, [])
    sys.exit(status)


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
    except OSError as error:
        return _fail(f"error: {_of_system(error)}", ExitStatus.INVALID, arguments)
    except Exception as error:
        text = f"internal error: {type(error).__name__}: {error} (run with -vv for the traceback)"
        return _fail(text, ExitStatus.INVALID, arguments)


def _of_system(error: OSError) -> str:
    """What the operating system refused: a name too long, a disk that is full."""
    names = [str(name)[:200] for name in (error.filename, error.filename2) if name]
    return ": ".join([*names, error.strerror or str(error)])


def _fail(message: str, status: ExitStatus, arguments: list[str]) -> int:
    sys.stderr.write(message + "\n")
    if "-vv" in arguments:
        traceback.print_exc()
    return int(status)
