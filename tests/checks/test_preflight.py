"""Preflight: each check fails on what it is for, with the host, the numbers and the mend."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from orchestrator import Plan
from orchestrator.checks.preflight import Subject, host_checks, preflight
from orchestrator.checks.result import CheckResult
from orchestrator.facts.host_facts import Gpu, GpuProcess, HostFacts
from orchestrator.runtime.containers import ContainerState
from tests.planning.builders import make_plan

H200 = tuple(Gpu(i, "NVIDIA H200", 143771, 4) for i in range(8))


def facts(address: str) -> HostFacts:
    return HostFacts(
        addresses=(("lo", "127.0.0.1"), ("bond0", address)),
        gpus=H200,
        driver_version="570.86.15",
        docker_version="28.2.2",
        disk_free_mib=100_000,
    )


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    plan: Plan = make_plan(tmp_path, nodes=2, name="kimi")
    good = {"node01": facts("10.1.0.11"), "node02": facts("10.1.0.12")}
    return Subject(nodes=plan.nodes, facts=good)


def changed(subject: Subject, host: str, **fields: object) -> Subject:
    new = replace(subject.facts[host], **fields)  # type: ignore[arg-type]
    return replace(subject, facts={**subject.facts, host: new})


def bad(subject: Subject) -> list[CheckResult]:
    return [result for result in preflight(subject) if result.status != "ok"]


def test_good_hosts_pass_every_check(subject: Subject) -> None:
    assert bad(subject) == []
    names = {result.name for result in preflight(subject)}
    assert names == {"docker", "gpus", "gpu memory", "address", "ports", "disk"}


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("Cannot connect to the Docker daemon at unix:///x.", "systemctl start docker"),
        ("permission denied while trying to connect", "group docker"),
        ("sh: 4: docker: not found", "install docker"),
    ],
)
def test_a_docker_that_does_not_answer_fails_with_the_mend(
    subject: Subject, said: str, hint: str
) -> None:
    (result,) = bad(changed(subject, "node02", docker_version=None, docker_error=said))
    assert (result.name, result.host, result.status) == ("docker", "node02", "failed")
    assert hint in (result.hint or "")


def test_missing_gpus_are_counted(subject: Subject) -> None:
    (result,) = bad(changed(subject, "node02", gpus=H200[:6]))
    assert result.detail == "the plan uses GPUs 0, 1, 2, 3, 4, 5, 6, 7; 6, 7 are not there"
    (result,) = bad(changed(subject, "node02", gpus=()))
    assert result.detail.startswith("no GPU was found")


def test_gpu_memory_that_another_process_holds_is_named_with_its_owner(subject: Subject) -> None:
    gpus = (replace(H200[0], used_mib=70_000), *H200[1:])
    holder = GpuProcess(0, 4242, "python3", "mia", 69_996)
    (result,) = bad(changed(subject, "node01", gpus=gpus, gpu_processes=(holder,)))
    assert result.status == "failed"
    assert "GPU 0 has 73771 of 143771 MiB free" in result.detail
    assert "held by python3/4242 (mia, 69996 MiB)" in result.detail


def test_gpu_memory_of_a_container_that_goes_first_counts_as_free(subject: Subject) -> None:
    gpus = (replace(H200[0], used_mib=70_000), *H200[1:])
    holder = GpuProcess(0, 4242, "python3", "root", 69_996, container="c1")
    taken = changed(subject, "node01", gpus=gpus, gpu_processes=(holder,))
    assert bad(replace(taken, going=frozenset({"c1"}))) == []
    assert len(bad(taken)) == 1


def test_an_address_that_the_host_does_not_have(subject: Subject) -> None:
    (result,) = bad(changed(subject, "node02", addresses=(("bond0", "192.0.2.12"),)))
    assert result.detail == "10.1.0.12 is on none of its interfaces; it has 192.0.2.12 (bond0)"
    assert "orc_address" in (result.hint or "")


def test_an_ipv6_address_that_the_host_does_not_have(subject: Subject) -> None:
    own = (("lo", "::1"), ("bond0", "fe80::1"), ("bond0", "fd00::11"), ("bond0", "10.1.0.11"))
    nodes = [replace(node, address="fd00:0::11") for node in subject.nodes[:1]]
    assert bad(changed(replace(subject, nodes=nodes), "node01", addresses=own)) == []
    nodes = [replace(node, address="fd00::12") for node in nodes]
    (result,) = bad(changed(replace(subject, nodes=nodes), "node01", addresses=own))
    assert result.detail == "fd00::12 is on none of its interfaces; it has fd00::11 (bond0)"


def test_an_interface_that_the_host_does_not_have(subject: Subject) -> None:
    """The address is there, but NCCL and Gloo are told another interface."""
    (result,) = bad(changed(subject, "node02", addresses=(("eth0", "10.1.0.12"),)))
    assert result.detail == "there is no interface bond0 with an address; there are eth0"
    assert "orc_interface" in (result.hint or "")


def test_a_port_that_is_held_is_named_with_its_owner(subject: Subject) -> None:
    (result,) = bad(changed(subject, "node01", listening=((8000, "nginx/812"),)))
    assert result.detail == "port 8000 (API of replica 0) is held by nginx/812"


def test_a_port_of_another_deployment_is_named_with_that(subject: Subject) -> None:
    other = ContainerState(
        "node01", "c9", "orc-llama-r0-n0", "running", {"orc.deployment": "llama"}
    )
    taken = changed(
        subject, "node01", listening=((8000, "vllm/77"),), port_containers=((8000, "c9"),)
    )
    (result,) = bad(replace(taken, containers=(other,)))
    assert "vllm/77 in container orc-llama-r0-n0 of deployment llama" in result.detail


def test_a_port_of_a_container_that_goes_first_is_free(subject: Subject) -> None:
    taken = changed(
        subject, "node01", listening=((8000, "vllm/77"),), port_containers=((8000, "c9"),)
    )
    assert bad(replace(taken, going=frozenset({"c9"}))) == []


def test_a_port_that_nobody_may_see_the_owner_of_still_fails(subject: Subject) -> None:
    (result,) = bad(changed(subject, "node01", listening=((8000, ""),)))
    assert "a process that this login may not see" in result.detail


def test_a_port_that_the_plan_does_not_use_does_not_matter(subject: Subject) -> None:
    assert bad(changed(subject, "node01", listening=((9999, "nginx/1"),))) == []


def test_little_disk_is_a_warning(subject: Subject) -> None:
    (result,) = bad(changed(subject, "node01", disk_free_mib=900))
    assert (result.status, result.name) == ("warning", "disk")


def test_drivers_that_differ_within_a_replica_are_a_warning_with_a_table(
    subject: Subject,
) -> None:
    (result,) = bad(changed(subject, "node02", driver_version="580.95.05"))
    assert result.status == "warning"
    assert "node01 570.86.15, node02 580.95.05" in result.detail


def test_hosts_are_checked_without_a_plan() -> None:
    results = host_checks({"node01": facts("10.1.0.11")})
    assert [r.detail for r in results if r.name == "gpus"] == ["8 x NVIDIA H200"]
    assert all(r.status == "ok" for r in results)


def other_on(*gpus: int, **fields: str) -> ContainerState:
    labels = {"orc.deployment": "llama", "orc.gpus": ",".join(map(str, gpus))} | fields
    return ContainerState("node01", "c9", "orc-llama-r0-n0", "running", labels)


def test_gpus_of_another_deployment_that_still_loads_are_refused(subject: Subject) -> None:
    """It holds no memory yet, so that memory alone would let both start."""
    (result,) = bad(replace(subject, containers=(other_on(3),)))
    assert (result.host, result.status) == ("node01", "failed")
    assert result.detail == "GPU 3 is used by deployment llama (orc-llama-r0-n0)"
    (result,) = bad(replace(subject, containers=(other_on(6, 7, 8),)))
    assert result.detail.startswith("GPUs 6, 7 are used by deployment llama")
    assert "orc_gpus" in (result.hint or "")


def test_gpus_of_another_deployment_may_be_shared_or_freed(subject: Subject) -> None:
    elsewhere = replace(other_on(3), host="node03")
    exited = replace(other_on(3), status="exited")
    own = other_on(3, **{"orc.deployment": "kimi"})
    for free in (elsewhere, exited, own, other_on(8, 9)):
        assert bad(replace(subject, containers=(free,))) == []
    assert bad(replace(subject, containers=(other_on(3),), going=frozenset({"c9"}))) == []
    half = [
        replace(node, argv=(*node.argv, "--gpu-memory-utilization", "0.5"))
        for node in subject.nodes
    ]
    assert bad(replace(subject, nodes=half, containers=(other_on(3),))) == []
