"""Where `export` writes, and in which format: what a path means is never guessed."""

import codecs
import contextlib
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet
import pytest

from crawl_console.cli.commands.data.export import _select_data_defs
from crawl_console.cli.main import main
from crawl_engine.errors import UsageError
from crawl_engine.model.definition import DataDef, Definitions
from crawl_engine.model.output_type import OUTPUT_TYPES
from tests.contract.append.harness import read_bytes, read_sheet
from tests.contract.store.harness import StoreHarness
from tests.postgres_server import PostgresServer

Export = Callable[..., tuple[int, str, str]]


@pytest.fixture
def export(store: StoreHarness, capsys: pytest.CaptureFixture[str]) -> Export:
    """Run the command on a store with one row; returns exit code, stdout and stderr."""
    store.seed("http://a/1")
    (job,) = store.take("http://a/1")
    store.commit(store.done(job, data=['{"title":"x"}']))

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["export", "book", *arguments, "--data", str(store.folder)])
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def test_an_unknown_suffix_is_refused_and_lists_the_known_ones(export: Export, tmp_path: Path) -> None:
    target = tmp_path / "x.xlsb"
    code, _, error = export("-o", str(target))
    assert (code, target.exists()) == (2, False)
    assert "unknown suffix '.xlsb'" in error
    assert ".csv, .jsonl, .json, .parquet, .xlsx, .db, .sqlite or .duckdb" in error
    assert export("-o", str(target), "--format", "csv")[0] == 0
    assert target.read_text().splitlines()[0] == "title"


def test_a_suffix_that_contradicts_the_format_is_refused_and_the_file_stays(export: Export, tmp_path: Path) -> None:
    target = tmp_path / "x.db"
    target.write_bytes(b"a database")
    code, _, error = export("-o", str(target), "--format", "csv")
    assert (code, target.read_bytes()) == (2, b"a database")
    assert "its suffix means sqlite, --format says csv" in error


def test_a_dash_is_stdout(export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert export("-o", "-") == (0, "title\r\nx\r\n", "")
    assert not (tmp_path / "-").exists()


def read_duckdb(path: Path) -> list[Any]:
    with duckdb.connect(str(path), read_only=True) as db:
        return [row[-1] for row in db.execute("SELECT * FROM book").fetchall()]


def read_sqlite(path: Path) -> list[Any]:
    with contextlib.closing(sqlite3.connect(path)) as db:
        return [row[-1] for row in db.execute("SELECT * FROM book")]


def read_packed(path: Path) -> list[Any]:
    return [json.loads(line)["title"] for line in read_bytes(path).splitlines()]


READERS: dict[str, Callable[[Path], list[Any]]] = {
    ".csv": lambda path: path.read_text().split()[1:],
    ".csv.gz": lambda path: read_bytes(path).decode().split()[1:],
    ".jsonl": read_packed,
    ".jsonl.zst": read_packed,
    ".JSONL.GZ": lambda path: read_packed(path.rename(path.with_suffix(".gz"))),
    ".json": lambda path: [row["title"] for row in json.loads(path.read_bytes())],
    ".parquet": lambda path: pyarrow.parquet.read_table(path).column("title").to_pylist(),
    ".xlsx": lambda path: [row[0] for row in read_sheet(path, ["title"])],
    ".db": read_sqlite,
    ".sqlite": read_sqlite,
    ".duckdb": read_duckdb,
}


@pytest.mark.parametrize("ending", READERS)
def test_the_ending_of_a_file_says_its_type(export: Export, tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"x.y{ending}"
    assert export("-o", str(target)) == (0, "", "")
    assert READERS[ending](target) == ["x"]
    if not target.exists():
        return
    assert export("-o", str(target)) == (0, "", ""), "it is replaced"
    assert READERS[ending](target) == ["x"]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith((".x", "x"))] == [target.name]


@pytest.mark.parametrize("type_", [name for name, type_ in OUTPUT_TYPES.items() if name != "scoopi"])
def test_every_type_is_a_format_and_a_database_needs_a_file(export: Export, tmp_path: Path, type_: str) -> None:
    assert export("--format", type_, "-o", str(tmp_path / "x"))[0] == 0
    if type_ in ("parquet", "xlsx"):
        return  # its bytes are not a text
    code, _, error = export("--format", type_)
    assert code == (2 if type_ in ("sqlite", "duckdb") else 0)
    assert ("a database cannot go to stdout" in error) == bool(code)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "x.db.gz"), "-o x.db.gz: sqlite files are not compressed"),
        (("-o", "x.parquet.zst"), "-o x.parquet.zst: parquet files are not compressed"),
        (("-o", "x.gz"), "unknown suffix '.gz'"),
        (("--bom", "--format", "jsonl"), "--bom has no effect with jsonl"),
        (("--delimiter", ";", "-o", "x.db"), "--delimiter has no effect with sqlite"),
        (("--delimiter", ";;"), "--delimiter ';;': not one character, other than a quote"),
        (("--delimiter", '"'), "not one character, other than a quote"),
        (("--delimiter", ""), "not one character"),
    ],
)
def test_a_wrong_flag_is_one_clear_error(
    export: Export, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, error = export(*arguments)
    assert (code, out) == (2, "")
    assert message in error
    assert not list(tmp_path.glob("x*"))


def test_csv_for_excel(export: Export, tmp_path: Path) -> None:
    target = tmp_path / "x.csv.gz"
    assert export("--bom", "--delimiter", "\\t", "--escape-formulas", "-o", str(target))[0] == 0
    assert read_bytes(target) == codecs.BOM_UTF8 + b"title\r\nx\r\n"
    assert export("--changes", "--bom", "-o", str(target))[0] == 0
    assert read_bytes(target).startswith(codecs.BOM_UTF8 + b"change,")


def test_an_empty_path_is_refused(export: Export) -> None:
    code, _, error = export("-o", "")
    assert code == 2
    assert "the path is empty; is a shell variable unset?" in error


def test_an_export_to_a_server_replaces_the_rows_of_the_run(
    export: Export, postgres: PostgresServer, database: str, tmp_path: Path
) -> None:
    for _ in range(2):
        assert export("-o", database) == (0, "", "")
        assert postgres.execute(database, "SELECT _row, title FROM book") == [(1, "x")]
    postgres.execute(database, "DROP TABLE book; CREATE TABLE book (title integer)")
    code, _, error = export("-o", database)
    assert (code, "the column title is integer, and its field needs text" in error) == (3, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--format", "postgresql"], "postgresql needs a server"),
        (["--format", "csv", "-o", "postgresql:///x"], "-o is a URL of postgresql, and --format says csv"),
        (["--bom", "-o", "postgresql:///x"], "--bom has no effect with postgresql"),
        (["--since", "1", "-o", "postgresql:///x"], "--since has no effect with postgresql"),
        (["-o", "postgresql:///x?nothing=1"], "its url is not a valid URL of PostgreSQL"),
        (["-o", "postgresql:///x?host=/nowhere"], "No such file or directory"),
        (["-o", "postgresql://u:%{env.NO_SUCH_PW}@/x"], "environment variable NO_SUCH_PW is not set"),
    ],
)
def test_what_an_export_to_a_server_refuses(export: Export, arguments: list[str], message: str) -> None:
    code, _, error = export(*arguments)
    assert code in (2, 3)
    assert message in error


def test_defs_without_rows_are_no_empty_export() -> None:
    links_alone = Definitions(data_defs=(DataDef(name="links"),))
    with pytest.raises(UsageError, match="no dataDef has rows to export"):
        _select_data_defs(links_alone, None, tables=False)
