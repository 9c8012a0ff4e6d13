"""Where a command's own output begins: what a login shell says before it is not the command's.

A `.bashrc` that greets, an /etc/profile that warns, sudo's lecture: sshd lets the login shell read
its files before every command, and what they print comes on the command's streams. So the command
is preceded by a line on each stream that no output has, and all up to that line is dropped.
"""

from __future__ import annotations

from orchestrator.errors import UnreachableError

# What is kept of what comes before: the end of it explains why a command did not begin.
_MOST_BEFORE = 1 << 16


class Beginning:
    """Drops what comes before the command on its two streams."""

    def __init__(self, mark: str) -> None:
        # Two marks, since a login shell may have made one stream of the two.
        self.marks = {"stderr": f"{mark}-err", "stdout": f"{mark}-out"}
        self._before = {"stderr": b"", "stdout": b""}
        self._seen: set[str] = set()

    @property
    def reached(self) -> bool:
        """Whether the command has begun."""
        return bool(self._seen)

    def feed(self, stream: str, data: bytes) -> bytes:
        """What of `data` is the command's. A mark may be cut anywhere."""
        if stream in self._seen:
            return data
        # With the end of its line: a shell that traces (`set -x`) shows the mark amid others.
        before, mark, after = (self._before[stream] + data).partition(
            self.marks[stream].encode() + b"\n"
        )
        self._before[stream] = before[-_MOST_BEFORE:]
        if mark:
            self._seen.add(stream)
        return after

    def before(self, stream: str) -> str:
        """What was said on a stream before the command."""
        return self._before[stream].decode(errors="replace")

    @property
    def said(self) -> str:
        """What was said before the command, on both streams."""
        parts = (self.before(stream).strip() for stream in ("stderr", "stdout"))
        return "\n".join(part for part in parts if part)

    def check(self, host: str, status: int) -> None:
        """Raises UnreachableError when it is over and the command never began."""
        if self.reached:
            return
        lines = self.said.splitlines() or [f"exit status {status}"]
        raise UnreachableError(
            # The reason is in the first line, which is all that a table has room for.
            f"the login shell does not run commands: {lines[-1].strip()}",
            where=host,
            why=self.said if len(lines) > 1 else None,
            hint="look at the login's shell, at what it reads first (.bashrc), and at "
            "ForceCommand in sshd_config",
        )
