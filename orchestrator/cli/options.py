"""Options that several commands share, so that they are named and explained once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestrator.cli.completion import deployment_names, host_names

_INVENTORY = typer.Option(
    "-i",
    "--inventory",
    help="Inventory file or directory, as Ansible's; may be given several times. "
    "ANSIBLE_INVENTORY counts too.",
    envvar="ORC_INVENTORY",
    readable=False,  # what cannot be read is said by who reads it, as of every file
)
InventoryOption = Annotated[list[Path], _INVENTORY]
OptionalInventoryOption = Annotated[list[Path] | None, _INVENTORY]
LimitOption = Annotated[
    str | None,
    typer.Option(
        "--limit",
        "-l",
        help="Host pattern: a:&b:!c, web*, web[0:2].",
        autocompletion=host_names,
    ),
]
VaultOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--vault-password-file",
        help="File or script with the Ansible Vault password; several are tried in turn.",
        readable=False,
    ),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="One JSON document (or JSON lines) on stdout.")
]
RecipesOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--recipes",
        help="A catalog directory to search before the packaged one; several, first wins.",
        envvar="ORC_RECIPES",
        readable=False,
    ),
]
ForksOption = Annotated[
    int, typer.Option("--forks", "-f", min=1, help="How many hosts to work on at once.")
]
VerboseOption = Annotated[
    int, typer.Option("-v", "--verbose", count=True, help="More detail; -vv shows tracebacks.")
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
AcceptHostKeysOption = Annotated[
    bool,
    typer.Option(
        "--accept-new-host-keys",
        help="Trust a host that is not in known_hosts yet (first contact).",
    ),
]
CheckOption = Annotated[
    bool, typer.Option("--check", "-C", help="Say what would be done; do nothing.")
]
DeploymentArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help="A deployment; all of them when it is left out.",
        autocompletion=deployment_names,
    ),
]
