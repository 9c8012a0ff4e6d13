"""Shell scripts with which a roll puts a container aside, and goes back to it.

As those of `scripts.py`: the body is a function, what varies comes as arguments, and nothing is
touched that does not carry the deployment's label. Every step can be done again, so that a roll
that was killed in between is gone on with by the same call.
"""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.runtime.container import AFTER, BEFORE
from orchestrator.runtime.scripts import NOT_OURS, Script

NOTHING_ASIDE = 77

# `owned NAME`: 0 ours, 1 there is none, 76 somebody else's.
_OWNED = f"""
owned() {{
  owner=$(docker container inspect --format '{{{{index .Config.Labels "orc.deployment"}}}}' \\
    "$1" </dev/null 2>/dev/null) || return 1
  [ "$owner" = "$deployment" ] && return 0
  echo "container $1 is not one of deployment $deployment" >&2
  return {NOT_OURS}
}}
# `end NAME`: stop it, and say why where that does not work.
end() {{ docker stop -t "$seconds" "$1" </dev/null >/dev/null; }}
# `move NAME SUFFIX`: give it the suffix, in place of what had that name.
move() {{
  owned "$1$2"
  case $? in
    0) docker rm --force "$1$2" </dev/null >/dev/null || return 1 ;;
    {NOT_OURS}) return {NOT_OURS} ;;
  esac
  docker rename "$1" "$1$2" </dev/null
}}
"""

_SET_ASIDE = (
    _OWNED
    + f"""
set_aside() {{
  deployment=$1 seconds=$2
  shift 2
  for name in "$@"; do
    # What an earlier roll went back from is of no use any more.
    if owned "$name{AFTER}"; then docker rm --force "$name{AFTER}" </dev/null >/dev/null; fi
    owned "$name"
    case $? in 1) continue ;; {NOT_OURS}) return {NOT_OURS} ;; esac
    end "$name" && move "$name" {BEFORE} || return
  done
}}
set_aside "$@"
"""
)

_PUT_BACK = (
    _OWNED
    + f"""
put_back() {{
  deployment=$1 seconds=$2
  shift 2
  for name in "$@"; do
    owned "$name{BEFORE}"
    case $? in
      # Gone back already, or never put aside, since a call was interrupted. Ranks that were
      # not stopped have lost the others, and all of them start together.
      1|{NOT_OURS}) if owned "$name"; then end "$name" || return; continue; fi
         echo "$name: there is no spec before to go back to" >&2; return {NOTHING_ASIDE} ;;
    esac
    owned "$name"
    case $? in
      0) end "$name" && move "$name" {AFTER} || return ;;
      {NOT_OURS}) return {NOT_OURS} ;;
    esac
    docker rename "$name{BEFORE}" "$name" </dev/null || return
  done
}}
put_back "$@"
"""
)


def set_aside_script(names: Sequence[str], deployment: str, *, seconds: int) -> Script:
    """Stop the containers and put them aside, in place of what a roll before put there.

    One that is not there is passed over. Ends with NOT_OURS when a name is somebody else's.
    """
    return Script(_SET_ASIDE, (deployment, str(seconds), *names))


def put_back_script(names: Sequence[str], deployment: str, *, seconds: int) -> Script:
    """Stop what has these names and put it aside; what was there before gets its name back, where
    it has not got it already.

    It is not started: all ranks of a group start together. Ends with NOTHING_ASIDE when there is
    nothing to go back to, with NOT_OURS when a name is somebody else's.
    """
    return Script(_PUT_BACK, (deployment, str(seconds), *names))


def start_again_script(names: Sequence[str], deployment: str) -> Script:
    """Start containers that exist, as they are."""
    return Script(
        _OWNED
        + """
start_again() {
  deployment=$1
  shift
  for name in "$@"; do
    owned "$name" || { echo "there is no container $name of $deployment" >&2; return 1; }
  done
  docker start "$@" </dev/null >/dev/null
}
start_again "$@"
""",
        (deployment, *names),
    )
