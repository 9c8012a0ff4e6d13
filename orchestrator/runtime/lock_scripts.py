"""Shell scripts that take, keep, release and show a lock: a directory made with `mkdir`.

`/var/tmp/orc/locks/NAME/owner` says whose it is: its id, and a line of JSON. The time of that
file is the holder's last sign of life. Every login may break what another login has taken, so
nothing is written through a name that others can foresee.

What a script does to a lock is not broken off by a connection that ends (`trap`), and two
scripts do not work at the same time where the host has `flock`, as all but the smallest have.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from orchestrator.runtime.scripts import CANNOT_WRITE, Script
from orchestrator.runtime.shared_directory import INTO_SHARED

HELD = 77  # by somebody else, who is shown
LOST = 78  # it is not, or no longer, the caller's

Kind = Literal["locks", "watches"]  # one change at a time; one `orc watch` at a time

_SCRIPT = f"""{INTO_SHARED}
lock() {{
  trap '' HUP INT TERM
  umask 022
  kind=$1 verb=$2 name=$3 id=$4
  shift 4
  into_shared && below 777 "$kind" || return {CANNOT_WRITE}
  exec 9<.
  flock 9 2>/dev/null
  dir=./$name
  $verb "$@"
}}
owned() {{
  [ ! -L "$1" ] && [ -f "$1/owner" ] && [ ! -L "$1/owner" ]
}}
holder() {{
  held=
  ! owned "$1" || read -r held <"$1/owner"
}}
show() {{
  [ ! -L "$1" ] || return 0
  since=$(stat -c %Y "$1/owner" 2>/dev/null || stat -c %Y "$1")
  printf '@lock %s %s\\n' "${{1##*/}}" $(($(date +%s) - since))
  ! owned "$1" || sed -n 2p "$1/owner"
}}
take() {{
  owner=$1 replaceable=$2
  no_link "$dir" || return {CANNOT_WRITE}
  if ! said=$(mkdir -m 777 "$dir" 2>&1); then
    [ -d "$dir" ] || {{ echo "$said" >&2; return {CANNOT_WRITE}; }}
    holder "$dir"
    # Without an owner it is what a host left behind that went down meanwhile.
    case ",$id,$replaceable,any," in
      *,"${{held:-any}}",*) ;;
      *) show "$dir"; return {HELD} ;;
    esac
  fi
  (
    set -C
    new=./owner.$id
    below 777 "$name" && printf '%s\\n%s\\n' "$id" "$owner" >"$new" &&
      [ ! -d ./owner ] && mv -f "$new" ./owner
  ) || {{ rm -rf "$dir"; return {CANNOT_WRITE}; }}
  for other in ./*/; do
    [ "$other" = "$dir/" ] || show "${{other%/}}"
  done
}}
beat() {{
  holder "$dir"
  [ "$held" = "$id" ] && touch -c "$dir/owner" && return 0
  [ ! -d "$dir" ] || show "$dir"
  return {LOST}
}}
release() {{
  holder "$dir"
  [ -d "$dir" ] && {{ [ "$held" = "$id" ] || [ "$id" = any ]; }} || return {LOST}
  show "$dir"
  mv "$dir" "./.$id.$$" && rm -rf "./.$id.$$"
}}
list() {{
  for one in ./*/; do
    [ ! -d "$one" ] || show "${{one%/}}"
  done
}}
lock "$@"
"""


def take_lock_script(
    kind: Kind, name: str, lock_id: str, owner: str, replaceable: Iterable[str] = ()
) -> Script:
    """Take the lock `name`, or rewrite what stands in it when it is the caller's already.

    `owner` is one line of text; `replaceable` are the ids of locks that it may replace. Prints
    the other locks of the host. Ends with HELD, after printing the holder, or CANNOT_WRITE.
    """
    ids = ",".join(replaceable)
    return Script(_SCRIPT, (kind, "take", name, lock_id, owner, ids))


def beat_lock_script(kind: Kind, name: str, lock_id: str) -> Script:
    """Say that the holder lives. Ends with LOST, after printing who holds it instead."""
    return Script(_SCRIPT, (kind, "beat", name, lock_id))


def release_lock_script(kind: Kind, name: str, lock_id: str = "any") -> Script:
    """Remove the lock and print what it was. Ends with LOST when it is not the caller's; `any`
    removes everybody's."""
    return Script(_SCRIPT, (kind, "release", name, lock_id))


def list_locks_script(kind: Kind) -> Script:
    """Print all locks of the host."""
    return Script(_SCRIPT, (kind, "list", "none", "none"))


def parse_locks(stdout: str) -> dict[str, tuple[float, str]]:
    """What these scripts print of locks: by name, the age of the last sign of life in seconds,
    and the owner's line (empty where there is none)."""
    locks: dict[str, tuple[float, str]] = {}
    name = ""
    for line in stdout.splitlines():
        if line.startswith("@lock "):
            _, name, age = line.split(" ", 2)
            locks[name] = (float(age), "")
        elif name:
            locks[name] = (locks[name][0], line)
    return locks
