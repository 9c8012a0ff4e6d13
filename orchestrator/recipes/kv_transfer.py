"""The connector that moves the KV cache: without the right one, prefill/decode serves nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from orchestrator.errors import InputError
from orchestrator.recipes.arguments import json_of
from orchestrator.recipes.resolved import Argument

FLAG = "--kv-transfer-config"
# They keep the cache on the node where it was made, or move none (vLLM 0.32.0); what is not here
# is taken to be able to, since a connector may be the user's own.
_MOVE_NOTHING = frozenset(
    {
        "DecodeBenchConnector",
        "ExampleHiddenStatesConnector",
        "OffloadingConnector",
        "SimpleCPUOffloadConnector",
    }
)
_ROLES = {
    "prefill": ("kv_producer", "kv_both"),
    "decode": ("kv_consumer", "kv_both"),
}


def kv_connectors(arguments: Collection[Argument]) -> dict[str, object]:
    """The connectors that are configured, those inside a MultiConnector as well: name to kv_role.

    A connector without a role has None there.
    """
    return dict(_connectors(json_of(arguments, FLAG)))


def _connectors(config: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    name, more = config.get("kv_connector"), config.get("kv_connector_extra_config")
    inner = more.get("connectors") if isinstance(more, Mapping) else None
    if isinstance(name, str) and name:
        yield name, config.get("kv_role")
    for one in inner if isinstance(inner, list) else ():
        if isinstance(one, Mapping):
            yield from _connectors(one)


def check_kv_transfer(arguments: Collection[Argument], pool: str) -> None:
    """Raises InputError where a pool (prefill or decode) could not hand its KV cache over.

    vLLM takes an empty configuration for none, and refuses a connector without a role (0.32.0,
    KVTransferConfig).
    """
    hint = "leave kv-transfer-config out of args: the strategy brings one for each pool"
    names = [name for name in kv_connectors(arguments) if name != "MultiConnector"]
    if not names:
        raise InputError(
            f"the {pool} pool has no KV connector: its {FLAG} says none",
            why="prefill hands the KV cache over to decode by it",
            hint=hint,
        )
    if _MOVE_NOTHING.issuperset(names):
        raise InputError(
            f"{', '.join(names)} of the {pool} pool moves no KV cache to another node",
            why="prefill hands the KV cache over to decode by it",
            hint=hint,
        )
    role = json_of(arguments, FLAG).get("kv_role")
    if role not in _ROLES[pool]:
        raise InputError(
            f"kv_role of the {pool} pool is {' or '.join(_ROLES[pool])}, not {role!r}",
            hint=f"{hint}; one for both pools has the role kv_both",
        )


def check_kv_offload(
    arguments: Collection[Argument], offload: Collection[Argument], name: str | None
) -> None:
    """Raises InputError where a connector that kv_offload = `name` brought is not there any more.

    `offload` are the arguments that it brought; only the user's own come after them.
    """
    missing = dict.fromkeys(kv_connectors(offload))
    for kept in ("MultiConnector", *kv_connectors(arguments)):
        missing.pop(kept, None)
    if missing:
        raise InputError(
            f"kv_offload = {name} brings {', '.join(missing)}, which {FLAG} of your args leaves "
            "out",
            why="nothing would use it",
            hint="leave kv-transfer-config out of args, or kv_offload",
        )
