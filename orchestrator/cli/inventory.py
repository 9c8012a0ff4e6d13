"""`orc inventory`: what the inventory files say."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from orchestrator.cli.completion import host_names
from orchestrator.cli.options import (
    ForksOption,
    InventoryOption,
    JsonOption,
    LimitOption,
    VaultOption,
    VerboseOption,
)
from orchestrator.errors import UsageError


def inventory(
    inventory: InventoryOption,
    limit: LimitOption = None,
    listing: Annotated[
        bool, typer.Option("--list", help="All groups and variables, as ansible-inventory does.")
    ] = False,
    graph: Annotated[bool, typer.Option("--graph", help="The tree of groups and hosts.")] = False,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            help="The variables of one host.",
            metavar="NAME",
            autocompletion=host_names,
        ),
    ] = None,
    vault_password_file: VaultOption = None,
    forks: ForksOption = 32,  # noqa: ARG001 - touches no host; every other command has it
    as_json: JsonOption = False,
    verbose: VerboseOption = 0,  # noqa: ARG001 - read in cli.main
) -> None:
    """Show hosts, groups and variables. Secrets are redacted; templates are shown as written."""
    from orchestrator.inventory import listing as shown
    from orchestrator.inventory.load import Inventory

    if listing + graph + (host is not None) > 1:
        raise UsageError("--list, --graph and --host exclude each other")
    loaded = Inventory.load(inventory, vault_password_files=vault_password_file or ())
    if limit is not None:
        loaded = loaded.limit(limit)
    if listing:
        _print_json(shown.ansible_list(loaded))
    elif host is not None:
        loaded.host(host)
        _print_json(loaded.as_written(host))
    elif graph:
        if as_json:
            _print_json(shown.graph_data(loaded))
        else:
            typer.echo(shown.graph(loaded))
    elif as_json:
        _print_json({"hosts": shown.host_records(loaded)})
    else:
        typer.echo(shown.host_table(loaded))


def _print_json(data: object) -> None:
    # YAML has dates, which JSON has not; Ansible prints them as text too.
    typer.echo(json.dumps(data, indent=4, sort_keys=True, ensure_ascii=False, default=str))
