from pathlib import Path

import pytest

from orchestrator import Inventory
from orchestrator.errors import InputError
from tests.inventory.conftest import Load


def test_hosts_come_in_the_order_of_groups_level_by_level(load: Load) -> None:
    inventory = load("""
        all:
          hosts: {zed: }
          children:
            b:
              hosts: {n02: , n01: }
              children: {deep: {hosts: {n09: }}}
            a: {hosts: {h1: , n01: }}
    """)
    assert list(inventory.hosts) == ["zed", "n02", "n01", "h1", "n09"]
    assert inventory.groups["b"].hosts == ("n02", "n01", "n09")
    assert inventory.groups["ungrouped"].hosts == ("zed",)
    assert inventory.hosts["n01"].groups == ("all", "a", "b")


def test_every_level_of_precedence_beats_the_one_below_it(load: Load) -> None:
    levels = ["all", "parent", "child", "gv_all", "gv_parent", "gv_child", "host", "hv"]

    def vars_from(level: int) -> str:
        """Each level sets its own name and those of all levels below it."""
        return "{" + ", ".join(f"{name}: {levels[level]}" for name in levels[: level + 1]) + "}"

    inventory = load(
        f"""
        all:
          vars: {vars_from(0)}
          children:
            parent:
              vars: {vars_from(1)}
              children:
                child:
                  vars: {vars_from(2)}
                  hosts: {{node: {vars_from(6)}}}
        """,
        files={
            "group_vars/all.yml": vars_from(3),
            "group_vars/parent.yml": vars_from(4),
            "group_vars/child.yml": vars_from(5),
            "host_vars/node.yml": vars_from(7),
        },
    )
    variables = inventory.hosts["node"].variables
    assert {name: variables[name] for name in levels} == dict.fromkeys(levels, "hv")
    # Without host_vars and host, the next lower level shows, and so on down.
    assert (
        dict(
            load(f"all: {{vars: {vars_from(0)}, hosts: {{other: }}}}", "o.yml")
            .hosts["other"]
            .variables
        )["all"]
        == "gv_all"
    )


@pytest.mark.parametrize(("group_vars", "winner"), [("", "z"), ("ansible_group_priority: 5", "a")])
def test_groups_of_one_depth_apply_by_name_unless_a_priority_says_otherwise(
    load: Load, group_vars: str, winner: str
) -> None:
    inventory = load(f"""
        all:
          children:
            z: {{hosts: {{node: }}, vars: {{who: z}}}}
            a:
              hosts: {{node: }}
              vars:
                who: a
                {group_vars}
    """)
    assert inventory.hosts["node"].variables["who"] == winner
    assert "ansible_group_priority" not in inventory.hosts["node"].variables


def test_a_deeper_group_beats_a_higher_one_of_a_later_name(load: Load) -> None:
    inventory = load("""
        all:
          children:
            outer: {children: {a: {hosts: {node: }, vars: {who: a}}}}
            z: {hosts: {node: }, vars: {who: z}}
    """)
    assert inventory.hosts["node"].variables["who"] == "a"


def test_group_vars_may_be_a_directory_and_json_and_without_a_suffix(load: Load) -> None:
    inventory = load(
        "all: {children: {g: {hosts: {n1: }}}}",
        files={
            "group_vars/all/10.yml": "a: 1\nb: 1",
            "group_vars/all/20.yaml": "b: 2",
            "group_vars/all/sub/x": "c: 3",
            "group_vars/all/notes.md": "d: 4",
            "group_vars/all/.hidden.yml": "e: 5",
            "group_vars/g.json": '{"f": 6}',
            "host_vars/n1": "g: 7",
            "host_vars/n1.yml": "g: 8",  # Ansible stops at the first name it finds
        },
    )
    assert dict(inventory.hosts["n1"].variables) == {"a": 1, "b": 2, "c": 3, "f": 6, "g": 7}


def test_a_later_inventory_wins_and_adds(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "one/a.yml").write_text("all: {hosts: {n1: {v: one, w: one}}}")
    (tmp_path / "two/b.yml").write_text("all: {hosts: {n2: , n1: {v: two}}}")
    (tmp_path / "one/host_vars").mkdir()
    (tmp_path / "one/host_vars/n1.yml").write_text("w: beside one")
    inventory = Inventory.load([tmp_path / "one/a.yml", tmp_path / "two/b.yml"])
    assert list(inventory.hosts) == ["n1", "n2"]
    assert dict(inventory.hosts["n1"].variables) == {"v": "two", "w": "beside one"}


def test_a_directory_is_read_file_by_file_in_order_of_name(tmp_path: Path) -> None:
    (tmp_path / "10.yml").write_text("all: {hosts: {n1: {v: 10}}}")
    (tmp_path / "20.ini").write_text("n1 v=20\nn2\n")
    (tmp_path / "README.md").write_text("not an inventory")
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/all.yml").write_text("w: 1")
    inventory = Inventory.load(tmp_path)
    assert dict(inventory.hosts["n1"].variables) == {"v": 20, "w": 1}
    assert list(inventory.hosts) == ["n1", "n2"]


def test_a_list_of_hosts_needs_no_file() -> None:
    inventory = Inventory.load("n[1:2],far:2222,")
    assert list(inventory.hosts) == ["n1", "n2", "far"]
    assert inventory.hosts["far"].connection.port == 2222


def test_two_names_of_one_machine_are_found(load: Load) -> None:
    inventory = load("""
        all:
          hosts:
            a: {ansible_host: 192.0.2.1}
            b: {ansible_host: 192.0.2.1, ansible_port: 22}
            c: {ansible_host: 192.0.2.1, ansible_port: 2222}
            d: {ansible_connection: local}
            e: {ansible_connection: local}
    """)
    assert inventory.same_machine() == [("a", "b"), ("d", "e")]


def test_four_thousand_hosts_load(load: Load) -> None:
    text = """
        all:
          vars: {ansible_user: ops, orc_env: {A: b}, base: /data, orc_hf_home: "{{ base }}/hf"}
          children:
            rack: {hosts: {"node[0001:4096]": {orc_address: "10.0.0.1"}}}
    """
    inventory = load(text)
    assert len(inventory.hosts) == 4096
    assert inventory.select("node4096")[0].settings.hf_home == "/data/hf"


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        ("[a, b]", "hosts.yml:1", "an inventory is a mapping of groups, not a list"),
        ("just text", "hosts.yml:1", "an inventory is a mapping of groups, not text"),
        ("", "hosts.yml", "the inventory is empty"),
        ("# nothing\n", "hosts.yml", "nothing but comments"),
        ("all:\n  hosts:\n    - n1\n", "hosts.yml:2", "with a colon and no hyphen: `node01:`"),
        ("all:\n  children: [a]\n", "hosts.yml:2", "`children:` of group 'all' is a mapping"),
        ("all:\n  vars: [a]\n", "hosts.yml:2", "`vars:` of group 'all' is a mapping"),
        ("all:\n  hosts: {n1: 5}\n", "hosts.yml:2", "variables are a mapping"),
        ("all:\n  host: {n1: }\n", "hosts.yml:2", "did you mean 'hosts'?"),
        ("all:\n  orc_hardware: h200\n", "hosts.yml:2", "put orc_hardware below `vars:`"),
        ("all:\n  rack1: {hosts: {a: }}\n", "hosts.yml:2", "below `children:`"),
        ("all:\n  hosts:\n    10: {}\n", "hosts.yml:3", "put it into quotes"),
        ("all:\n  hosts:\n    n[3:1]: {}\n", "hosts.yml:3", "ends before it begins"),
        ("all:\n  hosts:\n    n1: {}\n    n1: {}\n", "hosts.yml:4", "'n1' stands here twice"),
        ("all:\n  hosts: {n1: [}\n", "hosts.yml:2:", "hosts: {n1: [}"),
        ("all:\n  vars:\n    x: 1\n    orc_gpu: [0]\n", "hosts.yml:4", "did you mean 'orc_gpus'?"),
        ("all:\n  hosts:\n    n1:\n      orc_evn: {}\n", "hosts.yml:4", "did you mean 'orc_env'?"),
        ("plugin: aws_ec2\n", "hosts.yml:1", "ansible-inventory -i"),
        ("#!/bin/sh\necho {}\n", "hosts.yml:1", "scripts are not run here"),
        (
            "a:\n  children:\n    b:\n      children:\n        a:\n",
            "hosts.yml:5",
            "group 'a' cannot be a child of 'b'",
        ),
        ("a: {vars: {ansible_group_priority: x}}\n", "hosts.yml:1", "is a whole number"),
    ],
)
def test_what_is_no_inventory_is_one_clear_message_with_its_place(
    load: Load, text: str, where: str, said: str
) -> None:
    with pytest.raises(InputError) as caught:
        load(text)
    assert where in str(caught.value)
    assert said in str(caught.value)


def test_an_unknown_orc_variable_is_found_in_variable_files_too(load: Load) -> None:
    files = {"host_vars/n1.yml": "x: 1\n\norc_interfaces: eth0\n"}
    with pytest.raises(InputError) as caught:
        load("all: {hosts: {n1: }}", files=files)
    assert "host_vars/n1.yml:3: unknown variable 'orc_interfaces'" in str(caught.value)
    assert "did you mean 'orc_interface'?" in str(caught.value)


def test_a_missing_unreadable_or_binary_file_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "binary.yml").write_bytes(b"\x00\xff\xfe\x80")
    (tmp_path / "zeros").write_bytes(b"n1\x00\n")
    (tmp_path / "empty").mkdir()
    for name, said in {
        "missing.yml": "no such inventory",
        "binary.yml": "not a text file in UTF-8",
        "zeros": "zero bytes",
        "empty": "the directory holds no inventory file",
    }.items():
        with pytest.raises(InputError) as caught:
            Inventory.load(tmp_path / name)
        assert said in str(caught.value)
        assert name in str(caught.value)


def test_ten_megabytes_of_inventory_load(tmp_path: Path) -> None:
    line = "    node{:05d}: {{ansible_host: 192.0.2.1, note: " + "x" * 1000 + "}}"
    lines = [line.format(number) for number in range(10000)]
    (tmp_path / "big.yml").write_text("all:\n  hosts:\n" + "\n".join(lines) + "\n")
    assert (tmp_path / "big.yml").stat().st_size > 10_000_000
    inventory = Inventory.load(tmp_path / "big.yml")
    assert inventory.select("node09999")[0].connection.address == "192.0.2.1"
