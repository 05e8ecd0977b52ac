"""Rows of tables as Scoopi writes them: the values of a row in one line, without header and quotes."""

from collections.abc import Iterable, Sequence

from engine.append.row_json import decode_as_text

_DELIMITER, _NULL = "|", "null"


class ScoopiEncoder:
    """Rows of one table as lines in UTF-8."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)

    def header(self) -> bytes:
        """Empty."""
        return b""

    def rows(self, rows: Iterable[str]) -> bytes:
        """The lines of stored rows."""
        lines = []
        for row in rows:
            values = decode_as_text(row)
            texts = (values.get(name) for name in self._columns)
            lines.append(_DELIMITER.join(_NULL if text is None else " ".join(str(text).split("\n")) for text in texts))
        lines.append("")
        return "\n".join(lines).encode("utf-8", "replace")
