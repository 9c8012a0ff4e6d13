"""Ask every endpoint of the plan once: health, models, one completion."""

from __future__ import annotations

from pydantic import Field

from orchestrator.health.endpoint import describe
from orchestrator.health.probe import probe_endpoints
from orchestrator.health.targets import plan_targets
from orchestrator.play.action import Action, Arguments
from orchestrator.play.result import HostResult, Report, Status
from orchestrator.play.run import Run


class ProbeArguments(Arguments):
    """`tokens` of the completion; `timeout` in seconds until its end."""

    tokens: int = Field(default=16, ge=1)
    timeout: float = Field(default=60.0, gt=0)


def perform(run: Run, arguments: ProbeArguments, report: Report) -> None:
    targets = [t for t in plan_targets(run.planned) if run.in_scope(t.replica)]
    if run.check:
        for target in targets:
            report(HostResult(target.host, "ok", f"would ask {target.url}", target.replica))
        return
    checks = probe_endpoints(
        run.pool, targets, tokens=arguments.tokens, completion_timeout=arguments.timeout
    )
    run.endpoints |= checks
    for target, check in checks.items():
        text = f"{target.url}: {describe(check)}"
        status: Status = "ok" if check.healthy else "failed"
        report(HostResult(target.host, status, text, target.replica))


ACTION = Action("probe", ProbeArguments, perform, level="replica")
