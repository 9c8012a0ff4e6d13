"""The oracle: ansible-playbook on the same plays, where it is installed.

Both playbooks are made of one text. Its tasks have one action, `touch: WORD`, which appends
"HOST WORD" to a log and fails on the hosts named by `breaks`; here it becomes a `run`, there a
`raw` with the same words. What is compared is that log, line by line (so: which hosts were
touched, in which order), and the recap. ORC_ANSIBLE_BIN names where to look for ansible-playbook
beside the Python that runs the tests and the PATH.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator import Inventory
from orchestrator.play.actions.registry import ACTIONS
from orchestrator.play.choice import Choice
from orchestrator.play.engine import run_plays
from orchestrator.play.playbook import read_playbook
from orchestrator.play.recap import Recap
from orchestrator.play.run import Run
from orchestrator.transport.pool import ConnectionPool
from orchestrator.transport.ssh_config import SshOptions

_PLACES = [os.environ.get("ORC_ANSIBLE_BIN"), str(Path(sys.executable).parent), os.environ["PATH"]]
_PATH = os.pathsep.join(filter(None, _PLACES))
ANSIBLE_PLAYBOOK = shutil.which("ansible-playbook", path=_PATH)

pytestmark = pytest.mark.skipif(
    ANSIBLE_PLAYBOOK is None, reason="ansible-core is not installed: nothing to compare with"
)

# `works_at: N`: fails until it was called N times on the host.
_TOUCH = """
echo "$1 $2" >>"$3/log"
case " $4 " in *" $1 "*) exit 1 ;; esac
echo x >>"$3/count-$1-$2"
[ "$(wc -l <"$3/count-$1-$2")" -ge "$5" ]
"""

INVENTORY = """
all:
  vars: {ansible_connection: local, ansible_python_interpreter: PYTHON}
  children:
    web: {hosts: {h1: {size: 1}, h2: {size: 2}, h3: {size: 3}}}
    db: {hosts: {h4: {size: 4}, h5: {size: 5}, h6: {size: 6}}}
    lost:
      hosts:
        dead: {ansible_connection: ssh, ansible_host: 127.0.0.1, ansible_port: 1}
"""

LIVE = "hosts: web:db"
CASES: dict[str, str] = {
    "tasks_in_step": f"- {LIVE}\n  tasks: [touch: a, touch: b]\n",
    "a_failed_host_leaves_and_stays_out_of_later_plays": f"""
- {LIVE}
  tasks: [touch: a, {{touch: b, breaks: h2 h5}}, touch: c]
- {LIVE}
  tasks: [touch: d]
- hosts: h2
  tasks: [touch: e]
- hosts: h1
  tasks: [touch: f]
""",
    "all_hosts_failed_end_the_run": """
- hosts: web
  tasks: [{touch: a, breaks: h1 h2 h3}, touch: b]
- hosts: db
  tasks: [touch: c]
""",
    "serial_number": f"- {LIVE}\n  serial: 2\n  tasks: [touch: a, touch: b]\n",
    "serial_percent": f"- {LIVE}\n  serial: 40%\n  tasks: [touch: a, touch: b]\n",
    "serial_small_percent_is_one": f"- {LIVE}\n  serial: 1%\n  tasks: [touch: a]\n",
    "serial_list_repeats_its_last": f"- {LIVE}\n  serial: [1, 2]\n  tasks: [touch: a, touch: b]\n",
    "serial_list_of_percents": f"- {LIVE}\n  serial: [1, 50%]\n  tasks: [touch: a, touch: b]\n",
    "serial_zero_is_all": f"- {LIVE}\n  serial: 0\n  tasks: [touch: a, touch: b]\n",
    "serial_of_a_variable": f"""
- {LIVE}
  vars: {{many: 4}}
  serial: "{{{{ many }}}}"
  tasks: [touch: a, touch: b]
""",
    "serial_goes_on_while_a_host_of_the_batch_is_left": f"""
- {LIVE}
  serial: 2
  tasks: [{{touch: a, breaks: h1 h4}}, touch: b]
- {LIVE}
  tasks: [touch: c]
""",
    "serial_ends_with_a_batch_that_failed_whole": f"""
- {LIVE}
  serial: 2
  tasks: [{{touch: a, breaks: h3 h4}}, touch: b]
- {LIVE}
  tasks: [touch: c]
""",
    "serial_after_a_batch_that_lost_a_host": f"""
- {LIVE}
  serial: 2
  tasks: [{{touch: a, breaks: h1 h3 h4}}, touch: b]
""",
    "max_fail_percentage_not_exceeded": f"""
- {LIVE}
  max_fail_percentage: 50
  tasks: [{{touch: a, breaks: h1 h2 h3}}, touch: b]
- hosts: db
  tasks: [touch: c]
""",
    "max_fail_percentage_exceeded": f"""
- {LIVE}
  max_fail_percentage: 49
  tasks: [{{touch: a, breaks: h1 h2 h3}}, touch: b]
- hosts: db
  tasks: [touch: c]
""",
    "max_fail_percentage_of_zero": f"""
- {LIVE}
  serial: 3
  max_fail_percentage: 0
  tasks: [{{touch: a, breaks: h2}}, touch: b]
""",
    "max_fail_percentage_adds_up_within_a_batch": f"""
- {LIVE}
  serial: 4
  max_fail_percentage: 30
  tasks: [{{touch: a, breaks: h1}}, {{touch: b, breaks: h2}}, touch: c]
""",
    "max_fail_percentage_counts_no_rescued_host": f"""
- {LIVE}
  max_fail_percentage: 10
  tasks:
    - block: [{{touch: a, breaks: h1 h2 h3}}]
      rescue: [touch: r]
    - touch: b
""",
    "any_errors_fatal_ends_after_the_task": f"""
- {LIVE}
  any_errors_fatal: true
  tasks: [{{touch: a, breaks: h1}}, touch: b]
- hosts: db
  tasks: [touch: c]
""",
    "any_errors_fatal_of_one_task_in_batches": f"""
- {LIVE}
  serial: 3
  tasks:
    - {{touch: a, breaks: h2}}
    - {{touch: b, breaks: h3, any_errors_fatal: true}}
    - touch: c
""",
    "any_errors_fatal_and_always": f"""
- {LIVE}
  any_errors_fatal: true
  tasks:
    - block: [{{touch: a, breaks: h4}}, touch: b]
      always: [touch: c, touch: d]
    - touch: e
""",
    "any_errors_fatal_and_rescue": f"""
- {LIVE}
  any_errors_fatal: true
  tasks:
    - block: [{{touch: a, breaks: h4}}, touch: b]
      rescue: [touch: r]
      always: [touch: c]
    - touch: d
""",
    "any_errors_fatal_with_ignore_errors": f"""
- {LIVE}
  any_errors_fatal: true
  tasks: [{{touch: a, breaks: h1, ignore_errors: true}}, touch: b]
""",
    "rescue_and_always": f"""
- {LIVE}
  tasks:
    - block: [touch: a, {{touch: b, breaks: h1 h5}}, touch: c]
      rescue: [touch: r1, touch: r2]
      always: [touch: x]
    - touch: d
""",
    "rescue_that_fails": f"""
- {LIVE}
  tasks:
    - block: [{{touch: a, breaks: h1 h5}}]
      rescue: [{{touch: r1, breaks: h1}}, touch: r2]
      always: [touch: x, {{touch: y, breaks: h3}}, touch: z]
    - touch: d
""",
    "always_without_rescue": f"""
- {LIVE}
  tasks:
    - block: [{{touch: a, breaks: h2}}, touch: b]
      always: [touch: x]
    - touch: d
- {LIVE}
  tasks: [touch: e]
""",
    "nested_blocks": f"""
- {LIVE}
  tasks:
    - block:
        - block: [{{touch: a, breaks: h1 h4}}]
          rescue: [touch: inner, {{touch: again, breaks: h4}}]
        - {{touch: b, breaks: h2}}
        - block: [touch: c]
          always: [touch: d]
      rescue:
        - block: [{{touch: outer, breaks: h2}}]
          rescue: [touch: deepest]
      always: [touch: e]
    - touch: f
""",
    "what_failed_is_known_in_the_rescue": f"""
- {LIVE}
  tasks:
    - block: [{{touch: a, breaks: h2}}, {{touch: b, when: size > 5 and no_such_thing}}]
      rescue:
        - touch: "{{{{ ansible_failed_task.name }}}}"
        - {{touch: c, when: ansible_failed_result is failed}}
    - touch: d
""",
    "always_inside_what_is_rescued": f"""
- {LIVE}
  tasks:
    - block:
        - block: [{{touch: a, breaks: h1}}]
          always: [touch: x]
      rescue: [touch: r]
    - touch: b
- {LIVE}
  tasks: [touch: c]
""",
    "block_in_always_and_in_rescue": f"""
- {LIVE}
  tasks:
    - block: [{{touch: a, breaks: h3 h6}}]
      rescue:
        - block: [{{touch: b, breaks: h3}}]
          always: [touch: c]
      always:
        - block: [{{touch: d, breaks: h1}}]
          rescue: [touch: e]
    - touch: f
""",
    "serial_with_rescue": f"""
- {LIVE}
  serial: 2
  tasks:
    - block: [{{touch: a, breaks: h1 h2}}]
      rescue: [touch: r]
    - touch: b
""",
    "when_of_hosts_variables": f"""
- {LIVE}
  vars: {{least: 3}}
  tasks:
    - {{touch: a, when: size >= least}}
    - {{touch: b, when: ["'db' in group_names", size != 5]}}
    - {{touch: c, when: false}}
    - {{touch: d, when: other is not defined or other}}
    - {{touch: e, when: "inventory_hostname in groups['web']"}}
""",
    "when_that_cannot_be_answered_fails_the_host": f"""
- {LIVE}
  tasks: [{{touch: a, when: "size > 4 or no_such_thing"}}, touch: b]
""",
    "when_of_a_block": f"""
- {LIVE}
  tasks:
    - block: [touch: a, {{touch: b, breaks: h1 h2, when: size > 1}}]
      rescue: [touch: r]
      when: size < 3
""",
    "register": f"""
- {LIVE}
  tasks:
    - {{touch: a, breaks: h2 h3, ignore_errors: true, register: first}}
    - {{touch: b, when: first is failed}}
    - {{touch: c, when: first is succeeded and first.rc == 0}}
    - {{touch: d, when: size > 4, register: second}}
    - {{touch: e, when: second is skipped}}
    - {{touch: f, when: second is changed}}
    - {{touch: g, when: "hostvars['h2'].first.rc == 1 and size == 6"}}
""",
    "failed_when_and_changed_when": f"""
- {LIVE}
  tasks:
    - {{touch: a, breaks: h2, register: it, failed_when: it.rc == 0 and size > 5}}
    - {{touch: b, register: that, changed_when: size < 3}}
    - {{touch: c, when: that is changed}}
""",
    "until_it_works": """
- hosts: web
  tasks:
    - {touch: a, works_at: 3, register: it, until: it.rc == 0, retries: 5, delay: 0}
    - {touch: b, when: it.attempts == 3}
""",
    "until_three_retries_by_default": """
- hosts: h1
  tasks:
    - {touch: a, works_at: 9, register: it, until: it.rc == 0, delay: 0, ignore_errors: true}
    - {touch: b, when: it is failed}
""",
    "retries_without_until": """
- hosts: h1:h2
  tasks:
    - {touch: a, works_at: 3, retries: 2, delay: 0}
    - {touch: b, works_at: 5, retries: 1, delay: 0}
""",
    "until_holds_of_what_never_failed": """
- hosts: h1
  tasks: [{touch: a, register: it, until: "false", retries: 2, delay: 0}, touch: b]
""",
    "ignore_errors": f"""
- {LIVE}
  tasks:
    - {{touch: a, breaks: h1 h2, ignore_errors: true}}
    - block: [{{touch: b, breaks: h3}}]
      ignore_errors: true
    - {{touch: c, ignore_errors: "{{{{ size > 5 }}}}", breaks: h5 h6}}
    - touch: d
""",
    "an_unreachable_host_leaves_without_rescue": """
- hosts: h1:dead:h2
  tasks:
    - block: [touch: a, {touch: b, breaks: h2}]
      rescue: [touch: r]
      always: [touch: x]
    - touch: c
- hosts: all
  tasks: [touch: d]
""",
    "a_batch_of_unreachable_hosts_ends_the_run": """
- hosts: dead:h1
  serial: 1
  tasks: [touch: a]
""",
    "variables_of_plays_blocks_and_tasks": f"""
- {LIVE}
  vars: {{who: play, both: "{{{{ who }}}}-{{{{ size }}}}"}}
  tasks:
    - touch: "1-{{{{ both }}}}"
    - block: ["touch": "2-{{{{ who }}}}", {{touch: "3-{{{{ both }}}}", vars: {{who: task}}}}]
      vars: {{who: block}}
""",
    "magic_variables": """
- hosts: web:db
  serial: 2
  tasks:
    - {touch: a, breaks: h3}
    - touch: "{{ ansible_play_batch | length }}-{{ ansible_play_batch | first }}"
    - touch: "{{ ansible_play_hosts | length }}-{{ ansible_play_hosts_all | length }}"
    - touch: "{{ group_names | first }}-{{ hostvars.h2.size }}"
""",
}

TAGS = f"""
- {LIVE}
  tags: p
  tasks:
    - {{touch: a, tags: x}}
    - {{touch: b, tags: [y, z]}}
    - touch: c
    - {{touch: d, tags: always}}
    - {{touch: e, tags: [never, n]}}
    - block: [{{touch: f, tags: x}}, touch: g]
      tags: "y, w"
- {LIVE}
  tasks: [touch: h, {{touch: i, tags: x}}]
"""
SELECTIONS = [
    *(["--tags", tags] for tags in ("x", "y,n", "p", "all", "tagged", "untagged", "never")),
    *(["--skip-tags", tags] for tags in ("x", "always", "tagged", "all", "y,p")),
    ["--tags", "y", "--skip-tags", "w"],
]

# Where orc does something else on purpose, as the README says; with what it does.
DIFFERENT: dict[str, tuple[str, str]] = {
    "an_unreachable_host_counts_for_max_fail_percentage": (
        """
- hosts: h1:h2:dead
  max_fail_percentage: 0
  tasks: [touch: a, touch: b]
""",
        "h1 a, h2 a",
    ),
    "who_was_rescued_after_any_errors_fatal_is_in_later_plays": (
        """
- hosts: web
  any_errors_fatal: true
  tasks:
    - block: [{touch: a, breaks: h1}]
      rescue: [touch: r]
- hosts: web
  tasks: [touch: b]
""",
        "h1 a, h2 a, h3 a, h1 r, h2 r, h3 r, h1 b, h2 b, h3 b",
    ),
    "a_play_whose_last_hosts_fail_ends_the_run": (
        """
- hosts: web
  tasks: [{touch: a, breaks: h1}]
- hosts: web
  tasks: [{touch: b, breaks: h2 h3}]
- hosts: db
  tasks: [touch: c]
""",
        "h1 a, h2 a, h3 a, h2 b, h3 b",
    ),
    "a_host_that_failed_before_an_always_counts_for_max_fail_percentage": (
        """
- hosts: web
  max_fail_percentage: 0
  tasks:
    - block: [{touch: a, breaks: h1}]
      always: [touch: x]
    - touch: b
""",
        "h1 a, h2 a, h3 a, h1 x, h2 x, h3 x",
    ),
}


def _translated(data: Any, directory: Path, *, ansible: bool) -> Any:
    """`touch` as an action of orc or of Ansible, wherever it stands."""
    if isinstance(data, list):
        return [_translated(part, directory, ansible=ansible) for part in data]
    if not isinstance(data, dict):
        return data
    made = {key: _translated(part, directory, ansible=ansible) for key, part in data.items()}
    if "touch" in made:
        word = str(made.pop("touch"))
        more = [made.pop("breaks", ""), str(made.pop("works_at", 0))]
        script = ["sh", "-c", _TOUCH, "sh", "{{ inventory_hostname }}", word, str(directory)]
        words = [*script, *more]  # `command` would do the same at 20 times the cost
        action = {"raw": shlex.join(words)} if ansible else {"run": words}
        made = {"name": word, **made, **action}
    if ansible and "hosts" in made:
        made["gather_facts"] = False
    return made


def _prepare(text: str, directory: Path, *, ansible: bool) -> tuple[Path, Path]:
    directory.mkdir()
    inventory, playbook = directory / "hosts.yml", directory / "play.yml"
    inventory.write_text(INVENTORY.replace("PYTHON", sys.executable))
    plays = _translated(yaml.safe_load(text), directory, ansible=ansible)
    playbook.write_text(yaml.safe_dump(plays, sort_keys=False))
    return inventory, playbook


def _log(directory: Path) -> list[str]:
    log = directory / "log"
    return log.read_text().splitlines() if log.exists() else []


Counts = dict[str, dict[str, int]]


def _by_ansible(text: str, directory: Path, *options: str) -> tuple[list[str], Counts, int]:
    inventory, playbook = _prepare(text, directory, ansible=True)
    environment = {
        **os.environ,
        "PATH": _PATH,
        "LC_ALL": "C.UTF-8",
        "ANSIBLE_FORKS": "1",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_STDOUT_CALLBACK": "default",
        "ANSIBLE_LOCALHOST_WARNING": "0",
    }
    assert ANSIBLE_PLAYBOOK
    done = subprocess.run(
        [ANSIBLE_PLAYBOOK, "-i", str(inventory), str(playbook), *options],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=directory,
    )
    assert "PLAY RECAP" in done.stdout, done.stdout + done.stderr
    recap: Counts = {}
    for line in done.stdout.partition("PLAY RECAP")[2].splitlines()[1:]:
        host, _, counts = line.partition(" : ")
        if counts:
            recap[host.strip()] = {n: int(v) for n, v in re.findall(r"(\w+)=(\d+)", counts)}
    return _log(directory), recap, done.returncode


def _by_orc(
    text: str, directory: Path, choice: Choice | None = None
) -> tuple[list[str], Counts, Recap]:
    hosts, playbook = _prepare(text, directory, ansible=False)
    inventory = Inventory.load(hosts)
    plays = read_playbook(playbook, ACTIONS)
    with ConnectionPool(inventory.hosts.values(), SshOptions(forks=1)) as pool:
        recap = run_plays(plays, Run(inventory, pool, lambda _: None), choice)
    return _log(directory), _as_ansible_counts(recap.hosts), recap


def _as_ansible_counts(hosts: Counts) -> Counts:
    """Ansible's `ok` holds what changed and what was ignored as well."""
    names = ("unreachable", "failed", "skipped", "rescued", "ignored")
    counted = {}
    for host, counts in hosts.items():
        fine = sum(counts.get(name, 0) for name in ("ok", "changed", "ignored"))
        counted[host] = {"ok": fine, **{name: counts.get(name, 0) for name in names}}
    return counted


def _compare(text: str, tmp_path: Path, options: list[str], choice: Choice | None = None) -> None:
    log, counts, status = _by_ansible(text, tmp_path / "ansible", *options)
    own_log, own_counts, recap = _by_orc(text, tmp_path / "orc", choice)
    assert own_log == log
    for own in counts.values():
        own.pop("changed")  # Ansible counts a command that failed and was ignored as changed
    assert own_counts == counts
    assert (recap.exit_status == 0) == (status == 0)


@pytest.mark.parametrize("case", CASES)
def test_the_same_hosts_are_touched_in_the_same_order(case: str, tmp_path: Path) -> None:
    _compare(CASES[case], tmp_path, [])


@pytest.mark.parametrize("case", DIFFERENT)
def test_what_differs_on_purpose_does_as_the_readme_says(case: str, tmp_path: Path) -> None:
    text, expected = DIFFERENT[case]
    log, _, recap = _by_orc(text, tmp_path / "orc")
    assert ", ".join(log) == expected
    assert (recap.exit_status == 0) == case.startswith("who_was_rescued")
    assert _by_ansible(text, tmp_path / "ansible")[0] != log


@pytest.mark.parametrize("options", SELECTIONS, ids=" ".join)
def test_tags_choose_the_same_tasks(options: list[str], tmp_path: Path) -> None:
    given = dict(zip(options[::2], options[1::2], strict=True))
    choice = Choice(
        tags=frozenset(given.get("--tags", "all").split(",")),
        skip_tags=frozenset(filter(None, given.get("--skip-tags", "").split(","))),
    )
    _compare(TAGS, tmp_path, options, choice)


@pytest.mark.parametrize("name", ["b", "f", "i"])
def test_start_at_task_starts_at_the_same_task(name: str, tmp_path: Path) -> None:
    text = TAGS.replace("tags: always", "tags: x")  # see the README for `always`
    _compare(text, tmp_path, ["--start-at-task", name], Choice(start_at=name))
