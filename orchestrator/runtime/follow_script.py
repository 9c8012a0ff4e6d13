"""A shell script that follows the logs of several containers of a host in one command.

sshd allows few sessions on a connection (MaxSessions, 10 unless set, at times 1), and each command
takes one: so there is one for all containers of a host, however many there are, which also looks
whether any has come, gone or changed. It ends by itself then, and the next one is begun.

Several processes write into one pipe. Only what is shorter than PIPE_BUF (512 bytes by POSIX, 4096
on Linux) is written in one piece, so longer lines are cut, and come as base64.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from orchestrator.runtime.containers import ContainerState
from orchestrator.runtime.scripts import Script

_LONGEST = 900  # characters, of up to four bytes

_FOLLOW = f"""
follow() {{
  seconds=$1 seen=$2
  shift 2
  return_character=$(printf '\\r') number=0 followers=
  while [ $# -gt 0 ]; do
    sh -c 'echo "$$"; exec "$@" 2>&1' sh docker logs --timestamps --follow \\
      ${{2:+--tail "$2"}} ${{3:+--since "$3"}} "$1" </dev/null | number "$number" &
    followers="$followers $!"
    number=$((number + 1))
    shift 3
  done
  while sleep "$seconds" && [ "$(look)" = "$seen" ] && all_follow; do :; done
  # Whoever has ended by himself has said all; the others say the rest to the next one.
  for pid in $followers; do kill "$pid" 2>/dev/null; done
  wait
}}
look() {{
  ids=$(docker ps --all --no-trunc --quiet --filter label=orc.deployment </dev/null) || return
  [ -z "$ids" ] ||
    docker container inspect --format '{{{{.Id}}}} {{{{.State.Status}}}}' $ids </dev/null | sort
}}
all_follow() {{
  for pid in $followers; do kill -0 "$pid" 2>/dev/null || return 1; done
}}
number() {{
  source=
  trap '[ -z "$source" ] || kill "$source" 2>/dev/null; exit 0' TERM
  read -r source
  while IFS= read -r line || [ -n "$line" ]; do
    line=${{line%"$return_character"}}
    case $line in *"$return_character"*) whole=no ;; *) whole=yes ;; esac
    [ "${{#line}}" -le {_LONGEST} ] || whole=no
    if [ $whole = yes ]; then printf '%s %s\\n' "$1" "$line"; else long "$1"; fi
    line=
  done
}}
long() {{
  printf '%s' "$line" | base64 | while read -r part; do printf '%s+%s\\n' "$1" "$part"; done
  printf '%s.\\n' "$1"
}}
follow "$@"
"""

_NUMBERED = re.compile(r"(\d+)([ +.])(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FollowedLog:
    """From where a container's log is followed, as `docker logs` understands it."""

    container: str
    tail: int | None = None
    since: str | None = None


def follow_script(
    logs: Sequence[FollowedLog], seen: Iterable[ContainerState], *, seconds: float
) -> Script:
    """Follow `logs` until our containers on the host are not those that were `seen`, or one of
    the logs has ended; looks every so many seconds. `NumberedLines` reads what it prints."""
    states = sorted(f"{s.id} {s.status}" for s in seen if "orc.deployment" in s.labels)
    words = [
        word
        for log in logs
        for word in (log.container, "" if log.tail is None else str(log.tail), log.since or "")
    ]
    return Script(_FOLLOW, (f"{seconds:g}", "\n".join(states), *words))


class NumberedLines:
    """Lines of several logs as `follow_script` prints them: which log, and its line."""

    def __init__(self) -> None:
        self._parts: dict[int, list[str]] = {}

    def feed(self, text: str) -> list[tuple[int, str]]:
        """The lines that `text` completes. What was written by nobody of ours is no line."""
        match = _NUMBERED.fullmatch(text)
        if match is None:
            return []
        number, kind, rest = int(match[1]), match[2], match[3]
        if kind == " ":
            return [(number, rest)]
        if kind == "+":
            self._parts.setdefault(number, []).append(rest)
            return []
        whole = base64.b64decode("".join(self._parts.pop(number, [])))
        lines = whole.decode(errors="replace").split("\r")  # progress bars
        return [(number, line) for line in lines]
