"""Where `export` writes, and in which format: what a path means is never guessed."""

from collections.abc import Callable
from pathlib import Path

import pytest

from console.cli.main import main
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
    target = tmp_path / "x.orc"
    code, _, error = export("-o", str(target))
    assert (code, target.exists()) == (2, False)
    assert "unknown suffix '.orc'" in error
    assert ".db, .sqlite or .duckdb" in error
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
