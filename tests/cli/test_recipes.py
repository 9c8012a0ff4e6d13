"""`orc recipes` as a user runs it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from orchestrator.cli.main import run
from tests.recipes.making import catalog_with, recipe_data


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.delenv("ORC_RECIPES", raising=False)


def test_list_shows_each_recipe_with_the_variants_that_match(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["recipes", "list", "--fits", "2xh200"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["RECIPE", "SIZE", "KIND", "TASKS", "VARIANTS", "(GB)"]
    (kimi,) = (line for line in lines if line.startswith("moonshotai/Kimi-K2.6"))
    assert "default 714, fp8 1200" in kimi
    assert "nvfp4" not in kimi


def test_list_without_a_match_says_so_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recipes", "list", "--memory", "0.1"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("", "no recipe matches\n")


def test_list_takes_a_part_of_the_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recipes", "list", "kimi-k2.6", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)) == ["moonshotai/Kimi-K2.6"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["-s", "multi_node_pp"], "there is no strategy 'multi_node_pp'\n  do:  did you mean"),
        (["--task", "chat"], "there is no task 'chat'\n  do:  known: embedding, "),
    ],
)
def test_list_refuses_a_strategy_or_task_that_does_not_exist(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["recipes", "list", *words]) == 1
    assert said in capsys.readouterr().err


def test_a_feature_that_is_not_there_is_answered_with_those_that_are_said_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show = ["recipes", "show", "openai/gpt-oss-120b", "--feature"]
    assert run([*show, "vision"]) == 1
    assert "do:  known: spec_decoding, tool_calling\n" in capsys.readouterr().err
    assert run([*show, "tool_caling"]) == 1
    hint = "do:  did you mean 'tool_calling'? (there are: tool_calling, spec_decoding)\n"
    assert hint in capsys.readouterr().err


def test_list_refuses_hardware_that_contradicts_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recipes", "list", "--fits", "2xh200", "--hardware", "b200"]) == 1
    assert "--fits says h200, and --hardware says b200" in capsys.readouterr().err


def test_show_prints_the_command_of_a_single_node_and_its_docker_form(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["recipes", "show", "moonshotai/Kimi-K2.6"]) == 0
    out = capsys.readouterr().out
    assert "On h200: strategy single_node_tp, variant default" in out
    assert "vllm serve moonshotai/Kimi-K2.6 \\\n  --trust-remote-code \\\n" in out
    docker = "docker run --gpus all --privileged --ipc=host -p 8000:8000 -v ~/.cache"
    assert f"`orc plan` shows what orc runs\n{docker}" in out


def test_show_prints_one_command_a_node(capsys: pytest.CaptureFixture[str]) -> None:
    words = "recipes show moonshotai/Kimi-K2.6 -s multi_node_tp_pp -n 2 --hardware h200 --json"
    assert run(words.split()) == 0
    data = json.loads(capsys.readouterr().out)
    head, worker = data["commands"]
    assert "--headless" not in head["argv"]
    assert "--headless" in worker["argv"]
    assert data["shape"]["layers"] == 61


def test_show_takes_features_and_any_field(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["recipes", "show", "moonshotai/Kimi-K2.6", "--json"]
    words += ["--feature", "reasoning", "--features", "tool_calling"]
    words += ["--set", "args.max-model-len=1024", "--set", "image=vllm/vllm-openai:v0.11.0"]
    assert run(words) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["features"] == ["tool_calling", "reasoning"]
    assert data["commands"][0]["argv"][-2:] == ["--max-model-len", "1024"]
    assert data["image"] == "vllm/vllm-openai:v0.11.0"


def test_show_warns_of_a_flag_that_the_images_vllm_does_not_have(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    catalog_with(tmp_path, recipe_data(model={"base_args": ["--disable-log-requests"]}))
    words = ["recipes", "show", "org/model", "--recipes", str(tmp_path)]
    assert run([*words, "--set", "image=vllm/vllm-openai:v0.33.0"]) == 0
    out = capsys.readouterr().out
    assert (
        "note: vLLM 0.33.0 (vllm/vllm-openai:v0.33.0) does not have --disable-log-requests" in out
    )
    assert run([*words, "--set", "image=vllm/vllm-openai:v0.11.0"]) == 0
    assert "note:" not in capsys.readouterr().out


def test_explain_says_the_layer_of_every_argument(capsys: pytest.CaptureFixture[str]) -> None:
    words = "recipes show moonshotai/Kimi-K2.6 --variant nvfp4 --hardware gb200 --explain"
    assert run([*words.split(), "--set", "args.kv-cache-dtype=auto"]) == 0
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    rows = {line[0].strip() or line[2].strip(): line[-1].strip() for line in lines}
    assert rows["--trust-remote-code"] == "base"
    assert rows["--kv-cache-dtype auto"] == "your args"
    assert rows["over --kv-cache-dtype fp8"] == "variant nvfp4"
    assert rows["--reasoning-parser kimi_k2"] == "feature reasoning"


def test_explain_as_json_is_by_pool_under_prefill_decode(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = "recipes show moonshotai/Kimi-K2.6 -s pd_cluster --hardware gb200 --explain --json"
    assert run(words.split()) == 0
    data = json.loads(capsys.readouterr().out)
    assert list(data) == ["prefill", "decode"]
    assert {"kind", "name", "given", "overrode", "taken_out_by"} == set(data["prefill"][0])


STRATEGIES = (
    *("single_node_tp", "single_node_tep", "single_node_dep", "single_node_dpa_tp"),
    *("multi_node_tp", "multi_node_tep", "multi_node_dep", "multi_node_tp_dp", "multi_node_tp_pp"),
    "pd_cluster",
)


def arguments_of(words: list[str]) -> set[str]:
    """The words of a command as one text a flag; negative numbers are values."""
    texts: list[str] = []
    for word in words:
        if re.match("--?[A-Za-z]", word) or not texts:
            texts.append(word)
        else:
            texts[-1] += f" {word}"
    return set(texts)


@pytest.mark.parametrize("recipe", ["moonshotai/Kimi-K2.6", "deepseek-ai/DeepSeek-V3.2"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("more", [[], ["--set", "args.tensor-parallel-size=4"]])
def test_explain_names_the_same_arguments_as_the_commands(
    capsys: pytest.CaptureFixture[str], recipe: str, strategy: str, more: list[str]
) -> None:
    words = ["recipes", "show", recipe, "--hardware", "h200", "-s", strategy, *more, "--json"]
    if run(words) != 0:
        message = capsys.readouterr().err
        assert "strategy" in message or more, message
        return  # the recipe has no such strategy, or not with this size
    commands = json.loads(capsys.readouterr().out)["commands"]
    assert run([*words, "--explain"]) == 0
    for pool, origins in json.loads(capsys.readouterr().out).items():
        mine = [one for one in commands if one["label"].startswith(pool)]
        shown = set().union(*(arguments_of(one["argv"][3:]) for one in mine))
        given = [one for one in origins if one["kind"] != "variable" and one["given"]]
        assert {one["given"]["text"].replace("=", " ") for one in given} == {
            text.replace("=", " ") for text in shown
        }


def test_explain_names_the_layout_of_what_it_gives(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["recipes", "show", "moonshotai/Kimi-K2.6", "--hardware", "h200", "--explain"]
    assert run(words) == 0
    assert re.search(
        r"^--tensor-parallel-size 8 +layout: tensor 8 on h200$", capsys.readouterr().out, re.M
    )
    assert run([*words, "-s", "multi_node_tp"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^--node-rank 1 +layout: tensor 16 on h200, node 1$", out, re.M), out
    assert re.search(r"^--nnodes 2 +layout: tensor 16 on h200$", out, re.M), out


def test_validate_names_every_fault_and_fails(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text(yaml.safe_dump(recipe_data(compatible_strategies=["one", "two"])))
    assert run(["recipes", "validate", str(file)]) == 1
    out, err = capsys.readouterr()
    assert out == "1 file checked, 2 faults\n"
    assert err.count("there is no strategy") == 2
    file.write_text(yaml.safe_dump(recipe_data()))
    assert run(["recipes", "validate", str(file)]) == 0
    assert capsys.readouterr().out == "1 file checked, no faults\n"


def test_validate_says_that_a_file_is_not_there(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert run(["recipes", "validate", str(tmp_path / "model")]) == 1
    assert f"error: {tmp_path / 'model'}: no such file or directory" in capsys.readouterr().err


def test_validate_of_a_catalog_knows_the_names_that_it_brings_itself(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    catalog_with(tmp_path, recipe_data(compatible_strategies=["my_own"]))
    (tmp_path / "strategies").mkdir()
    strategy = {"name": "my_own", "deploy_type": "single_node"}
    (tmp_path / "strategies" / "my_own.yaml").write_text(yaml.safe_dump(strategy))
    assert run(["recipes", "validate", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"files": 2, "faults": []}


def test_add_copies_into_the_first_catalog_named_and_list_shows_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(recipe_data()))
    first, second = tmp_path / "first", tmp_path / "second"
    catalog_with(second, recipe_data())
    monkeypatch.setenv("ORC_RECIPES", f"{first}:{second}")
    assert run(["recipes", "add", str(file), "--name", "me/mine"]) == 0
    assert (first / "models" / "me" / "mine.yaml").is_file()
    capsys.readouterr()
    assert run(["recipes", "list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert {"me/mine", "org/model", "moonshotai/Kimi-K2.6"} <= set(listed)


def test_add_without_a_catalog_says_how_to_name_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(recipe_data()))
    assert run(["recipes", "add", str(file)]) == 1
    assert "--recipes DIR, or ORC_RECIPES=DIR" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "recipes show no/such",
        "recipes show moonshotai/Kimi-K2.6 --variant no",
        "recipes show moonshotai/Kimi-K2.6 --hardware no",
        "recipes show moonshotai/Kimi-K2.6 -s no",
        "recipes show moonshotai/Kimi-K2.6 --kv-offload no",
        "recipes show moonshotai/Kimi-K2.6 --feature no",
        "recipes show moonshotai/Kimi-K2.6 -n 2 -s single_node_tp",
        "recipes validate /no/such.yaml",
        "recipes add /no/such.yaml --recipes /tmp/none",
        "recipes list --hardware no",
        "recipes list --recipes /no/such",
    ],
)
def test_a_wrong_word_ends_with_one_message_and_status_1(
    capsys: pytest.CaptureFixture[str], words: str
) -> None:
    assert run(words.split()) == 1
    out, err = capsys.readouterr()
    assert err.strip()
    assert "internal error" not in err
    assert "Traceback" not in err + out
