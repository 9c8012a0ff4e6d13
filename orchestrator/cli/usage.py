"""A mistake in the command line as a message, which knows the habits of other tools."""

from __future__ import annotations

import re

import typer

# What people of `ansible` and of `vllm serve` try first, and what says it here.
_ANSIBLE_OPTIONS = {
    ("-e", "--extra-vars"): "--set KEY=VALUE sets a field of the deployment; variables of hosts"
    " stand in the inventory",
    ("-u", "--user"): "set ansible_user in the inventory",
    ("--private-key", "--key-file"): "set ansible_ssh_private_key_file in the inventory",
    ("-b", "--become"): "set ansible_become: true in the inventory",
    (
        "-K",
        "--ask-become-pass",
    ): "set ansible_become_password in the inventory, under Ansible Vault",
    ("-k", "--ask-pass"): "set ansible_password in the inventory, under Ansible Vault",
    ("-J", "--ask-vault-pass", "--vault-id"): "--vault-password-file takes a file, or a program"
    " that prints the password",
}


# Commands of `ansible`, `kubectl`, `docker`, `helm` and `systemctl`, and what they are here.
_COMMANDS = {
    **dict.fromkeys(("apply", "deploy", "start", "create", "install", "launch", "serve"), "up"),
    **dict.fromkeys(("rm", "delete", "remove", "stop", "destroy", "uninstall", "kill"), "down"),
    **dict.fromkeys(("ps", "get", "ls", "list", "describe", "top"), "status"),
    **dict.fromkeys(("ping", "doctor", "preflight", "validate", "facts"), "check"),
    **dict.fromkeys(("update", "upgrade", "rollout", "redeploy"), "roll"),
    **dict.fromkeys(("ansible-playbook", "playbook", "run"), "play"),
    **dict.fromkeys(("ssh", "shell", "command"), "exec"),
    **dict.fromkeys(("hosts", "ansible-inventory"), "inventory"),
    **dict.fromkeys(("models", "search"), "recipes list"),
    **dict.fromkeys(("template", "render", "dry-run"), "plan"),
    "log": "logs",
    "version": "--version",
    "help": "--help",
}
_OF_A_RECIPE = ("orc plan", "orc up", "orc roll", "orc check", "orc diff")


def _habit(error: typer.TyperException, command: str) -> str | None:
    """What a command that there is not, or a word too many, is called here."""
    message = error.format_message()
    unknown = re.match(r"No such command '([^']*)'", message)
    if unknown and command == "orc" and unknown[1] in _COMMANDS:
        return f"it is `orc {_COMMANDS[unknown[1]]}`; `orc --help` lists the commands"
    extra = re.match(r"Got unexpected extra arguments?(?:\(s\))? \((\S+?)\)?(\s|$)", message)
    if extra and command in _OF_A_RECIPE:
        word = extra[1]
        if word.endswith((".yml", ".yaml")) and "/models/" not in word:
            return f"a deployment file is given with -d {word}, a recipe with --recipe {word}"
        return f"the recipe is given with --recipe {word}; `{command} --help` shows the rest"
    return None


def usage_text(error: typer.TyperException) -> str:
    """A mistake in the command line, and where to see how it is right."""
    message = error.format_message().replace("Value error, ", "")  # pydantic's own words
    if message.startswith("Usage:"):  # a command that was called with nothing: its help
        return message
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "orc"
    hint = f"`{command} --help` shows how it is called"
    if habit := _habit(error, command):
        message, hint = message.partition(". Did you mean")[0], habit
    option = getattr(error, "option_name", "")
    for names, instead in _ANSIBLE_OPTIONS.items():
        if option in names:
            return f"error: no such option: {option}\n  do:  {instead}"
    if option.startswith("--") and command in ("orc plan", "orc check", "orc diff", "orc up"):
        hint += f"; an argument of vLLM is given so: --set args.{option[2:]}=VALUE"
    return f"error: {message[:1].lower()}{message[1:].rstrip('.')}\n  do:  {hint}"
