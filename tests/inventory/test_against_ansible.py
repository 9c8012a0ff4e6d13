"""The oracle: `ansible-inventory` on the same files, where it is installed.

It is looked for beside the Python that runs the tests, and on the PATH; ORC_ANSIBLE_BIN names
another directory.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Inventory
from orchestrator.errors import InputError
from orchestrator.inventory import listing

_PLACES = [os.environ.get("ORC_ANSIBLE_BIN"), str(Path(sys.executable).parent), os.environ["PATH"]]
_PATH = os.pathsep.join(filter(None, _PLACES))
ANSIBLE_INVENTORY = shutil.which("ansible-inventory", path=_PATH)
ANSIBLE = shutil.which("ansible", path=_PATH)

pytestmark = pytest.mark.skipif(
    ANSIBLE_INVENTORY is None or ANSIBLE is None,
    reason="ansible-core is not installed: nothing to compare with",
)

CASES: dict[str, dict[str, str]] = {
    "groups": {
        "hosts.yml": """
all:
  vars: {x: 1, ratio: 1.5, flag: yes, text: "007", nothing: null, when: 2024-01-02}
  hosts: {zed: }
  children:
    b:
      vars: {who: b, only_b: 1}
      hosts:
        n[01:03]: {v: q}
      children:
        bb: {hosts: {n9: }, vars: {who: bb}}
    a:
      vars: {who: a}
      hosts:
        "h1:2222":
        "[2001:db8::1]:22":
        "2001:db8::[2:4]":
        n01: {v: r}
        n[a:e:2]x:
ungrouped: {hosts: {stray: }}
extra: {}
""",
        "group_vars/all.yml": "x: 2\n",
        "group_vars/bb/one.yml": "{p: 1, q: 1}\n",
        "group_vars/bb/two.json": '{"q": 2}',
        "host_vars/n9": "x: 3\n",
    },
    "priorities": {
        "hosts.yml": """
all:
  children:
    p: {children: {g: {hosts: {n1: {hv: inv}, n2: }}}, vars: {k: p, ansible_group_priority: 9}}
    s: {hosts: {n1: }, vars: {m: s, k: s, ansible_group_priority: 10}}
    t: {hosts: {n1: }, vars: {m: t, k: t}}
    g: {vars: {k: g}}
"""
    },
    "ini": {
        "hosts.ini": """
lone ansible_host=192.0.2.3 x=0,1 y="a b" z=True n=01 l=[1,2] d="{'a': 1}" e=1.10 h=a#b gone=1
# comment
[p:children]
g
late
[g]
n[1:3] a=1
n2 a=2
; comment
[g:vars]
a = True
b = 0,1
c = 'quoted'
d = "dq" # c
e = None
f = hello world
h = [1, 2
j = 1.5
k = 012
l = x ; y
m =
n = -5
o = 1_000
q1 = "multi" "text"
t = a # b
[late]
hostx:2222 a='b=c'
[early:vars]
v=1
[early] # comment
hosty
[top:children]
early
p
""",
        "group_vars/g.yml": "k: from file\n",
    },
}


def _write(files: dict[str, str], directory: Path) -> Path:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory / next(iter(files))


def _run(command: str | None, *arguments: str) -> str:
    assert command is not None
    environment = {
        **os.environ,
        "PATH": _PATH,
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_LOCALHOST_WARNING": "0",
    }
    done = subprocess.run(
        [command, *arguments], capture_output=True, text=True, check=True, env=environment
    )
    return done.stdout


def _ansible_list(*arguments: str) -> dict[str, Any]:
    listed: dict[str, Any] = json.loads(_run(ANSIBLE_INVENTORY, "--list", *arguments))
    listed["_meta"].pop("profile", None)  # of the newer Ansibles only
    return listed


def _ours(inventory: Inventory) -> Any:
    return json.loads(json.dumps(listing.ansible_list(inventory), default=str))


@pytest.mark.parametrize("case", CASES)
def test_list_and_graph_are_those_of_ansible(case: str, tmp_path: Path) -> None:
    path = _write(CASES[case], tmp_path)
    inventory = Inventory.load(path)
    assert _ours(inventory) == _ansible_list("-i", str(path))
    assert listing.graph(inventory) == _run(ANSIBLE_INVENTORY, "--graph", "-i", str(path)).rstrip()


def test_several_inventories_and_a_directory_are_those_of_ansible(tmp_path: Path) -> None:
    for number, case in enumerate(CASES):
        _write(CASES[case], tmp_path / f"{number}")
    paths = [str(tmp_path / str(number)) for number in range(len(CASES))]
    arguments = [word for path in paths for word in ("-i", path)]
    assert _ours(Inventory.load(paths)) == _ansible_list(*arguments)
    limited = Inventory.load(paths).limit("g:zed:!n1")
    assert _ours(limited) == _ansible_list(*arguments, "--limit", "g:zed:!n1")


def test_variable_files_beside_two_inventories_are_those_of_ansible(tmp_path: Path) -> None:
    inventory = "all: {children: {p: {children: {g: {hosts: {n1: }}}}}}"
    _write(
        {
            "hosts.yml": inventory,
            "group_vars/all.yml": "{a: all1, b: all1}",
            "group_vars/g.yml": "{b: g1, c: g1, d: g1, e: g1}",
            "host_vars/n1.yml": "{d: n1}",
        },
        tmp_path / "1",
    )
    _write(
        {
            "hosts.yml": "all: {hosts: {n1: {d: inline, e: inline}}}",
            "group_vars/all.yml": "{a: all2, b: all2, c: all2}",
            "group_vars/p.yml": "{c: p2}",
        },
        tmp_path / "2",
    )
    for order in (["1", "2"], ["2", "1"]):
        paths = [str(tmp_path / number / "hosts.yml") for number in order]
        arguments = [word for path in paths for word in ("-i", path)]
        assert _ours(Inventory.load(paths)) == _ansible_list(*arguments)


@pytest.mark.parametrize(
    "pattern",
    [
        "all",
        "b:a",
        "a:!n01:&all",
        "n*:!b",
        "b[0]",
        "b[-1]",
        "b[1:2]",
        "b[1:]",
        "~n0[12]",
        "~(a|bb)$:stray",
        "n0?,zed",
        "!b",
        "2001:db8::2",
        "*x:h1",
        "[ab]",
    ],
)
def test_a_pattern_means_the_hosts_that_it_means_to_ansible(pattern: str, tmp_path: Path) -> None:
    path = _write(CASES["groups"], tmp_path)
    printed = _run(ANSIBLE, "-i", str(path), pattern, "--list-hosts").splitlines()[1:]
    ours = [host.name for host in Inventory.load(path).select(pattern)]
    assert ours == [line.strip() for line in printed]


@pytest.mark.parametrize("seed", range(12))
def test_precedence_in_a_random_inventory_is_that_of_ansible(seed: int, tmp_path: Path) -> None:
    """Groups in a random order under random parents, the same few variables everywhere."""
    rng = random.Random(seed)
    names = [f"g{number}" for number in rng.sample(range(10, 99), 8)]

    def variables() -> dict[str, Any]:
        chosen = rng.sample(["u", "v", "w", "x"], rng.randint(0, 3))
        values: dict[str, Any] = {name: rng.randint(0, 999) for name in chosen}
        if rng.random() < 0.2:
            values["ansible_group_priority"] = rng.randint(1, 5)
        return values

    def plain() -> dict[str, Any]:
        return {key: value for key, value in variables().items() if key in "uvwx"}

    groups: dict[str, Any] = {}
    for position, name in enumerate(names):
        below = names[position + 1 :]
        hosts = rng.sample([f"h{number}" for number in range(6)], rng.randint(0, 3))
        groups[name] = {
            "vars": variables(),
            "hosts": {host: plain() for host in hosts},
            "children": {
                child: {} for child in rng.sample(below, min(len(below), rng.randint(0, 2)))
            },
        }
    groups["all"] = {"vars": variables(), "hosts": {"h0": plain()}}
    files = {"hosts.json": json.dumps(groups)}
    for name in rng.sample([*names, "all"], 4):
        files[f"group_vars/{name}.yml"] = json.dumps(plain())
    for name in rng.sample([f"h{number}" for number in range(6)], 2):
        files[f"host_vars/{name}.yml"] = json.dumps(plain())
    path = _write(files, tmp_path)
    assert _ours(Inventory.load(path)) == _ansible_list("-i", str(path))


def test_what_ansible_vault_encrypts_is_read(tmp_path: Path) -> None:
    vault = shutil.which("ansible-vault", path=_PATH)
    (tmp_path / "password").write_text("correct horse\n")
    (tmp_path / "hosts.yml").write_text("all: {hosts: {n1: }}\n")
    (tmp_path / "host_vars").mkdir()
    (tmp_path / "host_vars/n1.yml").write_text("who: zoë " + "x" * 100 + "\n")
    password = ["--vault-password-file", str(tmp_path / "password")]
    _run(vault, "encrypt", *password, str(tmp_path / "host_vars/n1.yml"))
    inventory = Inventory.load(tmp_path / "hosts.yml", vault_password_files=[tmp_path / "password"])
    assert inventory.hosts["n1"].variables["who"].reveal() == "zoë " + "x" * 100
    with pytest.raises(InputError, match="no vault password was given"):
        Inventory.load(tmp_path / "hosts.yml")
