"""The actions on hosts, on a real local connection."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Inventory
from orchestrator.errors import InputError
from orchestrator.events.event import Event
from orchestrator.play.actions.registry import ACTIONS
from orchestrator.play.engine import Recap, run_plays
from orchestrator.play.playbook import read_playbook
from orchestrator.play.run import Run
from orchestrator.transport.pool import ConnectionPool

INVENTORY = """
all:
  vars: {ansible_connection: local}
  hosts: {here: {size: 3, api_token: s3cret-value, words: "two words"}}
"""


class Played:
    """How one play with these tasks went."""

    def __init__(self, recap: Recap, events: list[Event]) -> None:
        self.recap = recap
        self.events = events
        self.results = [e for e in events if e.host and e.kind in ("ok", "changed", "failed")]
        self.skipped = [e for e in events if e.kind == "skipped"]

    @property
    def last(self) -> Event:
        return self.results[-1]

    @property
    def text(self) -> str:
        return "\n".join(f"{event.kind} {event.message} {event.data}" for event in self.events)


Tasks = Callable[..., Played]


@pytest.fixture
def tasks(tmp_path: Path) -> Tasks:
    """Runs a list of tasks on one local host; `{tmp}` in their text is a directory."""

    def run_them(text: str, hosts: str = "all", **fields: Any) -> Played:
        (tmp_path / "hosts.yml").write_text(INVENTORY)
        lines = text.replace("TMP", str(tmp_path)).splitlines()
        body = "".join(f"    {line}\n" for line in lines)
        (tmp_path / "play.yml").write_text(f"- hosts: {hosts}\n  tasks:\n{body}")
        inventory = Inventory.load(tmp_path / "hosts.yml")
        events: list[Event] = []
        with ConnectionPool(inventory.hosts.values()) as pool:
            run = Run(inventory, pool, events.append, **fields)
            recap = run_plays(read_playbook(tmp_path / "play.yml", ACTIONS), run)
        return Played(recap, events)

    return run_them


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))[2:]


def test_run_splits_a_text_and_keeps_a_list(tasks: Tasks) -> None:
    assert tasks("- run: printf '%s.' a 'b c'").last.message == "a.b c."
    assert tasks("- run: [printf, '%s.', a, \"{{ words }}\", 7]").last.message == "a.two words.7."


def test_run_has_no_shell_between(tasks: Tasks) -> None:
    assert tasks("- run: echo $HOME | cat ; true").last.message == "$HOME | cat ; true"


def test_run_knows_its_directory_and_environment(tasks: Tasks, tmp_path: Path) -> None:
    played = tasks(
        "- run: {command: [sh, -c, 'pwd; echo $A-$B'], chdir: TMP, env: {A: 1, B: it's}}\n"
        "  register: it\n- debug: '{{ it.stdout_lines }}'"
    )
    assert played.last.message == f'["{tmp_path}", "1-it\'s"]'


def test_a_directory_that_is_not_there_fails(tasks: Tasks) -> None:
    assert tasks("- run: {command: pwd, chdir: TMP/nowhere}").last.kind == "failed"


def test_a_failed_command_says_its_status_and_last_words(tasks: Tasks) -> None:
    played = tasks("- run: [sh, -c, 'echo out; echo why >&2; exit 7']")
    assert played.last.kind == "failed"
    assert played.last.message == "ended with status 7 and said: why"
    assert played.last.data["rc"] == 7 and played.last.data["stdout"] == "out"


def test_creates_and_removes_make_a_command_needless(tasks: Tasks, tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    played = tasks(
        "- run: {command: 'false', creates: there, chdir: TMP}\n"
        "- run: {command: 'false', removes: TMP/not there}\n"
        "- run: {command: 'true', creates: TMP/not there, removes: TMP/there}"
    )
    assert [e.message for e in played.skipped] == [
        "not needed: there is there",
        f"not needed: {tmp_path}/not there is not there",
    ]
    assert played.last.kind == "changed"


def test_a_command_that_takes_too_long_is_ended(tasks: Tasks) -> None:
    played = tasks("- run: sleep 30\n  timeout: 0.5")
    assert played.last.kind == "failed" and "took more than 0.5 s" in played.last.message


def test_a_secret_goes_into_an_environment_and_nowhere_else(tasks: Tasks) -> None:
    played = tasks(
        '- run: {command: [sh, -c, \'echo got $T; tr "\\\\0" " " </proc/$PPID/cmdline\'], '
        "env: {T: \"x-{{ api_token }}\"}}\n  register: it\n- debug: '{{ it.stdout }}'"
    )
    assert "got <secret>" in played.last.message
    assert "s3cret" not in played.text


@pytest.mark.parametrize(
    "task",
    [
        "debug: '{{ api_token }}'",
        "debug: 'it is {{ api_token }}'",
        "run: [echo, '{{ api_token }}']",
        "run: echo a{{ api_token }}b",
        "copy: {dest: TMP/x, content: '{{ api_token }}'}",
        "fail: '{{ api_token | upper }}'",
        "run: {command: 'true', chdir: '{{ api_token }}'}",
    ],
)
def test_a_secret_is_refused_in_what_would_be_shown(
    tasks: Tasks, task: str, tmp_path: Path
) -> None:
    played = tasks(f"- {task}")
    assert played.last.kind == "failed"
    assert "s3cret" not in played.text.lower()
    assert not (tmp_path / "x").exists()


def test_what_a_host_said_is_no_template(tasks: Tasks) -> None:
    played = tasks(
        "- run: [printf, '%s%s', '{', '{ 1 + 1 }', '}']\n  register: it\n- debug: '{{ it.stdout }}'"
    )
    assert played.last.message == "{{ 1 + 1 }}"


def test_a_script_is_read_by_what_its_first_line_says(tasks: Tasks, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("#!/usr/bin/env python3\nimport sys; print(sys.argv[1:])\n")
    (tmp_path / "b.sh").write_text("echo \"$#-$1-$E\"\ncat <<'END_OF_INPUT'\nin\nEND_OF_INPUT")
    assert tasks("- script: {src: a.py, args: \"x 'y z'\"}").last.message == "['x', 'y z']"
    played = tasks("- script: {src: b.sh, args: [one two], env: {E: e}}\n  register: it")
    assert played.last.data["stdout"] == "1-one two-e\nin"
    assert tasks("- script: {src: a.py, interpreter: 'false'}").last.kind == "failed"
    assert tasks("- script: gone.sh").last.message.endswith("gone.sh: no such file")


def test_a_copy_is_written_once(tasks: Tasks, tmp_path: Path) -> None:
    (tmp_path / "src").write_bytes(bytes(range(256)) * 400)
    task = "- copy: {src: src, dest: TMP/dest, mode: '0640'}"
    assert tasks(task).last.kind == "changed"
    assert (tmp_path / "dest").read_bytes() == (tmp_path / "src").read_bytes()
    assert mode(tmp_path / "dest") == "640"
    assert tasks(task).last.kind == "ok"
    (tmp_path / "dest").chmod(0o600)
    assert tasks(task).last.message == f"wrote {tmp_path}/dest (mode)"
    assert list(tmp_path.glob(".orc*")) == []


def test_a_copy_keeps_mode_and_what_was_there_if_asked(tasks: Tasks, tmp_path: Path) -> None:
    (tmp_path / "dest").write_text("old\n")
    (tmp_path / "dest").chmod(0o755)
    played = tasks('- copy: {content: "new\\n", dest: TMP/dest, backup: true}')
    assert (tmp_path / "dest").read_text() == "new\n" and mode(tmp_path / "dest") == "755"
    assert Path(played.last.data["backup_file"]).read_text() == "old\n"


def test_a_link_is_followed_and_a_slash_means_into(tasks: Tasks, tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "link").symlink_to("dir/real")
    (tmp_path / "src").write_text("text")
    tasks("- copy: {src: src, dest: TMP/link}\n- copy: {src: src, dest: TMP/dir/}")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "dir/real").read_text() == (tmp_path / "dir/src").read_text() == "text"


@pytest.mark.parametrize(
    ("dest", "said"),
    [("TMP", "is a directory"), ("TMP/no/x", "is in no directory that is there")],
)
def test_where_no_file_can_be_is_said(tasks: Tasks, dest: str, said: str) -> None:
    assert said in tasks(f"- copy: {{content: x, dest: {dest}}}").last.message


def test_a_difference_is_shown_when_asked_and_check_writes_nothing(
    tasks: Tasks, tmp_path: Path
) -> None:
    (tmp_path / "dest").write_text("one\ntwo\n")
    played = tasks('- copy: {content: "one\\n2\\n", dest: TMP/dest}', check=True, diff=True)
    assert played.last.kind == "changed" and played.last.message.startswith("would write")
    assert "-two\n+2" in played.last.message
    assert (tmp_path / "dest").read_text() == "one\ntwo\n"


def test_a_template_sees_the_hosts_variables(tasks: Tasks, tmp_path: Path) -> None:
    (tmp_path / "a.j2").write_text(
        "{% for n in range(size) %}\nline {{ n }}\n{% endfor %}\n{{ inventory_hostname }}\n"
    )
    assert tasks("- template: {src: a.j2, dest: TMP/}").last.kind == "changed"
    assert (tmp_path / "a").read_text() == "line 0\nline 1\nline 2\nhere\n"
    assert tasks("- template: {src: a.j2, dest: TMP/}").last.kind == "ok"


def test_a_template_with_a_secret_is_private_and_shown_nowhere(
    tasks: Tasks, tmp_path: Path
) -> None:
    (tmp_path / "a.j2").write_text("token={{ api_token }}\n")
    (tmp_path / "a").write_text("old")
    played = tasks("- template: {src: a.j2, dest: TMP/a}", diff=True)
    assert (tmp_path / "a").read_text() == "token=s3cret-value\n"
    assert mode(tmp_path / "a") == "600"
    assert "s3cret" not in played.text and "-old" not in played.text


def test_a_template_that_cannot_be_filled_in_writes_nothing(tasks: Tasks, tmp_path: Path) -> None:
    (tmp_path / "a.j2").write_text("{{ sizes }}\nmore\n")
    played = tasks("- template: {src: a.j2, dest: TMP/a}")
    assert "'sizes' is undefined" in played.last.message
    assert "did you mean 'size'?" in played.last.message
    assert not (tmp_path / "a").exists()


def test_an_environment_is_written_for_its_owner_alone(tasks: Tasks, tmp_path: Path) -> None:
    text = '- write_env: {path: TMP/env, vars: {A: 1, B: true, T: "{{ api_token }}"}}'
    played = tasks(text, diff=True)
    assert (tmp_path / "env").read_text() == "A=1\nB=true\nT=s3cret-value\n"
    assert mode(tmp_path / "env") == "600"
    assert "s3cret" not in played.text
    assert tasks(text).last.kind == "ok"


def test_without_variables_the_plans_are_written_and_there_must_be_one(tasks: Tasks) -> None:
    assert "there is no plan yet" in tasks("- write_env: {path: TMP/env}").last.message


def test_assert_names_the_first_condition_that_does_not_hold(tasks: Tasks) -> None:
    played = tasks("- assert: {that: [size == 3, size > 3], fail_msg: too small}")
    assert played.last.message == "too small (size > 3)"
    assert tasks("- assert: size == 3").last.kind == "ok"
    assert "neither true nor false" in tasks("- assert: words").last.message


def test_debug_shows_any_value_and_fail_fails(tasks: Tasks) -> None:
    assert tasks("- debug: {msg: {a: [1, '{{ size }}']}}").last.message == '{"a": [1, 3]}'
    assert tasks("- {fail: 'not {{ size }}', when: size > 2}").last.message == "not 3"


def test_a_pause_lasts_and_one_for_a_person_needs_one(
    tasks: Tasks, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tasks("- pause: 10ms").last.kind == "ok"
    reading, writing = os.pipe()
    os.close(writing)
    with os.fdopen(reading) as nobody:
        monkeypatch.setattr("sys.stdin", nobody)
        played = tasks("- pause: {prompt: Look at the graphs}")
    assert "nobody is there to be asked: Look at the graphs" in played.text
    assert played.recap.exit_status == 2


def test_with_check_nothing_is_run_and_later_conditions_can_be_asked(
    tasks: Tasks, tmp_path: Path
) -> None:
    played = tasks(
        "- run: touch TMP/made\n  register: it\n"
        "- {debug: done, when: it.rc == 0 and it is skipped}",
        check=True,
    )
    assert played.skipped[0].message == f"would run touch {tmp_path}/made"
    assert played.last.message == "done"
    assert not (tmp_path / "made").exists()


def test_localhost_needs_no_inventory(tasks: Tasks, tmp_path: Path) -> None:
    played = tasks("- run: echo {{ inventory_hostname }}", hosts="localhost")
    assert (played.last.host, played.last.message) == ("localhost", "localhost")


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("copy: {dest: /x, content: a, mode: 644}", "mode"),
        ("copy: {dest: /x, content: a, mode: '899'}", "octal and in quotes"),
        ("copy: {dest: /x}", "give one of src and content"),
        ('run: "echo \'open"', "No closing quotation"),
        ("run: {command: []}", "at least 1"),
        ("pause: soon", "a duration is a number"),
        ("assert: {that: 'size =='}", "is no expression"),
    ],
)
def test_wrong_arguments_are_found_before_anything_is_run(
    tasks: Tasks, task: str, said: str
) -> None:
    with pytest.raises(InputError, match=r"play\.yml:\d+") as caught:
        tasks(f"- {task}")
    assert said in str(caught.value)
