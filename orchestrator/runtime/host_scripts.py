"""Shell scripts for tasks on hosts: a command in its place, and files.

As in `scripts.py`: POSIX sh that is sent over stdin, its body a function that the last line
calls; what varies comes as arguments. Only environment values and the content of files are part
of a text, so that they show in no process list; files go as base64, so that every byte arrives.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Mapping, Sequence

from orchestrator.errors import InputError
from orchestrator.runtime.scripts import CANNOT_WRITE, Script
from orchestrator.secret import Secret

_COMMAND = """
run() {{
  chdir=$1
  shift
  [ -z "$chdir" ] || cd -- "$chdir" || return {cannot}
{exports}  exec "$@" {stdin}
}}
run "$@"
"""

_EXISTS = """
exists() {
  [ -z "$1" ] || cd -- "$1" 2>/dev/null || return 1
  [ -e "$2" ]
}
exists "$@"
"""

_LOOK = """
look() {
  path=$1 content=$2
  if [ -d "$path" ]; then echo directory
  elif [ -e "$path" ]; then
    sum=$(sha256sum <"$path") && mode=$(stat -L -c %a -- "$path") || return 1
    echo "file $mode ${sum%% *}"
    [ "$content" = no ] || base64 <"$path"
  elif [ -d "$(dirname -- "$path")" ]; then echo absent
  else echo nowhere
  fi
}
look "$@"
"""

# The name is exchanged in one step, so that nobody ever reads half a file.
_WRITE = """
write() {{
  path=$1 mode=$2 backup=$3
  [ ! -L "$path" ] || path=$(readlink -f -- "$path") || return {cannot}
  umask 077
  new=$(mktemp "$(dirname -- "$path")/.orc.XXXXXX") || return {cannot}
  trap 'rm -f "$new"' EXIT
  base64 -d >"$new" <<'END_OF_FILE' || return {cannot}
{content}END_OF_FILE
  if [ -e "$path" ]; then
    chown "$(stat -c %u:%g -- "$path")" "$new" 2>/dev/null
    [ -z "$backup" ] || cp -p -- "$path" "$backup" || return {cannot}
  fi
  chmod "$mode" "$new" && mv -f -- "$new" "$path" || return {cannot}
  trap - EXIT
}}
write "$@"
"""


def command_script(
    argv: Sequence[str],
    *,
    chdir: str = "",
    env: Mapping[str, str | Secret] | None = None,
    stdin: str | None = None,
) -> Script:
    """Run `argv`, without a shell between, in `chdir`, with `env` added and `stdin` as its input.

    Raises InputError for a name that no environment variable can have.
    """
    exports = "".join(
        f"  export {_name(name)}={shlex.quote(_revealed(value))}\n"
        for name, value in (env or {}).items()
    )
    given = "</dev/null"
    if stdin is not None:
        end = "END_OF_INPUT"
        while end in stdin:
            end += "_"
        given = f"<<'{end}'\n{stdin.removesuffix(chr(10))}\n{end}"
    text = _COMMAND.format(cannot=CANNOT_WRITE, exports=exports, stdin=given)
    return Script(text, (chdir, *argv))


def exists_script(path: str, *, chdir: str = "") -> Script:
    """Ends with 0 when `path`, relative to `chdir`, is there."""
    return Script(_EXISTS, (chdir, path))


def look_script(path: str, *, content: bool) -> Script:
    """Print what is at `path`: `file MODE SHA256` (and, if asked, its content in base64),
    `directory`, `absent`, or `nowhere` when its directory is not there either."""
    return Script(_LOOK, (path, "yes" if content else "no"))


def write_script(path: str, content: bytes, *, mode: str, backup: str = "") -> Script:
    """Write `content` to `path` with the octal `mode`; what is there is kept as `backup`, if named.

    A link is followed. The owner of what is there is kept where that is allowed. Ends with
    CANNOT_WRITE when it cannot be written; what is there is then as it was.
    """
    text = _WRITE.format(cannot=CANNOT_WRITE, content=base64.encodebytes(content).decode())
    return Script(text, (path, mode, backup))


def _name(name: str) -> str:
    if not name.isidentifier() or not name.isascii():
        raise InputError(f"{name!r} cannot be the name of an environment variable")
    return name


def _revealed(value: str | Secret) -> str:
    return value.reveal() if isinstance(value, Secret) else value
