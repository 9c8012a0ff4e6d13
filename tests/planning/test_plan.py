"""The plan: what every node runs, and what decides its hash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Catalog, Deployment, Plan, plan
from orchestrator.errors import InputError, PlanError
from orchestrator.facts.host_facts import HostFacts
from orchestrator.runtime.scripts import environment_file
from orchestrator.secret import Secret
from orchestrator.topology.ports import PortUse
from tests.planning.builders import RACK, inventory, make_plan


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


def test_kimi_k2_6_over_two_h200_nodes(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, nodes=2)
    head, worker = plan.nodes
    assert (head.host, head.replica, head.rank, head.role) == ("node01", 0, 0, "head")
    assert head.gpus == tuple(range(8))
    assert head.argv[:3] == ("vllm", "serve", "moonshotai/Kimi-K2.6")
    assert option(list(head.argv), "--tensor-parallel-size") == "8"
    assert option(list(head.argv), "--pipeline-parallel-size") == "2"
    assert {rank.layers for rank in head.ranks} == {(0, 31)}
    assert {rank.layers for rank in worker.ranks} == {(31, 61)}
    assert [(end.host, end.url) for end in plan.endpoints] == [("node01", "http://10.1.0.11:8000")]


@pytest.mark.parametrize(
    ("selection", "noted"),
    [
        ({}, True),
        ({"features": ["-spec_decoding"]}, False),
        ({"args": {"speculative-config": None}}, False),
        ({"args": {"speculative-config": {"method": "ngram"}}}, False),
        ({"strategy": "multi_node_tp"}, False),
    ],
)
def test_a_draft_that_reads_the_states_of_every_stage_is_noted(
    tmp_path: Path, selection: dict[str, Any], noted: bool
) -> None:
    plan = make_plan(tmp_path, nodes=2, **selection)
    assert any("eagle3 over 2 pipeline stages" in note for note in plan.notes) is noted


def test_nodes_differ_only_in_rank_flags_and_addresses(tmp_path: Path) -> None:
    head, worker = make_plan(tmp_path).nodes
    rank = ["--node-rank", "1", "--headless"]
    same = [w for w in worker.argv if w not in rank]
    assert same == [w for w in head.argv if w not in ["--node-rank", "0"]]
    differing = {name for name in head.env if head.env[name] != worker.env[name]}
    assert differing == {"VLLM_HOST_IP"}


def test_only_nodes_that_serve_are_told_how_many_api_servers_to_start(tmp_path: Path) -> None:
    """`--api-server-count=1 cannot be used with --headless` (vLLM 0.32.0)."""
    head, worker = make_plan(tmp_path, nodes=2, args={"api-server-count": 1}).nodes
    at = head.argv.index("--api-server-count")
    assert head.argv[at + 1] == "1"
    same = [*head.argv[:at], *head.argv[at + 2 :]]
    rank = same.index("--node-rank") + 1
    followed = [*worker.argv]
    followed.remove("--headless")
    assert followed == [*same[:rank], "1", *same[rank + 1 :]]


def test_the_interface_is_exact_for_nccl_and_each_host_has_its_own_name(tmp_path: Path) -> None:
    """nccl-tests#9: `bond0` also means `bond0.12`; ray#60817: names differ by host."""
    text = RACK.replace("orc_address: 10.1.0.12}", "orc_address: 10.1.0.12, orc_interface: ens1f0}")
    head, worker = make_plan(tmp_path, text).nodes
    assert head.env["NCCL_SOCKET_IFNAME"] == "=bond0"
    assert worker.env["NCCL_SOCKET_IFNAME"] == "=ens1f0"
    assert worker.env["GLOO_SOCKET_IFNAME"] == worker.env["TP_SOCKET_IFNAME"] == "ens1f0"


def test_facts_fill_in_the_interface_and_address_that_the_inventory_leaves_open(
    tmp_path: Path,
) -> None:
    text = RACK.replace("    orc_interface: bond0\n", "")
    assert "interface of node01, node02 is not known" in make_plan(tmp_path, text).notes[-1]
    facts = {
        f"node0{n}": HostFacts(addresses=(("lo", "127.0.0.1"), ("ib0", f"10.1.0.1{n}")))
        for n in (1, 2)
    }
    plan = make_plan(tmp_path, text, facts)
    assert plan.nodes[1].env["GLOO_SOCKET_IFNAME"] == "ib0"


def test_a_host_known_by_name_is_met_where_ssh_reached_it(tmp_path: Path) -> None:
    text = "all:\n  vars: {orc_hardware: h200}\n  hosts: {node01: , node02: }\n"
    assert make_plan(tmp_path, text).nodes[1].address == "node02"
    facts = {
        f"node0{n}": HostFacts(addresses=(("ib0", f"10.1.0.1{n}"),), reached_at=f"10.1.0.1{n}")
        for n in (1, 2)
    }
    worker = make_plan(tmp_path, text, facts).nodes[1]
    assert (worker.address, worker.interface) == ("10.1.0.12", "ib0")
    assert option(list(worker.argv), "--master-addr") == "10.1.0.11"
    loopback = {**facts, "node02": HostFacts(reached_at="127.0.1.1")}
    with pytest.raises(PlanError, match=r"of node02 is 127\.0\.1\.1, a loopback address"):
        make_plan(tmp_path, text, loopback)


def test_the_control_machine_itself_is_at_its_loopback_address(tmp_path: Path) -> None:
    text = "all: {hosts: {here: {ansible_connection: local, orc_hardware: cpu}}}"
    plan = make_plan(tmp_path, text, recipe="orc/tiny-llama", strategy="single_node_tp")
    assert plan.endpoints[0].url == "http://127.0.0.1:8000"


def test_environment_layers_recipe_then_rank_then_host_then_deployment(tmp_path: Path) -> None:
    text = RACK.replace(
        "orc_interface: bond0",
        "orc_interface: bond0\n    orc_env: {A: host, B: host, NCCL_SOCKET_IFNAME: '=mine'}",
    )
    env = make_plan(tmp_path, text, env={"B": "deployment"}).nodes[0].env
    assert (env["A"], env["B"], env["NCCL_SOCKET_IFNAME"]) == ("host", "deployment", "=mine")


def test_vllms_own_patience_is_raised_to_the_deadline(tmp_path: Path) -> None:
    """vllm#32116: a load longer than ten minutes."""
    name = "VLLM_ENGINE_READY_TIMEOUT_S"
    assert make_plan(tmp_path).nodes[0].env[name] == "2700"
    assert name not in make_plan(tmp_path, health={"timeout": "5m"}).nodes[0].env
    own = make_plan(tmp_path, env={name: "9999"})
    assert own.nodes[0].env[name] == "9999"


def test_the_deadline_is_no_part_of_the_hash(tmp_path: Path) -> None:
    """A second `orc up` with more patience must not restart what runs."""
    long, short = (make_plan(tmp_path, health={"timeout": t}) for t in ("2h", "5m"))
    assert [n.spec_hash for n in long.nodes] == [n.spec_hash for n in short.nodes]


def test_a_variable_that_breaks_a_server_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="VLLM_DP_RANK must not be set"):
        make_plan(tmp_path, env={"VLLM_DP_RANK": "0"})


def test_secrets_are_in_no_rendering_and_in_no_hash(tmp_path: Path) -> None:
    plans = [make_plan(tmp_path, env={"HF_TOKEN": f"hf_value{n}"}) for n in (1, 2)]
    token = plans[0].nodes[0].env["HF_TOKEN"]
    assert isinstance(token, Secret)
    assert token.reveal() == "hf_value1"
    text = json.dumps(plans[0].to_dict()) + repr(plans[0]) + " ".join(plans[0].nodes[0].command)
    assert "hf_value1" not in text
    assert plans[0].nodes[0].spec_hash == plans[1].nodes[0].spec_hash
    without = make_plan(tmp_path)
    assert without.nodes[0].spec_hash != plans[0].nodes[0].spec_hash


def test_the_deployments_environment_may_look_values_up_on_the_control_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "hf_looked_up")
    template = "{{ lookup('env', 'MY_TOKEN') }}"
    node = make_plan(tmp_path, env={"ANY": template, "WHO": "{{ inventory_hostname }}"}).nodes[1]
    assert node.env["ANY"] == Secret("hf_looked_up")
    assert node.env["WHO"] == "node02"
    monkeypatch.delenv("MY_TOKEN")
    with pytest.raises(InputError, match=r"the deployment: env\.ANY(.|\n)*export MY_TOKEN"):
        make_plan(tmp_path, env={"ANY": template})


@pytest.mark.parametrize(
    ("value", "said"),
    [("a\nb", "the value of MINE holds a line break"), ("x" * 65531, "the value of MINE is too")],
)
def test_what_no_container_can_be_given_is_refused_wherever_it_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, said: str
) -> None:
    monkeypatch.setattr("orchestrator.planning.environment._patience", lambda *_: {"MINE": value})
    with pytest.raises(InputError, match=said):
        make_plan(tmp_path)
    monkeypatch.undo()
    monkeypatch.setenv("MINE", value)
    with pytest.raises(InputError, match=said):
        make_plan(tmp_path, env={"MINE": "{{ lookup('env', 'MINE') }}"})


def test_a_plan_decrypts_nothing(tmp_path: Path) -> None:
    """Whoever plans need not have the vault's password, nor be asked for it."""
    vault = "!vault |\n        $ANSIBLE_VAULT;1.1;AES256\n        6162"
    text = RACK.replace("  hosts:", f"    orc_env:\n      MINE: {vault}\n  hosts:")
    planned = make_plan(tmp_path, text)
    assert planned.nodes[0].shown_env["MINE"] == "<secret>"
    with pytest.raises(InputError, match="vault"):
        environment_file(planned.nodes[0].env)


def test_the_same_input_gives_the_same_bytes_and_any_change_another_hash(tmp_path: Path) -> None:
    def hashes(plan: Plan) -> list[str]:
        return [node.spec_hash for node in plan.nodes]

    base = make_plan(tmp_path)
    assert json.dumps(base.to_dict()) == json.dumps(make_plan(tmp_path).to_dict())
    changes: list[dict[str, Any]] = [
        {"args": {"max-model-len": 1024}},
        {"env": {"A": "1"}},
        {"image": "vllm/vllm-openai:v0.33.0"},
        {"port": 8001},
        {"name": "other"},
    ]
    seen = [hashes(make_plan(tmp_path, **change)) for change in changes]
    assert len({h for one in [hashes(base), *seen] for h in one}) == 2 * (len(changes) + 1)


def test_a_pinned_plan_runs_the_digest_and_keeps_the_hash(tmp_path: Path) -> None:
    plan = make_plan(tmp_path)
    reference = "vllm/vllm-openai@sha256:" + "0" * 64
    pinned = plan.pinned(plan.nodes[0].image, reference)
    assert all(reference in node.command for node in pinned.nodes)
    assert [n.spec_hash for n in pinned.nodes] == [n.spec_hash for n in plan.nodes]


def test_the_container_command_follows_the_rules_of_docker_and_vllm(tmp_path: Path) -> None:
    text = RACK.replace(
        "orc_interface: bond0",
        "orc_interface: bond0\n    orc_hf_home: /data/hf\n    orc_devices: [/dev/infiniband]\n"
        "    orc_container_args: [--shm-size, 16g]",
    )
    node = make_plan(tmp_path, text).nodes[0]
    command = node.command
    assert command[:5] == ["docker", "run", "--detach", "--name", "orc-kimi-k2-6-r0-n0"]
    assert option(command, "--gpus") == '"device=0,1,2,3,4,5,6,7"'
    assert option(command, "--volume") == "/data/hf:/root/.cache/huggingface"
    assert option(command, "--env-file") == ".orc/orc-kimi-k2-6-r0-n0.env"
    assert option(command, "--restart") == "no"
    assert option(command, "--cap-add") == "IPC_LOCK"
    assert command[command.index("--shm-size") : command.index("--entrypoint")] == [
        "--shm-size",
        "16g",
    ]
    entry = command.index("--entrypoint")
    assert command[entry : entry + 4] == ["--entrypoint", "vllm", node.image, "serve"]
    assert f"orc.spec={node.spec_hash}" in command


def test_gpus_are_those_of_orc_gpus(tmp_path: Path) -> None:
    text = RACK.replace("orc_interface: bond0", "orc_interface: bond0\n    orc_gpus: [4, 5, 6, 7]")
    plan = make_plan(tmp_path, text)
    assert plan.layout.first_sizes.tensor == 4
    assert option(plan.nodes[0].command, "--gpus") == '"device=4,5,6,7"'
    assert [rank.gpu for rank in plan.nodes[0].ranks] == [4, 5, 6, 7]


def test_another_port_is_an_argument_and_the_endpoint(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, port=9000)
    assert option(list(plan.nodes[0].argv), "--port") == "9000"
    assert plan.endpoints[0].url.endswith(":9000")
    assert plan.nodes[0].ports == {"master": 29501, "api": 9000}


def test_a_port_of_the_users_args_is_taken_or_refused_and_never_moved(tmp_path: Path) -> None:
    chosen = {"recipe": "moonshotai/Kimi-K2.6", "strategy": "multi_node_tp"}
    deployment = Deployment.model_validate({**chosen, "args": {"port": 9000}})
    busy = PortUse({"node01": {9000: "another"}})
    assert make_plan(tmp_path, **chosen, args={"port": 9000}).endpoints[0].url.endswith(":9000")
    with pytest.raises(PlanError, match=r"port 9000 .* is taken on node01 by another"):
        plan(inventory(tmp_path), Catalog.load(), deployment, ports=busy)


@pytest.mark.parametrize(
    ("addresses", "given", "listens"),
    [
        (("10.1.0.11", "10.1.0.12"), "0.0.0.0", "0.0.0.0"),
        (("10.1.0.11", "10.1.0.12"), "::", "::"),
        (("10.1.0.11", "10.1.0.12"), "10.1.0.11", "10.1.0.11"),  # the follower serves nothing
        (("fd00::11", "fd00::12"), "0.0.0.0", "::"),
        (("fd00::11", "fd00::12"), "FD00:0::11", "FD00:0::11"),
    ],
)
def test_a_host_to_listen_on_is_one_where_the_endpoint_is_met(
    tmp_path: Path, addresses: tuple[str, str], given: str, listens: str
) -> None:
    text = RACK
    for old, new in zip(("10.1.0.11", "10.1.0.12"), addresses, strict=True):
        text = text.replace(old, f"'{new}'")
    plan = make_plan(tmp_path, text, args={"host": given})
    assert [option(list(node.argv), "--host") for node in plan.nodes] == [listens] * 2


def test_an_ipv6_endpoint_is_bracketed(tmp_path: Path) -> None:
    text = RACK.replace("10.1.0.11", "'fd00::11'").replace("10.1.0.12", "'fd00::12'")
    plan = make_plan(tmp_path, text)
    assert plan.endpoints[0].url == "http://[fd00::11]:8000"
    assert option(list(plan.nodes[1].argv), "--master-addr") == "fd00::11"


@pytest.mark.parametrize(
    ("text", "selection", "message"),
    [
        (RACK.replace("    orc_hardware: h200\n", ""), {}, "hardware of node01, node02 is not"),
        (RACK, {"hardware": "b200"}, r"no host is of hardware 'b200'(.|\n)*h200"),
        (RACK.replace("10.1.0.11}", "10.1.0.11, orc_hardware: b200}"), {}, "several kinds"),
        (RACK.replace("10.1.0.11}", "10.1.0.11, orc_gpus: [7, 8]}"), {}, "names GPU 8, but h200"),
        (RACK, {"args": {"port": 9000}, "port": 8001}, "port = 8001, but the arguments"),
        (
            RACK,
            {"args": {"port": 9000}, "strategy": "pd_cluster"},
            "is for one engine, and pd",
        ),
        (RACK, {"args": {"host": "127.0.0.1"}}, "node01: --host 127.0.0.1 listens where nothing"),
        (RACK, {"args": {"hos": "localhost"}}, "node01: --host localhost listens where nothing"),
        (
            RACK,
            {"args": {"host": "10.1.0.11"}, "strategy": "multi_node_dep"},
            r"node02: --host 10\.1\.0\.11 listens where nothing asks: .* at 10\.1\.0\.12",
        ),
        (RACK, {"nodes": 3}, r"1 replica x 3 nodes = 3 hosts, but 2 are there"),
    ],
)
def test_what_the_inventory_cannot_carry_is_refused(
    tmp_path: Path, text: str, selection: dict[str, Any], message: str
) -> None:
    with pytest.raises(PlanError, match=message):
        make_plan(tmp_path, text, **selection)


def test_only_hosts_of_the_chosen_hardware_are_used(tmp_path: Path) -> None:
    text = RACK.replace("10.1.0.11}", "10.1.0.11, orc_hardware: b200}")
    plan = make_plan(tmp_path, text, hardware="h200", strategy="single_node_tp")
    assert [node.host for node in plan.nodes] == ["node02"]


def test_a_lookup_under_a_secrets_name_is_resolved_and_stays_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "hf_of_mine")
    env = {"HF_TOKEN": "{{ lookup('env', 'MY_TOKEN') }}"}
    plan = make_plan(tmp_path, nodes=2, env=env)
    for node in plan.nodes:
        assert node.env["HF_TOKEN"] == Secret("hf_of_mine")
    assert "hf_of_mine" not in json.dumps(plan.to_dict())
