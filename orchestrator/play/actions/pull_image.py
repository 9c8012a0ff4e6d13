"""Pull the image on every host that starts something, and settle on the one digest all run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Literal

from orchestrator.errors import DeploymentError, OrcError, UnreachableError
from orchestrator.health.observation import run_script
from orchestrator.play.action import Action, Arguments
from orchestrator.play.result import HostResult, Report
from orchestrator.play.run import Run
from orchestrator.runtime.docker_commands import image_inspect_command, pull_command
from orchestrator.runtime.image import (
    LocalImage,
    PullProgress,
    common_digest,
    digest_reference,
    is_digest,
    parse_disk_free,
    parse_image,
)
from orchestrator.runtime.scripts import disk_free_script
from orchestrator.transport.connection import Connection

Policy = Literal["always", "missing", "never"]
_PROGRESS_INTERVAL = 2.0


class PullArguments(Arguments):
    """`policy`: always asks the registry what a tag means now; missing pulls where there is none;
    never uses what the hosts hold. A digest that a host holds is never pulled."""

    policy: Policy = "always"


def perform(run: Run, arguments: PullArguments, report: Report) -> None:
    """Afterwards the plan is pinned: every node runs the same digest."""
    plan = run.planned
    starting = {decision.replica for decision in run.decided.replicas if decision.starts}
    hosts_of: dict[str, list[str]] = {}
    for spec in plan.everything:
        if spec.replica in starting and run.in_scope(spec.replica):
            hosts_of.setdefault(spec.image, []).append(spec.host)
    busy = {host for hosts in hosts_of.values() for host in hosts}
    for host in dict.fromkeys(spec.host for spec in plan.everything):
        if host not in busy:
            report(HostResult(host, "ok", "nothing to start"))
    for image, named in hosts_of.items():
        hosts = list(dict.fromkeys(named))
        if run.check:
            for host in hosts:
                report(HostResult(host, "ok", f"would use {image} (pull: {arguments.policy})"))
            continue
        _settle(run, hosts, image, arguments.policy, report)


def _running_digest(run: Run, image: str) -> str | None:
    """The digest of `image` that what stays runs with: a deployment runs one of each image."""
    names = {spec.name for spec in run.planned.everything if spec.image == image}
    kept = [state for decision in run.decided.of("keep") for state in decision.containers]
    images = {state.image for state in kept if state.name in names}
    running = images.pop() if len(images) == 1 else None
    return running if running and is_digest(running) else None


def _settle(run: Run, hosts: list[str], asked: str, policy: Policy, report: Report) -> None:
    image = _running_digest(run, asked) or asked
    pulled: set[str] = set()

    def fetch(connection: Connection) -> LocalImage:
        held = inspect_image(connection, image)
        if held and (policy != "always" or is_digest(image)):
            return held
        if policy == "never":
            raise DeploymentError(
                f"{image} is not on this host, and --pull never forbids to pull it",
                where=connection.host,
                hint="load it there (docker load), or use --pull missing",
            )
        found = _pull(run, connection, image)
        if held is None or held.id != found.id:
            pulled.add(connection.host)
        return found

    images = _on_all(run, hosts, fetch, report)
    if images is None:
        return
    digests = {host: digest_reference(held, image) for host, held in images.items()}
    reference = _one_image(image, images, digests)
    elsewhere = [host for host, digest in digests.items() if not _same(digest, reference)]
    if is_digest(reference) and elsewhere:
        if policy == "never":
            raise _differing(image, digests)
        for host in elsewhere:
            run.say("note", f"{digests[host]} differs; pulling {reference}", host=host)
        more = _on_all(run, elsewhere, lambda c: _pull(run, c, reference), report)
        if more is None:
            return
        pulled.update(elsewhere)
    run.plan = run.planned.pinned(asked, reference)
    for host in hosts:
        status: Literal["ok", "changed"] = "changed" if host in pulled else "ok"
        report(HostResult(host, status, reference))


def _on_all(
    run: Run, hosts: list[str], work: Callable[[Connection], LocalImage], report: Report
) -> dict[str, LocalImage] | None:
    """`work` on the hosts in parallel, each failure reported at once; None when any failed."""

    def one(connection: Connection) -> LocalImage | None:
        try:
            return work(connection)
        except UnreachableError as error:
            report(HostResult(connection.host, "unreachable", str(error)))
        except OrcError as error:
            report(HostResult(connection.host, "failed", str(error)))
        return None

    answers = run.pool.map(hosts, one)
    images = {h: a for h, a in answers.items() if isinstance(a, LocalImage)}
    return images if len(images) == len(answers) else None


def _one_image(
    image: str, images: Mapping[str, LocalImage], digests: Mapping[str, str | None]
) -> str:
    """The reference that all hosts will run. Raises DeploymentError when there is none."""
    known = {host: digest for host, digest in digests.items() if digest}
    if known:
        return image if is_digest(image) else common_digest(known)
    ids = {held.id for held in images.values()}
    if len(ids) == 1:
        return ids.pop()  # never in a registry: the image's ID names the same content
    shown = ", ".join(f"{host} {held.id[:19]}" for host, held in images.items())
    raise DeploymentError(
        f"{image} is another image on each host: {shown}",
        why="it has no digest, since it never came from a registry",
        hint="push it to a registry, or load the same archive on every host",
    )


def _differing(image: str, digests: Mapping[str, str | None]) -> DeploymentError:
    shown = ", ".join(f"{host} {digest or 'none'}" for host, digest in digests.items())
    return DeploymentError(
        f"{image} is not the same digest on every host: {shown}",
        why="every node must run the same image",
        hint="--pull missing fetches the digest that most hosts hold",
    )


def _same(digest: str | None, reference: str) -> bool:
    return (digest or "").partition("@")[2] == reference.partition("@")[2]


def inspect_image(connection: Connection, image: str) -> LocalImage | None:
    """The image as the host holds it, or None. Raises DeploymentError when docker fails."""
    result = connection.run(image_inspect_command(image), timeout=60)
    if result.ok:
        return parse_image(result.stdout)
    if "no such image" in result.stderr.lower():
        return None
    raise DeploymentError(f"docker: {result.stderr.strip()}", where=connection.host)


def _pull(run: Run, connection: Connection, image: str) -> LocalImage:
    progress = PullProgress()
    complaints: list[str] = []
    shown = 0.0

    def line(stream: str, text: str) -> None:
        nonlocal shown
        if stream == "stderr":
            complaints.append(text)
        elif progress.feed(text) and time.monotonic() - shown > _PROGRESS_INTERVAL:
            shown = time.monotonic()
            run.say("progress", f"pulling {image}: {progress}", host=connection.host)

    status = connection.stream(pull_command(image), line)
    if status != 0:
        raise pull_failure(connection, image, "\n".join(complaints))
    held = inspect_image(connection, image)
    if held is None:
        raise DeploymentError(f"{image} was pulled and is not there", where=connection.host)
    return held


def pull_failure(connection: Connection, image: str, said: str) -> DeploymentError:
    """Why a pull failed, with what to do; a full disk with its free bytes."""
    text = said.strip().splitlines()[-1] if said.strip() else "docker gave no reason"
    low = said.lower()
    hint = None
    if "no space left" in low:
        free = parse_disk_free(run_script(connection, disk_free_script(), timeout=30).stdout)
        left = f" ({free} bytes are free where docker keeps its images)" if free is not None else ""
        return DeploymentError(
            f"the disk is full while pulling {image}{left}",
            where=connection.host,
            why=text,
            hint="make room there: docker system prune, or a larger disk for docker's data-root",
        )
    if "manifest unknown" in low or "not found" in low:
        hint = "correct --image; for an image that only the hosts hold: --pull never"
    elif "denied" in low or "unauthorized" in low:
        hint = "docker login on the host; for an image that only the hosts hold: --pull never"
    elif "connection refused" in low or "timeout" in low or "no such host" in low:
        hint = "the host cannot reach the registry; --pull missing uses an image it holds"
    return DeploymentError(f"cannot pull {image}: {text}", where=connection.host, hint=hint)


ACTION = Action("pull_image", PullArguments, perform)
