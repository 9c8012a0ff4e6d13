import json
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = """all:
  vars:
    {ansible_user: ops, ansible_password: hunter2, x: "{{ y }}", day: 2024-01-02, 1st: {2: a, b: c}}
  children:
    rack: {hosts: {"n[1:2]": {orc_hardware: h200, orc_gpus: [0, 1]}}}
"""


@pytest.fixture
def hosts(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.yml"
    path.write_text(TEXT)
    return path


def orc(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "orchestrator", "inventory", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_table_shows_where_and_what_each_host_is(hosts: Path) -> None:
    done = orc("-i", hosts)
    assert done.returncode == 0
    assert done.stdout.splitlines()[1].split() == [
        "n1",
        "ops@n1",
        "h200",
        "0,1",
        "-",
        "docker",
        "rack",
    ]
    assert len(done.stdout.splitlines()) == 3


def test_every_form_keeps_json_on_stdout_and_secrets_out(hosts: Path) -> None:
    for form in (
        ["--list"],
        ["--host", "n1"],
        ["--json"],
        ["--graph", "--json"],
        ["--limit", "n1", "--list"],
    ):
        done = orc("-i", hosts, *form)
        assert (done.returncode, done.stderr) == (0, "")
        json.loads(done.stdout)
        assert "hunter2" not in done.stdout


def test_one_host_shows_its_variables_as_they_are_written(hosts: Path) -> None:
    assert json.loads(orc("-i", hosts, "--host", "n2").stdout) == {
        "ansible_user": "ops",
        "ansible_password": "<secret>",
        "x": "{{ y }}",
        "day": "2024-01-02",
        "1st": {"2": "a", "b": "c"},
        "orc_hardware": "h200",
        "orc_gpus": [0, 1],
    }


def test_the_graph_is_that_of_ansible(hosts: Path) -> None:
    assert orc("-i", hosts, "--graph").stdout.splitlines() == [
        "@all:",
        "  |--@ungrouped:",
        "  |--@rack:",
        "  |  |--n1",
        "  |  |--n2",
    ]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["--host", "n3"], 1, "there is no host 'n3' in the inventory"),
        (["--limit", "rakc"], 1, "did you mean 'rack'?"),
        (["--limit", "n1:!n1"], 1, "no host matches"),
        (["--list", "--graph"], 3, "exclude each other"),
        (["-i", "missing.yml"], 1, "missing.yml: no such inventory"),
    ],
)
def test_bad_input_is_one_message_and_a_status(
    hosts: Path, arguments: list[str], status: int, said: str
) -> None:
    done = orc("-i", hosts, *arguments)
    assert done.returncode == status
    assert said in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_an_inventory_must_be_named() -> None:
    assert orc().returncode == 3
