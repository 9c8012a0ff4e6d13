"""What people of Ansible write into a playbook, and what orc has instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

_CONNECTION = "set ansible_user, ansible_connection, ... in the inventory"
_BECOME = "orc has no become: connect as a user who may run docker (ansible_user in the inventory)"
_FILES = "name the variables in `vars:`, give a file with -e @FILE, or put them into the inventory"
_INCLUDE = "write `- include_tasks: FILE` among the tasks"
_PER_HOST = "a task is for every host of the play: write the task once for each item, with `vars:`"

_ANYWHERE: Mapping[str, str] = {
    "become": _BECOME,
    "become_user": _BECOME,
    "become_method": _BECOME,
    "remote_user": _CONNECTION,
    "connection": _CONNECTION,
    "port": _CONNECTION,
    "environment": "give variables to a command with `env:` of run or script",
    "module_defaults": "write the arguments at each task",
    "collections": "remove the line: the actions are those of orc",
    "no_log": "remove the line: secrets are never shown",
    "check_mode": "remove the line: `orc play --check` changes nothing",
    "throttle": "`serial:` of the play says how many hosts at once",
}
_IN_PLAY: Mapping[str, str] = {
    "gather_facts": "facts are read when a plan needs them: remove the line",
    "strategy": "remove the line; `serial:` says how many hosts or replicas at once. How a model "
    "is split stands in `deployment:`",
    "roles": _INCLUDE + " for each role",
    "handlers": "write a task with `when: RESULT is changed`, after `register: RESULT`",
    "pre_tasks": "put them first in `tasks:`; before each replica there is `hooks: {before: []}`",
    "post_tasks": "put them last in `tasks:`; after each replica there is `hooks: {after: []}`",
    "vars_files": _FILES,
    "vars_prompt": _FILES,
    "import_playbook": "run the playbooks one after the other, or " + _INCLUDE,
    "order": "remove the line: hosts go in the order of the inventory",
    "ignore_unreachable": "use `max_fail_percentage:`, or leave the host out with --limit",
}
_IN_TASK: Mapping[str, str] = {
    "loop": _PER_HOST,
    "loop_control": _PER_HOST,
    "notify": "write a task with `when: RESULT is changed`, after `register: RESULT`",
    "listen": "write a task with `when: RESULT is changed`, after `register: RESULT`",
    "delegate_to": "write a play of its own with `hosts: THAT_HOST`",
    "delegate_facts": "write a play of its own with `hosts: THAT_HOST`",
    "local_action": "write a play of its own with a host that has ansible_connection: local",
    "run_once": "write a play of its own with one host: `hosts: GROUP[0]`",
    "async": "use `timeout:`; a task is waited for",
    "poll": "use `timeout:`; a task is waited for",
    "args": "the arguments stand under the action itself",
    "ignore_unreachable": "use `max_fail_percentage:` of the play, or --limit",
    "import_tasks": _INCLUDE,
    "include": _INCLUDE,
    "include_role": _INCLUDE,
    "import_role": _INCLUDE,
    "include_vars": _FILES,
    "set_fact": "use `vars:` of a play, block or task, or `register:`",
    "gather_facts": "facts are read when a plan needs them: remove the task",
    "setup": "facts are read when a plan needs them: remove the task",
    "meta": "there are no handlers to flush",
    "command": "the action is `run`",
    "shell": "the action is `run`, with a shell as `run: [sh, -c, WORDS]`",
    "wait_for": "use `probe`, or `run` with `until:`",
    "uri": "use `probe`, or `run` with curl",
    "docker_container": "containers are made of a `deployment:`, by the action `start`",
}


def instead(key: object, *, in_play: bool = False) -> str | None:
    """What orc has instead of the key or action `key`, if people of Ansible know that."""
    name = str(key).removeprefix("ansible.builtin.").removeprefix("ansible.legacy.")
    if not in_play and name.startswith("with_"):
        return _PER_HOST
    return (_IN_PLAY if in_play else _IN_TASK).get(name) or _ANYWHERE.get(name)


def hints(keys: Iterable[object], *, in_play: bool = False) -> dict[str, str]:
    """The keys that are Ansible's alone, each with what to do instead."""
    found = {str(key): instead(key, in_play=in_play) for key in keys}
    return {key: hint for key, hint in found.items() if hint}
