"""The output type `scoopi`: the values of a row in one line, with `|` between them, without header and quotes."""

from collections.abc import Iterable, Sequence

from engine.append.files import FileFormat
from engine.append.row_json import decode_as_text

_NULL = "null"


class ScoopiEncoder:
    """Rows of one dataDef as lines in UTF-8; a missing value is `null`."""

    def __init__(self, columns: Sequence[str], delimiter: str) -> None:
        self._columns = tuple(columns)
        self._delimiter = delimiter

    def header(self) -> bytes:
        """Empty."""
        return b""

    def rows(self, rows: Iterable[str]) -> bytes:
        """The lines of stored rows."""
        lines = []
        for row in rows:
            values = decode_as_text(row)
            texts = (values.get(name) for name in self._columns)
            lines.append(
                self._delimiter.join(_NULL if text is None else " ".join(str(text).split("\n")) for text in texts)
            )
        lines.append("")
        return "\n".join(lines).encode("utf-8", "replace")


FORMAT = FileFormat(lambda settings: ScoopiEncoder(settings["columns"], settings["delimiter"]))
