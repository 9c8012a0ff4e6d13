"""The command line `orc`: parses, calls, and turns every error into one message and a status."""

from __future__ import annotations

import io
import os
import sys
import traceback
from typing import Annotated

import typer

from orchestrator import __version__
from orchestrator.cli import lock, recipes
from orchestrator.cli.bench import bench
from orchestrator.cli.check import check
from orchestrator.cli.diff import diff
from orchestrator.cli.down import down
from orchestrator.cli.exec_command import exec_
from orchestrator.cli.history import history
from orchestrator.cli.inventory import inventory
from orchestrator.cli.logs import logs
from orchestrator.cli.plan import plan
from orchestrator.cli.play import play
from orchestrator.cli.probe import probe
from orchestrator.cli.restart import restart
from orchestrator.cli.roll import roll
from orchestrator.cli.schema import schema
from orchestrator.cli.status import status
from orchestrator.cli.up import up
from orchestrator.cli.usage import usage_text
from orchestrator.cli.watch import watch
from orchestrator.errors import ExitStatus, OrcError
from orchestrator.events.undisturbed import silence

app = typer.Typer(
    name="orc",
    help="Deploy vLLM on many nodes over SSH: plan, launch, watch, stop.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"orc {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """What stands before the command."""


app.command()(inventory)
app.command()(plan)
app.command()(check)
app.command()(diff)
app.command()(up)
app.command()(status)
app.command()(logs)
app.command()(probe)
app.command("exec")(exec_)
app.command()(bench)
app.command()(roll)
app.command()(restart)
app.command()(play)
app.command()(down)
app.command()(watch)
app.command()(history)
app.command()(schema)
lock.register(app)
recipes.register(app)


def main() -> None:
    """Run `orc` with the process's arguments and exit with its status."""
    _take_ansible_inventory()
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller (`orc plan >&-`)
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr = _Talk(sys.stderr.buffer, sys.stderr.encoding, line_buffering=True)
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
        silence(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            text = f"error: standard output could not be written: {_of_system(error)}"
            status = max(status, _fail(text, ExitStatus.INVALID, []))
    sys.exit(status)


class _Talk(io.TextIOWrapper):
    """Standard error: when nobody reads it any more (`2>&1 | head`), the work goes on."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError:
            silence(self)
            return len(text)


def run(arguments: list[str]) -> int:
    """Run `orc` with `arguments`; returns the exit status. No traceback without -vv."""
    try:
        result = int(app(args=arguments, prog_name="orc", standalone_mode=False) or 0)
        if result == ExitStatus.INTERRUPTED:  # typer makes it of a KeyboardInterrupt
            raise KeyboardInterrupt
        return result
    except OrcError as error:
        return _fail(f"error: {error}", error.exit_status, arguments)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", ExitStatus.INTERRUPTED, arguments)
    except typer.TyperException as error:
        return _fail(usage_text(error), ExitStatus.USAGE, arguments)
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
    if "-vv" in arguments or sum(word in ("-v", "--verbose") for word in arguments) > 1:
        traceback.print_exc()
    return int(status)


def _take_ansible_inventory() -> None:
    """ANSIBLE_INVENTORY counts where ORC_INVENTORY is not set; Ansible parts it by commas."""
    named = [path for path in os.environ.get("ANSIBLE_INVENTORY", "").split(",") if path]
    if named:
        os.environ.setdefault("ORC_INVENTORY", os.pathsep.join(named))
