"""Checks of hosts before anything is started: pure functions over facts and the plan.

Every one of them is a fault that would otherwise show minutes later, in a log, on one rank.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from orchestrator.checks.result import CheckResult
from orchestrator.facts.host_facts import GpuProcess, HostFacts
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.recipes.arguments import flag_value
from orchestrator.runtime.containers import ContainerState
from orchestrator.topology.ip_address import ip_address
from orchestrator.topology.ports import port_in_words, port_use

# vLLM's default of --gpu-memory-utilization (0.33.0): this share must be free when it starts.
_DEFAULT_UTILIZATION = 0.92
_SHARED_UTILIZATION = 0.5
_LOW_DISK_MIB = 2 * 1024


@dataclass(frozen=True, slots=True)
class Subject:
    """What the checks look at: the nodes that will be started, the facts of their hosts, the
    containers seen there, and the IDs of those that are stopped before the start."""

    nodes: Sequence[LaunchSpec]
    facts: Mapping[str, HostFacts]
    containers: Sequence[ContainerState] = ()
    going: frozenset[str] = frozenset()


def preflight(subject: Subject) -> list[CheckResult]:
    """Every check on every host that is to start something."""
    results: list[CheckResult] = []
    for host in dict.fromkeys(node.host for node in subject.nodes):
        facts = subject.facts[host]
        nodes = [node for node in subject.nodes if node.host == host]
        results.append(docker_answers(host, facts))
        results += gpus_present(host, nodes, facts)
        results += gpus_of_others(host, nodes, subject)
        results += gpu_memory_free(host, nodes, facts, subject)
        results += address_owned(host, nodes, facts)
        results += ports_free(host, nodes, facts, subject)
        results.append(disk_free(host, facts))
    results += ports_distinct(subject.nodes)
    results += same_driver(subject)
    return results


def docker_answers(host: str, facts: HostFacts) -> CheckResult:
    if facts.docker_version:
        return CheckResult("docker", host, "ok", f"docker {facts.docker_version}")
    why = facts.docker_error or "docker is not installed"
    if "not found" in why:
        why = "docker is not installed"
    return CheckResult("docker", host, "failed", why, docker_hint(why))


def docker_hint(why: str) -> str:
    """What to do on a host whose docker does not answer, by what it says."""
    if "ermission denied" in why:
        return "add the login to the group docker, or set ansible_become: true"
    if "not installed" in why or "not found" in why:
        return "install docker on this host"
    return "start it: systemctl start docker"


def gpus_present(host: str, nodes: Sequence[LaunchSpec], facts: HostFacts) -> list[CheckResult]:
    """Every GPU that the plan uses exists (skipped for CPU)."""
    nodes = [node for node in nodes if node.container.brand != "CPU"]
    if not nodes:
        return []
    wanted = sorted({gpu for node in nodes for gpu in node.gpus})
    present = {gpu.index for gpu in facts.gpus}
    missing = [gpu for gpu in wanted if gpu not in present]
    if not missing:
        names = Counter(gpu.name for gpu in facts.gpus)
        found = ", ".join(f"{count} x {name}" for name, count in names.items())
        return [CheckResult("gpus", host, "ok", found)]
    if not facts.gpus:
        detail = f"no GPU was found, and the plan uses {_numbers(wanted)}"
        hint = "check nvidia-smi (or rocm-smi) there, or leave the host out with --limit"
    else:
        detail = f"the plan uses GPUs {_numbers(wanted)}; {_numbers(missing)} are not there"
        hint = "correct orc_hardware or orc_gpus of this host"
    return [CheckResult("gpus", host, "failed", detail, hint)]


def gpus_of_others(host: str, nodes: Sequence[LaunchSpec], subject: Subject) -> list[CheckResult]:
    """No GPU is another deployment's, unless at most half of its memory is asked for.

    What that one takes is not yet held while it loads, so free memory says nothing then. Whoever
    asks for half or less means to share, and the memory that is held decides.
    """
    results = []
    others = [s for s in subject.containers if s.host == host and s.running and s.deployment]
    for node in nodes:
        if node.container.brand == "CPU" or _utilization(node) <= _SHARED_UTILIZATION:
            continue
        for state in others:
            both = sorted(set(node.gpus) & set(state.gpus))
            if not both or state.deployment == node.deployment or state.id in subject.going:
                continue
            results.append(
                CheckResult(
                    "gpus",
                    host,
                    "failed",
                    f"GPU{'s' * (len(both) > 1)} {_numbers(both)} "
                    f"{'are' if len(both) > 1 else 'is'} used by deployment {state.deployment} "
                    f"({state.name})",
                    f"stop it: orc down {state.deployment}; leave them out with orc_gpus; or share "
                    f"them: --set args.gpu-memory-utilization={_SHARED_UTILIZATION} at most",
                )
            )
    return results


def gpu_memory_free(
    host: str, nodes: Sequence[LaunchSpec], facts: HostFacts, subject: Subject
) -> list[CheckResult]:
    """Each GPU has the share of its memory free that vLLM will ask for."""
    results = []
    own = {state.id: state for state in subject.containers if state.host == host}
    for node in nodes:
        share = _utilization(node)
        for gpu in facts.gpus:
            if gpu.index not in node.gpus or not gpu.memory_mib:
                continue
            holders = [p for p in facts.gpu_processes if p.gpu == gpu.index]
            released = sum(p.used_mib for p in holders if p.container in subject.going)
            used = max(0, gpu.used_mib - released)
            wanted = round(share * gpu.memory_mib)
            if gpu.memory_mib - used >= wanted:
                continue
            others = [_holder(p, own) for p in holders if p.container not in subject.going]
            by = f"; held by {', '.join(others)}" if others else ""
            results.append(
                CheckResult(
                    "gpu memory",
                    host,
                    "failed",
                    f"GPU {gpu.index} has {gpu.memory_mib - used} of {gpu.memory_mib} MiB free, "
                    f"and {share} x {gpu.memory_mib} = {wanted} MiB are asked for{by}",
                    "stop what holds it, or lower --set args.gpu-memory-utilization=0.x",
                )
            )
    if not results and facts.gpus:
        results.append(CheckResult("gpu memory", host, "ok", "free"))
    return results


def address_owned(host: str, nodes: Sequence[LaunchSpec], facts: HostFacts) -> list[CheckResult]:
    """The data-plane address is on one of the host's interfaces (where its facts have any), and
    so is the interface that the ranks are told."""
    results = []
    for address in dict.fromkeys(node.address for node in nodes if node.address):
        parsed = ip_address(address.partition("%")[0])
        if not facts.addresses or parsed is None:
            continue  # a name, or no `ip` command there: nothing to compare with
        interface = facts.interface_of(str(parsed))
        if interface:
            results.append(CheckResult("address", host, "ok", f"{address} on {interface}"))
            continue
        here = [(i, a) for i, a in facts.addresses if i != "lo" and not a.startswith("fe80:")]
        own = ", ".join(f"{a} ({i})" for i, a in here if (":" in a) == (parsed.version == 6))
        results.append(
            CheckResult(
                "address",
                host,
                "failed",
                f"{address} is on none of its interfaces; it has {own or 'none'}",
                "set orc_address or orc_interface of this host",
            )
        )
    known = {name for name, _ in facts.addresses}
    for interface in dict.fromkeys(node.interface for node in nodes if _is_told(node)):
        if known and interface not in known:
            results.append(
                CheckResult(
                    "address",
                    host,
                    "failed",
                    f"there is no interface {interface} with an address; there are "
                    f"{', '.join(sorted(known - {'lo'})) or 'none'}",
                    "set orc_interface of this host",
                )
            )
    return results


def _is_told(node: LaunchSpec) -> bool:
    """Whether the node's ranks are told to meet on its interface."""
    return node.interface is not None and node.env.get("GLOO_SOCKET_IFNAME") == node.interface


def ports_free(
    host: str, nodes: Sequence[LaunchSpec], facts: HostFacts, subject: Subject
) -> list[CheckResult]:
    """No port that a node will bind is bound, but by containers that are stopped before."""
    owners, containers = dict(facts.listening), dict(facts.port_containers)
    own = {state.id: state for state in subject.containers if state.host == host}
    results = []
    for node in nodes:
        for use, port in node.ports.items():
            if port not in owners or containers.get(port) in subject.going:
                continue
            owner = _owner(owners[port], own.get(containers.get(port, "")))
            results.append(
                CheckResult(
                    "ports",
                    host,
                    "failed",
                    f"port {port} ({_use(node, use)}) is held by {owner}",
                    "stop it, or choose another port: --port, --set master_port=N",
                )
            )
    if not results and any(node.ports for node in nodes):
        ports = sorted({port for node in nodes for port in node.ports.values()})
        results.append(CheckResult("ports", host, "ok", f"free: {_numbers(ports)}"))
    return results


def ports_distinct(nodes: Sequence[LaunchSpec]) -> list[CheckResult]:
    """No two nodes of the plan on one host bind the same port."""
    seen: dict[tuple[str, int], str] = {}
    results = []
    for node in nodes:
        for use, port in node.ports.items():
            other = seen.setdefault((node.host, port), node.name)
            if other != node.name:
                detail = f"{node.name} and {other} would both bind port {port} ({_use(node, use)})"
                results.append(CheckResult("ports", node.host, "failed", detail))
    return results


def disk_free(host: str, facts: HostFacts) -> CheckResult:
    """A warning when little room is left for images and logs."""
    free = facts.disk_free_mib
    if free is None:
        return CheckResult("disk", host, "warning", "free space where docker lives is not known")
    if free < _LOW_DISK_MIB:
        detail = f"only {free} MiB free where docker keeps its images"
        return CheckResult("disk", host, "warning", detail, "make room: docker system prune")
    return CheckResult("disk", host, "ok", f"{free} MiB free")


def same_driver(subject: Subject) -> list[CheckResult]:
    """A warning when the hosts of one replica have different GPU drivers (vllm#4114)."""
    results = []
    for replica in sorted({node.replica for node in subject.nodes}):
        hosts = [node.host for node in subject.nodes if node.replica == replica]
        versions = {host: subject.facts[host].driver_version for host in hosts}
        found = {version for version in versions.values() if version}
        if len(found) > 1:
            table = ", ".join(f"{host} {version}" for host, version in versions.items())
            detail = f"the hosts of replica {replica} have different GPU drivers: {table}"
            hint = "install the same driver on all of them"
            results.append(CheckResult("driver", hosts[0], "warning", detail, hint))
    return results


def _utilization(node: LaunchSpec) -> float:
    return float(flag_value(node.argv, "--gpu-memory-utilization") or _DEFAULT_UTILIZATION)


def _use(node: LaunchSpec, use: str) -> str:
    return port_in_words(port_use(use, node.role, node.replica, node.rank))


def _owner(process: str, container: ContainerState | None) -> str:
    name = process or "a process that this login may not see"
    if container is None:
        return name
    belongs = f" of deployment {container.deployment}" if container.deployment else ""
    return f"{name} in container {container.name}{belongs}"


def _holder(process: GpuProcess, own: Mapping[str, ContainerState]) -> str:
    name = _owner(f"{process.name}/{process.pid}", own.get(process.container))
    return f"{name} ({process.user or 'unknown user'}, {process.used_mib} MiB)"


def _numbers(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def host_checks(facts: Mapping[str, HostFacts]) -> list[CheckResult]:
    """What can be said of hosts without a plan."""
    results = []
    for host, own in facts.items():
        results += [docker_answers(host, own), disk_free(host, own)]
        names = Counter(gpu.name for gpu in own.gpus)
        found = ", ".join(f"{count} x {name}" for name, count in names.items())
        results.append(CheckResult("gpus", host, "ok", found or "no GPU"))
    return results
