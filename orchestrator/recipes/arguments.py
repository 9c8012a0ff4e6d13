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

from orchestrator.errors import InputError
from orchestrator.recipes.flags import ALIASES, meant_by
from orchestrator.recipes.resolved import Argument

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
    """The flag that a word names: `-tp` -> --tensor-parallel-size, `--no-x` -> --x negated, and
    `--tensor-par`, an abbreviation that vLLM takes, -> --tensor-parallel-size.

    A dotted word (`--attention_config.backend`) names a flag of its own, `_` read as `-` in the
    part before the first dot only, since the keys behind it are Python names.
    """
    name, equals, value = word.partition("=")
    head, dot, keys = name.partition(".")
    if word[:2] in ALIASES and head not in ALIASES:  # `-O3`, `-n2`: its value is attached
        return Flag(ALIASES[word[:2]], value=word[2:])
    if head.startswith("--"):
        head = head.replace("_", "-")
    negated = head.startswith("--no-") and not dot
    if negated:
        head = "--" + head.removeprefix("--no-")
    meant = meant_by(head)
    head = meant[0] if len(meant) == 1 else head
    return Flag(ALIASES.get(head, head) + dot + keys, negated, value if equals else None)


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
    mappings is JSON. Behind a dotted key, which names a place in a flag's JSON, all but text is
    JSON, since vLLM's parser wants one word there (0.32.0). Keys are flags in any spelling that
    vLLM takes, with or without the leading hyphens; the last key of a flag counts. Raises
    InputError for the abbreviation of several flags and for a short form that there is not:
    vLLM refuses both (0.32.0).
    """
    arguments: dict[str, Argument] = {}
    removed: set[str] = set()
    for key, value in values.items():
        flag = canonical(key if key.startswith("-") else f"--{key}")
        _check_key(key, flag, value)
        removed.add(flag.name)
        arguments.pop(flag.name, None)
        if value is not None:
            words = _words(flag, value) if flag.value is None else (flag.name, flag.value)
            arguments[flag.name] = Argument(flag.name, words, layer)
    return list(arguments.values()), removed


def _check_key(key: str, flag: Flag, value: object) -> None:
    head = flag.name.partition(".")[0]
    meant = meant_by(head)
    if not meant and not head.startswith("--"):
        raise InputError(
            f"args: vLLM has no short form {key}", hint="write the flag out, such as max-model-len"
        )
    if flag.value is not None and value not in (True, None):
        raise InputError(f"args: {key} holds its value already", hint=f"{head[2:]}: VALUE")
    if len(meant) > 1:
        shown = ", ".join(meant[:8]) + (", ..." if len(meant) > 8 else "")
        raise InputError(
            f"args: {key} is short for several arguments of vLLM: {shown}",
            hint="write the one that is meant in full",
        )


def _words(flag: Flag, value: object) -> tuple[str, ...]:
    name = flag.name
    inside = "." in name and not isinstance(value, str)
    if isinstance(value, bool) and not inside:
        positive = value is not flag.negated
        return (name,) if positive else ("--no-" + name.removeprefix("--"),)
    if (
        inside
        or isinstance(value, Mapping)
        or (isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value))
    ):
        return (name, json.dumps(value, separators=(",", ":"), ensure_ascii=False))
    if isinstance(value, list):
        return (name, *(str(item) for item in value))
    return (name, str(value))


def flag_value(words: Sequence[str], flag: str) -> str | None:
    """The value of `flag` (long form) that counts among the words of a command, as `value_of`
    reads it; None where the flag is not among them."""
    found = [value_of(argument) for argument in parse(words, "") if argument.flag == flag]
    return found[-1] if found else None


def json_of(arguments: Iterable[Argument], flag: str) -> dict[str, object]:
    """What `flag` (long form) says in JSON and in dotted keys (`--flag.key`); {} for nothing."""
    said: dict[str, object] = {}
    for argument in arguments:
        head, *keys = argument.flag.split(".")
        if head == flag and keys:
            _put(said, keys, _plain(value_of(argument)))
        elif head == flag:
            said |= _object(argument) or {}
    return said


def with_argument(words: Sequence[str], flag: str, value: str | None) -> list[str]:
    """A command's words with `flag` at `value`: at its own place, else at the end; without the
    flag where `value` is None."""
    wanted = () if value is None else (flag, value)
    parts: list[tuple[str, ...]] = []
    for argument in parse(words, ""):
        if argument.flag != flag:
            parts.append(argument.tokens)
        elif wanted not in parts:
            parts.append(wanted)
    if wanted not in parts:
        parts.append(wanted)
    return [word for part in parts for word in part]


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
