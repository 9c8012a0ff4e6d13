"""Runs the command of `lookup('pipe', ...)`: for so long, with so much output, and not unseen."""

from __future__ import annotations

import os
import selectors
import subprocess
import sys
import time
from pathlib import Path

from orchestrator.errors import InputError

TIMEOUT = 60.0  # seconds: time enough to unlock a password store by hand
QUIET = 2.0  # seconds, after which it is said what is waited for
MOST_BYTES = 1024 * 1024


def run_bounded(command: str, directory: Path, program: str) -> tuple[int, bytes, bytes]:
    """The exit status, output and error output of `command`; messages name `program` alone.

    It keeps the terminal, at which a password store may ask. Raises InputError for a command that
    takes longer than TIMEOUT or says more than MOST_BYTES.
    """
    with subprocess.Popen(
        ["sh", "-c", command], cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            end = time.monotonic() + TIMEOUT
            out, errors = _read(process, program, end)
            return process.wait(max(end - time.monotonic(), 0.1)), out, errors
        except subprocess.TimeoutExpired:  # it closed its output and went on
            process.kill()
            raise _late(program) from None
        except BaseException:
            process.kill()
            raise


def _late(program: str) -> InputError:
    return InputError(
        f"lookup('pipe'): {program} took more than {TIMEOUT:.0f} s",
        hint="let it write a file beforehand, and take lookup('file', ...)",
    )


def _read(process: subprocess.Popen[bytes], program: str, end: float) -> tuple[bytes, bytes]:
    assert process.stdout is not None
    assert process.stderr is not None
    out, errors = bytearray(), bytearray()
    quiet_until: float | None = min(time.monotonic() + QUIET, end)
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, out)
        selector.register(process.stderr, selectors.EVENT_READ, errors)
        while selector.get_map():
            now = time.monotonic()
            if now >= end:
                raise _late(program)
            if quiet_until is not None and now >= quiet_until:
                quiet_until = None
                sys.stderr.write(f"waiting for {program}, of a lookup('pipe')\n")
                sys.stderr.flush()
            for key, _ in selector.select((quiet_until or end) - now):
                data = os.read(key.fd, 65536)
                if not data:
                    selector.unregister(key.fileobj)
                key.data.extend(data)
            del errors[:-MOST_BYTES]  # its end says why it failed
            if len(out) > MOST_BYTES:
                raise InputError(f"lookup('pipe'): {program} says more than {MOST_BYTES >> 20} MiB")
    return bytes(out), bytes(errors)
