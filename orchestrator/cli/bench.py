"""`orc bench`: `vllm bench serve` against a deployment; its results listed and compared."""

from __future__ import annotations

import json
import secrets
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from orchestrator.cli.completion import deployment_names, host_names
from orchestrator.cli.grouped import grouped
from orchestrator.cli.options import (
    CheckOption,
    JsonOption,
    OptionalInventoryOption,
    VerboseOption,
)
from orchestrator.cli.session import Reach, Session, choose, known_secrets, none_found, session
from orchestrator.errors import DeploymentError, OrcError, UsageError

if TYPE_CHECKING:
    from orchestrator.cli.bench_results import BenchRun
    from orchestrator.runtime.containers import ContainerState


@dataclass(frozen=True, slots=True)
class BenchReach(Reach):
    """As everywhere, but what was measured before is shown without an inventory."""

    inventory: OptionalInventoryOption = None  # type: ignore[assignment]


@grouped
def bench(
    reach: BenchReach,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME] [-- ARGUMENTS...]",
            help="The deployment, and arguments of `vllm bench serve`.",
            autocompletion=deployment_names,
        ),
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="HOST",
            help="Where the requests come from; else the head.",
            autocompletion=host_names,
        ),
    ] = None,
    replica: Annotated[
        int | None, typer.Option("--replica", help="This one; else the router, or the first.")
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Show what was measured.")] = False,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option("--compare", metavar="A B", help="Compare two by their IDs: kimi/1 kimi/2."),
    ] = None,
    check: CheckOption = False,
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,  # noqa: ARG001 - read in cli.main
) -> int:
    """Run `vllm bench serve` in a deployment, and keep its result.

    It runs inside a container: 100 random prompts of 1024 tokens, 128 tokens of answer, 32 at
    once, unless arguments after `--` say otherwise. Results are kept in
    $XDG_STATE_HOME/orc/bench.
    """
    name, more = _parted(words or [])
    if listing or compare:
        _show_kept(name, compare, as_json)
        return 0
    if not reach.inventory:
        raise UsageError("a benchmark needs an inventory", hint="give it with -i")
    with session(reach) as opened:
        aim = _aim(opened, name, origin, replica)
        command = aim.command(more)
        if check:
            sys.stdout.write(f"{aim.host} | would run {shlex.join(command)}\n")
            return 0
        run = _measure(opened, aim, command)
    if as_json:
        sys.stdout.write(json.dumps(run.to_dict(), indent=2) + "\n")
    else:
        from orchestrator.cli.bench_results import metrics_table

        lines = [f"{run.id}: spec {run.spec}, from {run.host}, {run.endpoint}"]
        sys.stdout.write("\n".join([*lines, *metrics_table(run)]) + "\n")
    return 0


def _parted(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The name, when there is one, and the arguments: they begin with a dash."""
    if words and not words[0].startswith("-"):
        return words[0], list(words[1:])
    return None, list(words)


def _show_kept(name: str | None, pair: tuple[str, str] | None, as_json: bool) -> None:
    from orchestrator.cli import bench_results as kept

    if pair:
        first, second = kept.run(pair[0]), kept.run(pair[1])
        if as_json:
            rows = [{**asdict(row), "change": row.change} for row in kept.compare(first, second)]
            document = {"runs": [first.to_dict(), second.to_dict()], "metrics": rows}
            sys.stdout.write(json.dumps(document, indent=2) + "\n")
        else:
            sys.stdout.write("\n".join(kept.comparison_table(first, second)) + "\n")
        return
    found = kept.runs(name)
    if as_json:
        sys.stdout.write(json.dumps({"runs": [one.to_dict() for one in found]}, indent=2) + "\n")
    elif found:
        sys.stdout.write("\n".join(kept.list_table(found)) + "\n")
    else:
        sys.stderr.write(f"no benchmark {f'of {name} ' if name else ''}is kept here\n")


@dataclass(frozen=True, slots=True)
class _Aim:
    """What is measured, and from where: in `client`, or in a container of its own on `host`."""

    states: Sequence[ContainerState]  # of the whole deployment
    target: ContainerState
    engine: ContainerState  # whose model and image are used
    client: ContainerState | None
    host: str

    def command(self, more: Sequence[str]) -> list[str]:
        from orchestrator.runtime.bench import bench_command

        url, model = self.target.endpoint or "", self.target.model or ""
        return bench_command(self.engine.command, url, model, more)


def _aim(opened: Session, name: str | None, origin: str | None, replica: int | None) -> _Aim:
    """Raises DeploymentError (UnreachableError where hosts do not answer) when there is nothing to
    measure, InputError for a wrong host."""
    from orchestrator.health.observation import observe

    hosts = list(opened.inventory.hosts)
    if origin is not None:
        opened.inventory.host(origin)
    seen = observe(opened.pool, hosts)
    chosen = choose(seen, name)
    states = seen.containers(chosen)
    if chosen is None or not states:
        raise none_found(seen, chosen)
    serving = [state for state in states if state.running and state.endpoint]
    engines = [state for state in serving if state.role != "router"]
    routers = [state for state in serving if state.role == "router"]
    wanted = [state for state in engines if replica in (None, state.replica)]
    targets = wanted if replica is not None else [*routers, *engines]
    if not targets or not engines:
        which = chosen if replica is None else f"replica {replica} of {chosen}"
        raise DeploymentError(
            f"{which} has no endpoint that runs", hint=f"look at it: orc status {chosen}"
        )
    engine = wanted[0]
    client: ContainerState | None = engine
    if origin is not None:
        able = [s for s in states if s.running and s.host == origin and s.command[:1] == ("vllm",)]
        client = able[0] if able else None
    return _Aim(states, targets[0], engine, client, origin or engine.host)


def _measure(opened: Session, aim: _Aim, command: Sequence[str]) -> BenchRun:
    """Run it, showing what it says, and keep its result. Ctrl-C ends it on the host, too."""
    from orchestrator.cli.bench_results import BenchRun, store
    from orchestrator.health.targets import own_key
    from orchestrator.play.history import group_spec
    from orchestrator.runtime.bench import inside_words, run_words, with_key
    from orchestrator.runtime.docker_commands import exec_command
    from orchestrator.secret import redact

    identifier = secrets.token_hex(4)
    deployment = aim.target.deployment or ""
    hidden = known_secrets(opened.inventory, [aim.host])
    printed: list[str] = []

    def take(stream: str, line: str) -> None:
        if stream == "stdout":
            printed.append(line)
        else:
            sys.stderr.write(f"{aim.host} | {redact(line, hidden)}\n")

    script = ""
    if aim.client is not None:
        argv = exec_command(aim.client.id, inside_words(identifier, command))
    else:
        settings = opened.inventory.hosts[aim.host].settings
        cache = [f"{settings.hf_home}:/root/.cache/huggingface"] if settings.hf_home else []
        volumes = [*cache, *settings.volumes]
        words = run_words(identifier, deployment, aim.engine.image, volumes, command)
        argv, script = ["sh", "-s", "--", *words], with_key(own_key())
    connection = opened.pool.connection(aim.host)
    try:
        status = connection.stream(argv, take, stdin=script)
    except KeyboardInterrupt:
        opened.pool.interrupt()
        _end(opened, aim, identifier)
        raise
    result = _result(printed)
    if status != 0 or result is None:
        raise DeploymentError(
            f"vllm bench serve ended with status {status}" + ("" if status else " and no result"),
            where=aim.host,
            hint="what it said stands above",
        )
    return store(
        BenchRun(
            id="",
            deployment=deployment,
            time=round(time.time(), 3),
            spec=group_spec(aim.states) or "",
            image=aim.engine.image,
            host=aim.host,
            endpoint=aim.target.endpoint or "",
            command=list(command),
            result=result,
        )
    )


def _end(opened: Session, aim: _Aim, identifier: str) -> None:
    """What runs inside a container outlives the `docker exec` that was interrupted."""
    from orchestrator.runtime.bench import interrupt_words
    from orchestrator.runtime.docker_commands import exec_command

    if aim.client is None:
        return  # `docker run` hands the signal on
    with suppress(OrcError):
        words = exec_command(aim.client.id, interrupt_words(identifier))
        opened.pool.connection(aim.host).run(words, timeout=15)


def _result(printed: Sequence[str]) -> dict[str, object] | None:
    try:
        result = json.loads("\n".join(printed))
    except ValueError:
        return None
    return result if isinstance(result, dict) else None
