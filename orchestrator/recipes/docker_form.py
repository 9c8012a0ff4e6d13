"""A command as the public site shows it: for a shell, and as `docker run` on one host.

What `orc up` runs is built in `runtime`; this is for reading and for comparison with the site.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from orchestrator.recipes.arguments import parse
from orchestrator.recipes.resolved import ResolvedRecipe

_VARIABLE = re.compile(r"\$[A-Z_][A-Z0-9_]*")


def docker_argv(
    recipe: ResolvedRecipe, argv: Sequence[str], env: Mapping[str, str], port: int = 8000
) -> list[str]:
    """`docker run ... IMAGE MODEL ...` around `vllm serve MODEL ...`, whose image's entrypoint
    is `vllm serve`."""
    if recipe.hardware.generation == "npu":
        runtime = ["--privileged", "--net=host", "--shm-size", "16g"]
    else:
        runtime = ["--privileged", "--ipc=host", "-p", f"{port}:{port}"]
    mounts = [f"{recipe.model}:{recipe.model}:ro"] if recipe.model.startswith("/") else []
    mounts += [
        f"{value}:{value}:ro" for name, value in env.items() if name.endswith("_CONFIG_PATH")
    ]
    return [
        "docker",
        "run",
        *recipe.docker_flags,
        *runtime,
        "-v",
        "~/.cache/huggingface:/root/.cache/huggingface",
        *(word for mount in mounts for word in ("-v", mount)),
        *(word for name, value in env.items() for word in ("-e", f"{name}={value}")),
        recipe.image,
        *argv[2:],
    ]


def shell_text(argv: Sequence[str], env: Mapping[str, str] | None = None) -> str:
    """`vllm serve MODEL` and a line a flag, quoted for a shell; `$NAME` placeholders stay bare."""
    exports = [f"export {name}={_quoted(value)}" for name, value in (env or {}).items()]
    lines = [" ".join(_quoted(word) for word in argv[:3])]
    lines += [
        " ".join(_quoted(word) for word in argument.tokens) for argument in parse(argv[3:], "")
    ]
    return "\n".join([*exports, " \\\n  ".join(lines)])


def _quoted(word: str) -> str:
    return word if _VARIABLE.fullmatch(word) else shlex.quote(word)
