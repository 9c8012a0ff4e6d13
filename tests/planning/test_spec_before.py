"""Which containers are the spec before, wherever a roll or the way back was broken off."""

from __future__ import annotations

from orchestrator.planning.spec_before import SpecBefore, spec_before, stale
from orchestrator.runtime.containers import ContainerState


def rank(
    number: int,
    host: str,
    suffix: str = "",
    *,
    nodes: int = 2,
    status: str = "exited",
    id: str = "",
    pool: str = "",
) -> ContainerState:
    name = f"orc-kimi-r0-n{number}{f'-{pool}' if pool else ''}{suffix}"
    labels = {"orc.deployment": "kimi", "orc.rank": str(number), "orc.nodes": str(nodes)}
    labels |= {"orc.role": pool} if pool else {}
    return ContainerState(host, id or f"{host} {name}", name, status, labels)


def place(number: int, host: str) -> tuple[str, str]:
    return host, f"orc-kimi-r0-n{number}"


BOTH = {place(0, "a"), place(1, "b")}


def test_what_is_not_put_aside_yet_belongs_to_it() -> None:
    found = spec_before([rank(1, "b", status="running")], [rank(0, "a", "-before")])
    assert set(found.places) == BOTH
    assert found.newer == ()


def test_what_has_gone_back_already_belongs_to_it() -> None:
    present = [rank(0, "a"), new := rank(1, "b")]
    found = spec_before(present, [rank(0, "a", "-after"), rank(1, "b", "-before")])
    assert set(found.places) == BOTH
    assert found.newer == (new,)


def test_what_has_all_gone_back_and_was_not_started_belongs_to_it() -> None:
    aside = [rank(0, "a", "-after"), rank(1, "b", "-after")]
    assert set(spec_before([rank(0, "a"), rank(1, "b")], aside).places) == BOTH
    running = [rank(0, "a", status="running"), rank(1, "b", status="running")]
    assert spec_before(running, aside) == SpecBefore()


def test_a_spec_with_other_hosts_or_more_ranks_is_told_apart() -> None:
    present = [rank(0, "a"), rank(1, "c")]
    found = spec_before(present, [rank(0, "a", "-before"), rank(1, "b", "-before")])
    assert set(found.places) == BOTH
    assert found.newer == tuple(present)
    found = spec_before([extra := rank(1, "b")], [rank(0, "a", "-before", nodes=1)])
    assert (found.places, found.newer, found.missing) == ((place(0, "a"),), (extra,), ())


def test_a_rank_that_nothing_has_is_missing() -> None:
    found = spec_before([], [rank(1, "b", "-before")])
    assert (found.places, found.newer, found.missing) == ((place(1, "b"),), (), (0,))


def test_each_pool_counts_its_own_ranks() -> None:
    prefill = rank(0, "a", "-before", pool="prefill")
    decode = [rank(n, host, "-before", pool="decode", nodes=3) for n, host in enumerate("bc")]
    old = [prefill, *decode]
    new = [
        rank(0, "a", pool="prefill", nodes=3),
        *(rank(n, host, pool="decode", nodes=3) for n, host in enumerate("bc")),
    ]
    found = spec_before(new, old)
    assert (found.old, found.newer, found.missing) == (tuple(old), tuple(new), ())
    other = rank(1, "d", pool="prefill", nodes=3)  # the spec before is whole without it
    assert spec_before([*new, other], old).newer == (*new, other)
    found = spec_before([new[2]], old[:2])  # one that was not put aside yet
    assert (found.old, found.newer, found.missing) == ((*old[:2], new[2]), (), ())
    assert spec_before([], old[1:]).missing == (2,)


def test_pools_that_are_whole_make_what_was_kept_elsewhere_stale() -> None:
    kept = rank(0, "c", "-before", pool="decode")
    present = [rank(0, "a", pool="prefill"), rank(0, "b", pool="decode")]
    assert stale(present, [kept]) == (kept,)
    assert stale(present[:1], [kept]) == ()


def test_ranks_that_an_earlier_roll_kept_elsewhere_are_stale_once_a_whole_replica_is_there() -> (
    None
):
    kept = [rank(0, "a", "-before"), rank(1, "b", "-before")]
    assert stale([rank(0, "a", nodes=1)], kept) == (kept[1],)
    assert stale([rank(1, "b")], kept[:1]) == ()  # half of it was put aside just now
    assert stale([], kept) == ()
