"""Addresses: what no host has as its own, and what hosts cannot meet at."""

from __future__ import annotations

from dataclasses import replace

import pytest

from orchestrator.deployment import Deployment
from orchestrator.errors import PlanError
from orchestrator.topology.addresses import check_meeting, check_own, is_loopback, no_address
from orchestrator.topology.build import build_layout
from orchestrator.topology.layout import Slot
from tests.topology.builders import layout, prefill_decode, slots

WHY = "they meet"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("0.0.0.0", "every interface"),
        ("::", "every interface"),
        ("224.0.0.1", "multicast"),
        ("ff02::1", "multicast"),
        ("255.255.255.255", "broadcast"),
        ("fe80::1", "link-local address, which means nothing without its interface"),
        ("10.1.0.300", "neither an IP address nor a host name"),
        ("10.1", "neither an IP address nor a host name"),
        ("node 01", "neither an IP address nor a host name"),
        ("node..rack", "neither an IP address nor a host name"),
        ("10.0.0.1/24", "a network with its prefix length"),
        ("fd00::1/64", "a network with its prefix length"),
        ("[fd00::1]", "brackets belong into URLs"),
        ("10.0.0.1:8000", "an address with a port"),
        ("[fd00::1]:8000", "an address with a port"),
    ],
)
def test_what_no_host_can_have_is_refused_on_one_node_too(address: str, why: str) -> None:
    assert why in (no_address(address) or "")
    (slot,) = slots(8)
    bad = replace(slot, address=address, address_source="orc_address")
    with pytest.raises(PlanError) as refused:
        layout("single_node_tp", [bad])
    assert refused.value.what == (
        f"the data-plane address of node01 is {address} (from orc_address)"
    )
    assert "orc_address" in (refused.value.hint or "")


@pytest.mark.parametrize(
    "address",
    [
        *("10.1.0.11", "127.0.0.1", "169.254.3.1", "fd00::1", "fe80::1%bond0"),
        *("node01", "node_01", "node01.rack.example", "node01.example.", "localhost"),
        "$HEAD_IP",
    ],
)
def test_an_address_or_a_name_is_taken(address: str) -> None:
    assert no_address(address) is None


@pytest.mark.parametrize("address", ["127.0.1.1", "::1", "::ffff:127.0.0.1", "localhost"])
def test_a_loopback_address_in_any_form(address: str) -> None:
    assert is_loopback(address)
    assert not is_loopback("localhosts")
    first, second = slots(8, 8)
    with pytest.raises(PlanError, match=r"node02: .* a loopback address"):
        check_meeting([first, replace(second, address=address)], WHY)


@pytest.mark.parametrize("interface", ["=bond0", "bond0,bond1", "^lo", "a-name-of-16-char", "a/b"])
def test_what_is_no_interface_is_refused(interface: str) -> None:
    (slot,) = slots(8)
    with pytest.raises(PlanError, match="node01: orc_interface of node01 is"):
        check_own(replace(slot, interface=interface))


def test_hosts_that_cannot_meet_are_refused() -> None:
    one, two = slots(8, 8)
    cases: list[tuple[Slot, str]] = [
        (replace(two, interface="lo"), "orc_interface of node02 is lo, the loopback"),
        (replace(two, address="fd00::2"), r"node01 is 10\.1\.0\.11, IPv4, and .* IPv6"),
        (replace(two, address="10.1.0.11"), "node01, node02 have the same data-plane address"),
    ]
    for other, message in cases:
        with pytest.raises(PlanError, match=message):
            check_meeting([one, other], WHY)
    check_meeting([one, replace(two, address="fd00::2")], WHY, one_family=False)
    check_meeting([one, replace(two, address="node02")], WHY)
    with pytest.raises(PlanError, match="the same data-plane address"):
        check_meeting([replace(one, address="fd00::1"), replace(two, address="fd00:0::1")], WHY)


def test_pools_of_one_node_each_meet_too() -> None:
    one, two = slots(8, 8)
    pools = prefill_decode((1, "tp"), (1, "tp"))
    deployment = Deployment(recipe="org/model")
    with pytest.raises(PlanError, match="IPv4, and that of node02 is fd00::2, IPv6"):
        build_layout(pools, [one, replace(two, address="fd00::2")], deployment)
    with pytest.raises(PlanError, match="node02: no data-plane address of node02 is known"):
        build_layout(pools, [one, replace(two, address=None)], deployment)
