"""Playbooks are checked when they are read: file, line and the nearest right name."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import InputError
from orchestrator.play.actions.registry import ACTIONS
from orchestrator.play.playbook import packaged_playbook, read_playbook
from orchestrator.play.tasks import Play, leaves


def read(tmp_path: Path, text: str) -> tuple[Play, ...]:
    path = tmp_path / "play.yml"
    path.write_text(text)
    return read_playbook(path, ACTIONS)


@pytest.mark.parametrize(
    ("name", "actions"),
    [
        (
            "launch",
            [
                *("preflight", "pull_image", "kv_store", "start"),
                *("wait_healthy", "router", "compare_ranks"),
            ],
        ),
        ("stop", ["stop"]),
        ("preflight", ["preflight"]),
    ],
)
def test_the_packaged_playbooks_are_short_and_can_be_read(name: str, actions: list[str]) -> None:
    path = packaged_playbook(name)
    assert len(path.read_text().splitlines()) < 60
    (play,) = read_playbook(path, ACTIONS)
    assert [task.action.name for task in leaves(play.tasks)] == actions
    assert all(task.name for task in leaves(play.tasks))


def test_every_action_is_named_as_its_file_and_documented() -> None:
    for name, action in ACTIONS.items():
        assert action.perform.__module__.endswith((f".{name}", f".{name}_"))
        assert action.arguments.__doc__


def test_a_task_without_a_name_is_called_by_its_action(tmp_path: Path) -> None:
    (play,) = read(tmp_path, "- hosts: rack1\n  tasks:\n    - stop:\n")
    assert (play.name, play.hosts) == ("rack1", "rack1")
    assert next(play.all_tasks()).name == "stop"


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        ("- hosts: all\n  tasks:\n    - name: x\n      strat: {}\n", ":4", "did you mean 'start'?"),
        ("- hosts: all\n  tasks:\n    - start: {}\n      stop: {}\n", ":3", "exactly one action"),
        ("- hosts: all\n  tasks:\n    - name: x\n", ":3", "exactly one action, not 0"),
        (
            "- hosts: all\n  tasks:\n    - pull_image:\n        polcy: never\n",
            ":4",
            "did you mean 'policy'?",
        ),
        ("- hosts: all\n  tasks:\n    - start: [1]\n", ":3", "are a mapping"),
        ("- hots: all\n  tasks: []\n", ":1", "did you mean 'hosts'?"),
        ("- hosts: all\n", ":1", "tasks: field required"),
        (
            "- hosts: all\n  deployment:\n    recipe: a/b\n    straegy: x\n  tasks: []\n",
            ":4",
            "did you mean 'strategy'?",
        ),
        ("hosts: all\n", ":1", "a playbook is a list of plays"),
        ("[]\n", ":1", "a playbook is a list of plays"),
        ("- hosts: [\n", ":2", "expected"),
    ],
)
def test_a_wrong_playbook_is_refused_at_its_line(
    tmp_path: Path, text: str, where: str, said: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    message = str(caught.value)
    assert f"play.yml{where}" in message
    assert said in message
