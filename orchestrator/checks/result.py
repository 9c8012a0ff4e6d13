"""The result of one preflight check on one host."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What was looked at, where, how it stands, what was found, and the mend."""

    name: str
    host: str
    status: Literal["ok", "warning", "failed"]
    detail: str
    hint: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        text = f"{self.host}: {self.detail}"
        return f"{text}\n  do:  {self.hint}" if self.hint else text
