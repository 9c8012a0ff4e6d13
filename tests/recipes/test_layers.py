"""The order of the layers, and which replaces which."""

from __future__ import annotations

from pathlib import Path

from orchestrator.deployment import Deployment
from orchestrator.recipes.catalog import Catalog
from orchestrator.secret import Secret
from tests.recipes.making import arguments, catalog_with, recipe_data, resolved

STACK = recipe_data(
    model={"base_args": ["--x", "base", "--b"], "base_env": {"X": "base", "B": "1"}},
    variants={
        "default": {
            "extra_args": ["--x", "variant", "--v"],
            "extra_env": {"X": "variant"},
            "hardware_overrides": {
                "h200": {"extra_args": ["--x", "variant on h200", "--vh"]},
                "hopper": {"extra_args": ["--x", "variant on hopper", "--vg"]},
            },
        }
    },
    strategy_overrides={"single_node_tp": {"extra_args": ["--x", "strategy", "--s"]}},
    hardware_overrides={
        "hopper": {"extra_args": ["--x", "hardware", "--hw"], "extra_env": {"X": "hardware"}}
    },
    features={"f": {"args": ["--x", "feature", "--f"], "env": {"X": "feature"}}},
)


def test_layers_come_in_their_order_and_the_last_of_a_flag_wins(tmp_path: Path) -> None:
    words = arguments(resolved(tmp_path, STACK))
    assert words == ["--b", "--v", "--vh", "--s", "--hw", "--vg", "--x", "feature", "--f"]
    assert resolved(tmp_path, STACK).env == {"X": "feature", "B": "1"}


def test_the_users_args_win_over_everything_and_stand_last(tmp_path: Path) -> None:
    found = resolved(tmp_path, STACK, args={"x": "mine", "b": None, "hw": False})
    assert arguments(found)[-3:] == ["--x", "mine", "--no-hw"]
    assert "--b" not in arguments(found)
    assert found.arguments[-1].layer == "your args"


def test_parallel_flags_go_in_behind_the_strategy(tmp_path: Path) -> None:
    words = resolved(tmp_path, STACK).argv(["--tensor-parallel-size", "8"])
    assert words[3:9] == ["--b", "--v", "--vh", "--tensor-parallel-size", "8", "--s"]


def test_a_layout_that_a_recipe_abbreviates_is_a_constraint_all_the_same(tmp_path: Path) -> None:
    data = recipe_data(model={"base_args": ["--node-ran", "3", "--pipeline-par=2", "--a"]})
    found = resolved(tmp_path, data)
    assert arguments(found) == ["--a"]
    assert found.fixed_parallel == {"--node-rank": "3", "--pipeline-parallel-size": "2"}


def test_a_strategys_override_for_a_generation_replaces_the_recipes_and_the_variants(
    tmp_path: Path,
) -> None:
    override = {"extra_args": ["--s"], "hardware_overrides": {"hopper": {"extra_args": ["--sg"]}}}
    data = STACK | {"strategy_overrides": {"single_node_tp": override}}
    words = arguments(resolved(tmp_path, data))
    assert "--sg" in words
    assert "--hw" not in words
    assert "--vg" not in words
    assert "--vh" in words


def test_a_strategys_override_for_an_exact_hardware_adds(tmp_path: Path) -> None:
    override = {"hardware_overrides": {"h200": {"extra_args": ["--se"]}}}
    words = arguments(
        resolved(tmp_path, STACK | {"strategy_overrides": {"single_node_tp": override}})
    )
    assert words.index("--vg") < words.index("--se")
    assert "--hw" in words


def test_nvidia_stands_for_every_generation_of_nvidia_that_has_no_override_of_its_own(
    tmp_path: Path,
) -> None:
    data = recipe_data(hardware_overrides={"nvidia": {"extra_args": ["--n"]}, "hopper": {}})
    assert arguments(resolved(tmp_path, data, "b200")) == ["--n"]
    assert arguments(resolved(tmp_path, data, "h200")) == []
    assert arguments(resolved(tmp_path, data, "mi300x")) == []


def test_a_parallel_flag_behind_the_strategy_is_a_constraint_and_no_argument(
    tmp_path: Path,
) -> None:
    data = recipe_data(
        strategy_overrides={"single_node_tp": {"extra_args": ["-tp", "4", "--enable-x"]}}
    )
    found = resolved(tmp_path, data)
    assert found.fixed_parallel == {"--tensor-parallel-size": "4"}
    assert arguments(found) == ["--enable-x"]


def test_a_parallel_flag_before_the_strategy_yields_to_the_strategys_own(tmp_path: Path) -> None:
    data = recipe_data(model={"base_args": ["--tensor-parallel-size", "4", "-pp", "2"]})
    found = resolved(tmp_path, data)
    assert found.fixed_parallel == {"--pipeline-parallel-size": "2"}


def test_the_users_parallel_args_are_constraints(tmp_path: Path) -> None:
    found = resolved(tmp_path, STACK, args={"tensor-parallel-size": 2})
    assert found.fixed_parallel == {"--tensor-parallel-size": "2"}


def test_the_executor_of_a_single_node_is_an_ordinary_argument(tmp_path: Path) -> None:
    data = recipe_data(model={"base_args": ["--distributed-executor-backend", "mp"]})
    assert arguments(resolved(tmp_path, data)) == ["--distributed-executor-backend", "mp"]
    several = resolved(tmp_path, data, strategy="multi_node_tp")
    assert (arguments(several), several.fixed_parallel) == ([], {})


def test_an_environment_of_the_user_wins_and_a_secret_stays_out(tmp_path: Path) -> None:
    found = resolved(tmp_path, STACK, env={"X": "mine", "B": Secret("hush"), "N": 1})
    assert found.env == {"X": "mine", "N": "1"}
    assert "hush" not in repr(found)


def test_a_rust_frontend_by_default_is_a_variable_that_a_later_layer_can_take_back(
    tmp_path: Path,
) -> None:
    data = recipe_data(model={"default_frontend": {"default": "rust", "h100": "python"}})
    assert resolved(tmp_path, data, "h200").env == {"VLLM_USE_RUST_FRONTEND": "1"}
    assert resolved(tmp_path, data, "h100").env == {}
    taken_back = data | {
        "hardware_overrides": {"hopper": {"extra_env": {"VLLM_USE_RUST_FRONTEND": 0}}}
    }
    assert resolved(tmp_path, taken_back, "h200").env == {"VLLM_USE_RUST_FRONTEND": "0"}


def test_a_strategy_takes_out_the_arguments_that_it_cannot_stand(tmp_path: Path) -> None:
    data = recipe_data(
        model={"base_args": ["--enable-expert-parallel"]},
        compatible_strategies=["single_node_dpa_tp", "single_node_tp"],
    )
    assert resolved(tmp_path, data, strategy="single_node_tp").expert_parallel
    assert not resolved(tmp_path, data, strategy="single_node_dpa_tp").expert_parallel


def test_pools_get_their_roles_layers_and_the_gb200_environment_only_there(own: Catalog) -> None:
    chosen = Deployment(recipe="moonshotai/Kimi-K2.6", strategy="pd_cluster", pools={"decode": 2})
    found = own.resolve(chosen, "gb200")
    decode = found.pools["decode"]
    assert (decode.nodes, decode.parallelism, decode.tensor) == (2, "dep", None)
    words = found.pool_argv(decode.parts)
    assert words[words.index("--all2all-backend") + 1] == "flashinfer_nvlink_one_sided"
    assert "--all2all-backend" not in found.pool_argv(found.pools["prefill"].parts)
    assert "--enable-expert-parallel" in words
    assert decode.parts.env["NCCL_SOCKET_IFNAME"] == "$IFACE_NAME"
    assert "NCCL_SOCKET_IFNAME" not in found.pools["prefill"].parts.env
    assert decode.parts.env["NCCL_MNNVL_ENABLE"] == "1"
    plain = own.resolve(chosen, "h200").pools["decode"].parts.env
    assert "NCCL_MNNVL_ENABLE" not in plain
    assert plain["CUDA_VISIBLE_DEVICES"] == "0,1,2,3,4,5,6,7"


def test_a_kv_offload_comes_last_with_its_companion(own: Catalog) -> None:
    found = own.resolve(Deployment(recipe="moonshotai/Kimi-K2.6", kv_offload="lmcache"), "h200")
    assert found.arguments[-1].tokens[0] == "--kv-transfer-config"
    assert "LMCacheMPConnector" in found.arguments[-1].tokens[1]
    assert [companion.label for companion in found.companions] == ["LMCache server"]
    [note] = [note for note in found.notes if note.startswith("LMCache server has to run on ")]
    assert "orc does not start it: lmcache server --port 5555 --http-port 8080 --l1" in note


def test_a_kv_store_composes_with_a_strategy_and_with_pools(own: Catalog) -> None:
    store = "kv_store_centralized_mooncake"
    plain = own.resolve(Deployment(recipe="moonshotai/Kimi-K2.6", kv_offload=store), "h200")
    assert plain.env == {"MOONCAKE_CONFIG_PATH": "$MOONCAKE_CONFIG_PATH", "PYTHONHASHSEED": "0"}
    assert plain.router and plain.router.policy == "cache_aware"
    assert plain.kv_store is not None and plain.kv_store.default_instances == 2
    pools = own.resolve(
        Deployment(recipe="moonshotai/Kimi-K2.6", kv_offload=store, strategy="pd_cluster"), "h200"
    ).pools
    for role, word in (("prefill", "kv_producer"), ("decode", "kv_consumer")):
        last = pools[role].parts.arguments[-1].tokens
        assert "MultiConnector" in last[1] and word in last[1]


def test_several_catalogs_are_searched_in_order(tmp_path: Path) -> None:
    mine = recipe_data(model={"model_id": "mine/model"})
    catalog_with(tmp_path / "a", mine)
    catalog_with(tmp_path / "b", recipe_data())
    both = Catalog.load([tmp_path / "a", tmp_path / "b"])
    assert both.resolve(Deployment(recipe="org/model"), "h200").model == "mine/model"
    swapped = Catalog.load([tmp_path / "b", tmp_path / "a"])
    assert swapped.resolve(Deployment(recipe="org/model"), "h200").model == "org/model"
    assert "moonshotai/Kimi-K2.6" in both.names()


def test_only_the_wanted_model_file_is_read(tmp_path: Path) -> None:
    catalog = catalog_with(tmp_path, recipe_data())
    (tmp_path / "models" / "org" / "broken.yaml").write_text("{")
    assert catalog.resolve(Deployment(recipe="org/model"), "h200").model == "org/model"
