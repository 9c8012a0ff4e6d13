"""A supervised group out of the latest looks at its hosts and endpoints."""

from __future__ import annotations

import pytest

from orchestrator.health.endpoint import EndpointCheck, Target
from orchestrator.health.group_look import Heard, Members, group_look, remember
from orchestrator.health.judge import HostLook
from orchestrator.health.lookout import Answer, judge_check
from orchestrator.health.supervise import Canary
from orchestrator.runtime.containers import ContainerState, HostObservation


def container(host: str, rank: int, status: str = "running", **more: object) -> ContainerState:
    labels = {
        "orc.deployment": "kimi",
        "orc.replica": "0",
        "orc.rank": str(rank),
        "orc.nodes": "2",
    }
    if rank == 0:
        labels |= {"orc.endpoint": f"http://{host}:8000", "orc.model": "m"}
    fields = {"id": f"id{rank}", "name": f"orc-kimi-r0-n{rank}", "labels": labels, **more}
    return ContainerState(host=host, status=status, **fields)  # type: ignore[arg-type]


def seen(host: str, *states: ContainerState) -> HostLook:
    return HostLook(0.0, HostObservation(host, states))


HEAD, WORKER = container("node01", 0, up_seconds=50.0), container("node02", 1, up_seconds=40.0)
BOTH = {"node01": seen("node01", HEAD), "node02": seen("node02", WORKER)}
AWAY = HostLook(0.0, unreachable="node02: no route")
NO_DOCKER = HostLook(0.0, HostObservation("node02", error="Cannot connect to the Docker daemon"))
KEY = ("kimi", 0)


def test_a_group_that_runs() -> None:
    look = group_look(remember({}, BOTH)[KEY], BOTH, canary=Canary("ok"), holder="ann")
    assert look.ids == {"id0", "id1"} and look.age == 40.0
    assert (look.ended, look.missing, look.unknown) == ((), (), {})
    assert look.has_endpoint and look.canary == Canary("ok") and look.holder == "ann"


def test_the_rank_that_ended_first_is_named_first() -> None:
    looks = {
        "node01": seen("node01", container("node01", 0, "exited", ended_seconds_ago=3.0)),
        "node02": seen(
            "node02", container("node02", 1, "exited", exit_code=137, ended_seconds_ago=9.0)
        ),
    }
    look = group_look(remember({}, looks)[KEY], looks, canary=None, holder=None)
    assert [text.partition(":")[0] for text in look.ended] == [
        "rank 1 on node02",
        "rank 0 on node01",
    ]
    assert "exited 137 (SIGKILL)" in look.ended[0]


@pytest.mark.parametrize(
    ("there", "why"), [(AWAY, "no route"), (NO_DOCKER, "its docker does not answer: Cannot")]
)
def test_what_was_seen_on_a_host_that_does_not_answer_is_remembered(
    there: HostLook, why: str
) -> None:
    looks = {"node01": seen("node01", HEAD), "node02": there}
    members = remember(remember({}, BOTH), looks)[KEY]
    look = group_look(members, looks, canary=None, holder=None)
    assert look.ids == {"id0", "id1"} and look.missing == () and look.ended == ()
    assert look.unknown["node02"].startswith(why)


def test_a_rank_that_was_never_seen_may_be_on_a_host_that_does_not_answer() -> None:
    looks = {"node01": seen("node01", HEAD), "node02": AWAY}
    look = group_look(remember({}, looks)[KEY], looks, canary=None, holder=None)
    assert look.missing == () and list(look.unknown) == ["node02"]


def test_a_rank_that_was_removed_is_missing_and_a_group_that_was_removed_is_gone() -> None:
    looks = {"node01": seen("node01", HEAD), "node02": seen("node02")}
    known = remember({}, BOTH)
    look = group_look(remember(known, looks)[KEY], looks, canary=None, holder=None)
    assert look.missing == (1,) and look.ids == {"id0"}
    nothing = {"node01": seen("node01"), "node02": seen("node02")}
    assert remember(known, nothing) == {}


def test_a_host_of_other_groups_does_not_matter_while_all_ranks_are_seen() -> None:
    looks = {**BOTH, "node03": HostLook(0.0, unreachable="node03: no route")}
    look = group_look(remember({}, looks)[KEY], looks, canary=None, holder=None)
    assert look.unknown == {}


def test_what_a_roll_has_put_aside_is_not_of_the_group() -> None:
    aside = container("node01", 0, "exited", id="old", name="orc-kimi-r0-n0-before")
    looks = {**BOTH, "node01": seen("node01", HEAD, aside)}
    members: Members = remember({}, looks)[KEY]
    assert {state.id for state in members.values()} == {"id0", "id1"}


def test_a_container_that_docker_is_restarting_has_not_ended_for_good() -> None:
    looks = {
        "node01": seen("node01", container("node01", 0, "restarting", restart_count=2)),
        "node02": BOTH["node02"],
    }
    look = group_look(remember({}, looks)[KEY], looks, canary=None, holder=None)
    assert look.ended == () and look.restarts == 2


ONE, TWO = Target(0, "node01", "http://a", "m"), Target(0, "node02", "http://b", "m")


def answer(result: str, began: float) -> Answer:
    return Answer(began, began + 1, Canary(result))  # type: ignore[arg-type]


def test_a_groups_endpoints_count_once_all_of_them_were_asked_anew_and_the_worst_decides() -> None:
    answers = {ONE: answer("ok", 5.0), TWO: answer("failed", 6.0)}
    looked = 8.0

    def taken(answers: dict[Target, Answer], after: float) -> tuple[Canary | None, Heard]:
        return Heard().take([ONE, TWO], answers, after=after, seen=looked)

    assert taken(answers, 4.0) == (Canary("failed"), Heard(6.0))
    assert taken(answers, 5.5) == (None, Heard())
    assert taken({ONE: answer("ok", 5.0)}, 4.0) == (None, Heard())
    answers = {ONE: answer("waiting", 5.0), TWO: answer("refused", 6.0)}
    assert taken(answers, 0.0) == (Canary("waiting"), Heard(6.0))
    assert Heard().take([], answers, after=4.0, seen=looked) == (None, Heard())
    (canary, heard) = taken({ONE: answer("ok", 5.0), TWO: answer("ok", 5.5)}, 4.0)
    assert canary == Canary("ok")
    again = {ONE: answer("ok", 5.0), TWO: answer("ok", 7.0)}
    assert heard.take([ONE, TWO], again, after=4.0, seen=looked) == (None, heard)


@pytest.mark.parametrize("result", ["failed", "waiting"])
def test_a_failure_counts_only_when_everything_was_looked_at_after_it(result: str) -> None:
    """Its containers may be stopping, by somebody whose lock was not seen yet."""
    failed = answer(result, 5.0)
    canary, heard = Heard().take([ONE], {ONE: failed}, after=0.0, seen=5.5)
    assert (canary, heard) == (None, Heard(5.0, failed))
    # Newer failures do not put the judgement off for ever.
    canary, heard = heard.take([ONE], {ONE: answer(result, 7.0)}, after=0.0, seen=6.0)
    assert (canary, heard) == (None, Heard(7.0, failed))
    assert heard.take([ONE], {}, after=0.0, seen=6.5) == (failed.canary, Heard(7.0))
    # What was asked before somebody else's change was over does not count at all.
    assert heard.take([ONE], {}, after=6.0, seen=9.0) == (None, Heard(7.0))
    # ... and does not hide what was asked since.
    anew = answer(result, 8.0)
    assert heard.take([ONE], {ONE: anew}, after=6.0, seen=8.5) == (None, Heard(8.0, anew))


@pytest.mark.parametrize("result", ["ok", "refused"])
def test_an_answer_counts_at_once_and_ends_all_doubt(result: str) -> None:
    heard = Heard(5.0, answer("failed", 5.0))
    taken = heard.take([ONE], {ONE: answer(result, 7.0)}, after=0.0, seen=0.0)
    assert taken == (Canary(result), Heard(7.0))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("check", "busy", "result"),
    [
        (EndpointCheck("healthy"), False, "ok"),
        (EndpointCheck("connect", "nothing answers"), False, "waiting"),
        (EndpointCheck("health", "503", 503), False, "waiting"),
        (EndpointCheck("completion", "500", 500), False, "failed"),
        (EndpointCheck("models", "another model", final=True), False, "failed"),
        (EndpointCheck("models", "a key", 401, final=True), False, "refused"),
        (EndpointCheck("completion", "a key", 403, final=True), False, "refused"),
        (EndpointCheck("completion", "no answer", slow=True), False, "failed"),
        (EndpointCheck("completion", "no answer", slow=True), True, "ok"),
        (EndpointCheck("completion", "500", 500), True, "failed"),
    ],
)
def test_what_a_look_at_an_endpoint_says_of_its_group(
    check: EndpointCheck, busy: bool, result: str
) -> None:
    assert judge_check(check, busy=busy).result == result
