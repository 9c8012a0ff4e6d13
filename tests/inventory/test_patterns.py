from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator import Inventory
from orchestrator.errors import InputError
from orchestrator.inventory.patterns import match, split_pattern
from tests.inventory.conftest import Load

GROUPS = {
    "all": ("a1", "a2", "a3", "b1", "b2", "2001:db8::1"),
    "rack-a": ("a1", "a2", "a3"),
    "rack-b": ("b1", "b2"),
    "h200": ("a2", "b1"),
    "empty": (),
}
HOSTS = dict.fromkeys(GROUPS["all"])


def matched(pattern: str) -> list[str]:
    return match(pattern, HOSTS, GROUPS, lambda group: GROUPS[group])


@pytest.mark.parametrize(
    ("pattern", "hosts"),
    [
        ("all", list(GROUPS["all"])),
        ("*", list(GROUPS["all"])),
        ("a2", ["a2"]),
        ("rack-b:a1", ["b1", "b2", "a1"]),
        ("rack-b,a1", ["b1", "b2", "a1"]),
        ("rack-b, b1 ,", ["b1", "b2"]),
        ("rack-a:&h200", ["a2"]),
        ("rack-a:!a1", ["a2", "a3"]),
        ("!rack-a:all", ["b1", "b2", "2001:db8::1"]),
        ("!rack-a", ["b1", "b2", "2001:db8::1"]),
        ("&h200", ["a2", "b1"]),
        ("rack-*:!rack-b", ["a1", "a2", "a3"]),
        ("a?", ["a1", "a2", "a3"]),
        ("[ab]1", ["a1", "b1"]),
        ("~a[13]$", ["a1", "a3"]),
        ("~(a|b)2", ["a2", "b2"]),
        ("~rack-(a|b):!~b", ["a1", "a2", "a3"]),
        ("rack-a[0]", ["a1"]),
        ("rack-a[-1]", ["a3"]),
        ("rack-a[0:1]", ["a1", "a2"]),
        ("rack-a[1:]", ["a2", "a3"]),
        ("rack-a[1-2]", ["a2", "a3"]),
        ("rack-a[7]", []),
        ("all:!rack-a[0]", ["a2", "a3", "b1", "b2", "2001:db8::1"]),
        ("2001:db8::1", ["2001:db8::1"]),
        ("a1,2001:db8::1", ["a1", "2001:db8::1"]),
        ("empty", []),
        ("nothing*", []),
    ],
)
def test_a_pattern_means_these_hosts_in_order(pattern: str, hosts: list[str]) -> None:
    assert matched(pattern) == hosts


@pytest.mark.parametrize("pattern", ["rack-c", "all:!a9", "all:&h100", "rack-c[0]", "localhost"])
def test_a_name_that_does_not_exist_is_named_wherever_it_stands(pattern: str) -> None:
    with pytest.raises(InputError) as caught:
        matched(pattern)
    assert pattern.split("[")[0].split(":")[-1].lstrip("!&") in str(caught.value)
    assert "do:" in str(caught.value)


def test_the_nearest_name_is_offered() -> None:
    with pytest.raises(InputError, match="did you mean 'h200'"):
        matched("h20")


def test_a_broken_regular_expression_and_an_empty_pattern_are_refused() -> None:
    with pytest.raises(InputError, match="no regular expression"):
        matched("~a(")
    for nothing in ("", " , ", ":"):
        with pytest.raises(InputError, match="pattern is empty"):
            matched(nothing)


@given(st.lists(st.sampled_from(["rack-a", "rack-b", "h200", "a1", "b*"]), min_size=1), st.data())
def test_union_intersection_and_exclusion_are_those_of_sets(
    wanted: list[str], data: st.DataObject
) -> None:
    both = data.draw(st.sampled_from(["all", "rack-a", "h200"]))
    without = data.draw(st.sampled_from(["empty", "rack-b", "a1"]))
    found = matched(":".join([*wanted, f"&{both}", f"!{without}"]))
    union = {name for part in wanted for name in matched(part)}
    assert set(found) == (union & set(matched(both))) - set(matched(without))
    assert len(found) == len(set(found))


def test_groups_with_names_like_hexadecimal_digits_are_no_ipv6_address() -> None:
    assert split_pattern("a:b:c") == ["a", "b", "c"]
    assert split_pattern("!2001:db8::1") == ["!2001:db8::1"]


@given(
    st.lists(st.text("abc123-_.*?", min_size=1), min_size=1, max_size=7),
    st.sampled_from([":", ","]),
)
def test_a_pattern_splits_into_the_parts_it_was_joined_of(parts: list[str], by: str) -> None:
    assert split_pattern(by.join(parts)) == parts


TEXT = """
    all:
      children:
        rack: {hosts: {"n[1:4]": }}
        spare: {hosts: {n3: , x1: }}
"""


def test_limit_gives_a_new_inventory_in_the_order_of_the_first(load: Load) -> None:
    inventory = load(TEXT)
    limited = inventory.limit("n3,n1")
    assert list(limited.hosts) == ["n1", "n3"]
    assert list(inventory.hosts) == ["n1", "n2", "n3", "n4", "x1"]
    assert limited.groups["rack"].hosts == ("n1", "n3")
    assert [host.name for host in limited.select("rack")] == ["n1", "n3"]
    assert [host.name for host in inventory.select("n3,n1")] == ["n3", "n1"]


def test_positions_in_a_group_count_before_the_limit(load: Load) -> None:
    limited = load(TEXT).limit("!n1")
    assert [host.name for host in limited.select("rack[1]")] == ["n2"]


def test_a_pattern_that_leaves_no_host_is_refused(load: Load) -> None:
    inventory = load(TEXT)
    for pattern in ("rack:!rack", "n9*", "rack[9]"):
        with pytest.raises(InputError) as caught:
            inventory.limit(pattern)
        assert f"no host matches {pattern!r}" in str(caught.value)
    with pytest.raises(InputError, match="none is left by it"):
        inventory.limit("n1").select("n2")


def test_a_limit_may_stand_in_a_file(load: Load, tmp_path: Path) -> None:
    inventory = load(TEXT)
    (tmp_path / "failed.retry").write_text("# hosts that failed\nn2\n\nx1\n")
    assert list(inventory.limit(f"@{tmp_path}/failed.retry").hosts) == ["n2", "x1"]
    assert list(inventory.limit(f"@{tmp_path}/failed.retry,!n2").hosts) == ["x1"]
    (tmp_path / "nobody").write_text("# none\n")
    with pytest.raises(InputError, match="names no host"):
        inventory.limit(f"@{tmp_path}/nobody")
    with pytest.raises(InputError, match="missing: cannot be read"):
        inventory.limit(f"@{tmp_path}/missing")


def test_an_unknown_host_is_answered_with_the_nearest(load: Load) -> None:
    inventory: Inventory = load(TEXT)
    with pytest.raises(InputError) as caught:
        inventory.host("n11")
    assert "there is no host 'n11' in the inventory" in str(caught.value)
    assert "did you mean 'n1'?" in str(caught.value)
