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
from tests.play.ansible_cases import CASES, DIFFERENT, SELECTIONS, TAGS

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
