"""Bytes that come in pieces, turned into lines of text."""

from __future__ import annotations

import codecs
import re

# A program that never ends its line must not fill the memory.
LONGEST_LINE = 1 << 20

_END = re.compile("\r\n|\r|\n")


class LineSplitter:
    """Splits at \\n, \\r\\n and at \\r (progress bars). UTF-8 may be cut anywhere.

    Undecodable bytes are replaced. A line of more than LONGEST_LINE characters is handed over
    in pieces.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._rest = ""
        self._after_return = False  # the last line ended in \r: a \n that follows belongs to it

    def feed(self, data: bytes) -> list[str]:
        """The lines that `data` completes, without their ends."""
        return self._split(self._decoder.decode(data))

    def end(self) -> list[str]:
        """The last line, when it had no end."""
        lines = self._split(self._decoder.decode(b"", final=True))
        rest, self._rest = self._rest, ""
        return [*lines, rest] if rest else lines

    def _split(self, text: str) -> list[str]:
        if not text:
            return []
        if self._after_return:
            text = text.removeprefix("\n")
        self._after_return = text.endswith("\r") or (self._after_return and not text)
        *lines, rest = _END.split(self._rest + text)
        while len(rest) > LONGEST_LINE:
            lines.append(rest[:LONGEST_LINE])
            rest = rest[LONGEST_LINE:]
        self._rest = rest
        return lines
