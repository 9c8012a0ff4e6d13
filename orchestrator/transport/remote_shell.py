"""The command line that runs a command on a host so that it ends when we do.

sshd does not end a command when its connection is gone (without a pty), so a `docker pull` or
a `docker logs -f` would run on for ever. Every command therefore runs under a small `sh`: it
holds the channel's stdin open, and when that ends - because we close it, the connection drops
or this process is killed - it ends its process group, first by TERM, after GRACE by KILL.
What has left the process group, like a detached container, stays.

The command's own stdin is exactly `stdin_size` bytes of the channel, so that its end is not
the end of the channel. POSIX sh and `head -c` is all that the host needs.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

GRACE = 5  # seconds between TERM and KILL

# `read` is the shell's own, so that killing the watcher leaves no child behind. What kills runs
# in the background, so that nobody waits out the grace when TERM was enough.
_WATCH = (
    'while read -r x <&3; do :; done; trap "" TERM; exec 3<&-; '
    "(kill -TERM 0; sleep GRACE; kill -KILL 0) &"
)
# After a TERM from the watcher it must live on, to KILL what does not heed TERM.
_ARM = "trap k=: TERM; k=kill; "

_WITHOUT_STDIN = (
    f"exec 3<&0 </dev/null; {_ARM}"
    f"({_WATCH}) >/dev/null 2>&1 & w=$!; "
    '(exec "$@" 3<&-); s=$?; exec >/dev/null 2>&1; $k -KILL $w; exit $s'
)
# The first line through the pipe is the watcher's pid. What the command leaves unread is
# read all the same, so that the sender never blocks.
_WITH_STDIN = (
    'exec 3<&0 </dev/null 4>&2 2>/dev/null; n="$1"; shift; trap : TERM; '
    '{ sh -c "echo \\$PPID"; head -c "$n" <&3 | { cat; exec cat >/dev/null; }; '
    f"exec >/dev/null; {_WATCH} }} 4>&- | "
    f"{{ {_ARM}read -r w; "
    '(exec "$@" 3<&- 2>&4 4>&-); s=$?; exec >/dev/null; $k -KILL "$w"; exit $s; }'
)


@dataclass(frozen=True, slots=True)
class Become:
    """Running as another user by sudo.

    `prompt` is what sudo asks the password with, or None when there is no password.
    """

    user: str
    prompt: str | None


def guarded(
    argv: Sequence[str],
    stdin_size: int,
    marks: Mapping[str, str],
    become: Become | None = None,
    grace: int = GRACE,
) -> list[str]:
    """The words that run `argv` with `stdin_size` bytes of stdin, and end it with the channel.

    `marks` are the lines that precede its output on stderr and stdout. Once they stand there, sudo
    has let us through as well.
    """
    text = (_WITH_STDIN if stdin_size else _WITHOUT_STDIN).replace("GRACE", str(grace))
    text = f"echo {marks['stderr']} >&2; echo {marks['stdout']}; {text}"
    words = ["sh", "-c", text, "sh", *([str(stdin_size)] if stdin_size else []), *argv]
    if not become:
        return words
    ask = ["-n"] if become.prompt is None else ["-S", "-p", become.prompt]
    return ["sudo", *ask, "-H", "-u", become.user, "--", *words]


def command_line(words: Sequence[str]) -> str:
    """The text for the login shell, whichever it is. `exec` spares a process."""
    return "exec " + shlex.join(words)


def display_name(argv: Sequence[str]) -> str:
    """A command's short name for messages: `docker pull`, not its thirty arguments."""
    name = argv[0].rsplit("/", 1)[-1]
    second = argv[1] if len(argv) > 1 else ""
    return f"{name} {second}" if second.isalpha() else name
