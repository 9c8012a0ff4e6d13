"""Which replicas a roll goes over, and what forbids it. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from orchestrator.errors import PlanError
from orchestrator.planning.decision import Decision, ReplicaDecision
from orchestrator.planning.plan import Plan
from orchestrator.planning.router import PREFILL_DECODE
from orchestrator.planning.service import ROUTER_GROUP, group_name

RESTARTED = "a rolling restart"


def rolled(decision: Decision, done: Collection[int] = ()) -> Decision:
    """The decision of a roll: what `decide(..., replace=True)` said, but replica by replica.

    Replicas that differ from the plan are restarted; where none does, all of them are, but for
    those that an interrupted roll has `done`. Refused: replicas that are not in the plan, and a
    KV store that is not as planned, since all replicas hang on it.
    """
    engines = [one for one in decision.replicas if one.replica >= 0]
    every = not any(one.starts for one in engines)
    return Decision(
        tuple(_rolled(one, every and one.replica not in done) for one in decision.replicas),
        (*decision.refusals, *(text for text in map(_refusal, decision.replicas) if text)),
    )


def with_surge(plan: Plan, larger: Plan) -> Plan:
    """`plan` with one replica more, taken from `larger`, which is planned with one more.

    The router stays as it is: it is told of the additional replica while it runs. Raises
    PlanError where that cannot be.
    """
    surge = len(plan.replicas())
    if plan.router is None:
        raise PlanError(
            "--surge starts another replica first, and there is no router to send it requests",
            hint="leave --surge out",
        )
    if PREFILL_DECODE in plan.router.argv:
        raise PlanError(
            "--surge starts another replica first, and a router of prefill/decode takes no new one",
            hint="leave --surge out: a replica that is rolled there loses no request either",
        )
    extra = [node for node in larger.nodes if node.replica == surge]
    moved = [
        node.name
        for node, same in zip(plan.nodes, larger.nodes, strict=False)
        if (node.name, node.host) != (same.name, same.host)
    ]
    if moved:
        raise PlanError(f"--surge would move {', '.join(moved)} to another host")
    return replace(plan, nodes=(*plan.nodes, *extra))


def _rolled(one: ReplicaDecision, restart: bool) -> ReplicaDecision:
    if one.replica >= 0 and one.action == "keep" and restart:
        return replace(one, action="restart", reasons=(RESTARTED,))
    return one


def _refusal(one: ReplicaDecision) -> str | None:
    name = group_name(one.replica)
    if one.action == "remove" and any(state.running for state in one.containers):
        return f"{name} runs and is not in the plan; a roll removes nothing: orc up --replace"
    if one.replica < 0 and one.replica != ROUTER_GROUP and one.action != "keep":
        reasons = "; ".join(one.reasons) or "it does not run"
        return f"the {name} is not as planned ({reasons}), and all replicas hang on it: orc up"
    return None
