"""Arguments of `vllm serve`: parsed into flags with their values, and deduplicated by flag.

The last one of a flag wins, whatever its spelling: `-tp 4`, `--tensor_parallel_size=4` and
`--tensor-parallel-size 4` are one flag, and `--no-enable-x` is the other value of `--enable-x`
(vLLM's FlexibleArgumentParser, vllm/utils/argparse_utils.py). Each argument keeps the words it
was written with and the place of its last occurrence, as the public site renders it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from orchestrator.recipes.resolved import Argument

# Short forms of vllm serve (vllm/engine/arg_utils.py). `-O3` is handled apart.
ALIASES = {
    "-tp": "--tensor-parallel-size",
    "-pp": "--pipeline-parallel-size",
    "-dp": "--data-parallel-size",
    "-dpn": "--data-parallel-rank",
    "-dpr": "--data-parallel-start-rank",
    "-dpl": "--data-parallel-size-local",
    "-dpa": "--data-parallel-address",
    "-dpp": "--data-parallel-rpc-port",
    "-dpb": "--data-parallel-backend",
    "-dph": "--data-parallel-hybrid-lb",
    "-dpe": "--data-parallel-external-lb",
    "-pcp": "--prefill-context-parallel-size",
    "-dcp": "--decode-context-parallel-size",
    "-ep": "--enable-expert-parallel",
    "-n": "--nnodes",
    "-r": "--node-rank",
    "-q": "--quantization",
    "-sc": "--speculative-config",
    "-cc": "--compilation-config",
    "-ac": "--attention-config",
    "-dc": "--diffusion-config",
    "-asc": "--api-server-count",
    "-dpm": "--data-parallel-multi-port-external-lb",
    "--device-memory-utilization": "--gpu-memory-utilization",
    "-O": "--optimization-level",
}

# Which rank runs where: these belong to the topology, and what a recipe says of them is a
# constraint on it. --enable-expert-parallel is not among them: it is no size of its own (the
# experts are spread over the ranks there are), and strategies give it as a plain argument.
PARALLEL_FLAGS = frozenset(
    {
        "--tensor-parallel-size",
        "--pipeline-parallel-size",
        "--prefill-context-parallel-size",
        "--decode-context-parallel-size",
        "--data-parallel-size",
        "--data-parallel-size-local",
        "--data-parallel-rank",
        "--data-parallel-start-rank",
        "--data-parallel-address",
        "--data-parallel-rpc-port",
        "--data-parallel-backend",
        "--data-parallel-hybrid-lb",
        "--data-parallel-external-lb",
        "--data-parallel-multi-port-external-lb",
        "--nnodes",
        "--node-rank",
        "--master-addr",
        "--master-port",
        "--headless",
        "--distributed-executor-backend",
    }
)

SIZE_FLAGS = frozenset(
    {
        "--tensor-parallel-size",
        "--pipeline-parallel-size",
        "--prefill-context-parallel-size",
        "--decode-context-parallel-size",
        "--data-parallel-size",
    }
)
# What differs from node to node, or joins them: nobody but the topology can know it.
NODE_FLAGS = frozenset(
    {
        "--data-parallel-size-local",
        "--data-parallel-rank",
        "--data-parallel-start-rank",
        "--data-parallel-address",
        "--data-parallel-rpc-port",
        "--nnodes",
        "--node-rank",
        "--master-addr",
        "--master-port",
        "--headless",
    }
)

_FLAG = re.compile(r"-{1,2}[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Flag:
    """The name of a flag in its canonical form, and whether the word negates it."""

    name: str
    negated: bool = False
    value: str | None = None  # what stood behind `=`


def is_flag(word: str) -> bool:
    """Whether a word names a flag: `-1` and `-0.5` are values."""
    return _FLAG.match(word) is not None


def canonical(word: str) -> Flag:
    """The flag that a word names: `-tp` -> --tensor-parallel-size, `--no-x` -> --x negated.

    A dotted word (`--attention_config.backend`) names a flag of its own, `_` read as `-` in the
    part before the first dot only, since the keys behind it are Python names.
    """
    name, equals, value = word.partition("=")
    head, dot, keys = name.partition(".")
    optimization = re.fullmatch(r"-O=?(\d)", word)
    if optimization:
        return Flag("--optimization-level", value=optimization[1])
    if head.startswith("--"):
        head = head.replace("_", "-")
    head = ALIASES.get(head, head)
    negated = head.startswith("--no-") and not dot
    if negated:
        head = "--" + head.removeprefix("--no-")
    return Flag(head + dot + keys, negated, value if equals else None)


def parse(words: Sequence[str], layer: str) -> list[Argument]:
    """Words as arguments of `layer`: a flag with all the values that follow it.

    Words before the first flag become an argument with the flag "".
    """
    groups: list[list[str]] = []
    for word in words:
        if is_flag(word) or not groups:
            groups.append([word])
        else:
            groups[-1].append(word)
    return [
        Argument(canonical(group[0]).name if is_flag(group[0]) else "", tuple(group), layer)
        for group in groups
    ]


def deduplicate(arguments: Iterable[Argument]) -> tuple[list[Argument], list[Argument]]:
    """The arguments of which the last of each flag is kept at its place, and the dropped ones."""
    listed = list(arguments)
    last = {argument.flag: position for position, argument in enumerate(listed)}
    kept, dropped = [], []
    for position, argument in enumerate(listed):
        if argument.flag == "" or last[argument.flag] == position:
            kept.append(argument)
        else:
            dropped.append(argument)
    return kept, dropped


def fold_dotted(arguments: Iterable[Argument]) -> list[Argument]:
    """The arguments with the dotted keys of a flag put into the JSON that stands beside them.

    vLLM makes a JSON of a flag's dotted keys and takes it for the whole value: what the flag's own
    JSON says is lost without a word (0.32.0, FlexibleArgumentParser.parse_args).
    """
    listed = list(arguments)
    if not any("." in argument.flag for argument in listed):
        return listed
    objects = {argument.flag: value for argument in listed if (value := _object(argument))}
    changed: set[str] = set()
    kept = []
    for argument in listed:
        head, *keys = argument.flag.split(".")
        if keys and head in objects:
            _put(objects[head], keys, _plain(value_of(argument)))
            changed.add(head)
        else:
            kept.append(argument)
    return [
        replace(argument, tokens=_words(canonical(argument.flag), objects[argument.flag]))
        if argument.flag in changed
        else argument
        for argument in kept
    ]


def _object(argument: Argument) -> dict[str, object] | None:
    """The value of an argument that is a JSON object; None for any other."""
    value = _plain(value_of(argument))
    return value if isinstance(value, dict) else None


def _plain(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _put(into: dict[str, object], keys: Sequence[str], value: object) -> None:
    *path, last = keys
    for key in path:
        within = into.get(key)
        if not isinstance(within, dict):
            into[key] = within = {}
        into = within
    into[last] = value


def value_of(argument: Argument) -> str:
    """The value as text: the words behind the flag, or what stands behind its `=`.

    A flag alone is "", and one in its negated form is "false".
    """
    flag = canonical(argument.tokens[0])
    if flag.value is not None:
        return flag.value
    if flag.negated:
        return "false"
    return " ".join(argument.tokens[1:])


def from_mapping(values: Mapping[str, object], layer: str) -> tuple[list[Argument], set[str]]:
    """A user's `args` as arguments, and the flags that they remove.

    A text or number is the flag's value, true the flag alone, false its `--no-` form, null
    removes the flag, a list of plain values is several words, and a mapping or a list of
    mappings is JSON. Keys are flags without the leading hyphens; `_` and `-` are alike.
    """
    arguments: list[Argument] = []
    removed: set[str] = set()
    for key, value in values.items():
        word = key if key.startswith("-") else f"--{key}"
        flag = canonical(word)
        removed.add(flag.name)
        if value is None:
            continue
        arguments.append(Argument(flag.name, _words(flag, value), layer))
    return arguments, removed


def _words(flag: Flag, value: object) -> tuple[str, ...]:
    name = flag.name
    if isinstance(value, bool):
        positive = value is not flag.negated
        return (name,) if positive else ("--no-" + name.removeprefix("--"),)
    if isinstance(value, Mapping) or (
        isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value)
    ):
        return (name, json.dumps(value, separators=(",", ":"), ensure_ascii=False))
    if isinstance(value, list):
        return (name, *(str(item) for item in value))
    return (name, str(value))


def without(
    arguments: Iterable[Argument], flags: Collection[str]
) -> tuple[list[Argument], list[Argument]]:
    """The arguments without `flags` and without their dotted keys, and those taken out.

    A user who sets --speculative-config means the whole of it: vLLM would merge what a recipe's
    `--speculative-config.method` left behind.
    """
    kept: list[Argument] = []
    removed: list[Argument] = []
    for argument in arguments:
        head = argument.flag.partition(".")[0]
        (removed if argument.flag in flags or head in flags else kept).append(argument)
    return kept, removed
