"""What an argument of `vllm serve` may not say, whichever layer gives it.

The topology and the deployment's own fields decide the layout: an argument that would decide it
too is honoured, or refused with the field to use, and never dropped. An argument with which no
look at an endpoint could find it healthy is refused before anything starts. All read in vLLM
0.32.0 (cli_args.py, cli/serve.py, engine/arg_utils.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from orchestrator.deployment import SECRET_VARIABLES, Deployment, secret_argument
from orchestrator.errors import InputError
from orchestrator.recipes.arguments import value_of
from orchestrator.recipes.flags import NODE_FLAGS, SIZE_FLAGS
from orchestrator.recipes.resolved import USER, Argument

# The fields of the deployment's `parallel` that say the same.
_SIZES = {flag: flag[2:].removesuffix("-parallel-size").replace("-", "_") for flag in SIZE_FLAGS}
# Of a layout: why it cannot be taken from the user, and what says it.
_LAYOUT: Mapping[str, tuple[str, str]] = {
    "--data-parallel-hybrid-lb": (
        "which nodes serve is worked out for the whole group",
        "load_balancing: hybrid, or internal",
    ),
    "--data-parallel-external-lb": (
        "every rank is a server of its own then, which the plan has to lay out",
        "load_balancing: external",
    ),
    "--data-parallel-multi-port-external-lb": (
        "the plan gives every rank a server and a port of its own, without a supervisor",
        "load_balancing: external",
    ),
}
# Joined by these there would be a Ray cluster, which nobody has started.
_BACKENDS = ("--distributed-executor-backend", "--data-parallel-backend")
_PROXY = "leave it out, and let a proxy in front of the endpoint do that"
_NEVER: Mapping[str, tuple[str, str]] = {
    "--config": (
        "vLLM reads more arguments out of that file, which no plan could show or check",
        "write what is in it into args, or into a recipe of your own",
    ),
    "--model": (
        "the model is the recipe's, and `vllm serve` takes one",
        "recipe or variant chooses it; a recipe can be a file of your own",
    ),
    "--help": ("vLLM shows its help and ends", "leave it out"),
    "--grpc": ("then nothing serves HTTP, by which health is asked", "leave it out"),
    "--uds": ("then nothing listens on the address that health asks", _PROXY),
    "--ssl-keyfile": ("health and the router ask by plain HTTP", _PROXY),
    "--ssl-certfile": ("health and the router ask by plain HTTP", _PROXY),
}
_ASKED = ("/health", "/v1/models", "/v1/completions")


def check_arguments(
    arguments: Iterable[Argument], constraints: frozenset[str], deployment: Deployment
) -> None:
    """Raises InputError for an argument that the plan cannot keep, naming what to use.

    `constraints` are the flags that the topology takes as its own.
    """
    for item in arguments:
        flag = item.flag.partition(".")[0]
        if flag in _NEVER:
            why, hint = _NEVER[flag]
            raise InputError(f"{flag} cannot be given (from {item.layer})", why=why, hint=hint)
        if item.layer == USER:
            _check_secret(item, flag)
        if flag in constraints:
            _check_layout(item, flag, deployment)
        else:
            _check_serving(item, deployment)


def _check_secret(item: Argument, flag: str) -> None:
    """An abbreviation of `--api-key` is one as well."""
    if secret_argument(flag, list(item.tokens[1:])):
        variable = SECRET_VARIABLES.get(flag, "NAME")
        raise InputError(
            f"{flag} would put a secret on a command line, where every user of the host can read "
            "it",
            hint=f"give it in the environment: env.{variable}, or orc_env",
        )


def _check_layout(item: Argument, flag: str, deployment: Deployment) -> None:
    value = value_of(item)
    if item.flag != flag:
        raise InputError(f"{flag} has no keys, such as {item.flag} (from {item.layer})")
    if flag in SIZE_FLAGS and not re.fullmatch("0*[1-9][0-9]{0,4}", value):
        raise InputError(f"{flag} is a whole number from 1 up, not {value!r} (from {item.layer})")
    if item.layer != USER:
        return
    if flag in NODE_FLAGS:
        raise InputError(
            f"{flag} is worked out for every node, and cannot be given in args",
            hint="the deployment has nodes, replicas, parallel, master_port and "
            "load_balancing for it",
        )
    if flag in _LAYOUT:
        why, field = _LAYOUT[flag]
        raise InputError(f"{flag} cannot be given in args", why=why, hint=f"say {field}")
    if flag in _BACKENDS and value != "mp":
        raise InputError(
            f"{flag} {value} cannot be given in args: the ranks are joined by mp",
            why="every node's processes are started by the plan itself, without a Ray cluster",
            hint="leave it out",
        )
    if flag in _SIZES:
        asked = getattr(deployment.parallel, _SIZES[flag])
        if asked is not None and asked != int(value):
            raise InputError(
                f"parallel.{_SIZES[flag]} = {asked}, but your args say {flag} {value}",
                hint=f"give the size once: parallel.{_SIZES[flag]}",
            )


def _check_serving(item: Argument, deployment: Deployment) -> None:
    """Raises InputError where health could never find the endpoint well."""
    flag, value = item.flag, value_of(item)
    if flag == "--api-server-count" and not re.fullmatch("0*[1-9][0-9]{0,4}", value):
        raise InputError(
            f"{flag} is a whole number from 1 up, not {value!r} (from {item.layer})",
            why="without an API server nothing answers",
        )
    if flag == "--gpu-memory-utilization" and not _is_share(value):
        raise InputError(f"{flag} is above 0 and at most 1, not {value!r} (from {item.layer})")
    root = value.rstrip("/")
    if flag == "--root-path" and root and any(f"{path}/".startswith(f"{root}/") for path in _ASKED):
        raise InputError(
            f"{flag} {value} hides paths that health asks, such as {_ASKED[0]} and {_ASKED[1]}",
            why="the server takes it off the beginning of the paths that it is asked for",
            hint="another prefix",
        )
    speechless = (
        (flag in ("--skip-tokenizer-init", "--tokens-only") and value != "false")
        or (flag == "--runner" and value == "pooling")
        or (flag == "--convert" and value not in ("auto", "none"))
    )
    if speechless and item.layer == USER and deployment.health.completion:
        raise InputError(
            f"with {' '.join(item.tokens)} no completion of a text is ever answered, and "
            "healthy means that one is",
            hint="health.completion=false",
        )


def _is_share(text: str) -> bool:
    try:
        return 0 < float(text) <= 1
    except ValueError:
        return False
