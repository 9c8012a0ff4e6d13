from __future__ import annotations

import pytest

from orchestrator.recipes.arguments import (
    canonical,
    deduplicate,
    fold_dotted,
    from_mapping,
    is_flag,
    parse,
    value_of,
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
    [(("--x", "5"), "5"), (("--x=5",), "5"), (("--x",), ""), (("--no-x",), "false")],
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


def test_taking_a_flag_out_takes_its_dotted_keys_along() -> None:
    """vLLM would merge what a recipe's dotted keys say into the user's own JSON."""
    given = parse(("--speculative-config.method", "mtp", "--dtype", "auto"), "base")
    kept, removed = without(given, {"--speculative-config"})
    assert [argument.flag for argument in kept] == ["--dtype"]
    assert [argument.flag for argument in removed] == ["--speculative-config.method"]
