"""The output type `scoopi`: the values of a row in one line, with `|` between them."""

from collections.abc import Iterable, Sequence

from crawl_engine.append.formats.file_writer import FileFormat
from crawl_engine.append.formats.row_json import decode_as_text
from crawl_engine.append.formats.writer import RowEncoder

_NULL = "null"
_TAGS = ("1", "1", "1")
_LEADING = 2
"""Columns before the tags: locator and group."""


class ScoopiEncoder(RowEncoder):
    """Rows of one dataDef as lines in UTF-8; a missing value is `null`."""

    def __init__(self, columns: Sequence[str], delimiter: str, *, include_tags: bool = False) -> None:
        """`include_tags`: page, index and item behind the group. All are 1: pages of a locator are not numbered."""
        self._columns = tuple(columns)
        self._tags = _TAGS if include_tags else ()
        self._delimiter = delimiter

    def header(self) -> bytes:
        """Empty."""
        return b""

    def rows(self, rows: Iterable[str]) -> bytes:
        """The lines of stored rows."""
        lines = []
        for row in rows:
            values = decode_as_text(row)
            texts = [values.get(name) for name in self._columns]
            texts[_LEADING:_LEADING] = self._tags
            lines.append(
                self._delimiter.join(_NULL if text is None else " ".join(str(text).split("\n")) for text in texts)
            )
        lines.append("")
        return "\n".join(lines).encode("utf-8", "replace")


FORMAT = FileFormat(
    lambda settings: ScoopiEncoder(
        settings["columns"], settings["delimiter"], include_tags=settings.get("include_tags", False)
    )
)
