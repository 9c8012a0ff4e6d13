"""The one probe: a POSIX sh script that asks a host for all facts in one round trip.

It only reads. Every section begins with a line `@name` and may be empty, when the host has no
such command; `parse.parse_facts` makes HostFacts of it. Commands that hang on a broken driver
or daemon are given 10 seconds.

`probe_script` has it look for a model in a directory of the host as well. One with `refs/main` is
a repository of the Hugging Face cache.
"""

from __future__ import annotations

import shlex

PROBE_SCRIPT = r"""
probe() {
  limit=
  command -v timeout >/dev/null 2>&1 && limit='timeout 10'
  export LC_ALL=C
  echo @hostname
  hostname 2>/dev/null || uname -n
  echo @reached
  echo "$SSH_CONNECTION"
  echo @addresses
  ip -o addr show 2>/dev/null
  echo @nvidia
  command -v nvidia-smi >/dev/null 2>&1 && $limit nvidia-smi \
    --query-gpu=index,uuid,name,memory.total,memory.used,driver_version \
    --format=csv,noheader,nounits 2>/dev/null
  echo @nvidia-processes
  command -v nvidia-smi >/dev/null 2>&1 && $limit nvidia-smi \
    --query-compute-apps=gpu_uuid,pid,process_name,used_memory \
    --format=csv,noheader,nounits 2>/dev/null | while IFS= read -r line; do
      pid=$(printf '%s\n' "$line" | cut -d, -f2 | tr -d ' ')
      printf '%s, %s, %s\n' "$line" "$(ps -o user= -p "$pid" 2>/dev/null)" "$(container_of "$pid")"
    done
  echo @rocm
  command -v rocm-smi >/dev/null 2>&1 && $limit rocm-smi --showproductname --showmeminfo vram \
    --showdriverversion --json 2>/dev/null
  echo
  echo @docker
  $limit docker version --format '{{.Server.Version}}' </dev/null 2>&1
  echo "status $?"
  echo @disk
  root=$($limit docker info --format '{{.DockerRootDir}}' </dev/null 2>/dev/null)
  df -Pm "${root:-/var/lib/docker}" 2>/dev/null || df -Pm /
  echo @cpus
  nproc 2>/dev/null || grep -c ^processor /proc/cpuinfo
  echo @memory
  cat /proc/meminfo
  echo @listening
  if command -v ss >/dev/null 2>&1; then
    sockets=$(ss -Hltnp 2>/dev/null)
    printf '%s\n' "$sockets"
    echo @containers
    printf '%s\n' "$sockets" | grep -o 'pid=[0-9]*' | cut -d= -f2 | sort -u |
      while read -r pid; do echo "$pid $(container_of "$pid")"; done
  else
    cat /proc/net/tcp /proc/net/tcp6 2>/dev/null
  fi
  echo @model
  [ -n "$1" ] && model "$1"
  echo @end
}
model() {
  [ -f "$1/refs/main" ] && set -- "$1/snapshots/$(head -n 1 "$1/refs/main")"
  [ -f "$1/config.json" ] || return 1
  echo "path $1"
  weights=$($limit ls -lnL "$1"/model*.safetensors 2>/dev/null)
  [ -n "$weights" ] || weights=$($limit ls -lnL "$1"/*.safetensors 2>/dev/null)
  printf '%s\n' "$weights" | awk '{ sum += $5 } END { printf "weights %.0f\n", sum }'
  # Behind a word of ours no line of the file can pass for another section.
  $limit head -c 1048577 "$1/config.json" | sed 's/^/config /'
  echo
}
container_of() {
  grep -o '[0-9a-f]\{64\}' "/proc/$1/cgroup" 2>/dev/null | head -n 1
}
probe "$@"
"""


def probe_script(model_place: str | None) -> str:
    """The probe, which also reads the model in the directory `model_place` of the host."""
    return f"set -- {shlex.quote(model_place or '')}\n{PROBE_SCRIPT}"
