"""An Encoder and an Appender, as an installed package provides them."""

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any
from xml.sax.saxutils import quoteattr

from crawl_console import Row


class Xml:
    """One empty element for each row."""

    suffix = "xml"

    def header(self, columns: tuple[str, ...]) -> bytes:
        return f"<!-- {', '.join(columns)} -->\n".encode()

    def encode(self, rows: list[Row]) -> bytes:
        return "".join(f"<row {self._attributes(row)}/>\n" for row in rows).encode()

    def _attributes(self, row: Row) -> str:
        return " ".join(f"{name}={quoteattr(str(value))}" for name, value in row.items() if value is not None)


class Journal:
    """Appends every change to a file, and flushes it to disk."""

    def __init__(self, path: str) -> None:
        self.file = open(path, "a", encoding="utf-8")  # noqa: SIM115

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            self.file.write(json.dumps(row, default=str) + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())

    def close(self) -> None:
        self.file.close()
