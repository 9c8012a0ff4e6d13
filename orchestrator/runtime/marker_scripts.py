"""A file inside containers that says something to what runs there."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.runtime.scripts import Script

_MARK = """
mark() {
  deployment=$1 present=$2 path=$3
  shift 3
  for name in "$@"; do
    owner=$(docker container inspect --format '{{index .Config.Labels "orc.deployment"}}' \\
      "$name" </dev/null) || return 1
    [ "$owner" = "$deployment" ] || { echo "$name is not one of $deployment" >&2; return 76; }
    if [ "$present" = yes ]; then docker exec "$name" touch "$path" </dev/null
    else docker exec "$name" rm -f "$path" </dev/null; fi || return 1
  done
}
mark "$@"
"""


def mark_script(names: Sequence[str], deployment: str, path: str, *, present: bool) -> Script:
    """Make the file `path` in running containers, or remove it."""
    return Script(_MARK, (deployment, "yes" if present else "no", path, *names))
