"""Bringing a model's files to a host: a container of the deployment's image that fetches them.

The program and the environment, which may hold a token, go over the container's stdin, so that
they are in no argument, no file and no `docker inspect`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from orchestrator.runtime.container import Container
from orchestrator.runtime.scripts import Script
from orchestrator.secret import Secret

LABEL = "orc.staging"
State = Literal["fetched", "there", "offline", "failed", "fetching"]

_CLEAR = """
clear() {
  left=$(docker ps --all --quiet --filter "label=$1") || return 1
  [ -z "$left" ] || docker rm --force $left >/dev/null
}
clear "$@" </dev/null
"""

# vLLM's own Python, which has huggingface_hub: not every image has it in the first on the PATH.
_START = (
    'p=$(sed -n "1s/^#!//p" "$(command -v vllm)" 2>/dev/null); '
    "case $p in *python*) ;; *) p=python3 ;; esac; exec $p -"
)

# What vLLM does not read when there are safetensors.
_NEEDLESS = ["*.bin", "*.pt", "*.pth", "*.h5", "*.msgpack", "*.onnx", "*.gguf", "original/*"]

# Prints one JSON document a line. `snapshot_download` itself goes on with what is half there.
_PROGRAM = """
import json, os, threading

given = json.loads(GIVEN)
os.environ.update(given["env"])
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"


def say(model, state, **more):
    print(json.dumps({"model": model, "state": state, **more}), flush=True)


def size(directory):
    total = 0
    for place, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(place, name)
            if not os.path.islink(path):
                try:
                    total += os.path.getsize(path)
                except OSError:
                    pass
    return total


def files(directory):
    return {os.path.join(p, n) for p, _, names in os.walk(directory) for n in names}


def stage(model, revision):
    if os.path.isabs(model):
        there = os.path.isfile(os.path.join(model, "config.json"))
        return say(model, "there" if there else "failed", why="" if there else "not on the host")
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.file_download import repo_folder_name

    folder = os.path.join(
        constants.HF_HUB_CACHE, repo_folder_name(repo_id=model, repo_type="model")
    )
    before = files(os.path.join(folder, "snapshots"))
    try:
        info = HfApi().model_info(model, revision=revision, files_metadata=True)
        siblings = info.siblings or []
        ignored = []
        if any(one.rfilename.endswith(".safetensors") for one in siblings):
            ignored = given["needless"]
        total = sum(one.size or 0 for one in siblings)
        done = threading.Event()

        def watch():
            while not done.wait(2):
                say(model, "fetching", bytes=size(os.path.join(folder, "blobs")), of=total)

        threading.Thread(target=watch, daemon=True).start()
        try:
            path = snapshot_download(model, revision=revision, ignore_patterns=ignored)
        finally:
            done.set()
    except Exception as error:
        why = f"{type(error).__name__}: {error}".strip().splitlines()[0][:300]
        return say(model, "offline" if before else "failed", why=why)
    say(model, "there" if files(path) <= before else "fetched")


for one in given["models"]:
    stage(one, given["revision"])
"""


@dataclass(frozen=True, slots=True)
class Staged:
    """What the program says of one model: `fetching` while it goes on, then how it ended."""

    model: str
    state: State
    why: str = ""
    bytes: int = 0
    of: int = 0


def clear_staging_script(deployment: str) -> Script:
    """Remove what an orc that was killed left fetching for this deployment."""
    return Script(_CLEAR, (f"{LABEL}={deployment}",))


def staging_command(container: Container, image: str, deployment: str) -> list[str]:
    """The container that reads `staging_program` from its stdin. It goes when it has ended."""
    words = ["docker", "run", "--rm", "--interactive", "--init", "--network", "host"]
    words += ["--label", f"{LABEL}={deployment}"]
    for volume in container.volumes:
        words += ["--volume", volume]
    return [*words, "--entrypoint", "sh", image, "-c", _START]


def staging_program(
    models: Sequence[str], env: Mapping[str, str | Secret], revision: str | None = None
) -> str:
    """The program for the container's stdin. It holds secret values: it is never to be shown."""
    revealed = {n: v.reveal() if isinstance(v, Secret) else v for n, v in env.items()}
    given = {"models": [*models], "env": revealed, "revision": revision, "needless": _NEEDLESS}
    return f"GIVEN = {json.dumps(json.dumps(given))}\n{_PROGRAM}"


def parse_staged(line: str) -> Staged | None:
    """One line that the program printed; None for what is none of its own."""
    try:
        data: Any = json.loads(line)
        return Staged(**data)
    except (ValueError, TypeError):
        return None
