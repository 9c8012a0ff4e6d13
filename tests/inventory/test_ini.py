import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import InputError
from orchestrator.inventory.ini_source import literal
from tests.inventory.conftest import Load


def test_an_ini_inventory_has_groups_children_and_variables(load: Load) -> None:
    inventory = load(
        """
        # a comment
        lone ansible_host=192.0.2.9 note="two words"  # and another

        [rack:children]
        row

        [row]
        node[01:02]:2222 orc_gpus=0,1

        [row:vars]
        orc_hardware = h200
        level = True

        [later:vars]
        x=1
        [later]
        node01 orc_gpus=[3]
        """,
        name="hosts",
    )
    assert list(inventory.hosts) == ["lone", "node01", "node02"]
    node = inventory.hosts["node01"]
    assert node.groups == ("all", "later", "rack", "row")
    assert dict(node.variables) == {
        "orc_hardware": "h200",
        "level": True,
        "x": 1,
        "orc_gpus": [3],
        "ansible_port": 2222,
    }
    assert node.settings.gpus == (3,)
    assert inventory.hosts["lone"].variables["note"] == "two words"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1", 1),
        ("01", "01"),
        ("1.5", 1.5),
        ("True", True),
        ("true", "true"),
        ("yes", "yes"),
        ("None", None),
        ("0,1", [0, 1]),
        ("(1, 2)", [1, 2]),
        ("{'a': (1,)}", {"a": [1]}),
        ("'quoted'", "quoted"),
        ("a b", "a b"),
        ("[1", "[1"),
        ("{{ x }}", "{{ x }}"),
        ("0x10", 16),
        ("", ""),
        ("...", "..."),
        ("192.0.2.1", "192.0.2.1"),
    ],
)
def test_a_value_is_a_python_literal_if_it_is_one(written: str, value: object) -> None:
    assert literal(written) == value


@given(st.text())
def test_no_value_breaks_the_reader(text: str) -> None:
    literal(text)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("[g\nn1", 1, "[g is no section"),
        ("# c\n[g:kids]\n", 2, "section [g:kids] is of an unknown kind"),
        ("n1\nn2 word\n", 2, "word 1 after host n2 is no name=value"),
        ("n1 a=1\n[g:vars]\na=1", 2, "[g:vars] is of a group that has no section [g]"),
        ("[g]\nn1\n[p:children]\nh\n", 4, "there is no section [h]"),
        ("[g]\nn1\n[g:vars]\nnovalue\n", 4, "[g:vars] holds one name=value a line"),
        ("[a:children]\nb\n[b:children]\na\n", 4, "group 'a' cannot be a child of 'b'"),
        ('n1 a="b\n', 1, "No closing quotation"),
        ("n[3:1]\n", 1, "ends before it begins"),
        ("[g:children]\na b\n", 2, "one group's name a line"),
        ("[g]\nn1 orc_gpu=1\n", 2, "did you mean 'orc_gpus'?"),
        ("[g]\nn1\n[g:vars]\na=1\norc_gpu=1\n", 5, "did you mean 'orc_gpus'?"),
    ],
)
def test_a_broken_ini_inventory_is_one_clear_message_with_its_line(
    load: Load, text: str, line: int, said: str
) -> None:
    with pytest.raises(InputError) as caught:
        load(text, name="hosts.ini")
    assert f"hosts.ini:{line}: " in str(caught.value)
    assert said in str(caught.value)


def test_a_password_with_a_space_is_not_quoted_in_the_message(load: Load) -> None:
    for line in ("n1 ansible_password=open sesame", "n1 ansible_password='open sesame"):
        with pytest.raises(InputError) as caught:
            load(line, name="hosts.ini")
        assert "sesame" not in str(caught.value)


def test_yaml_and_ini_are_told_apart_without_a_suffix(load: Load) -> None:
    assert list(load("all:\n  hosts: {y: }\n", name="one").hosts) == ["y"]
    assert list(load("---\nall: {hosts: {z: }}\n", name="two").hosts) == ["z"]
    assert list(load("# c\n[g]\ni\n", name="three").hosts) == ["i"]
    assert list(load("i:2222 a=b\n", name="four").hosts) == ["i"]
