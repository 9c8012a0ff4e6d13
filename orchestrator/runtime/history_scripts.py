"""Shell scripts that write and read the history of changes on a host.

Every login writes a file of its own below `/var/tmp/orc/history`, which is everybody's and
sticky, as /tmp is: nobody can make another write through a link.
"""

from __future__ import annotations

from orchestrator.runtime.container import FILES_DIRECTORY
from orchestrator.runtime.scripts import CANNOT_WRITE, Script
from orchestrator.runtime.shared_directory import INTO_SHARED

MOST_BYTES = 1 << 20  # of one file; the older half goes when it grows beyond

_APPEND = f"""{INTO_SHARED}
append() {{
  name=$1 line=$2
  umask 022
  into_shared && below 1777 history || return {CANNOT_WRITE}
  exec 9<.
  flock 9 2>/dev/null
  file=./$name.$(id -u).jsonl
  [ -e "$file" ] || (set -C; : >"$file") || return {CANNOT_WRITE}
  # What another has made here is his, and he may put a link in its place at any time.
  [ -f "$file" ] && [ ! -L "$file" ] && [ -O "$file" ] ||
    {{ echo "$file is not a file of this login" >&2; return {CANNOT_WRITE}; }}
  # By this host's clock, which is the same for all who write here.
  case $line in *\\}}) line="${{line%?}},\\"written\\":\\"$(date +%s.%N)\\"}}" ;; esac
  printf '%s\\n' "$line" >>"$file" || return {CANNOT_WRITE}
  [ "$(wc -c <"$file")" -le {MOST_BYTES} ] && return 0
  rm -f "$file.new"
  (set -C; tail -c {MOST_BYTES // 2} "$file" | sed 1d >"$file.new") && mv -f "$file.new" "$file"
}}
append "$@"
"""

_READ = f"""{INTO_SHARED}
read_all() {{
  [ -d {FILES_DIRECTORY}/history ] || return 0
  into_shared && below 1777 history || return {CANNOT_WRITE}
  date +%s.%N
  for file in ./$1.*.jsonl; do
    [ ! -f "$file" ] || [ -L "$file" ] || cat "$file"
  done
  return 0
}}
read_all "$@"
"""


def append_history_script(deployment: str, line: str) -> Script:
    """Append one line of JSON to the deployment's history, with the time by the host's clock as
    `written`. Ends with CANNOT_WRITE when it cannot."""
    return Script(_APPEND, (deployment, line))


def read_history_script(deployment: str | None = None) -> Script:
    """Print the host's clock, and the history of a deployment, or of all, of all logins. Ends with
    CANNOT_WRITE where a link is in the place of its directory."""
    return Script(_READ, (deployment or "*",))
