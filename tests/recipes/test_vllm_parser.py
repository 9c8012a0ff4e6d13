"""Argument lists before the parser of real vLLM."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from orchestrator.cli.recipe_commands import node_commands
from orchestrator.deployment import Deployment
from orchestrator.errors import PlanError
from orchestrator.recipes.arguments import canonical, from_mapping, parse
from orchestrator.recipes.catalog import Catalog
from orchestrator.recipes.flags import ALIASES, FLAGS_FILE
from orchestrator.recipes.recommend import (
    minimum_nodes,
    offered_strategies,
    strategy_supported,
    usable_variants,
)
from orchestrator.recipes.vllm_versions import missing_flags
from tests.fleet.debian import install_debian_packages
from tests.fleet.environment import build_environment
from tests.recipes import oracle

pytestmark = [pytest.mark.fleet, pytest.mark.vllm]

Words = tuple[str, ...]


@pytest.fixture(scope="module")
def vllm_python(fleet_machine: None) -> str:
    install_debian_packages()
    return str(build_environment() / "bin" / "python")


@pytest.fixture(scope="module")
def options(vllm_python: str) -> list[list[str]]:
    """Every option of vLLM's parser with all its spellings."""
    found: list[list[str]] = parsed_by_vllm(vllm_python, [])["options"]
    return found


def parsed_by_vllm(python: str, lists: list[Words]) -> dict[str, Any]:
    script = Path(__file__).with_name("vllm_parse.py")
    done = subprocess.run(
        [python, str(script)], input=json.dumps(lists), capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-2000:]
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def version_of(answer: dict[str, Any]) -> tuple[int, int, int]:
    major, minor, patch = answer["version"].split("+")[0].split(".")[:3]
    return int(major), int(minor), int(patch)


def unexplained(answer: dict[str, Any], lists: list[Words]) -> list[Any]:
    """Lists that vLLM refuses for no known flag, and such that it takes in spite of one."""
    version = version_of(answer)
    wrong = []
    for position, words in enumerate(lists):
        refusal = answer["refused"].get(str(position))
        known = [item.name for item in missing_flags(version, parse(words[1:], ""))]
        if bool(refusal) != bool(known):
            wrong.append((words, refusal, known))
    return wrong


def own_lists(catalog: Catalog) -> set[Words]:
    """Every recipe of a catalog: each variant on each hardware with each strategy."""
    lists = set()
    for name in catalog.names():
        recipe = catalog.recipe(name).recipe
        for profile in catalog.profiles.values():
            for variant in usable_variants(recipe, profile):
                for strategy in offered_strategies(recipe):
                    if strategy_supported(recipe, strategy, profile):
                        chosen = Deployment(recipe=name, variant=variant, strategy=strategy)
                        resolved = catalog.resolve(chosen, profile.name)
                        single = resolved.strategy.deploy_type == "single_node"
                        nodes = 1 if single else max(2, minimum_nodes(recipe, variant, profile))
                        try:
                            commands = node_commands(resolved, chosen, nodes)
                        except PlanError:
                            continue  # the model cannot be split so: the topology's own tests
                        lists |= {tuple(command.argv[2:]) for command in commands}
    return lists


def test_our_own_catalog_is_accepted_by_vllm_but_for_flags_known_to_be_missing(
    vllm_python: str, own: Catalog
) -> None:
    lists = sorted(own_lists(own))
    assert len(lists) > 1000
    answer = parsed_by_vllm(vllm_python, lists)
    assert unexplained(answer, lists)[:3] == []


def test_the_oracles_selections_are_accepted_but_for_flags_known_to_be_missing(
    vllm_python: str, shared: Path
) -> None:
    catalog = Catalog.load(shared / "catalog")
    gathered: set[Words] = set()
    for rendering in oracle.renderings(shared):
        recipe = oracle.resolve(catalog, rendering)
        for parts in [pool.parts for pool in recipe.pools.values()] or [recipe.parts]:
            gathered.add(tuple(recipe.pool_argv(parts)[2:]))
    lists = sorted(gathered)
    answer = parsed_by_vllm(vllm_python, lists)
    assert unexplained(answer, lists)[:3] == []
    version = version_of(answer)
    refused = Counter(
        item.name for words in lists for item in missing_flags(version, parse(words[1:], ""))
    )
    print(f"\nvLLM {answer['version']}: {len(answer['refused'])} of {len(lists)} lists refused")
    for name, count in refused.most_common():
        print(f"{count:6} {name}")
    assert set(refused) == {
        "--attention-config with use_fp4_indexer_cache",
        "--compilation-config with use_inductor",
        "--disable-log-requests",
        "--tool-call-parser-plugin",
    }


def test_our_aliases_are_vllms_own(options: list[list[str]]) -> None:
    """Every short form of vLLM's parser is known here under the same flag, and no other."""
    theirs = {}
    for spellings in options:
        flag = next((word for word in spellings if word.startswith("--")), None)
        for word in spellings:
            if flag and not word.startswith("--no-") and word not in {flag, "-h"}:
                theirs[word] = flag
    assert theirs == {short: flag for short, flag in ALIASES.items() if short != "-O"}
    assert canonical("-O3").name == "--optimization-level"


def test_dotted_keys_of_every_kind_are_accepted(vllm_python: str) -> None:
    given: dict[str, object] = {
        "eplb-config.use_async": False,
        "compilation-config.pass_config.fuse_norm_quant": True,
        "compilation-config.cudagraph_capture_sizes": [1, 2, 4],
        "compilation-config.cudagraph_mode": "NONE",
    }
    arguments, _ = from_mapping(given, "user")
    words = ("model", *(word for argument in arguments for word in argument.tokens))
    answer = parsed_by_vllm(vllm_python, [(*words, "--max-num-seqs", "64")])
    assert answer["refused"] == {}


def test_an_abbreviation_means_what_it_means_to_vllm(vllm_python: str) -> None:
    """Of several flags it is none; so it is here too for a negation of flags of which only one
    can be negated, which nobody knows here."""
    answer = parsed_by_vllm(vllm_python, [])
    named, wrong = answer["named"], []
    for word, theirs in answer["abbreviations"].items():
        ours = named.get(canonical(word).name)
        asked_in_full = ours is None and (len(theirs) > 1 or word.startswith("--no-"))
        if not asked_in_full and theirs != [ours]:
            wrong.append((word, ours, theirs))
    # The negation of all flags that have one is --node-rank here, which is refused as well; and
    # a number is no flag that could be negated.
    known = ("--no", "--no-long-prefill-token-threshold")
    assert [one for one in wrong if one[0] not in known] == []
    assert len(answer["abbreviations"]) > 3000


def test_the_flags_we_know_are_vllms_own(options: list[list[str]]) -> None:
    theirs = {word for spellings in options for word in spellings if word.startswith("--")}
    negated = {word for word in theirs if word.startswith("--no-")}
    assert set(FLAGS_FILE.read_text().split()) == theirs - negated


def test_a_flag_that_begins_with_no_is_always_the_negation_of_another(
    options: list[list[str]],
) -> None:
    for spellings in options:
        for word in spellings:
            if word.startswith("--no-"):
                assert "--" + word.removeprefix("--no-") in spellings
