"""The command `query`: one read-only statement over crawl.db and the stored pages, in three formats."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawl_console.cli.main import main
from crawl_engine.errors import UsageError
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.schema import CRAWL, PAGES
from crawl_engine.store.pages.page_store import PageStore
from crawl_engine.store.read.query import open_query
from tests.contract.store.harness import StoreHarness, document

pytestmark = pytest.mark.sqlite  # its SQL; tests/contract/store/db/test_postgres_query.py has PostgreSQL's

Output = Callable[..., tuple[int, str, str]]


@pytest.fixture
def crawled(store: StoreHarness) -> StoreHarness:
    """Two done jobs: one with a page in windows-1250 and a row, one with a binary page."""
    store.seed("http://a/1", "http://a/2", "http://a/3")
    first, second = store.take("http://a/", free=2)
    text = replace(document("http://a/1", "<p>Příběh</p>".encode("cp1250")), content_type="text/html; charset=cp1250")
    binary = replace(document("http://a/2", b"%PDF-1.4\x00"), content_type="application/pdf")
    pages = PageStore(store.folder)
    one, two = pages.add([text, binary])
    pages.close()
    store.commit(
        store.done(first, text, data=['{"title":"Příběh"}'], page=one),
        store.done(second, binary, page=two),
    )
    return store


@pytest.fixture
def query(crawled: StoreHarness, capsys: pytest.CaptureFixture[str]) -> Output:
    """Run the command on the crawled store; returns exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["query", *arguments, "--data", str(crawled.folder)])
        captured = capsys.readouterr()
        return int(ended.value.code or 0), captured.out, captured.err

    return run


def contents(store: StoreHarness) -> list[object]:
    """The schema and all rows of both databases."""
    rows: list[object] = []
    for name in (CRAWL, PAGES):
        db = connect(store.folder / name, read_only=True)
        rows += db.all("SELECT sql FROM sqlite_schema")
        for (table,) in db.all("SELECT name FROM sqlite_schema WHERE type = 'table'"):
            rows += db.all(f'SELECT * FROM "{table}"')
        rows.append(db.value("PRAGMA user_version"))
        db.close()
    return rows


def test_json_is_one_array_of_objects(query: Output) -> None:
    code, out, err = query("SELECT url, state, node IS NULL AS free, NULL AS none FROM jobs ORDER BY id", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out) == [
        {"url": "http://a/1", "state": "DONE", "free": 0, "none": None},
        {"url": "http://a/2", "state": "DONE", "free": 0, "none": None},
        {"url": "http://a/3", "state": "READY", "free": 1, "none": None},
    ]
    assert json.loads(query("SELECT 1 WHERE 0", "--json")[1]) == []
    assert json.loads(query("SELECT 1 AS a, 2 AS a, x'00ff' AS b", "--json")[1]) == [
        {"a": 1, "a_2": 2, "b": {"$base64": True, "encoded": "AP8="}}
    ]


def test_many_rows_are_one_array(query: Output) -> None:
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1001) SELECT i FROM n"
    assert [row["i"] for row in json.loads(query(numbers, "--json")[1])] == list(range(1, 1002))
    assert len(query(numbers, "--table")[1].splitlines()) == 1003


def test_csv_is_the_default_without_a_terminal(query: Output) -> None:
    statement = "SELECT url, json_extract(data, '$.title') AS \"a, b\", x'00' FROM rows JOIN jobs ON jobs.id = rows.job"
    code, out, _ = query(statement)
    assert code == 0
    assert list(csv.reader(io.StringIO(out))) == [["url", "a, b", "x'00'"], ["http://a/1", "Příběh", "AA=="]]
    assert query(statement, "--csv")[1] == out


def test_a_table_is_aligned_cut_and_clean(query: Output) -> None:
    out = query(f"SELECT id, NULL AS gone, x'00' AS blob, '{'x' * 99}' || char(27) AS long FROM jobs", "--table")[1]
    heading, rule, *rows = out.splitlines()
    assert heading.split() == ["id", "gone", "blob", "long"]
    assert set(rule) == {"─", " "}
    assert len(rows) == 3
    assert rows[0].endswith("x…")
    assert "<1 bytes>" in rows[0]
    assert "\x1b" not in out


def test_what_is_not_utf_8_is_refused(query: Output) -> None:
    code, out, err = query("SELECT '\udcff'")
    assert (code, out) == (2, "")
    assert err.startswith("error: SELECT '\\xff': not UTF-8\n")


def test_a_function_gives_the_text_of_a_page(query: Output) -> None:
    statement = "SELECT url, body(document) AS text FROM jobs ORDER BY id"
    rows = json.loads(query(statement, "--json")[1])
    assert [row["text"] for row in rows] == ["<p>Příběh</p>", None, None]
    assert json.loads(query("SELECT body(999) AS a, body('x') AS b, body(NULL) AS c", "--json")[1]) == [
        {"a": None, "b": None, "c": None}
    ]


def test_the_stored_pages_are_attached(query: Output, crawled: StoreHarness) -> None:
    rows = json.loads(query("SELECT d.url, p.headers FROM documents d JOIN pages p USING (id)", "--json")[1])
    assert [row["url"] for row in rows] == ["http://a/1", "http://a/2"]
    for path in crawled.folder.glob(f"{PAGES}*"):
        path.unlink()
    assert json.loads(query("SELECT body(1) AS text", "--json")[1]) == [{"text": None}]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM jobs", "the statement writes (DELETE of jobs)"),
        ("UPDATE jobs SET state = 'DONE' RETURNING id", "the statement writes (UPDATE of jobs)"),
        ("INSERT INTO meta VALUES ('a', 'b')", "the statement writes (INSERT of meta)"),
        ("WITH x AS (SELECT 1) INSERT INTO stored.pages SELECT 1, 2, 3 FROM x", "the statement writes"),
        ("CREATE TABLE t (a)", "only reads"),
        ("CREATE TEMP TABLE t (a)", "only reads"),
        ("DROP TABLE jobs", "only reads"),
        ("ATTACH '{folder}/new.db' AS new", "ATTACH is not allowed"),
        ("DETACH stored", "DETACH is not allowed"),
        ("VACUUM INTO '{folder}/new.db'", "ATTACH is not allowed"),
        ("PRAGMA user_version = 9", "PRAGMA user_version is not allowed"),
        ("PRAGMA query_only = 0", "PRAGMA query_only is not allowed"),
        ("PRAGMA writable_schema = 1", "PRAGMA writable_schema is not allowed"),
        ("BEGIN IMMEDIATE", "a transaction is not allowed"),
        ("SAVEPOINT a", "SAVEPOINT is not allowed"),
        ("SELECT load_extension('x')", "not allowed"),
        ("SELECT 1; DELETE FROM jobs", "more than one statement"),
        ("SELECT 1; SELECT 2", "more than one statement"),
        ("", "it gives no rows"),
        ("/* nothing */", "it gives no rows"),
        ("SELECT missing FROM jobs", "no such column: missing"),
        ("SELEC 1", "syntax error"),
        ("SELECT ?", "bindings"),
        ("SELECT json('{{')", "malformed JSON"),
    ],
)
def test_anything_but_one_reading_statement_is_refused(
    query: Output, crawled: StoreHarness, statement: str, message: str
) -> None:
    before, files = contents(crawled), sorted(path.name for path in crawled.folder.iterdir())
    code, out, err = query(statement.format(folder=crawled.folder), "--json")
    assert (code, out) == (2, "")
    assert message in err
    assert "Traceback" not in err
    assert contents(crawled) == before
    assert sorted(path.name for path in crawled.folder.iterdir()) == files


def test_pragmas_that_describe_tables_are_allowed(query: Output) -> None:
    assert "jobs" in query("SELECT name FROM pragma_table_list")[1]
    assert "not_before" in query("PRAGMA table_info(jobs)")[1]
    assert query("EXPLAIN QUERY PLAN SELECT * FROM jobs WHERE id = 1")[0] == 0


def test_a_long_statement_is_stopped(crawled: StoreHarness) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"
    with (
        pytest.raises(UsageError, match=r"stopped after 0\.2 s"),
        open_query(crawled.db, endless, lambda *_: None, seconds=0.2) as result,
    ):
        list(result.rows)


def test_a_database_at_rest_is_read_without_a_log(
    query: Output, crawled: StoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawled.close()
    files = sorted(crawled.folder.iterdir())
    monkeypatch.setattr("os.access", lambda *_: False)
    assert json.loads(query("SELECT body(1) AS text", "--json")[1]) == [{"text": "<p>Příběh</p>"}]
    assert sorted(crawled.folder.iterdir()) == files


def test_without_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder in (tmp_path / "missing", tmp_path):
        with pytest.raises(SystemExit) as ended:
            main(["query", "SELECT 1", "--data", str(folder)])
        assert ended.value.code == 2
        assert "no run yet" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_data_def_is_no_table_and_its_rows_are_found(query: Output, crawled: StoreHarness) -> None:
    name = crawled.db.value("SELECT name FROM data_defs LIMIT 1")
    code, _, err = query(f"SELECT * FROM {name}")
    assert (code, f"SQL: no such table: {name}" in err) == (2, True)
    statement = err.partition("in `rows`: ")[2].strip()
    assert query(statement.replace("FIELD", "title"))[:2] == (0, "data ->> '$.title'\r\nPříběh\r\n")
