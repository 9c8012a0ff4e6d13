"""The engine where a deployment is planned: replicas are what batches count and what fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from orchestrator import Catalog, Deployment, Inventory, plan
from orchestrator.errors import (
    DeploymentError,
    ErrorGroup,
    ExitStatus,
    InputError,
    UnreachableError,
)
from orchestrator.events.event import Event
from orchestrator.play.action import Action, Arguments, HostAction
from orchestrator.play.actions.registry import ACTIONS
from orchestrator.play.engine import Recap, run_plays
from orchestrator.play.host_context import HostContext
from orchestrator.play.playbook import read_playbook
from orchestrator.play.result import HostResult, Report
from orchestrator.play.run import Run
from orchestrator.transport.pool import ConnectionPool
from orchestrator.transport.ssh_config import SshOptions

# Six hosts: three replicas of two nodes (n1 n2, n3 n4, n5 n6), and one host that is left over.
INVENTORY = """
all:
  vars: {ansible_connection: local, orc_hardware: cpu}
  hosts:
    n1: {orc_address: 192.0.2.1}
    n2: {orc_address: 192.0.2.2}
    n3: {orc_address: 192.0.2.3}
    n4: {orc_address: 192.0.2.4}
    n5: {orc_address: 192.0.2.5}
    n6: {orc_address: 192.0.2.6}
    n7: {orc_address: 192.0.2.7}
"""
WANTED = Deployment(
    recipe="orc/tiny-llama", strategy="multi_node_tp", nodes=2, replicas=3, name="tiny"
)


class Named(Arguments):
    """`breaks`: hosts on which it fails; `replicas`: replicas that fail."""

    breaks: list[str] = []  # noqa: RUF012
    replicas: list[int] = []  # noqa: RUF012
    raises: bool = False
    seconds: float = 0


class Script:
    """Actions that note when they are called, on what."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def plan(self, run: Run, _: Named, report: Report) -> None:
        self.log.append("plan")
        run.plan = plan(run.inventory, Catalog.load(), WANTED)
        run.name = run.plan.name

    def on_host(self, context: HostContext, arguments: Named) -> HostResult:
        self.log.append(f"host {context.host}")
        failed = context.host in arguments.breaks
        return context.result("failed" if failed else "changed")

    def on_replicas(self, run: Run, arguments: Named, report: Report) -> None:
        scope = "all" if run.scope is None else ",".join(map(str, sorted(run.scope)))
        self.log.append(f"replicas {scope}")
        time.sleep(arguments.seconds)
        if arguments.raises and arguments.breaks:
            raise ErrorGroup(UnreachableError("away", where=host) for host in arguments.breaks)
        if arguments.raises:
            raise DeploymentError("it is over")
        for node in run.planned.nodes:
            if run.in_scope(node.replica):
                status = "failed" if node.replica in arguments.replicas else "changed"
                report(HostResult(node.host, status, "", node.replica, node.rank))  # type: ignore[arg-type]

    def on_deployment(self, run: Run, arguments: Named, report: Report) -> None:
        scope = "all" if run.scope is None else ",".join(map(str, sorted(run.scope)))
        self.log.append(f"deployment {scope} on {len(run.inventory.hosts)}")
        if arguments.breaks:
            report(HostResult("n1", "failed", "the router", replica=-2))

    def actions(self) -> Mapping[str, Action | HostAction]:
        made = (
            Action("plan_it", Named, self.plan),
            HostAction("host", Named, self.on_host),
            Action("replicas", Named, self.on_replicas, level="replica"),
            Action("deployment", Named, self.on_deployment),
        )
        return {**ACTIONS, **{action.name: action for action in made}}


Play = Callable[..., tuple[Recap, list[str], list[Event]]]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Runs plays of these actions; returns the recap, what was called, and the events."""

    def run_it(text: str, **variables: Any) -> tuple[Recap, list[str], list[Event]]:
        (tmp_path / "hosts.yml").write_text(INVENTORY)
        (tmp_path / "play.yml").write_text(text)
        script = Script()
        events: list[Event] = []
        inventory = Inventory.load(tmp_path / "hosts.yml")
        plays = read_playbook(tmp_path / "play.yml", script.actions())
        with ConnectionPool(inventory.hosts.values(), SshOptions(forks=1)) as pool:
            run = Run(inventory, pool, events.append, variables=variables)
            recap = run_plays(plays, run)
        return recap, script.log, events

    return run_it


HEAD = "- hosts: all\n  serial: {serial}\n  tasks:\n    - plan_it:\n"


def test_serial_counts_replicas_between_what_is_done_once(play: Play) -> None:
    text = HEAD.format(serial="[1, 2]") + "    - host:\n    - replicas:\n    - deployment:\n"
    recap, log, events = play(text)
    assert log == [
        *("plan", "host n1", "host n2", "replicas 0"),
        *("host n3", "host n4", "host n5", "host n6", "replicas 1,2"),
        "deployment all on 7",
    ]
    assert recap.exit_status == ExitStatus.OK
    assert "n7: of no replica, so in no batch" in [e.message for e in events]


def test_a_host_that_an_action_could_not_reach_is_counted(play: Play) -> None:
    recap, _, _ = play(
        HEAD.format(serial="1") + "    - replicas: {raises: true, breaks: [n2, n7]}\n"
    )
    assert recap.exit_status == ExitStatus.UNREACHABLE
    assert {h: c["unreachable"] for h, c in recap.hosts.items() if "unreachable" in c} == {
        "n2": 1,
        "n7": 1,
    }
    ignored = "    - replicas: {raises: true, breaks: [n2]}\n      ignore_errors: true\n"
    recap, _, _ = play(HEAD.format(serial="100%") + ignored)
    assert recap.exit_status == ExitStatus.OK and recap.hosts["n2"] == {"ignored": 1}


def test_a_host_that_an_action_lost_leaves_the_play_and_the_others_are_rescued(play: Play) -> None:
    text = """
- hosts: all
  serial: 1
  tasks:
    - plan_it:
    - block: [{replicas: {raises: true, breaks: [n2, n7]}, register: it}]
      rescue:
        - host:
          when: it.failed and not it.unreachable
        - replicas:
      always: [host: ]
"""
    _, log, _ = play(text)
    first = ["plan", "replicas 0", "host n1", "replicas 0", "host n1"]
    assert log[: len(first)] == first
    assert "host n2" not in log, "it is asked nothing more"


def test_a_percentage_is_of_the_replicas(play: Play) -> None:
    _, log, _ = play(HEAD.format(serial="67%") + "    - replicas:\n")
    assert log == ["plan", "replicas 0,1", "replicas 2"]


def test_without_serial_all_replicas_are_one_batch_with_the_services(play: Play) -> None:
    text = "- hosts: all\n  tasks: [plan_it: , replicas: , deployment: ]\n"
    assert play(text)[1] == ["plan", "replicas all", "deployment all on 7"]


def test_a_failed_host_leaves_with_its_whole_replica(play: Play) -> None:
    text = """
- hosts: all
  tasks:
    - plan_it:
    - host: {breaks: [n4]}
    - host:
    - replicas:
    - deployment:
"""
    recap, log, events = play(text)
    assert log[8:] == [
        *("host n1", "host n2", "host n5", "host n6", "host n7"),
        *("replicas 0,2", "deployment -2,-1,0,2 on 5"),
    ]
    assert recap.exit_status == ExitStatus.FAILED
    assert "replica 1 leaves the play whole, with n3" in [e.message for e in events]


def test_a_replica_that_fails_whole_ends_the_run_when_it_was_the_batch(play: Play) -> None:
    text = (
        HEAD.format(serial=1) + "    - replicas: {replicas: [1]}\n    - host:\n    - deployment:\n"
    )
    recap, log, _ = play(text)
    assert log == ["plan", "replicas 0", "host n1", "host n2", "replicas 1"]
    assert recap.exit_status == ExitStatus.FAILED


def test_max_fail_percentage_counts_replicas(play: Play) -> None:
    text = """
- hosts: all
  serial: 3
  max_fail_percentage: {most}
  tasks: [plan_it: , host: {{breaks: [n1, n2]}}, host: ]
"""
    assert play(text.format(most=33))[1].count("host n3") == 1
    assert play(text.format(most=34))[1].count("host n3") == 2


def test_rescue_has_the_replicas_that_failed_and_no_others(play: Play) -> None:
    text = """
- hosts: all
  tasks:
    - plan_it:
    - block: [replicas: {replicas: [2]}, host: ]
      rescue: [replicas: , host: ]
      always: [replicas: ]
"""
    recap, log, _ = play(text)
    assert log == [
        *("plan", "replicas all", "host n1", "host n2", "host n3", "host n4", "host n7"),
        *("replicas 2", "host n5", "host n6", "replicas all"),
    ]
    assert recap.exit_status == ExitStatus.OK
    assert recap.hosts["n5"] == {"rescued": 1, "changed": 3}


def test_an_error_of_an_action_fails_the_batch_and_can_be_rescued(play: Play) -> None:
    text = """
- hosts: all
  serial: 2
  tasks:
    - plan_it:
    - block: [replicas: {raises: true}]
      rescue: [replicas: ]
"""
    recap, log, events = play(text)
    assert log == ["plan", *["replicas 0,1"] * 2, *["replicas 2"] * 2]
    assert recap.exit_status == ExitStatus.OK and recap.error is None
    assert [e.message for e in events if e.kind == "failed"] == ["it is over"] * 2


def test_an_error_that_is_ignored_ends_nothing(play: Play) -> None:
    text = """
- hosts: all
  tasks: [plan_it: , {replicas: {raises: true}, ignore_errors: true, register: it}, host: {}]
"""
    recap, log, _ = play(text)
    assert log[-1] == "host n7"
    assert recap.exit_status == ExitStatus.OK


def test_what_all_replicas_need_fails_all_of_them(play: Play) -> None:
    recap, log, _ = play(
        "- hosts: all\n  tasks: [plan_it: , deployment: {breaks: [x]}, replicas: ]\n"
    )
    assert log == ["plan", "deployment all on 7"]
    assert recap.exit_status == ExitStatus.FAILED


def test_hooks_are_run_once_for_each_replica_on_its_first_host(play: Play) -> None:
    text = """
- hosts: all
  serial: 2
  hooks: {before: [host: ], after: [host: ]}
  tasks: [plan_it: , replicas: , deployment: ]
"""
    assert play(text)[1] == [
        *("plan", "host n1", "host n3", "replicas 0,1", "host n1", "host n3"),
        *("host n5", "replicas 2", "host n5", "deployment all on 7"),
    ]


def test_a_failed_hook_keeps_its_replica_out(play: Play) -> None:
    text = """
- hosts: all
  hooks: {before: [host: {breaks: [n3]}]}
  tasks: [plan_it: , replicas: ]
"""
    assert play(text)[1][-1] == "replicas 0,2"


def test_hooks_without_a_deployment_are_for_each_host(play: Play) -> None:
    text = "- hosts: n1:n2\n  hooks: {after: [host: ]}\n  tasks: [host: ]\n"
    assert play(text)[1] == ["host n1", "host n2"] * 2


def test_when_is_asked_of_each_replica_and_until_too(play: Play) -> None:
    text = """
- hosts: all
  tasks:
    - plan_it:
    - replicas: {replicas: [2]}
      when: replica != 1
      register: it
      until: it is changed or 'n1' in replica_hosts
      retries: 2
      delay: 0
      ignore_errors: true
    - {host: , when: it is failed}
    - {host: , when: it is skipped}
"""
    recap, log, _ = play(text)
    assert log == [
        *("plan", "replicas 0,2", "replicas 2", "replicas 2"),
        *("host n5", "host n6", "host n3", "host n4"),
    ]
    assert recap.hosts["n5"]["ignored"] == 1 and recap.exit_status == ExitStatus.OK


def test_the_variables_of_a_replica_are_seen(play: Play) -> None:
    text = """
- hosts: n1:n2:n3:n4:n5:n6
  vars: {said: "{{ deployment }} {{ replica }} {{ rank }} {{ replica_hosts | join('+') }}"}
  tasks: [plan_it: , debug: "{{ said }} {{ endpoint }}"]
"""
    _, _, events = play(text)
    said = {event.host: event.message for event in events if event.kind == "ok"}
    assert said["n4"] == "tiny 1 1 n3+n4 http://192.0.2.3:8000"


def test_a_task_for_replicas_that_takes_too_long_is_ended(play: Play) -> None:
    text = """
- hosts: all
  tasks: [plan_it: , {replicas: {seconds: 999}, timeout: 0.3}]
"""
    recap, _, events = play(text)
    assert recap.exit_status == ExitStatus.FAILED
    (failed,) = [event for event in events if event.kind == "failed"]
    assert "replicas took more than 0.3 s and was ended" in failed.message


def test_serial_of_a_deployment_without_a_plan_says_what_to_do(play: Play) -> None:
    text = """
- hosts: all
  serial: 1
  deployment: {recipe: orc/tiny-llama}
  tasks: [replicas: ]
"""
    recap, log, _ = play(text)
    assert log == [] and recap.exit_status == ExitStatus.INVALID
    assert "begin the play with the task `preflight`" in str(recap.error)


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ("[host: , plan_it: , host: ]", "plan_it acts on the whole deployment, and stands between"),
        ("[host: , {block: [deployment: , replicas: ]}]", "deployment acts on the whole"),
    ],
)
def test_what_is_done_once_cannot_stand_between_batches(play: Play, tasks: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        play(f"- hosts: all\n  serial: 1\n  tasks: {tasks}\n")


def test_a_second_deployment_begins_anew(play: Play) -> None:
    text = """
- hosts: n1:n2:n3:n4:n5:n6
  deployment: {recipe: orc/tiny-llama, name: one}
  tasks: [plan_it: ]
- hosts: n7
  deployment: {recipe: "{{ which }}", name: two}
  tasks: [{replicas: , ignore_errors: true}, debug: "{{ deployment }}"]
"""
    _, log, events = play(text, which="orc/tiny-llama")
    assert log == ["plan", "replicas all"]
    assert any("there is no plan yet" in event.message for event in events)
    assert events[-2].message == "two"
