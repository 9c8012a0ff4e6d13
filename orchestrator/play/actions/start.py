"""Start every replica that does not run: all its ranks together, or none."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.errors import OrcError
from orchestrator.health.diagnosis import diagnose
from orchestrator.health.observation import run_script
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.play.action import Action, Arguments
from orchestrator.play.actions.stop_containers import stop_all
from orchestrator.play.actions.stop_failed import stop_failed
from orchestrator.play.result import HostResult, Report, status_of
from orchestrator.play.run import Run
from orchestrator.runtime.containers import ContainerState
from orchestrator.runtime.scripts import STILL_RUNNING, Script, environment_file, start_script
from orchestrator.transport.connection import CommandResult, Connection

_START_TIMEOUT = 300.0


class StartArguments(Arguments):
    """`keep_failed`: leave the ranks of a replica running when one of them did not start."""

    keep_failed: bool = False


def perform(run: Run, arguments: StartArguments, report: Report) -> None:
    """Start the replicas. What else the plan has is started by actions of its own."""
    nodes = [node for node in run.planned.nodes if run.in_scope(node.replica)]
    start_groups(run, nodes, report, keep_failed=arguments.keep_failed)


def start_groups(
    run: Run, planned: Sequence[LaunchSpec], report: Report, *, keep_failed: bool = False
) -> None:
    """Start those groups of `planned` that do not run, and clear away what is in their place.

    The first call also removes what runs and is in no group of the plan.
    """
    mine = {spec.replica for spec in planned}
    starting = [d for d in run.decided.replicas if d.starts and d.replica in mine]
    nodes = [spec for d in starting for spec in planned if spec.replica == d.replica]
    ours = [d for d in run.decided.of("restart") if d.replica in mine]
    going = [*ours, *(d for d in run.decided.of("remove") if not run.started)]
    clear = [state for d in going for state in d.containers if state.id not in run.aside]
    for node in nodes:
        environment_file(node.env)  # what cannot be written is refused before anything stops
    if run.check:
        _say_what(clear, nodes, report)
        return
    run.touched |= {decision.replica for decision in (*starting, *going)}
    _clear(run, clear)
    if run.rolling is None:
        _forget(run, {decision.replica for decision in starting})
    run.started |= {decision.replica for decision in starting}
    begun: set[str] = set()
    failed = _start(run, nodes, report, begun)
    for node in planned:
        if node.replica not in run.started:
            report(HostResult(node.host, "ok", f"{node.name} runs", node.replica, node.rank))
    if failed and not keep_failed:
        _stop_failed(run, failed, begun)


def _say_what(clear: Sequence[ContainerState], nodes: Sequence[LaunchSpec], report: Report) -> None:
    for state in clear:
        report(HostResult(state.host, "changed", f"would stop and remove {state.name}"))
    for node in nodes:
        text = f"would start {node.name}"
        report(HostResult(node.host, "changed", text, node.replica, node.rank))


def _clear(run: Run, states: Sequence[ContainerState]) -> None:
    """Stop and remove what is left of the replicas. Raises OrcError when that does not work."""
    for state in states:
        run.say("progress", f"stopping {state.name}", host=state.host)
    stop_all(run, states, run.planned.name)


def _forget(run: Run, replicas: set[int]) -> None:
    """Remove what an earlier roll put aside: after this start it is not the spec before.

    Raises OrcError when that does not work.
    """
    seen = run.observation.aside(run.planned.name) if run.observation else ()
    states = [state for state in seen if state.replica in replicas]
    stop_all(run, states, run.planned.name)


def _start(
    run: Run, nodes: Sequence[LaunchSpec], report: Report, begun: set[str]
) -> list[LaunchSpec]:
    """Start all nodes in parallel; returns those that did not start. `begun`: what did.

    Where another `orc up` was faster with the same spec, what it started is what was wanted.
    """
    by_host: dict[str, list[LaunchSpec]] = {}
    for node in nodes:
        by_host.setdefault(node.host, []).append(node)
    scripts = {node.name: _script(node) for node in nodes}
    # Every rank of a group waits for the others, so they all start at once.
    answers = run.pool.map(
        by_host,
        lambda c: [_run(c, scripts[node.name]) for node in by_host[c.host]],
        forks=len(by_host) or 1,
    )
    failed = []
    for host, answer in answers.items():
        if isinstance(answer, OrcError):
            text = f"{answer}\n  whether anything was started there is unknown: orc status"
            report(HostResult(host, status_of(answer), text))
            failed += by_host[host]
            continue
        for node, result in zip(by_host[host], answer, strict=True):
            if result.ok:
                begun.add(node.name)
                report(HostResult(host, "changed", f"started {node.name}", node.replica, node.rank))
            elif _runs_as_planned(node, result):
                text = f"{node.name} was started by another orc up"
                report(HostResult(host, "ok", text, node.replica, node.rank))
            else:
                failed.append(node)
                text = start_failure(node.name, result)
                report(HostResult(host, "failed", text, node.replica, node.rank))
    return failed


def _script(node: LaunchSpec) -> Script:
    return start_script(node.container, node.env, node.deployment, node.command)


def _run(connection: Connection, script: Script) -> CommandResult:
    return run_script(connection, script, timeout=_START_TIMEOUT)


def start_failure(name: str, result: CommandResult) -> str:
    """Why `docker run` did not start a container: what docker said, the cause, the mend."""
    said = [
        line.removeprefix("docker: ").strip()
        for line in result.stderr.splitlines()
        if line.strip() and not line.startswith(("See 'docker", "Run 'docker"))
    ]
    text = f"{name} did not start: {' '.join(said) or f'status {result.exit_status}'}"
    cause = diagnose(said, ended=False)  # it has no log yet
    return f"{text}\n  cause: {cause.cause}\n  do:  {cause.mend}" if cause else text


def _runs_as_planned(node: LaunchSpec, result: CommandResult) -> bool:
    return result.exit_status == STILL_RUNNING and result.stdout.strip() == node.spec_hash


def _stop_failed(run: Run, failed: Sequence[LaunchSpec], begun: set[str]) -> None:
    """One group, one fate: stop the other ranks; their containers stay for reading.

    What somebody else started meanwhile is not ours to stop. Whether a host that did not answer
    started something is not known, so what is there of it is stopped.
    """
    replicas = {node.replica for node in failed}
    nodes = [node for node in run.planned.everything if node.replica in replicas]
    ours = {(node.host, node.name): node.spec_hash for node in nodes}
    stop_failed(
        run,
        replicas,
        [node.host for node in nodes],
        lambda s: s.name in begun or ours.get((s.host, s.name)) == s.spec,
    )


ACTION = Action("start", StartArguments, perform, level="replica")
