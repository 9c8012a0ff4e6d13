"""Data-plane addresses: one that a host can have as its own, and several that can meet."""

from __future__ import annotations

import re
from collections.abc import Sequence

from orchestrator.errors import PlanError
from orchestrator.topology.ip_address import ip_address
from orchestrator.topology.layout import Slot

_BROADCAST = "255.255.255.255"
_PLACEHOLDER = re.compile(r"\$\w+")  # of the commands that a recipe shows for hosts yet unknown
_NAME = re.compile(r"[\w-]+(\.[\w-]+)*\.?")
# Linux: 15 bytes, no slash, colon or space (`dev_valid_name`); the rest is NCCL's pattern syntax.
_INTERFACE = re.compile(r"[^\s/:=^,]{1,15}")
_MEND = "set orc_address to the address of the data-plane interface"


def no_address(text: str) -> str | None:
    """Why `text` is no address that a host can be met at; None where it is one, or a name.

    A name is taken as it is: what it means is known on the hosts alone.
    """
    parsed = ip_address(text)
    if parsed is None:
        return None if _is_name(text) else _what_it_is(text)
    if parsed.is_unspecified:
        return "it means every interface of whichever host reads it"
    if parsed.is_multicast:
        return "it is a multicast address, which no host has as its own"
    if text == _BROADCAST:
        return "it is the broadcast address, which no host has as its own"
    if parsed.version == 6 and parsed.is_link_local and parsed.scope_id is None:
        return "it is a link-local address, which means nothing without its interface"
    return None


def is_loopback(text: str) -> bool:
    """Whether a host means itself by `text`."""
    parsed = ip_address(text)
    if parsed is None:
        return text == "localhost" or text.startswith("localhost.")
    mapped = parsed.ipv4_mapped if parsed.version == 6 else None
    return (mapped or parsed).is_loopback


def check_own(slot: Slot) -> None:
    """Refuse an address or an interface that no host can have.

    Raises PlanError naming host, variable and value.
    """
    if slot.address and (why := no_address(slot.address)):
        raise PlanError(
            f"the data-plane address of {slot.host} is {slot.address}{_source(slot)}",
            where=slot.host,
            why=why,
            hint=_MEND,
        )
    if slot.interface and not _INTERFACE.fullmatch(slot.interface):
        raise PlanError(
            f"orc_interface of {slot.host} is {slot.interface!r}",
            where=slot.host,
            why="an interface has one name of at most 15 characters, with no / : = ^ or comma",
            hint="set orc_interface to the name that `ip link` shows, such as bond0",
        )


def check_meeting(slots: Sequence[Slot], why: str, *, one_family: bool = True) -> None:
    """Refuse data-plane addresses over which the hosts of `slots`, all different, cannot meet.

    A loopback one is vLLM's own default and fails late (vllm#7074); a shared one means that two
    names are one machine; and what has IPv4 alone does not reach IPv6. `why` they have to.
    Raises PlanError naming host and address.
    """
    seen: dict[str, str] = {}
    families: dict[int, Slot] = {}
    for slot in slots:
        if slot.address is None:
            raise PlanError(
                f"no data-plane address of {slot.host} is known",
                where=slot.host,
                why=why,
                hint="set orc_address (or ansible_host to an IP address) in the inventory, "
                "or gather facts",
            )
        if is_loopback(slot.address):
            raise PlanError(
                f"the data-plane address of {slot.host} is {slot.address}, a loopback address"
                f"{_source(slot)}",
                where=slot.host,
                why=f"no other host can reach it, and {why}",
                hint=_MEND,
            )
        if slot.interface == "lo":
            raise PlanError(
                f"orc_interface of {slot.host} is lo, the loopback interface",
                where=slot.host,
                why=f"no other host can be reached over it, and {why}",
                hint="set orc_interface to the data-plane interface, such as bond0",
            )
        parsed = ip_address(slot.address)
        other = seen.setdefault(str(parsed or slot.address), slot.host)
        if other != slot.host:
            raise PlanError(
                f"{other}, {slot.host} have the same data-plane address {slot.address}"
                f"{_source(slot)}",
                why=f"each host needs an address of its own: {why}",
                hint="correct orc_address or ansible_host",
            )
        if parsed is not None:
            families.setdefault(parsed.version, slot)
    if one_family and len(families) > 1:
        four, six = families[4], families[6]
        raise PlanError(
            f"the data-plane address of {four.host} is {four.address}, IPv4, and that of "
            f"{six.host} is {six.address}, IPv6",
            where=six.host,
            why=why,
            hint="set orc_address of all of them to addresses of one family",
        )


def _is_name(text: str) -> bool:
    if _PLACEHOLDER.fullmatch(text):
        return True
    return _NAME.fullmatch(text) is not None and not re.fullmatch(r"[\d.]+", text)


def _what_it_is(text: str) -> str:
    if "/" in text and ip_address(text.partition("/")[0]):
        return "it is a network with its prefix length, not an address"
    if text.startswith("[") and ip_address(text.strip("[]")):
        return "brackets belong into URLs: the address is what stands in them"
    if ip_address(text.rpartition(":")[0].strip("[]")):
        return "it is an address with a port, not an address"
    return "it is neither an IP address nor a host name"


def _source(slot: Slot) -> str:
    return f" (from {slot.address_source})" if slot.address_source else ""
