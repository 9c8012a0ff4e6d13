"""Playbooks are checked when they are read: file, line and the nearest right name."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import InputError
from orchestrator.packaged import packaged_directory
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


READS = """
- name: A play
  hosts: all
  tags: [p, q]
  vars: {a: 1}
  tasks:
    - block:
        - run: "true"
          tags: x
          when: b
        - include_tasks: more.yml
          vars: {c: 3}
          when: d
      rescue: [fail: "{{ a }}"]
      when: [c1, c2]
      tags: y
      vars: {b: 2, c: 2}
      ignore_errors: true
"""


def test_what_blocks_and_includes_say_counts_for_the_tasks_inside(tmp_path: Path) -> None:
    (tmp_path / "more.yml").write_text("- debug: hello\n  vars: {d: 4}\n  ignore_errors: false\n")
    (play,) = read(tmp_path, READS)
    run, debug, fail = play.all_tasks()
    assert run.when == ("c1", "c2", "b") and run.tags == {"p", "q", "x", "y"}
    assert run.variables == {"b": 2, "c": 2} and run.ignore_errors is True
    assert debug.when == ("c1", "c2", "d") and debug.variables == {"b": 2, "c": 3, "d": 4}
    assert debug.ignore_errors is False and debug.where.endswith("more.yml:1")
    assert fail.tags == {"p", "q", "y"} and fail.arguments == {"msg": "{{ a }}"}


def test_a_fault_in_an_included_file_is_found_at_once_and_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "more.yml").write_text("- name: x\n  debag: hello\n")
    with pytest.raises(InputError, match=r"more\.yml:2: unknown action or key 'debag'"):
        read(tmp_path, READS)


def test_files_that_include_each_other_are_refused(tmp_path: Path) -> None:
    (tmp_path / "more.yml").write_text("- include_tasks: other.yml\n")
    (tmp_path / "other.yml").write_text(
        f"- debug: a\n- include_tasks: ../{tmp_path.name}/more.yml\n"
    )
    with pytest.raises(InputError, match=r"other\.yml:2: .*more\.yml includes itself"):
        read(tmp_path, READS)


TASK = "- hosts: all\n  tasks:\n    - name: x\n"


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        (TASK + "      run: ls\n      whn: a\n", ":5", "did you mean 'when'?"),
        (TASK + "      run: ls\n      when: '{{ a }}'\n", ":5", "leave the braces out"),
        (TASK + "      run: ls\n      when: [a ==]\n", ":5", "is no expression"),
        (TASK + "      run: ls {{ a\n", ":4", "no template"),
        (
            TASK + "      run: ls\n      register: my-name\n",
            ":5",
            "cannot be the name of a variable",
        ),
        (TASK + "      run: ls\n      delay: soon\n", ":5", "a duration is a number"),
        (
            TASK + "      run: ls\n      retries: many\n      vars: {a b: 1}\n",
            ":6",
            "cannot be the name",
        ),
        (TASK + "      block: [run: ls]\n      register: a\n", ":5", "unknown key"),
        (TASK + "      block: [run: ls]\n      recue: [run: ls]\n", ":5", "did you mean 'rescue'?"),
        (TASK + "      rescue: [run: ls]\n", ":4", "unknown action or key 'rescue'"),
        (TASK + "      include_tasks: gone.yml\n", ":4", "no such file"),
        (TASK + "      include_tasks: '{{ a }}.yml'\n", ":4", "is no template"),
        (TASK + "      run: {command: ls, creats: x}\n", ":4", "did you mean 'creates'?"),
        (TASK + "      copy: {src: x}\n", ":4", "copy needs 'dest'"),
        (TASK + "      wait_healthy: {keep_failed: perhaps}\n", ":4", "keep_failed"),
        ("- hosts: all\n  serial: some\n  tasks: []\n", ":2", "no number or percentage"),
        ("- hosts: all\n  max_fail_percentage: 101\n  tasks: []\n", ":2", "max_fail_percentage"),
        ("- hosts: all\n  hooks: {befor: []}\n  tasks: []\n", ":2", "did you mean 'before'?"),
        ("- hooks: {after: [preflight: ]}\n  tasks: []\n", ":1", "cannot be a hook"),
        ("- deployment: {name: a}\n  tasks: []\n", ":1", "a deployment needs a recipe"),
        (
            "- deployment: {recipe: a, nods: '{{ n }}'}\n  tasks: []\n",
            ":1",
            "did you mean 'nodes'?",
        ),
    ],
)
def test_a_wrong_key_or_value_is_refused_at_its_line(
    tmp_path: Path, text: str, where: str, said: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    message = str(caught.value)
    assert f"play.yml{where}" in message and said in message, message


PLAY_KEYS = (
    *("gather_facts", "become", "become_user", "remote_user", "connection", "strategy", "roles"),
    *("handlers", "pre_tasks", "post_tasks", "vars_files"),
)
TASK_KEYS = (
    *("loop", "with_items", "with_dict", "notify", "delegate_to", "run_once", "become"),
    *("environment", "no_log", "ansible.builtin.shell", "command", "include_role", "import_tasks"),
)


@pytest.mark.parametrize("key", PLAY_KEYS)
def test_a_key_that_plays_have_in_ansible_alone_says_what_there_is_instead(
    tmp_path: Path, key: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, f"- hosts: all\n  {key}: x\n  tasks: []\n")
    message = str(caught.value)
    assert f"play.yml:2: orc has no {key!r} of a play\n  do:  " in message
    assert "0." not in message


@pytest.mark.parametrize("key", TASK_KEYS)
@pytest.mark.parametrize("task", ["run: ls", "block: [run: ls]", "include_tasks: more.yml"])
def test_a_key_that_tasks_have_in_ansible_alone_says_what_there_is_instead(
    tmp_path: Path, key: str, task: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, TASK + f"      {key}: x\n      {task}\n")
    message = str(caught.value)
    assert f"play.yml:4: orc has no {key!r} of a task\n  do:  " in message
    assert "did you mean" not in message


def test_all_keys_of_ansible_are_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, "- hosts: all\n  gather_facts: false\n  become: true\n  tasks: []\n")
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("play.yml:2: orc has no 'gather_facts' of a play")
    assert lines[1].endswith("play.yml:3: nor 'become'")
    assert lines[2] == "  do:  gather_facts: facts are read when a plan needs them: remove the line"
    assert lines[3].startswith("       become: orc has no become: connect as a user")


def test_a_key_is_named_without_the_number_of_its_play(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"play\.yml:2: unknown key 'serail'\n"):
        read(tmp_path, "- hosts: all\n  serail: 1\n  tasks: []\n")
    with pytest.raises(InputError, match=r"play\.yml:2: unknown key 'deployment\.nods'\n"):
        read(tmp_path, "- hosts: all\n  deployment: {recipe: a, nods: 1}\n  tasks: []\n")


def test_every_playbook_that_ships_is_short_and_can_be_read() -> None:
    paths = sorted(packaged_directory("playbooks").rglob("*.yml"))
    assert len(paths) >= 4
    for path in paths:
        assert len(path.read_text().splitlines()) < 60, path
        assert read_playbook(path, ACTIONS)
