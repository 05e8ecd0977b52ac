"""The command `query`: runs one read-only SQL statement on the data and prints its rows."""

import contextlib
import sys
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawl_console.cli.options import common_options
from crawl_console.cli.output import open_stdout
from crawl_console.cli.tables import shorten_cell, write_csv, write_table
from crawl_engine.errors import UsageError

if TYPE_CHECKING:
    from crawl_engine.store.read.query import QueryResult

_BATCH_ROWS = 200
"""Rows that are written at once."""


@click.command()
@click.argument("sql")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array of objects.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV; default where stdout is not a terminal.")
@click.option("--table", "as_table", is_flag=True, help="Print a table; default on a terminal.")
@common_options("data")
def query(sql: str, as_json: bool, as_csv: bool, as_table: bool, data: Path) -> int:
    """Run one read-only SQL statement on crawl.db and the stored pages; body(page) is the text of a page."""
    from crawl_console.client import open_latest_run
    from crawl_engine.store.db.connector import is_immutable
    from crawl_engine.store.read.query import open_query

    if as_json + as_csv + as_table > 1:
        raise UsageError("query: --json, --csv and --table exclude each other", "Give one of them.")
    as_table = as_table or (sys.stdout.isatty() and not as_csv)
    printer = _print_json if as_json else _print_table if as_table else _print_csv
    with open_latest_run(data) as (db, _), contextlib.ExitStack() as stack:
        printer(stack.enter_context(open_query(db, sql, _decode_text, immutable=is_immutable(db.path))))
    return 0


def _decode_text(body: bytes, content_type: str) -> str | None:
    from crawl_engine.http.decode import decode

    decoded = decode(body, content_type)
    return None if decoded.kind == "binary" else decoded.text


def _print_json(result: "QueryResult") -> None:
    """Print one array in UTF-8; a BLOB becomes an object with its bytes in base64, as sqlite-utils prints it."""
    import orjson

    names = _unique_names(result.columns)
    objects = (
        orjson.dumps({name: _json_value(value) for name, value in zip(names, row, strict=True)}, default=str)
        for row in result.rows
    )
    separator, stdout = b"[", open_stdout()
    while batch := list(islice(objects, _BATCH_ROWS)):
        stdout.write(separator + b",\n".join(batch))
        separator = b",\n"
    stdout.write(b"[]\n" if separator == b"[" else b"]\n")
    stdout.flush()


def _print_csv(result: "QueryResult") -> None:
    write_csv(chain([result.columns], ([_csv_value(value) for value in row] for row in result.rows)))


def _print_table(result: "QueryResult") -> None:
    write_table([result.columns], ([_table_cell(value) for value in row] for row in result.rows))


def _unique_names(columns: Sequence[str]) -> list[str]:
    """The columns as keys: a repeated name gets a number."""
    names: list[str] = []
    for column in columns:
        name, number = column, 1
        while name in names:
            number += 1
            name = f"{column}_{number}"
        names.append(name)
    return names


def _json_value(value: Any) -> Any:
    return {"$base64": True, "encoded": _base64(value)} if isinstance(value, bytes) else value


def _csv_value(value: Any) -> Any:
    return _base64(value) if isinstance(value, bytes) else value


def _table_cell(value: Any) -> str:
    if value is None:
        return ""
    return shorten_cell(f"<{len(value)} bytes>" if isinstance(value, bytes) else str(value))


def _base64(value: bytes) -> str:
    from base64 import b64encode

    return b64encode(value).decode()
