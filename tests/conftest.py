"""Fixtures: a fleet of hosts for the session, and hosts behind jump hosts.

`ORC_FLEET=ID` takes the fleet that `python -m tests.fleet up` made instead of making one.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator

import pytest

from tests.fleet import Fleet
from tests.fleet.debian import why_not
from tests.planned import remember_what_is_planned

MAKERS = {"fleet", "fleet_of", "jump_chain", "no_fleet"}

# Files of two to five minutes: while several are run at once, none of them may be the last. What
# waits and what computes take turns.
LONG = (
    *("test_watch.py", "test_roll.py", "test_watch_standin.py", "test_roll_vllm.py"),
    *("test_locks.py", "test_data_parallel.py", "test_roll_prefill_decode.py", "test_router.py"),
    *("test_roll_broken_off.py", "test_killed.py", "test_containers.py"),
)

remember_what_is_planned()
# What starts tests in the background leaves Ctrl-C ignored, and every child would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Many hundred times a test runs orc as a process: it need not be compiled anew each time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(tryfirst=True)  # before `-m "not fleet"` takes its choice
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever uses a fleet is marked so, and waiting for one does not count as the test's time."""
    for item in items:
        if MAKERS & set(_fixtures(item)):
            item.add_marker("fleet")
            own = item.get_closest_marker("timeout")
            seconds = own.args[0] if own and own.args else 300
            item.add_marker(pytest.mark.timeout(seconds, func_only=True), append=False)
        if "no_fleet" in _fixtures(item):
            item.add_marker("alone")
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> float:
    """Tests of making fleets come before any other fleet is up; what is quick, before the rest."""
    if item.get_closest_marker("last"):
        return 5
    if "no_fleet" in _fixtures(item):
        return 0
    if item.get_closest_marker("alone"):
        return 1
    if item.path.name in LONG:
        return 3 + LONG.index(item.path.name) / 100
    return 4 if item.get_closest_marker("fleet") else 2


def _fixtures(item: pytest.Item) -> list[str]:
    names: list[str] = getattr(item, "fixturenames", [])
    return names


@pytest.fixture(scope="session")
def fleet_machine() -> None:
    """A machine that a fleet can be made on; else the test is skipped, and under CI it fails."""
    if reason := why_not():
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail(f"under CI a fleet must be had, but {reason}")
        pytest.skip(reason)


@pytest.fixture(scope="session")
def no_fleet(fleet_machine: None) -> None:
    """For tests that make fleets in processes of their own."""
    if "ORC_FLEET" in os.environ:
        pytest.skip("ORC_FLEET names a fleet that is up, and there can be one at a time")


@pytest.fixture(scope="session")
def fleet_of(fleet_machine: None) -> Iterator[Callable[[int], Fleet]]:
    """`fleet_of(4)`: a fleet of that many hosts, the same one for the whole session."""
    made: dict[int, Fleet] = {}

    def of(hosts: int) -> Fleet:
        if attached := os.environ.get("ORC_FLEET"):
            fleet = Fleet.attach(attached)
            if len(fleet.hosts) != hosts:
                pytest.skip(f"fleet {attached} has {len(fleet.hosts)} hosts, not {hosts}")
            return fleet
        if hosts not in made:
            made[hosts] = Fleet.up(hosts)
        return made[hosts]

    yield of
    for fleet in made.values():
        fleet.down()


@pytest.fixture(scope="session")
def fleet(fleet_of: Callable[[int], Fleet]) -> Fleet:
    """Two hosts with docker, a registry, an image and real vLLM. Clean up with `fleet.clear()`."""
    return fleet_of(2)


@pytest.fixture(scope="session")
def jump_chain(fleet_machine: None) -> Iterator[Fleet]:
    """jump1, jump2 and target, with sshd only, each reachable only through the one before it."""
    if "ORC_FLEET" in os.environ:
        pytest.skip("ORC_FLEET names a fleet that is up, and there can be one at a time")
    chain = Fleet.jump_chain()
    yield chain
    chain.down()
