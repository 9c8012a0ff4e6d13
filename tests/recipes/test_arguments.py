from __future__ import annotations

import re
from typing import Any

import pytest

from orchestrator.errors import InputError
from orchestrator.recipes.arguments import (
    canonical,
    deduplicate,
    flag_value,
    fold_dotted,
    from_mapping,
    is_flag,
    json_of,
    parse,
    value_of,
    with_argument,
    without,
)


def words_of(*given: str) -> list[str]:
    kept, _ = deduplicate(parse(given, "test"))
    return [word for argument in kept for word in argument.tokens]


@pytest.mark.parametrize(
    ("word", "flag"),
    [
        ("-tp", "--tensor-parallel-size"),
        ("--tensor_parallel_size", "--tensor-parallel-size"),
        ("--tensor-parallel-size=4", "--tensor-parallel-size"),
        ("--no-enable-prefix-caching", "--enable-prefix-caching"),
        (
            "--attention_config.use_fp4_indexer_cache=True",
            "--attention-config.use_fp4_indexer_cache",
        ),
        (
            "-cc.pass_config.fuse_rope_kvcache=True",
            "--compilation-config.pass_config.fuse_rope_kvcache",
        ),
        ("-O3", "--optimization-level"),
        ("--device-memory-utilization", "--gpu-memory-utilization"),
        ("--tensor-par", "--tensor-parallel-size"),
        ("--node_ran=3", "--node-rank"),
        ("--data-parallel-size-loc", "--data-parallel-size-local"),
        ("--data-parallel-size", "--data-parallel-size"),
        ("--device-mem", "--gpu-memory-utilization"),
        ("--no-enable-expert", "--enable-expert-parallel"),
        ("--kv-transf.kv_role=x", "--kv-transfer-config.kv_role"),
        ("-n2", "--nnodes"),
        ("-n=2", "--nnodes"),
        ("-r3", "--node-rank"),
        ("-pc", "--prefill-context-parallel-size"),
        ("-O", "--optimization-level"),
        ("--data-par", "--data-par"),
        ("--zzz", "--zzz"),
    ],
)
def test_every_spelling_of_a_flag_has_one_canonical_form(word: str, flag: str) -> None:
    assert canonical(word).name == flag


def test_the_last_of_a_flag_wins_at_its_own_place_whatever_its_spelling() -> None:
    assert words_of("-tp", "4", "--dtype", "auto", "--tensor_parallel_size=8") == [
        "--dtype",
        "auto",
        "--tensor-parallel-size=8".replace("tensor-parallel-size", "tensor_parallel_size"),
    ]


def test_a_negated_flag_overrides_the_plain_one_and_the_other_way_round() -> None:
    assert words_of("--enable-x", "--no-enable-x") == ["--no-enable-x"]
    assert words_of("--no-enable-x", "--enable-x") == ["--enable-x"]


def test_a_negative_number_is_a_value_and_no_flag() -> None:
    assert not is_flag("-1")
    assert not is_flag("-0.5")
    assert words_of("--seed", "-1", "--temperature", "-0.5", "--seed", "3") == [
        "--temperature",
        "-0.5",
        "--seed",
        "3",
    ]


def test_a_flag_keeps_all_the_values_that_follow_it() -> None:
    assert words_of("--loras", "a", "b", "--loras", "c", "d") == ["--loras", "c", "d"]


def test_words_before_the_first_flag_stay() -> None:
    assert words_of("model", "--x") == ["model", "--x"]


def test_dotted_keys_are_flags_of_their_own() -> None:
    given = ("--speculative-config.method", "mtp", "--speculative-config.num", "3")
    assert words_of(*given) == list(given)


@pytest.mark.parametrize(
    ("words", "value"),
    [
        (("--x", "5"), "5"),
        (("--x=5",), "5"),
        (("--x",), ""),
        (("--no-x",), "false"),
        (("-O3",), "3"),
        (("-n2",), "2"),
    ],
)
def test_the_value_of_an_argument_is_read_in_every_form(words: tuple[str, ...], value: str) -> None:
    (argument,) = parse(words, "test")
    assert value_of(argument) == value


def test_a_users_args_become_flags_by_the_type_of_their_value() -> None:
    arguments, removed = from_mapping(
        {
            "max-model-len": 131072,
            "enable_prefix_caching": True,
            "enable-chunked-prefill": False,
            "speculative-config": {"method": "mtp"},
            "loras": ["a", "b"],
            "middleware": [{"name": "x"}],
            "quantization": None,
        },
        "your args",
    )
    assert [argument.tokens for argument in arguments] == [
        ("--max-model-len", "131072"),
        ("--enable-prefix-caching",),
        ("--no-enable-chunked-prefill",),
        ("--speculative-config", '{"method":"mtp"}'),
        ("--loras", "a", "b"),
        ("--middleware", '[{"name":"x"}]'),
    ]
    assert "--quantization" in removed


def test_the_negated_key_of_a_user_says_the_same_as_the_opposite_value() -> None:
    (yes,), _ = from_mapping({"no-enable-x": False}, "u")
    (no,), _ = from_mapping({"no-enable-x": True}, "u")
    assert yes.tokens == ("--enable-x",)
    assert no.tokens == ("--no-enable-x",)


def test_dotted_keys_go_into_the_json_of_their_flag_which_vllm_would_drop() -> None:
    given = parse(
        ("--kv-transfer-config", '{"kv_role":"kv_both","extra":{"a":1}}', "--dtype", "auto"), "base"
    )
    mine, _ = from_mapping({"kv-transfer-config.extra.b": 2, "other.key": "text"}, "u")
    assert [argument.tokens for argument in fold_dotted([*given, *mine])] == [
        ("--kv-transfer-config", '{"kv_role":"kv_both","extra":{"a":1,"b":2}}'),
        ("--dtype", "auto"),
        ("--other.key", "text"),
    ]


@pytest.mark.parametrize(
    ("value", "word"),
    [(True, "true"), (False, "false"), ([1, 2], "[1,2]"), ({"a": 1}, '{"a":1}'), ("x", "x")],
)
def test_behind_a_dotted_key_is_one_word(value: object, word: str) -> None:
    (argument,), _ = from_mapping({"eplb-config.key": value}, "u")
    assert argument.tokens == ("--eplb-config.key", word)
    assert json_of([argument], "--eplb-config") == {"key": value}


def test_taking_a_flag_out_takes_its_dotted_keys_along() -> None:
    """vLLM would merge what a recipe's dotted keys say into the user's own JSON."""
    given = parse(("--speculative-config.method", "mtp", "--dtype", "auto"), "base")
    kept, removed = without(given, {"--speculative-config"})
    assert [argument.flag for argument in kept] == ["--dtype"]
    assert [argument.flag for argument in removed] == ["--speculative-config.method"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"max-model-l": 8}, ["--max-model-len", "8"]),
        ({"-O3": True}, ["--optimization-level", "3"]),
        ({"max_model_len": 8, "max-model-len": 9}, ["--max-model-len", "9"]),
        ({"max_model_len": 8, "max-model-len": None}, []),
        ({"max_model_len": None, "max-model-len": 9}, ["--max-model-len", "9"]),
        ({"kv-transf.kv_role": "kv_both"}, ["--kv-transfer-config.kv_role", "kv_both"]),
    ],
)
def test_a_users_args_are_written_out_and_the_last_of_a_flag_counts(
    args: dict[str, Any], words: list[str]
) -> None:
    arguments, _ = from_mapping(args, "u")
    assert [word for argument in arguments for word in argument.tokens] == words


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("data-parallel-s", 2, "short for several arguments of vLLM: --data-parallel-size, --data"),
        ("no-enable-log", True, "short for several arguments of vLLM: --enable-log-deltas, "),
        ("-d", 2, "short for several arguments of vLLM: -dc, -dcp, -dp, "),
        ("-zz", 2, "vLLM has no short form -zz"),
        ("-O3", 2, "-O3 holds its value already"),
    ],
)
def test_a_key_that_vllm_would_refuse_is_refused(key: str, value: Any, said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        from_mapping({key: value}, "u")


COMMAND = ("vllm", "serve", "m", "--a", "--port=1", "-tp", "2", "--served", "x", "y", "--port", "3")


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--port", "3"),
        ("--tensor-parallel-size", "2"),
        ("--served-model-name", "x y"),
        ("--a", ""),
        ("--host", None),
    ],
)
def test_the_value_of_a_flag_is_found_in_a_command_in_every_spelling(
    flag: str, value: str | None
) -> None:
    assert flag_value(COMMAND, flag) == value


@pytest.mark.parametrize(
    ("words", "flag", "value", "after"),
    [
        (("s", "-asc", "4", "--x"), "--api-server-count", None, ["s", "--x"]),
        (("s", "--api-server-count=4"), "--api-server-count", None, ["s"]),
        (("s", "--port=1", "--x", "--port", "2"), "--port", "3", ["s", "--port", "3", "--x"]),
        (("s", "--nn=1", "--x"), "--nnodes", "3", ["s", "--nnodes", "3", "--x"]),
        (("s", "--x"), "--port", "3", ["s", "--x", "--port", "3"]),
        (("s", "--x"), "--port", None, ["s", "--x"]),
    ],
)
def test_a_flag_is_set_or_taken_out_of_a_command_in_every_spelling(
    words: tuple[str, ...], flag: str, value: str | None, after: list[str]
) -> None:
    assert with_argument(words, flag, value) == after


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-sc", '{"model":"a","n":1}', "--x"), {"model": "a", "n": 1}),
        (("--speculative-config.model", "a", "-sc.n=1"), {"model": "a", "n": 1}),
        (("--speculative-config", "none"), {}),
        (("--x", "1"), {}),
    ],
)
def test_json_is_read_whole_and_in_dotted_keys(
    words: tuple[str, ...], said: dict[str, object]
) -> None:
    assert json_of(parse(words, "u"), "--speculative-config") == said
