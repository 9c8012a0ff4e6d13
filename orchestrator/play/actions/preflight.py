"""Gather facts, plan with them, look at what runs, decide, and check the hosts that will start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from orchestrator.checks.preflight import Subject, docker_hint, host_checks, preflight
from orchestrator.checks.result import CheckResult
from orchestrator.errors import DeploymentError, ErrorGroup, OrcError, UnreachableError
from orchestrator.facts.host_facts import HostFacts
from orchestrator.facts.parse import is_complete, parse_facts
from orchestrator.facts.probe_script import probe_script
from orchestrator.health.details import fetch_details
from orchestrator.health.observation import Observation, observe
from orchestrator.planning.build import plan
from orchestrator.planning.decision import Decision, ReplicaDecision, decide
from orchestrator.planning.drift import drift_lines, find_drift
from orchestrator.planning.keep_services import keep_services
from orchestrator.planning.model_files import model_places
from orchestrator.planning.plan import Plan
from orchestrator.planning.port_use import ports_in_use, with_planned_ports
from orchestrator.planning.rolling import with_surge
from orchestrator.planning.running import running_placement
from orchestrator.planning.service import GROUP_NAMES, group_name
from orchestrator.play.action import Action, Arguments
from orchestrator.play.history import SpecChange, group_spec
from orchestrator.play.hold_lock import hold_lock
from orchestrator.play.lock import Locked
from orchestrator.play.record_change import begin_change
from orchestrator.play.result import HostResult, Report
from orchestrator.play.run import Run
from orchestrator.runtime.containers import ContainerState
from orchestrator.runtime.scripts import environment_file
from orchestrator.transport.connection import Connection
from orchestrator.transport.pool import ConnectionPool

_PROBE_TIMEOUT = 60.0
_MOST_PLANS = 5  # before it is given up; another's change between plan and lock costs one


class PreflightArguments(Arguments):
    """`replace`: a deployment of the same name that runs another spec may be replaced. `lock`:
    hold its lock from here on, since it will be changed. `surge`: plan one replica more, which
    a roll starts first and stops at its end. `keep_services`: a router or KV store that differs
    from the plan by its image alone, and none was asked for by name, keeps what it runs."""

    replace: bool = False
    lock: bool = True
    surge: bool = False
    keep_services: bool = True


def perform(run: Run, arguments: PreflightArguments, report: Report) -> None:
    """Reports every host. Without a deployment only the hosts themselves are checked."""
    _gather(run)
    if run.deployment is None or run.catalog is None:
        _report_unreachable(run.unreachable, report)
        _report_checks(run, host_checks(run.facts), run.facts, report)
        return
    run.name = run.deployment.deployment_name()
    look = _planned(run, report, lock=arguments.lock and not run.check, surge=arguments.surge)
    run.observation = look.observation
    if arguments.keep_services:
        run.plan = keep_services(run.planned, look.everything)
    for note in run.planned.notes:
        run.say("note", note)
    hosts, everything = look.hosts, look.everything
    run.decision = decide(run.planned, everything, replace=arguments.replace)
    if run.decision.refusals:
        raise ErrorGroup(_refusal(text) for text in run.decision.refusals)
    starting = {decision.replica for decision in run.decision.replicas if decision.starts}
    subject = Subject(
        nodes=[spec for spec in run.planned.everything if spec.replica in starting],
        facts=run.facts,
        containers=everything,
        going=frozenset(
            state.id
            for decision in run.decision.of("restart", "remove")
            for state in decision.containers
        ),
    )
    for spec in subject.nodes:  # with the secrets, which the plan did not need
        environment_file(spec.env)
    results = preflight(subject)
    _report_checks(run, results, hosts, report)
    for decision in run.decision.replicas:
        _say_decision(run, decision)
    if run.diff:
        _say_differences(run, everything)
    if not all_kept(run.decision) and all(result.status != "failed" for result in results):
        begin_change(run, _spec_changes(run.planned, run.decision), ahead=True)


@dataclass(frozen=True, slots=True)
class _Look:
    """What was seen, and the hosts of the plan that was made with it."""

    observation: Observation
    hosts: list[str]

    @property
    def everything(self) -> list[ContainerState]:
        return [state for host in self.observation.hosts for state in host.containers]


def _planned(run: Run, report: Report, *, lock: bool, surge: bool) -> _Look:
    """Plan, and hold the lock of what was planned. What is decided on is seen under the lock, and
    the plan keeps clear of what others have planned and not started yet."""
    look = _look_and_plan(run, [], report, surge=surge)
    if not lock:
        return look
    for _ in range(_MOST_PLANS):
        others = hold_lock(run, _concerned(run, look), _ports(run.planned))
        reached = [host.host for host in look.observation.hosts]
        now = _Look(observe(run.pool, reached), look.hosts)
        _refuse_unanswered(now.observation, now.hosts)
        if _own(run, now) == _own(run, look) and not _collides(run, others, now):
            return now
        _gather(run)
        look = _look_and_plan(run, others, report, surge=surge)
    raise DeploymentError(
        "nothing was started: what runs on the hosts changes faster than a plan is made",
        hint="wait until the others are done: orc lock status",
    )


def _look_and_plan(run: Run, others: Sequence[Locked], report: Report, *, surge: bool) -> _Look:
    """Look at what runs and make the plan. Raises OrcError when a host of it is not known."""
    assert run.name is not None and run.deployment is not None and run.catalog is not None
    reached = [name for name in run.inventory.hosts if name not in run.unreachable]
    seen = observe(run.pool, reached)
    everything = [state for host in seen.hosts for state in host.containers]
    ports = ports_in_use(run.name, run.facts, everything)
    ports = with_planned_ports(ports, {lock.name: lock.holder.ports for lock in others})
    places = running_placement(run.name, everything)
    planned = plan(run.inventory, run.catalog, run.deployment, run.facts, ports, places)
    if surge:
        run.surge = len(planned.replicas())
        larger = run.deployment.model_copy(update={"replicas": run.surge + 1})
        more = plan(run.inventory, run.catalog, larger, run.facts, ports, places)
        planned = with_surge(planned, more)
    run.plan = planned
    hosts = list(dict.fromkeys(spec.host for spec in run.plan.everything))
    _refuse_unreachable(run, hosts, report)
    _refuse_unanswered(seen, hosts)
    return _Look(seen, hosts)


def _concerned(run: Run, look: _Look) -> set[str]:
    """The hosts of the plan, and those where something of the deployment is."""
    return {*look.hosts, *(state.host for state in look.observation.everything(run.name or ""))}


def _ports(planned: Plan) -> dict[str, list[int]]:
    ports: dict[str, list[int]] = {}
    for spec in planned.everything:
        ports.setdefault(spec.host, []).extend(spec.ports.values())
    return ports


def _own(run: Run, look: _Look) -> set[tuple[str, str]]:
    return {(state.host, state.id) for state in look.observation.containers(run.name)}


def _collides(run: Run, others: Sequence[Locked], look: _Look) -> bool:
    """Whether another, who was first, has planned or started with a port of this plan."""
    assert run.name is not None
    theirs = ports_in_use(run.name, {}, look.everything)
    theirs = with_planned_ports(theirs, {lock.name: lock.holder.ports for lock in others})
    mine = _ports(run.planned)
    return any(set(ports) & set(mine.get(host, ())) for host, ports in theirs.busy.items())


def _spec_changes(planned: Plan, decision: Decision) -> dict[int, SpecChange]:
    specs = {group[0].replica: group for group in planned.groups()}
    return {
        one.replica: SpecChange(
            group_spec(one.containers),
            None if one.action == "remove" else group_spec(specs[one.replica]),
        )
        for one in decision.replicas
        if one.action != "keep"
    }


def _gather(run: Run) -> None:
    models: Mapping[str, str] = {}
    if run.deployment is not None and run.catalog is not None:
        models = model_places(run.inventory, run.catalog, run.deployment)
    run.facts, run.unreachable = gather_facts(run.pool, run.inventory.hosts, models)


def gather_facts(
    pool: ConnectionPool, hosts: Iterable[str], models: Mapping[str, str]
) -> tuple[dict[str, HostFacts], dict[str, str]]:
    """The facts of every host that answered, and why the others did not.

    `models`: by host, the directory where the deployment's model may lie.
    """
    facts: dict[str, HostFacts] = {}
    unreachable: dict[str, str] = {}
    for name, answer in pool.map(hosts, lambda c: probe_host(c, models.get(c.host))).items():
        if isinstance(answer, OrcError):
            unreachable[name] = str(answer)
        else:
            facts[name] = answer
    return facts, unreachable


def probe_host(connection: Connection, model: str | None = None) -> HostFacts:
    """One host's facts, in one round trip. Raises DeploymentError when the probe broke off."""
    result = connection.script(probe_script(model), timeout=_PROBE_TIMEOUT)
    if not is_complete(result.stdout):
        said = result.stderr.strip().splitlines()[-1:] or ["nothing"]
        raise DeploymentError(
            f"the probe ended with status {result.exit_status} and said: {said[0]}",
            where=connection.host,
            hint="the login needs a POSIX shell: ssh to the host and run `sh`",
        )
    return parse_facts(result.stdout)


def _refuse_unreachable(run: Run, hosts: list[str], report: Report) -> None:
    for name, why in run.unreachable.items():
        if name not in hosts:
            text = f"{why} (the plan does not use it; what runs there is unknown)"
            run.say("warning", text, host=name)
    _report_unreachable({n: why for n, why in run.unreachable.items() if n in hosts}, report)
    if any(name in hosts for name in run.unreachable):
        missing = ", ".join(name for name in hosts if name in run.unreachable)
        raise UnreachableError(
            f"nothing was started: the plan needs {missing}",
            hint=f"mend the host, or leave it out: --limit 'all:!{missing.replace(', ', ':!')}'",
        )


def _refuse_unanswered(observation: Observation, hosts: list[str]) -> None:
    errors: list[OrcError] = [
        UnreachableError(f"nothing was started: {why}", where=name)
        for name, why in observation.explained.items()
        if name in hosts and name in observation.unreachable
    ]
    errors += [
        DeploymentError(f"nothing was started: {why}", where=name, hint=docker_hint(why))
        for name, why in observation.broken.items()
        if name in hosts
    ]
    if errors:
        raise ErrorGroup(errors)


def _report_unreachable(unreachable: Mapping[str, str], report: Report) -> None:
    for name, why in unreachable.items():
        report(HostResult(name, "unreachable", why))


def _report_checks(
    run: Run, results: list[CheckResult], hosts: Iterable[str], report: Report
) -> None:
    for host in hosts:
        own = [result for result in results if result.host == host]
        for result in own:
            if result.status == "warning":
                run.say("warning", str(result), host=host, data=result.to_dict())
        failed = [result for result in own if result.status == "failed"]
        data = {"checks": [result.to_dict() for result in own]}
        if failed:
            text = "\n".join(_text(result) for result in failed)
            report(HostResult(host, "failed", text, data=data))
        else:
            fine = "; ".join(result.detail for result in own if result.status == "ok")
            report(HostResult(host, "ok", fine, data=data))


def _text(result: CheckResult) -> str:
    return result.detail + (f"\n  do:  {result.hint}" if result.hint else "")


def _refusal(text: str) -> DeploymentError:
    if text.startswith(("replica ", *GROUP_NAMES.values())):
        return DeploymentError(
            text,
            why="it serves under this name now; nothing was touched",
            hint="orc diff says what differs; orc roll goes over replica by replica; --replace"
            " stops it and starts the plan; or give this one another --name",
        )
    return DeploymentError(text)


def _say_differences(run: Run, everything: Sequence[ContainerState]) -> None:
    """What `orc diff` says, for --diff. Of a host that cannot say, nothing."""
    hosts = dict.fromkeys(state.host for state in everything if state.deployment == run.name)
    details, salt, broken = fetch_details(run.pool, hosts, run.planned)
    lines = drift_lines(find_drift(run.planned, everything, details, salt, broken))
    if hosts and lines:
        run.say("note", "\n".join(lines))


def _say_decision(run: Run, decision: ReplicaDecision) -> None:
    words = {
        "keep": "runs as planned",
        "start": "starts",
        "restart": "is restarted whole",
        "remove": "is stopped",
        "differs": "differs",
    }
    reasons = f" ({'; '.join(decision.reasons)})" if decision.reasons else ""
    run.say("note", f"{group_name(decision.replica)} {words[decision.action]}{reasons}")


def all_kept(decision: Decision) -> bool:
    """Whether everything runs as planned already."""
    return all(replica.action == "keep" for replica in decision.replicas)


ACTION = Action("preflight", PreflightArguments, perform)
