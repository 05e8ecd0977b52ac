"""The process of a plugin encoder or appender: creates the class and gives it rows.

It opens no database, and dies with the appender that started it. What the class prints goes to the appender's log.
"""

import io
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

import orjson

from crawl_engine.append.formats.row_json import NumberLiteral, decode_values
from crawl_engine.plugins.files import decode_files
from crawl_engine.plugins.loading import Awaiter, PluginLoader
from crawl_engine.plugins.plugin_errors import PluginUnavailable, describe_error
from crawl_engine.processes.child_limits import ignore_stop_signals, limit_memory
from crawl_engine.processes.frames import serve
from crawl_engine.processes.start import ChildStart
from crawl_engine.runtime.beat_file import resident_bytes

_ROW = b',"row":'


ItemType = str | Mapping[str, "ItemType"]
"""The kind of a column, or those of nested fields by name."""
_NUMBERS: Mapping[str, Callable[[str], int | float | Decimal]] = {
    "int": int, "float": float, "decimal": Decimal, "price": Decimal
}  # fmt: skip


class RowReader:
    """Reads stored rows of one dataDef: every column in written order, numbers by the types of their fields.

    `types` and `item_types`: of fields, and of the items of lists; of nested fields, those by name.
    """

    def __init__(self, columns: Sequence[str], types: Mapping[str, str], item_types: Mapping[str, "ItemType"]) -> None:
        self._columns = [(name, _reader_of(types.get(name, item_types.get(name)))) for name in columns]

    def read(self, text: str) -> dict[str, Any]:
        """The row; None where a value is missing."""
        fields = decode_values(text)
        return {name: read(fields.get(name)) for name, read in self._columns}


class AnswerInvalid(Exception):
    """The class returned a value of a wrong type; the text says what it must return."""


class ClassHost:
    """Holds the class, and answers requests."""

    def __init__(self) -> None:
        self._instance: Any = None
        self._readers: dict[str, RowReader] = {}
        self._awaiter = Awaiter()
        self._operations: Mapping[str, Callable[[dict[str, Any], bytes], bytes]] = {
            "create": self._create, "encode": self._encode, "footer": self._footer,
            "append": self._append, "close": self._close,
        }  # fmt: skip

    def answer(self, header: dict[str, Any], body: bytes) -> tuple[dict[str, Any], bytes]:
        """The answer to a request."""
        operation = header["operation"]
        try:
            answer = self._operations[operation](header, body)
        except (PluginUnavailable, AnswerInvalid) as error:
            return {"error": str(error)}, b""
        except (Exception, SystemExit) as error:
            return {"error": describe_error(error)}, b""
        more = {"footer": hasattr(self._instance, "footer")} if operation == "create" else {}
        return {"rss": resident_bytes(), **more}, answer

    def _create(self, header: dict[str, Any], body: bytes) -> bytes:
        """Create the class; the answer is the header of an encoder's file."""
        limit_memory(header["memory"])
        loader = PluginLoader(decode_files(body))
        self._instance = loader.create(header["class"], header["options"])
        for name, fields in header["data_defs"].items():
            self._readers[name] = RowReader(**fields)
        if header["kind"] != "encoder":
            return b""
        [fields] = header["data_defs"].values()
        return _checked_bytes("header", self._call("header", tuple(fields["columns"])))

    def _encode(self, _: dict[str, Any], body: bytes) -> bytes:
        [reader] = self._readers.values()
        return _checked_bytes("encode", self._call("encode", [reader.read(line.decode()) for line in _lines(body)]))

    def _footer(self, _: dict[str, Any], __: bytes) -> bytes:
        return _checked_bytes("footer", self._call("footer"))

    def _append(self, header: dict[str, Any], body: bytes) -> bytes:
        self._call("append", [self._read_change(header["data_def"], line) for line in _lines(body)])
        return b""

    def _close(self, _: dict[str, Any], __: bytes) -> bytes:
        if hasattr(self._instance, "close"):
            self._call("close")
        return b""

    def _read_change(self, data_def: str, line: bytes) -> dict[str, Any]:
        """`{"id", "run", "dataDef", "row"}` with the row as `RowReader` reads it, or the object of a deleted row."""
        start = line.find(_ROW)
        if start < 0:
            deleted: dict[str, Any] = orjson.loads(line)
            return deleted
        change: dict[str, Any] = orjson.loads(line[:start] + b"}")
        change["row"] = self._readers[data_def].read(line[start + len(_ROW) : -1].decode())
        return change

    def _call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the class, which may be `async`."""
        return self._awaiter.finish(getattr(self._instance, method)(*arguments))


def _read_number(text: str) -> int | Decimal:
    """A number without a declared type: no digit is lost."""
    return int(text) if text.lstrip("-").isdigit() else Decimal(text)


def _reader_of(type_: ItemType | None) -> Callable[[Any], Any]:
    """Reads a value, and the values in a list or an object."""
    nested = {name: _reader_of(inner) for name, inner in type_.items()} if isinstance(type_, Mapping) else {}
    read_number = _NUMBERS.get(type_, _read_number) if isinstance(type_, str) else _read_number

    def read(value: Any) -> Any:
        if isinstance(value, NumberLiteral):
            return read_number(str(value))
        if isinstance(value, list):
            return [read(item) for item in value]
        if isinstance(value, dict):
            return {name: nested.get(name, read)(item) for name, item in value.items()}
        return value

    return read


def main(start: ChildStart) -> int:
    """Serve the appender until it closes the socket."""
    ignore_stop_signals()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    try:
        with socket.socket(fileno=start.files["connection"]) as connection:
            serve(connection, ClassHost().answer)
    except OSError:
        return 1  # the appender is gone, or the class closed the socket
    os._exit(0)  # does not wait for threads of the class


def _checked_bytes(method: str, value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise AnswerInvalid(f"`{method}` must return bytes, not {type(value).__name__}")
    return bytes(value)


def _lines(body: bytes) -> Iterator[bytes]:
    return iter(body.split(b"\n")) if body else iter(())
