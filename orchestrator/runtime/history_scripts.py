"""Shell scripts that write and read the history of changes on a host.

Every login writes a file of its own below `/var/tmp/orc/history`, which is everybody's and
sticky, as /tmp is: nobody can make another write through a link.
"""

from __future__ import annotations

from orchestrator.runtime.container import FILES_DIRECTORY
from orchestrator.runtime.scripts import CANNOT_WRITE, Script

MOST_BYTES = 1 << 20  # of one file; the older half goes when it grows beyond

_APPEND = f"""
append() {{
  name=$1 line=$2
  umask 022
  for all in {FILES_DIRECTORY} {FILES_DIRECTORY}/history; do
    [ -d $all ] || mkdir -m 1777 $all 2>/dev/null || [ -d $all ] || return {CANNOT_WRITE}
  done
  exec 9<$all
  flock 9 2>/dev/null
  file=$all/$name.$(id -u).jsonl
  [ -e "$file" ] || (set -C; : >"$file") || return {CANNOT_WRITE}
  [ -f "$file" ] && [ ! -L "$file" ] || {{ echo "$file is not a file" >&2; return {CANNOT_WRITE}; }}
  printf '%s\\n' "$line" >>"$file" || return {CANNOT_WRITE}
  [ "$(wc -c <"$file")" -le {MOST_BYTES} ] && return 0
  rm -f "$file.new"
  (set -C; tail -c {MOST_BYTES // 2} "$file" | sed 1d >"$file.new") && mv -f "$file.new" "$file"
}}
append "$@"
"""

_READ = f"""
read_all() {{
  for file in {FILES_DIRECTORY}/history/$1.*.jsonl; do
    [ ! -f "$file" ] || cat "$file"
  done
}}
read_all "$@"
"""


def append_history_script(deployment: str, line: str) -> Script:
    """Append one line to the deployment's history. Ends with CANNOT_WRITE when it cannot."""
    return Script(_APPEND, (deployment, line))


def read_history_script(deployment: str | None = None) -> Script:
    """Print the history of a deployment, or of all, of all logins."""
    return Script(_READ, (deployment or "*",))
