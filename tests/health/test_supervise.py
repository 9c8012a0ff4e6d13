"""What `orc watch` decides about a group: tables, and what must hold whatever is seen."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.health.supervise import (
    HOUR,
    Canary,
    Decision,
    GroupLook,
    GroupState,
    Policy,
    Say,
    Start,
    Stop,
    adopt,
    start_failed,
    step,
)

IDS = frozenset({"a", "b"})
RUNS = GroupLook(IDS)
OK = replace(RUNS, canary=Canary("ok"))
BROKEN = replace(RUNS, canary=Canary("failed", "a completion answers 500"))
LOADING = replace(RUNS, canary=Canary("waiting", "nothing answers yet"))
DEAD = replace(RUNS, ended=("rank 1 on node02: exited 137 (SIGKILL)",))
CUT = replace(RUNS, unknown={"node02": "no answer"})
POLICY = Policy()


def follow(
    looks: Sequence[tuple[float, GroupLook]],
    policy: Policy = POLICY,
    state: GroupState | None = None,
) -> tuple[GroupState, list[tuple[float, Decision]]]:
    """Give the looks at their moments; what was decided at which."""
    state = state or adopt(looks[0][1], looks[0][0])
    decided: list[tuple[float, Decision]] = []
    for now, look in looks:
        state, decisions = step(state, look, policy, now)
        decided += [(now, decision) for decision in decisions]
    return state, decided


def acts(decided: list[tuple[float, Decision]]) -> list[tuple[float, str]]:
    return [(now, type(d).__name__) for now, d in decided if not isinstance(d, Say)]


def said(decided: list[tuple[float, Decision]]) -> str:
    return "\n".join(f"{d.kind}: {d.text}" for _, d in decided if isinstance(d, Say))


def test_what_runs_is_adopted_and_left_alone() -> None:
    state, decided = follow([(0.0, OK), (5.0, OK), (10.0, RUNS), (900.0, OK)])
    assert state.phase == "healthy" and acts(decided) == []
    assert said(decided) == "ok: healthy"


@pytest.mark.parametrize(
    ("before", "looks"),
    [
        ("a rank ends", [(10.0, DEAD)]),
        ("completions fail three times", [(10.0, BROKEN), (20.0, BROKEN), (30.0, BROKEN)]),
        ("it stops answering", [(10.0, LOADING), (20.0, LOADING), (30.0, LOADING)]),
    ],
)
def test_a_failure_stops_the_group_and_starts_it_whole_after_ten_seconds(
    before: str, looks: list[tuple[float, GroupLook]]
) -> None:
    last = looks[-1][0]
    stopped = [(last + 5, DEAD), (last + 10, DEAD), (last + 12, LOADING), (last + 20, OK)]
    state, decided = follow([(0.0, OK), *looks, *stopped])
    assert acts(decided) == [(last, "Stop"), (last + 10, "Start")]
    assert state.phase == "healthy"
    assert "restart 1 of 5 this hour follows in 10 s" in said(decided)
    assert "ok: healthy after 10 s" in said(decided)


def test_completions_that_fail_now_and_then_restart_nothing() -> None:
    looks = [(float(n), BROKEN if n % 3 else OK) for n in range(60)]
    _state, decided = follow(looks)
    assert acts(decided) == [] and "2 of 3 times" in said(decided)


def test_while_it_loads_nothing_that_answers_is_no_failure_until_its_time_is_up() -> None:
    policy = Policy(start_timeout=100.0)
    looks = [(float(n), LOADING) for n in range(0, 100, 5)]
    state, decided = follow(looks, policy)
    assert decided == [] and state.phase == "starting"
    _, decided = follow([(105.0, LOADING), (110.0, LOADING), (115.0, LOADING)], policy, state)
    assert acts(decided) == [(115.0, "Stop")]


def test_a_broken_model_is_a_failure_while_it_starts_too() -> None:
    _, decided = follow([(0.0, BROKEN), (10.0, BROKEN), (20.0, BROKEN)])
    assert acts(decided) == [(20.0, "Stop")]


def test_pauses_double_up_to_five_minutes() -> None:
    assert [POLICY.pause(n) for n in range(7)] == [10, 20, 40, 80, 160, 300, 300]


def crashes(policy: Policy, seconds: int) -> tuple[GroupState, list[tuple[float, Decision]]]:
    """A group that dies as soon as it was started."""
    state, decided = follow([(0.0, OK)], policy)
    for now in range(1, seconds):
        state, more = follow([(float(now), DEAD)], policy, state)
        decided += more
    return state, decided


def test_after_its_budget_it_is_given_up_once_and_kept() -> None:
    state, decided = crashes(POLICY, 3 * 3600)
    assert state.phase == "failed"
    starts = [now for now, act in acts(decided) if act == "Start"]
    assert len(starts) == 5
    assert [b - a for a, b in itertools.pairwise(starts)] == [21, 41, 81, 161]
    (given_up,) = [d for _, d in decided if isinstance(d, Say) and d.kind == "failed"]
    assert "given up" in given_up.text and "5 times within an hour" in given_up.text
    last = [d for _, d in decided if isinstance(d, Stop)][-1]
    assert last.final and sum(isinstance(d, Stop) and d.final for _, d in decided) == 1


def test_the_budget_is_of_an_hour() -> None:
    moments = [10.0, 20.0]
    state = replace(adopt(RUNS, HOUR), restarts=tuple(moments))
    _, decided = step(state, DEAD, Policy(budget=2), HOUR + 15.0)
    assert any(isinstance(d, Stop) and not d.final for d in decided)
    _, decided = step(state, DEAD, Policy(budget=2), HOUR + 5.0)
    assert any(isinstance(d, Stop) and d.final for d in decided)


def test_restarts_of_an_earlier_watch_count() -> None:
    state = adopt(RUNS, 5000.0, restarts=(10.0, 4000.0, 4500.0))
    assert state.restarts == (4000.0, 4500.0)


def test_what_was_given_up_is_supervised_again_once_somebody_started_it() -> None:
    state, _ = crashes(POLICY, 3 * 3600)
    same, decided = follow([(20000.0, DEAD), (20005.0, DEAD)], POLICY, state)
    assert decided == [] and same == state
    back, decided = follow([(20010.0, RUNS), (20015.0, OK)], POLICY, state)
    assert back.phase == "healthy" and back.restarts == ()
    assert "somebody started it" in said(decided)
    other = replace(OK, ids=frozenset({"c", "d"}))
    back, decided = follow([(20010.0, other), (20015.0, other)], POLICY, state)
    assert back.phase == "healthy" and "other containers" in said(decided)


def test_a_host_that_does_not_answer_is_told_once_and_nothing_is_touched() -> None:
    looks = [(0.0, OK), (5.0, CUT), (10.0, replace(CUT, canary=BROKEN.canary)), (500.0, CUT)]
    state, decided = follow([*looks, (505.0, BROKEN), (510.0, OK)])
    assert acts(decided) == [] and state.phase == "healthy"
    text = said(decided)
    assert text.count("node02: no answer; that is no dead rank") == 1
    assert text.count("node02 answers again") == 1
    assert "1 of 3 times" in text  # counted from nothing after the host was back


def test_a_dead_rank_beside_a_host_that_does_not_answer_stops_the_rest_and_waits() -> None:
    both = replace(CUT, ended=DEAD.ended)
    looks = [(0.0, OK), (5.0, both), (20.0, both), (300.0, both), (305.0, DEAD), (310.0, OK)]
    _, decided = follow(looks)
    assert acts(decided) == [(5.0, "Stop"), (305.0, "Start")]
    assert said(decided).count("as soon as node02 can be reached") == 1


def test_loading_has_its_time_again_after_a_host_was_away() -> None:
    policy = Policy(start_timeout=100.0)
    looks = [(0.0, LOADING), *[(float(n), CUT) for n in range(10, 500, 10)], (550.0, LOADING)]
    _, decided = follow(looks, policy)
    assert acts(decided) == []


def test_while_another_changes_it_it_stands_aside_and_then_looks_anew() -> None:
    held = replace(DEAD, holder="ann@desk")
    new = replace(OK, ids=frozenset({"c", "d"}))
    looks = [(0.0, OK), (5.0, held), (10.0, held), (15.0, replace(new, canary=None)), (20.0, new)]
    state, decided = follow(looks)
    assert acts(decided) == [] and state.phase == "healthy"
    assert said(decided).count("stands aside: it is being changed by ann@desk") == 1
    assert "supervised again" in said(decided) and "other containers" not in said(decided)


def test_a_group_of_which_a_container_was_removed_is_stopped_and_not_started() -> None:
    part = GroupLook(frozenset({"a"}), missing=(1,))
    state, decided = follow([(0.0, OK), (5.0, part), (10.0, part), (900.0, part)])
    assert acts(decided) == [(5.0, "Stop")] and state.phase == "failed"
    assert said(decided).count("the container of rank 1 was removed") == 1
    assert "orc up" in said(decided)


def test_what_docker_restarts_by_itself_counts_and_is_given_up_too() -> None:
    state, decided = follow(
        [(0.0, OK), (5.0, replace(RUNS, restarts=1)), (9.0, replace(OK, restarts=1))]
    )
    assert acts(decided) == [] and state.phase == "healthy" and len(state.restarts) == 1
    looks = [(float(n), replace(RUNS, restarts=n)) for n in range(2, 7)]
    state, decided = follow(looks, POLICY, state)
    assert acts(decided) == [(6.0, "Stop")] and state.phase == "failed"


def test_a_server_with_another_key_is_warned_of_once_and_left_alone() -> None:
    refused = replace(RUNS, canary=Canary("refused", "set VLLM_API_KEY"))
    state, decided = follow([(float(n), refused) for n in range(0, 300, 15)])
    assert acts(decided) == [] and state.phase == "healthy"
    assert said(decided).count("set VLLM_API_KEY") == 1


def test_services_without_an_endpoint_are_well_while_they_run() -> None:
    service = replace(RUNS, has_endpoint=False)
    state, _ = follow([(0.0, service)])
    assert state.phase == "healthy"
    _, decided = follow([(5.0, replace(service, ended=DEAD.ended))], POLICY, state)
    assert acts(decided) == [(5.0, "Stop")]


def test_a_start_that_does_not_work_is_a_failure() -> None:
    _, _decided = follow([(0.0, OK), (5.0, DEAD)])
    state, _ = follow([(0.0, OK), (5.0, DEAD), (15.0, DEAD)])
    assert state.phase == "starting" and len(state.restarts) == 1
    state, _ = start_failed(state, "docker says no", POLICY, 16.0)
    assert state.phase == "pausing" and state.until == 36.0
    state, _ = start_failed(
        replace(state, restarts=(1.0, 2.0, 3.0, 4.0, 5.0)), "docker says no", POLICY, 16.0
    )
    assert state.phase == "failed"


looks_at = st.builds(
    GroupLook,
    ids=st.just(IDS),
    ended=st.sampled_from([(), (), ("rank 0 ended",), ("rank 1 ended",)]),
    missing=st.sampled_from([(), (), (), (1,)]),
    unknown=st.sampled_from([{}, {}, {"node02": "away"}, {"node01": "away", "node02": "x"}]),
    restarts=st.integers(0, 3),
    age=st.floats(0, 10_000),
    has_endpoint=st.booleans(),
    canary=st.sampled_from(
        [None, Canary("ok"), Canary("failed", "500"), Canary("waiting"), Canary("refused")]
    ),
    holder=st.sampled_from([None, None, None, "ann@desk"]),
)
histories = st.lists(st.tuples(st.floats(0.1, 400.0), looks_at), min_size=1, max_size=80)
policies = st.builds(
    Policy,
    canary_failures=st.integers(1, 4),
    start_timeout=st.floats(1, 4000),
    budget=st.integers(0, 6),
)


@settings(max_examples=400, deadline=None)
@given(histories, policies)
def test_whatever_is_seen(history: list[tuple[float, GroupLook]], policy: Policy) -> None:
    now = 0.0
    state = adopt(history[0][1], now)
    starts: list[float] = []
    stopped: float | None = None
    away: set[str] = set()
    for wait, look in history:
        now += wait
        before = state
        state, decisions = step(state, look, policy, now)
        stops = [d for d in decisions if isinstance(d, Stop)]
        if look.holder:  # another's business
            assert not stops and Start() not in decisions
            continue
        if stops:
            # Never for what cannot be seen alone.
            assert look.ended or not look.unknown
            assert before.phase not in ("pausing", "failed") or look.missing
            assert state.phase in ("pausing", "failed")
            assert stops[0].final == (state.phase == "failed")
            stopped = now
        if Start() in decisions:
            assert not look.unknown and not look.missing
            assert stopped is not None and now >= stopped + policy.first_pause
            starts.append(now)
            assert len([s for s in starts if now - s < HOUR]) <= policy.budget
        if any(isinstance(d, Say) and "from here on" in d.text for d in decisions):
            starts.clear()  # somebody else did something: the budget is new
        told = [d.text for d in decisions if isinstance(d, Say) and "no dead rank" in d.text]
        assert len(told) == len(set(look.unknown) - away)
        away = set(look.unknown)
        loud = [d for d in decisions if isinstance(d, Say) and d.kind == "failed"]
        assert bool(loud) == (state.phase == "failed" and bool(stops))
