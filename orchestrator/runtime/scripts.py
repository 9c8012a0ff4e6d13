"""Shell scripts that do several docker commands on a host in one round trip.

Each is POSIX sh whose body is a function, called in the last line: a connection that breaks
while the script is being sent runs nothing. What varies comes as arguments, so nothing here
has to be quoted; only environment values are part of a script's text, since that goes over
stdin and shows in no process list.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.deployment import too_long
from orchestrator.errors import InputError
from orchestrator.runtime.container import FILES_DIRECTORY, Container
from orchestrator.runtime.gpu_use import GPU_USE
from orchestrator.runtime.shared_directory import INTO_SHARED
from orchestrator.secret import Secret

# Statuses of the scripts below; docker's own are 1 and 125 to 127.
CANNOT_WRITE = 73
STILL_RUNNING = 75
NOT_OURS = 76

_INSPECT = (
    '{"id":{{json .Id}},"name":{{json .Name}},"state":{{json .State}},'
    '"image":{{json .Config.Image}},"image_id":{{json .Image}},'
    '"path":{{json .Path}},"args":{{json .Args}},'
    '"labels":{{json .Config.Labels}},"restarts":{{json .RestartCount}}}'
)

_LISTED = '{{.ID}}{{if .Label "orc.deployment"}} ours{{end}} {{.Names}}'

# The environment of a container, which may hold secrets, is on purpose not asked for.
_OBSERVE = f"""
observe() {{
  date +%s.%N
  all=$(docker ps --all --no-trunc --format '{_LISTED}' </dev/null) || return 1
  # What has a name of ours without our label is not ours, and is in the way.
  ids=$(printf '%s\\n' "$all" | sed -n -e 's/ ours .*//p' -e 's/ .*orc-.*//p')
  [ -z "$ids" ] || docker container inspect --format '{_INSPECT}' $ids </dev/null
  for name in "$@"; do
    printf '@log %s\\n' "$name"
    docker logs --tail 1 "$name" </dev/null 2>&1 | tail -n 1
    echo
  done
  return 0
}}
observe "$@"
"""

_START_HEAD = (
    INTO_SHARED
    + """
start() {
  deployment=$1 name=$2 env_file=$3
  shift 3
  # Of this process alone: another orc may be starting the same container.
  pipe=$env_file.$$
  for word do
    shift
    [ "$word" != "$env_file" ] || word=$pipe
    set -- "$@" "$word"
  done
  umask 077
  mkdir -p "$(dirname "$pipe")" || return 73
  # The pipe goes only after its writer: one that came late would find none, and make a file.
  trap '[ -z "$!" ] || { kill -KILL "$!"; wait "$!"; } 2>/dev/null
    rm -f "$pipe"' EXIT
  trap 'exit 130' HUP INT TERM
  rm -f "$pipe"
  mkfifo "$pipe" || return 73
  cat >"$pipe" <<'END_OF_ENVIRONMENT' 2>/dev/null &
"""
)

_END_OF_ENVIRONMENT = "END_OF_ENVIRONMENT\n"

# Others may use the same host, so the directory above is everybody's, as /tmp is. `mkdir` without
# -p fails on what somebody else has put there, be it a link.
_MAKE_DIRECTORY = """  (
  into_shared && rm -rf ./{name} && mkdir -m 755 ./{name} && below 755 {name} || exit 1
"""
_WRITE_FILE = """  cat >./{path} <<'END_OF_FILE' && chmod 644 ./{path} || exit 1
{content}END_OF_FILE
"""
_FILES_WRITTEN = "  ) || return 73\n"

_START_TAIL = """
  found=$(docker container inspect --format \\
    '{{index .Config.Labels "orc.deployment"}} {{.State.Running}}' "$name" </dev/null 2>/dev/null)
  case $found in
    "") ;;
    "$deployment false") docker rm "$name" </dev/null >/dev/null || return 1 ;;
    "$deployment true") running_already; return 75 ;;
    *) echo "container $name is not one of deployment $deployment" >&2; return 76 ;;
  esac
  { said=$("$@" </dev/null 2>&1 >&3 3>&-); } 3>&1
  status=$?
  [ -z "$said" ] || printf '%s\\n' "$said" >&2
  case $said in
    # Another orc was faster between the look and the start.
    *"is already in use by container"*) running_already; return 75 ;;
  esac
  return $status
}
running_already() {
  docker container inspect --format '{{index .Config.Labels "orc.spec"}}' "$name" </dev/null
  echo "container $name is running already" >&2
}
start "$@"
"""

_STOP = (
    INTO_SHARED
    + """
stop() {
  deployment=$1 seconds=$2 remove=$3
  shift 3
  ours= files= status=0
  for id in "$@"; do
    owner=$(docker container inspect --format '{{index .Config.Labels "orc.deployment"}}' \\
      "$id" </dev/null 2>/dev/null) || continue
    if [ "$owner" = "$deployment" ]; then
      ours="$ours $id"
      named=$(docker container inspect --format '{{.Name}}' "$id" </dev/null)
      [ -z "$named" ] || files="$files .$named"
    else
      echo "container $id is not one of deployment $deployment" >&2; status=76
    fi
  done
  [ -n "$ours" ] || return $status
  docker stop -t "$seconds" $ours </dev/null || status=1
  [ "$remove" = no ] || { docker rm --force $ours </dev/null && drop $files; } || status=1
  return $status
}
# Behind a link in its place there is nothing of ours.
drop() { [ ! -d FILES_DIRECTORY ] || (into_shared 2>/dev/null || exit 0; rm -rf "$@"); }
stop "$@"
""".replace("FILES_DIRECTORY", FILES_DIRECTORY)
)

_LOG_TAILS = """
tails() {
  lines=$1
  shift
  for id in "$@"; do
    printf '@log %s\\n' "$id"
    docker logs --timestamps --tail "$lines" "$id" </dev/null 2>&1
    echo
  done
}
tails "$@"
"""

_LOG_MATCHES = """
matches() {
  text=$1
  shift
  for name in "$@"; do
    printf '@log %s\\n' "$name"
    docker logs "$name" </dev/null 2>&1 | grep -F -e "$text"
    echo
  done
}
matches "$@"
"""

_MATCHING_LOGS = """
matching() {
  text=$1
  shift
  docker container inspect --format . "$1" </dev/null >/dev/null || return 1
  id=$1
  shift
  docker logs --timestamps "$@" "$id" </dev/null 2>&1 | grep -F -e "$text"
  return 0
}
matching "$@"
"""

_DISK_FREE = """
root=$(docker info --format '{{.DockerRootDir}}' 2>/dev/null </dev/null)
df -Pk "${root:-/var/lib/docker}" 2>/dev/null || df -Pk /
"""


@dataclass(frozen=True, slots=True)
class Script:
    """A script's text, which goes over stdin, and its arguments. Never printed: see `text`."""

    text: str
    arguments: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Script(arguments={self.arguments!r})"  # the text may hold secrets


def observe_script(last_line_of: Sequence[str] = (), *, gpus: bool = False) -> Script:
    """Report all labelled containers, those with a name like ours, the last log line of
    `last_line_of`, and with `gpus` how much of the GPUs is in use.
    `containers.parse_observation` reads what it prints."""
    text = GPU_USE + _OBSERVE.replace("  return 0\n", "  gpus\n  return 0\n") if gpus else _OBSERVE
    return Script(text, tuple(last_line_of))


def start_script(
    container: Container,
    env: Mapping[str, str | Secret],
    deployment: str,
    run_command: Sequence[str],
) -> Script:
    """Start `container` with `run_command` and the environment `env`.

    The environment file is a named pipe with mode 0600: what goes through it is never on the
    host's disk, also when this process or the host dies meanwhile. An exited container of the
    same name makes room if it is of the same deployment.
    Ends with STILL_RUNNING (and the spec that runs on stdout) or NOT_OURS when such a container
    is in the way, with CANNOT_WRITE
    when the environment file cannot be written, else as `docker run` does.
    Raises InputError for a value that docker's format of environment files cannot hold.
    """
    env_file = container.env_file or f".orc/{container.name}.env"
    return Script(
        _START_HEAD + environment_file(env) + _END_OF_ENVIRONMENT + _files(container) + _START_TAIL,
        (deployment, container.name, env_file, *run_command),
    )


def stop_script(
    container_ids: Sequence[str], deployment: str, *, seconds: int, remove: bool
) -> Script:
    """Stop the containers, waiting up to `seconds` before they are killed; only those that
    carry the deployment's label. With `remove` they are removed as well."""
    return Script(_STOP, (deployment, str(seconds), "yes" if remove else "no", *container_ids))


def log_tails_script(container_ids: Sequence[str], lines: int) -> Script:
    """The last `lines` of each container's log with their times: `containers.parse_log_tails`."""
    return Script(_LOG_TAILS, (str(lines), *container_ids))


def log_matches_script(containers: Sequence[str], text: str) -> Script:
    """The lines with `text` of each container's log: `containers.parse_log_tails`."""
    return Script(_LOG_MATCHES, (text, *containers))


def matching_logs_script(container: str, text: str, *, since: str | None = None) -> Script:
    """The lines with `text` of one container's log, each after its time."""
    more = ("--since", since) if since is not None else ()
    return Script(_MATCHING_LOGS, (text, container, *more))


def disk_free_script() -> Script:
    """`df -Pk` of where docker keeps its images."""
    return Script(_DISK_FREE)


def _files(container: Container) -> str:
    """The commands that write the container's files; they are no secret, and it may have any
    user inside, so everybody may read them."""
    if not container.files:
        return ""
    written = (
        _WRITE_FILE.format(
            path=shlex.quote(container.host_path(path).rpartition("/")[2]), content=content
        )
        for path, content in container.files.items()
    )
    made = _MAKE_DIRECTORY.format(name=shlex.quote(container.name))
    return f"{made}{''.join(written)}{_FILES_WRITTEN}"


def environment_file(env: Mapping[str, str | Secret]) -> str:
    """`env` in the format of `docker run --env-file`: NAME=value, one a line, no quoting.

    Raises InputError, without the value, for what that format cannot hold.
    """
    lines = []
    for name, value in env.items():
        text = value.reveal() if isinstance(value, Secret) else value
        if not name or name[0] == "#" or any(c in "=\n\r\t \0" for c in name):
            raise InputError(f"{name!r} cannot be the name of an environment variable")
        if any(c in "\n\r\0" for c in text):
            raise InputError(
                f"the value of {name} holds a line break",
                why="docker's environment files hold one NAME=value a line and have no quoting",
                hint=f"encode {name} (base64, JSON on one line), or mount a file instead",
            )
        if long := too_long(name, text):
            raise InputError(
                long,
                why="docker's environment files hold no longer line",
                hint=f"mount a file instead of {name}",
            )
        lines.append(f"{name}={text}\n")
    return "".join(lines)
