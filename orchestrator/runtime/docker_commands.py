"""Docker command lines as argument lists. Nothing here runs anything.

`docker run` is in `docker_run.py`. What needs several commands in one round trip is a script
in `scripts.py`.
"""

from __future__ import annotations

from collections.abc import Sequence


def pull_command(image: str) -> list[str]:
    """Pull `image`, a tag or a digest reference; prints a line per layer and step."""
    return ["docker", "pull", image]


def image_inspect_command(image: str) -> list[str]:
    """Print the ID and the repository digests of `image`, as `image.parse_image` reads them."""
    return ["docker", "image", "inspect", "--format", "{{json .Id}} {{json .RepoDigests}}", image]


def logs_command(
    container: str,
    *,
    tail: int | None = None,
    since: str | None = None,
    follow: bool = False,
) -> list[str]:
    """Print a container's log, each line after its time; works for an exited container too."""
    words = ["docker", "logs", "--timestamps"]
    if tail is not None:
        words += ["--tail", str(tail)]
    if since is not None:
        words += ["--since", since]
    if follow:
        words.append("--follow")
    return [*words, container]


def exec_command(container: str, words: Sequence[str]) -> list[str]:
    """Run `words` inside a container that runs; no shell reads them."""
    return ["docker", "exec", container, *words]
