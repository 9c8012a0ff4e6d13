"""`orc plan --suggest`: the strategies that fit, as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence

from orchestrator.cli.plan_text import table
from orchestrator.planning.suggest import Suggestion

_COLUMNS = ("", "STRATEGY", "NODES", "REPLICAS", "SIZES", "GPUS", "GIB LEFT", "ENDPOINTS")


def suggestions_json(recipe: str, found: Sequence[Suggestion]) -> str:
    """One JSON document."""
    shown = {"recipe": recipe, "suggestions": [one.to_dict() for one in found]}
    return json.dumps(shown, indent=2) + "\n"


def suggestions_text(recipe: str, found: Sequence[Suggestion]) -> str:
    """Those that fit as a table, best first, then the others with their reasons."""
    fitting = [one for one in found if one.fits]
    others = [one for one in found if not one.fits]
    short = sum(one.short for one in fitting)
    parts = [
        f"{recipe}: {len(fitting) - short} of {len(found)} strategies fit"
        + (f", {short} more by estimate only with a shorter context or not at all" if short else "")
    ]
    if fitting:
        parts.append(table(_COLUMNS, [_row(one) for one in fitting]))
        parts.append(
            "* recommended by the recipe. NODES and GPUS are those of one replica, REPLICAS as "
            "many as fit;\nGIB LEFT is on the fullest GPU by estimate, beside weights, overhead "
            "and the KV cache of one sequence (negative: short)."
        )
    if others:
        parts.append("\n".join(f"no {one.strategy}: {one.reason}" for one in others))
    return "\n\n".join(parts) + "\n"


def _row(one: Suggestion) -> tuple[str, ...]:
    sizes = "; ".join(f"{pool} {text}".strip() for pool, text in one.sizes.items())
    return (
        "*" if one.recommended else "",
        one.strategy,
        str(one.nodes),
        str(one.replicas),
        sizes,
        str(one.gpus),
        "-" if one.headroom is None else f"{one.headroom:.1f}",
        str(one.endpoints) + (" (router)" if one.router else ""),
    )
