"""The output files of a run."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawl_engine.errors import UsageError
from crawl_engine.model.definition import DataDef, Definitions, Field
from crawl_engine.model.link import Link
from crawl_engine.model.output_type import AppenderDef
from crawl_engine.store.db.connector import Database, connect
from crawl_engine.store.db.schema import CRAWL, open_databases
from crawl_engine.store.tables.output import outputs as table
from crawl_engine.store.tables.row import rows
from crawl_engine.store.tables.run import runs
from crawl_engine.supervise.outputs import appender_for_file, declare_outputs, output_settings

BOOK = DataDef(name="book", fields=(Field(name="title"), Field(name="tags", all=True, join=";")))
SHOP = DataDef(name="shop", fields=(Field(name="name"),))
LINKS = DataDef(name="links", links=(Link(selector="a"),))
DEFS = Definitions(data_defs=(BOOK, SHOP, LINKS))


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    open_databases(tmp_path).close()
    db = connect(tmp_path / CRAWL, durable=False)
    with db.transaction():
        runs.create(db, None, 0.0)
    yield db
    db.close()


def _declared(db: Database, defs: Definitions, output_file: Path | None = None) -> dict[str, tuple[str, str]]:
    with db.transaction():
        declare_outputs(db, 1, Path("/out"), defs, output_file)
    return {f"{o.appender}/{o.data_def}": (o.type, o.path) for o in table.list_outputs(db, 1)}


def test_each_data_def_with_fields_has_its_csv_file(db: Database) -> None:
    assert _declared(db, DEFS) == {
        "rows/book": ("csv", "/out/book.csv"), "rows/shop": ("csv", "/out/shop.csv"),
    }  # fmt: skip


def test_appenders_write_the_data_defs_they_name_with_the_suffix_of_their_type(db: Database) -> None:
    named = AppenderDef(name="one", type="jsonl", data_defs=("shop",))
    stored = AppenderDef(name="all", type="sqlite", path="sub/all.db")
    assert _declared(db, replace(DEFS, appenders=(named, stored))) == {
        "one/shop": ("jsonl", "/out/shop.jsonl"), "all/book": ("sqlite", "/out/sub/all.db"),
        "all/shop": ("sqlite", "/out/sub/all.db"),
    }  # fmt: skip


def test_the_output_option_replaces_the_appenders_with_a_file_per_data_def(db: Database, tmp_path: Path) -> None:
    assert _declared(db, DEFS, tmp_path / "x.jsonl") == {
        "flag/book": ("jsonl", str(tmp_path / "x-book.jsonl")), "flag/shop": ("jsonl", str(tmp_path / "x-shop.jsonl")),
    }  # fmt: skip


def test_the_output_option_names_the_file_of_a_single_data_def_or_a_database(db: Database, tmp_path: Path) -> None:
    one = replace(DEFS, data_defs=(BOOK, LINKS))
    assert _declared(db, one, tmp_path / "x.csv") == {"flag/book": ("csv", str(tmp_path / "x.csv"))}
    declared = _declared(db, DEFS, tmp_path / "y.db")
    assert {path for _, path in declared.values()} == {str(tmp_path / "y.db")}


def test_a_relative_output_option_is_relative_to_the_working_directory(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one = replace(DEFS, data_defs=(SHOP,))
    assert _declared(db, one, Path("x.CSV")) == {"flag/shop": ("csv", str(tmp_path / "x.CSV"))}


@pytest.mark.parametrize("name", ["x", "x.text", "x.gz", "x.csv.bz2"])
def test_an_unknown_suffix_is_rejected(name: str) -> None:
    with pytest.raises(UsageError, match="unknown suffix"):
        appender_for_file(Path(name))


@pytest.mark.parametrize("name", ["x.db.gz", "x.sqlite.zst"])
def test_a_database_is_not_compressed(name: str) -> None:
    with pytest.raises(UsageError, match="sqlite files are not compressed"):
        appender_for_file(Path(name))


def test_the_ending_of_the_output_option_compresses_the_file_of_each_data_def(db: Database, tmp_path: Path) -> None:
    assert _declared(db, DEFS, tmp_path / "x.CSV.gz") == {
        "flag/book": ("csv", str(tmp_path / "x-book.CSV.gz")), "flag/shop": ("csv", str(tmp_path / "x-shop.CSV.gz")),
    }  # fmt: skip
    assert [output.settings["compression"] for output in table.list_outputs(db, 1)] == ["gzip", "gzip"]


def test_a_path_names_data_def_and_run(db: Database) -> None:
    run = runs.get(db, 1)
    dated = AppenderDef(name="a", type="jsonl", path="{dataDef}-{run.date}_{run.time}.jsonl.zst")
    absolute = AppenderDef(name="b", path="/srv/{run.id}/{dataDef}.csv", data_defs=("shop",))
    began = datetime.fromtimestamp(run.created_at).strftime("%Y-%m-%d_%H%M%S")
    assert _declared(db, replace(DEFS, appenders=(dated, absolute))) == {
        "a/book": ("jsonl", f"/out/book-{began}.jsonl.zst"), "a/shop": ("jsonl", f"/out/shop-{began}.jsonl.zst"),
        "b/shop": ("csv", f"/srv/{run.id}/shop.csv"),
    }  # fmt: skip


def test_the_settings_have_columns_in_order_joins_and_delimiter() -> None:
    declared = output_settings(BOOK, AppenderDef(name="rows", delimiter="\t"))
    assert (declared["columns"], declared["joins"], declared["delimiter"]) == (["title", "tags"], {"tags": ";"}, "\t")


def test_declaring_again_changes_nothing_and_new_settings_request_a_rebuild(db: Database) -> None:
    for _ in range(2):
        _declared(db, DEFS)
    assert [o.rebuild_marks for o in table.list_outputs(db, 1)] == [0, 0]
    wider = replace(BOOK, fields=(*BOOK.fields, Field(name="price")))
    _declared(db, replace(DEFS, data_defs=(wider, SHOP)))
    assert [(o.data_def, o.dirty) for o in table.list_outputs(db, 1)] == [("book", True), ("shop", False)]
    assert table.list_outputs(db, 1)[0].settings["columns"] == ["title", "tags", "price"]


def test_a_rebuild_clears_only_earlier_rebuild_marks(db: Database) -> None:
    _declared(db, DEFS)
    with db.transaction():
        book, shop = table.list_outputs(db, 1)
        table.advance(db, book.id, cursor=10, size=100, rows=10, inode=3)
        for row in (11, 10, 3):
            table.mark_dirty(db, 1, "book", row)
    book, shop = table.list_outputs(db, 1)
    assert (book.rebuild_marks, shop.rebuild_marks) == (2, 0), "a row behind the cursor is not in the file"
    declared = {"inode": 5, "cursor": 12, "bytes": 90, "rows": 9, "reasons": book.rebuild_marks}
    with db.transaction():
        table.set_pending(db, book.id, declared)
        table.mark_corrupt(db, book.id)
    book = table.list_outputs(db, 1)[0]
    assert (book.pending, book.rebuild_marks) == (declared, 3)
    with db.transaction():
        table.finish_rebuild(db, book.id, declared)
    book = table.list_outputs(db, 1)[0]
    assert (book.cursor, book.bytes, book.rows, book.inode, book.rebuild_marks, book.pending) == (12, 90, 9, 5, 1, None)


def test_a_run_is_behind_while_an_output_lacks_a_row_or_must_be_rebuilt(db: Database) -> None:
    assert not table.find_backlog(db, 1, 5), "no output, nothing behind"
    _declared(db, DEFS)
    assert not table.find_backlog(db, 1, rows.last_id(db, 1))
    assert table.find_backlog(db, 1, 5)
    with db.transaction():
        for output in table.list_outputs(db, 1):
            table.advance(db, output.id, cursor=5, size=1, rows=1, inode=1)
    assert not table.find_backlog(db, 1, 5)
    with db.transaction():
        table.mark_corrupt(db, 1)
    assert table.find_backlog(db, 1, 5)
