"""Bring the model's files to the hosts before they are needed, through the deployment's image."""

from __future__ import annotations

from collections.abc import Sequence

from orchestrator.errors import DeploymentError, OrcError, UnreachableError
from orchestrator.health.observation import run_script
from orchestrator.inventory.host import Host
from orchestrator.planning.launch_spec import LaunchSpec
from orchestrator.planning.model_files import model_place
from orchestrator.play.action import Action, Arguments
from orchestrator.play.result import HostResult, Report
from orchestrator.play.run import Run
from orchestrator.recipes.arguments import flag_value, json_of, parse
from orchestrator.runtime.staging import (
    Staged,
    clear_staging_script,
    parse_staged,
    staging_command,
    staging_program,
)
from orchestrator.transport.connection import Connection

_GIB = 1 << 30


class StageWeightsArguments(Arguments):
    """`models`: else the one that is served, and its draft model; `revision`: a branch or commit,
    else the one that the plan's arguments name."""

    models: list[str] | None = None
    revision: str | None = None


def perform(run: Run, arguments: StageWeightsArguments, report: Report) -> None:
    """Fetches from the Hugging Face hub into the cache that the deployment mounts, on all hosts at
    once, and only what is not there. A model that is a path is only looked for."""
    nodes: dict[str, LaunchSpec] = {}
    for node in run.planned.nodes:
        if run.in_scope(node.replica):
            nodes.setdefault(node.host, node)
    if run.check:
        for host, node in nodes.items():
            text = f"would fetch what is missing of {', '.join(_models(node, arguments))}"
            report(HostResult(host, "ok", text))
        return

    def stage(connection: Connection) -> None:
        host = connection.host
        try:
            staged = _stage(run, connection, nodes[host], arguments)
        except UnreachableError as error:
            report(HostResult(host, "unreachable", str(error)))
        except OrcError as error:
            report(HostResult(host, "failed", str(error)))
        else:
            report(_result(run, host, staged))

    run.pool.map(nodes, stage, forks=len(nodes) or 1)


def _stage(
    run: Run, connection: Connection, node: LaunchSpec, arguments: StageWeightsArguments
) -> list[Staged]:
    models = _models(node, arguments)
    _refuse_lost(models, run.inventory.host(connection.host))
    run_script(connection, clear_staging_script(node.deployment), timeout=60)
    done: list[Staged] = []
    said: list[str] = []

    def line(stream: str, text: str) -> None:
        staged = parse_staged(text) if stream == "stdout" else None
        if staged is None:
            said.append(text)
        elif staged.state == "fetching":
            parts = f"{staged.bytes / _GIB:.1f} of {staged.of / _GIB:.1f} GiB"
            run.say("progress", f"fetching {staged.model}: {parts}", host=connection.host)
        else:
            done.append(staged)

    image = node.pinned_image or node.image
    revision = arguments.revision or flag_value(node.argv, "--revision")
    status = connection.stream(
        staging_command(node.container, image, node.deployment),
        line,
        stdin=staging_program(models, node.env, revision),
    )
    if status != 0 or len(done) < len(models):
        why = run.clean(said[-1]) if said else f"status {status}"
        raise DeploymentError(f"the weights cannot be staged: {why}", where=connection.host)
    return done


def _models(node: LaunchSpec, arguments: StageWeightsArguments) -> list[str]:
    """What a node loads: `vllm serve MODEL`, and the draft model of speculative decoding."""
    if arguments.models is not None:
        return arguments.models
    models = [node.argv[2]]
    draft = json_of(parse(node.argv, ""), "--speculative-config").get("model")
    draft = draft or flag_value(node.argv, "--spec-model")
    return [*models, *([draft] if isinstance(draft, str) and draft else [])]


def _refuse_lost(models: Sequence[str], host: Host) -> None:
    """What is fetched into no mount is gone with its container."""
    for model in models:
        if not model.startswith("/") and model_place(model, host.settings) is None:
            raise DeploymentError(
                f"{model} would be lost: no directory of the host is mounted as the cache",
                where=host.name,
                hint="set orc_hf_home to a directory of the host",
            )


def _result(run: Run, host: str, staged: Sequence[Staged]) -> HostResult:
    failed = [one for one in staged if one.state == "failed"]
    if failed:
        text = "; ".join(f"{one.model}: {one.why}" for one in failed)
        hint = "\n  do:  make the hub reachable (HF_ENDPOINT for a mirror, HF_TOKEN in orc_env), "
        hint += "or copy the files to the host"
        return HostResult(host, "failed", text + hint)
    for one in staged:
        if one.state == "offline":
            text = f"{one.model}: the hub cannot be asked ({one.why}); what is there is used, "
            run.say("warning", f"{text}and whether it is whole is not known", host=host)
    changed = any(one.state == "fetched" for one in staged)
    words = {"fetched": "fetched", "there": "is there", "offline": "is there in part at least"}
    text = "; ".join(f"{one.model} {words[one.state]}" for one in staged)
    return HostResult(host, "changed" if changed else "ok", text)


ACTION = Action("stage_weights", StageWeightsArguments, perform)
