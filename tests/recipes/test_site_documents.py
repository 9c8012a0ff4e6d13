"""The two documents that the site serves to tools: their commands come out token for token."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.recipe_commands import node_commands
from orchestrator.deployment import Deployment
from orchestrator.errors import InputError
from orchestrator.recipes.catalog import Catalog
from orchestrator.recipes.docker_form import docker_argv, shell_text


@pytest.fixture
def document(shared: Path) -> Path:
    return shared / "cases" / "kimi-k2.6.json"


@pytest.fixture
def page(shared: Path) -> Path:
    return shared / "cases" / "kimi-k2-thinking.md"


def commands(catalog: Catalog, **selection: Any) -> tuple[list[str], list[str], str]:
    """The words, the words in docker form and the shell's text of a single-node selection."""
    deployment = Deployment(**selection)
    resolved = catalog.resolve(deployment, "h200")
    (command,) = node_commands(resolved, deployment, 1)
    return (
        command.argv,
        docker_argv(resolved, command.argv, command.env),
        shell_text(command.argv, command.env),
    )


def test_the_recommended_command_of_the_sites_json_comes_out_token_for_token(
    own: Catalog, document: Path
) -> None:
    wanted = json.loads(document.read_text())["recommended_command"]
    argv, docker, text = commands(own, recipe=str(document))
    assert argv == wanted["argv"]
    assert docker == wanted["docker_argv"]
    assert shlex.split(text.replace("\\\n", " ")) == wanted["argv"]
    resolved = own.resolve(Deployment(recipe=str(document)), "h200")
    assert resolved.image == wanted["docker_image"]
    assert resolved.strategy.name == wanted["strategy"]
    assert dict(resolved.env) == wanted["env"]


def test_our_own_recipe_gives_the_same_command_as_the_sites_json(
    own: Catalog, document: Path
) -> None:
    wanted = json.loads(document.read_text())["recommended_command"]
    argv, docker, _ = commands(own, recipe="moonshotai/Kimi-K2.6")
    assert (argv, docker) == (wanted["argv"], wanted["docker_argv"])


def test_the_commands_of_the_sites_page_come_out_token_for_token(own: Catalog, page: Path) -> None:
    serve = page.read_text().partition("## Serve")[2].partition("## Guide")[0]
    plain, docker = (
        shlex.split(code.replace("\\\n", " "))
        for code in re.findall(r"```bash\n(.*?)```", serve, re.DOTALL)
    )
    ours, ours_in_docker, text = commands(own, recipe=str(page))
    assert ours == plain
    assert ours_in_docker == docker
    assert text == re.findall(r"```bash\n(.*?)\n```", serve, re.DOTALL)[0]
    resolved = own.resolve(Deployment(recipe=str(page)), "h200")
    assert resolved.features == ("tool_calling", "reasoning")
    assert resolved.min_vllm_version == "0.12.0"


@pytest.mark.parametrize(
    ("selection", "hardware", "expected"),
    [
        ({"variant": "nvfp4"}, "b200", "nvidia/Kimi-K2.6-NVFP4"),
        ({"features": ["-spec_decoding", "+text_only"]}, "h200", "--language-model-only"),
        ({"strategy": "multi_node_dep", "nodes": 2}, "h200", "--enable-expert-parallel"),
        ({"strategy": "single_node_tep"}, "mi300x", "--enable-expert-parallel"),
        ({"strategy": "kv_store_distributed_mooncake"}, "h200", "--kv-transfer-config"),
    ],
)
def test_other_selections_are_resolved_from_the_json(
    own: Catalog, document: Path, selection: dict[str, Any], hardware: str, expected: str
) -> None:
    resolved = own.resolve(Deployment(recipe=str(document), **selection), hardware)
    assert expected in resolved.argv()


def test_everything_the_json_links_to_can_be_resolved(own: Catalog, document: Path) -> None:
    command = json.loads(document.read_text())["recommended_command"]
    for hardware in command["by_hardware"]:
        for strategy in [command["strategy"], *command["alternatives"]]:
            own.resolve(Deployment(recipe=str(document), strategy=strategy), hardware)


@pytest.mark.parametrize(
    ("selection", "hardware", "message"),
    [
        ({}, "b200", "not hardware b200"),
        ({"strategy": "multi_node_tp"}, "h200", "not strategy multi_node_tp"),
        ({"variant": "nvfp4"}, "h200", "not variant nvfp4"),
        ({"features": ["reasoning"]}, "h200", "not features reasoning"),
    ],
)
def test_a_page_refuses_what_it_does_not_hold(
    own: Catalog, page: Path, selection: dict[str, Any], hardware: str, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        own.resolve(Deployment(recipe=str(page), **selection), hardware)
    assert message in str(caught.value)
    assert "hardware h200, strategy single_node_tp" in str(caught.value)


def test_the_users_own_arguments_still_come_last_on_a_page(own: Catalog, page: Path) -> None:
    argv, _, _ = commands(own, recipe=str(page), args={"tool-call-parser": "hermes"})
    assert argv[-2:] == ["--tool-call-parser", "hermes"]
    assert argv.count("--tool-call-parser") == 1


def page_text(serve: str, strategy: str = "single_node_tp") -> str:
    return (
        "# org/model — vLLM serving recipe\n\n"
        f"Configuration: hardware `h200` (8× H200) · strategy `{strategy}` (Name) · "
        "variant `default` (FP8) · features `a`, `b`\n\n"
        f"## Serve\n\n{serve}\n\n## Guide\n\ntext\n"
    )


def test_the_environment_of_a_page_is_taken_over(own: Catalog, tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text(
        page_text(
            "```bash\nexport A=1 B='x y'\nC=2 vllm serve org/model \\\n  --flag '{\"a\": 1}'\n```"
        )
    )
    resolved = own.resolve(Deployment(recipe=str(file)), "h200")
    assert dict(resolved.env) == {"A": "1", "B": "x y", "C": "2"}
    assert resolved.argv() == ["vllm", "serve", "org/model", "--flag", '{"a": 1}']
    assert resolved.precision == "fp8"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("# something else\n", "not a page of a recipe: it lacks its title"),
        ("# org/model — vLLM serving recipe\n", "a line 'Configuration: ...'"),
        (page_text("nothing here"), "a section '## Serve' with a vllm serve command"),
        (page_text("```bash\nvllm serve org/model --x 'open\n```"), "its command cannot be read"),
        (
            page_text(
                "```bash\nvllm serve a/b --port 1\n```\n```bash\nvllm serve a/b --port 2\n```",
                "pd_cluster",
            ),
            "several kinds of processes",
        ),
    ],
)
def test_a_page_that_is_no_recipe_is_refused_with_what_it_lacks(
    own: Catalog, tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "page.md"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        own.recipe(str(file))
    assert message in str(caught.value)
    assert str(file) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[1, 2]", "not a recipe: it has no hf_id, meta, model, variants"),
        ('{"models": []}', "it holds models"),
        (
            '{"hf_id": "a/b", "meta": {"title": "t"}, "model": {"model_id": "a/b"},'
            ' "variants": {"default": {}}, "surprise": 1}',
            "unknown key 'surprise'",
        ),
        (
            '{"hf_id": "a/b", "meta": {"title": "\\ud83d\\ude00"}, "model": {"model_id": 3},'
            ' "variants": {"default": {}}}',
            "model.model_id",
        ),
    ],
)
def test_json_of_another_schema_is_refused_with_what_it_holds(
    own: Catalog, tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "recipe.json"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        own.recipe(str(file))
    assert message in str(caught.value)
    assert str(file) in str(caught.value)


def test_the_dependencies_that_the_site_puts_under_install_are_read(
    own: Catalog, tmp_path: Path
) -> None:
    file = tmp_path / "recipe.json"
    data = {
        "hf_id": "org/model",
        "meta": {"title": "t", "derived_from": "org/parent", "variant": "fp8"},
        "model": {
            "model_id": "org/model",
            "install": {"extras": [{"command": "pip install x", "note": "n"}]},
        },
        "variants": {"default": {"json": "/org/model.json"}},
        "recommended_command": {"strategy": "multi_node_tp", "hardware": "b200"},
    }
    file.write_text(json.dumps(data))
    recipe = own.recipe(str(file)).recipe
    assert [item.command for item in recipe.dependencies] == ["pip install x"]
    assert recipe.compatible_strategies == ("multi_node_tp",)
    assert recipe.meta.default_hardware == "b200"
    assert own.resolve(Deployment(recipe=str(file)), "b200").strategy.name == "multi_node_tp"
