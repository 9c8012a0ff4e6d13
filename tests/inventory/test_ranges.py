import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.inventory.ranges import expand, split_port


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("node01", ["node01"]),
        ("node[1:3]", ["node1", "node2", "node3"]),
        ("node[01:03]", ["node01", "node02", "node03"]),
        ("node[08:11].lab", ["node08.lab", "node09.lab", "node10.lab", "node11.lab"]),
        ("n[1:9:4]", ["n1", "n5", "n9"]),
        ("n[:2]", ["n0", "n1", "n2"]),
        ("[a:c]", ["a", "b", "c"]),
        ("[a:e:2]x", ["ax", "cx", "ex"]),
        ("r[1:2]n[a:b]", ["r1na", "r1nb", "r2na", "r2nb"]),
        ("2001:db8::[8:10]", ["2001:db8::8", "2001:db8::9", "2001:db8::10"]),
    ],
)
def test_a_range_stands_for_its_names_in_order(pattern: str, names: list[str]) -> None:
    assert expand(pattern) == names


@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 9), st.integers(0, 4))
def test_a_range_of_numbers_counts_both_ends_and_keeps_its_width(
    first: int, length: int, step: int, width: int
) -> None:
    last = first + length
    padded = len(str(last)) + width
    names = expand(f"n[{first:0{padded}d}:{last:0{padded}d}:{step}]")
    assert [int(name[1:]) for name in names] == list(range(first, last + 1, step))
    if f"{first:0{padded}d}".startswith("0") and padded > 1:
        assert {len(name) for name in names} == {padded + 1}


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("n[3:1]", "ends before it begins"),
        ("n[c:a]", "ends before it begins"),
        ("n[01:100]", "as many digits"),
        ("n[1:3:0]", "a range's step"),
        ("n[1:3:-1]", "a range's step"),
        ("n[1:3", "not closed"),
        ("n[1]", "a range is [first:last]"),
        ("n[1:]", "numbers or single letters"),
        ("n[1:a]", "numbers or single letters"),
        ("n[aa:cc]", "numbers or single letters"),
        ("n[0:999999999]", "more than 100000 hosts"),
        ("n[0:999][0:999]", "more than 100000 hosts"),
    ],
)
def test_a_range_that_names_nothing_is_refused(pattern: str, said: str) -> None:
    with pytest.raises(ValueError) as caught:
        expand(pattern)
    assert said in str(caught.value)
    assert pattern in str(caught.value)


@pytest.mark.parametrize(
    ("text", "name", "port"),
    [
        ("node", "node", None),
        ("node:2222", "node", 2222),
        ("node[01:16]:2222", "node[01:16]", 2222),
        ("192.0.2.1:22", "192.0.2.1", 22),
        ("[2001:db8::1]:2222", "2001:db8::1", 2222),
        ("2001:db8::1", "2001:db8::1", None),
        ("::1", "::1", None),
        ("[a:c]", "[a:c]", None),
    ],
)
def test_a_port_is_split_off_but_not_from_an_ipv6_address(
    text: str, name: str, port: int | None
) -> None:
    assert split_port(text) == (name, port)


def test_a_port_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="1 to 65535"):
        split_port("node:70000")
