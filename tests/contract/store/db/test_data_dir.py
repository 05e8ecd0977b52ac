"""A data dir belongs to the store of the settings: chosen once, refused clearly, and never by a wrong URL."""

import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from crawl_engine.errors import CrawlError, StorageError, UsageError
from crawl_engine.store.db.connector import DatabaseBusy, connect, connect_postgres
from crawl_engine.store.db.data_dir import claim_store, has_store
from crawl_engine.store.db.file_header import CRAWL, PAGES, SCHEMA_NUMBER
from crawl_engine.store.db.location import Location, read_location
from crawl_engine.store.db.postgres_schema import ServerState
from crawl_engine.store.db.schema import open_databases
from tests.postgres_server import PostgresServer


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_a_project_is_drawn_once_and_kept(data: Path, database: str) -> None:
    assert not has_store(data)
    claimed = claim_store(data, database, None, draws=True)
    assert claimed is not None
    assert re.fullmatch("crawl_[0-9a-f]{8}", claimed.project)
    assert read_location(data) == claimed
    assert (data / "store").stat().st_mode & 0o777 == 0o600
    assert has_store(data)
    assert has_store(data, PAGES)
    assert claim_store(data, database, None, draws=True) is None
    assert claim_store(data, None, None, draws=True) is None
    changed = claim_store(data, database + "&application_name=x", claimed.project, draws=False)
    assert changed == read_location(data) == Location(database + "&application_name=x", claimed.project)


def test_processes_that_start_at_once_share_a_project(data: Path, database: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        claims = list(pool.map(lambda _: claim_store(data, database, None, draws=True), range(8)))
    assert [claim for claim in claims if claim is not None] == [read_location(data)]
    assert [path.name for path in data.iterdir()] == ["store"]


def test_what_a_data_dir_refuses(data: Path, database: str) -> None:
    for url, project, message in (
        (None, "shop", "project shop: no store has it"),
        (database, None, "the store is named, but not the project"),
    ):
        with pytest.raises(UsageError, match=message):
            claim_store(data, url, project, draws=False)
    assert not data.exists()
    claim_store(data, database, "shop", draws=False)
    with pytest.raises(UsageError, match="belongs to the project shop, not to other"):
        claim_store(data, database, "other", draws=True)
    sqlite = data.with_name("sqlite")
    sqlite.mkdir()
    open_databases(sqlite).close()
    with pytest.raises(UsageError, match="its crawl is in SQLite files"):
        claim_store(sqlite, database, "shop", draws=True)
    assert read_location(sqlite) is None


def check_unusable(data: Path, url: str, message: str, remedy: str) -> None:
    """Whether a store is refused by these words, and nothing is kept."""
    with pytest.raises((StorageError, DatabaseBusy)) as refused:
        claim_store(data, url, "shop", draws=True)
    assert re.search(message, refused.value.message), refused.value.message
    assert re.search(remedy, refused.value.remedy), refused.value.remedy
    assert "secret" not in str(refused.value)
    assert not data.exists()


def test_a_folder_in_the_place_of_a_database_is_named(data: Path) -> None:
    (data / CRAWL).mkdir(parents=True)
    with pytest.raises(StorageError, match=r"crawl\.db: a folder, and no file"):
        connect(data / CRAWL, read_only=True)


def test_a_server_that_does_not_take_us_is_named(postgres: PostgresServer, data: Path, database: str) -> None:
    postgres.execute(database, "DROP ROLE IF EXISTS guarded")
    postgres.execute(database, "CREATE ROLE guarded LOGIN PASSWORD 'right'")
    for url, message in (
        ("postgresql://u:secret@127.0.0.1:1/x", "Connection refused"),
        (postgres.url("nothing"), 'database "nothing" does not exist'),
        (database.replace("postgres@", "guarded:secret@"), 'password authentication failed for user "guarded"'),
        ("postgresql://u:secret@/x?host=/nowhere", "No such file or directory"),
    ):
        check_unusable(data, url, message, "^Check ")
    check_unusable(data, "postgresql://u:secret@[/x", "not a valid URL", "Correct the URL")


def test_psycopg_is_asked_for_where_it_is_missing(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "crawl_engine.store.db.postgres", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(UsageError, match="needs psycopg") as missing:
        claim_store(data, "postgresql:///x", "shop", draws=True)
    assert "pip install 'crawl-console[postgresql]'" in missing.value.remedy


def create(database: str, data: Path) -> None:
    connect_postgres(Location(database, "shop"), data / CRAWL).create_tables()


def test_a_schema_that_is_not_ours_is_left_alone(postgres: PostgresServer, data: Path, database: str) -> None:
    postgres.execute(database, "CREATE SCHEMA shop")
    postgres.execute(database, "CREATE TABLE shop.meta (name text)")
    with pytest.raises(UsageError, match="tables of another program"):
        claim_store(data, database, "shop", draws=True)
    with pytest.raises(UsageError, match="tables of another program"):
        create(database, data)
    postgres.execute(database, "DROP TABLE shop.meta")
    create(database, data)  # an empty schema may be prepared for us
    for number, version in ((SCHEMA_NUMBER + 1, "a newer version"), (SCHEMA_NUMBER - 1, "an older version")):
        postgres.execute(database, f"COMMENT ON TABLE shop.meta IS 'crawl-console {number}'")
        with pytest.raises(UsageError, match=version):
            claim_store(data, database, "shop", draws=True)


def test_a_user_without_rights_is_told_which(postgres: PostgresServer, data: Path, database: str) -> None:
    postgres.execute(database, "DROP ROLE IF EXISTS reader")
    postgres.execute(database, "CREATE ROLE reader LOGIN")
    reader = database.replace("postgres@", "reader@")
    with pytest.raises(StorageError, match="may not create the schema") as refused:
        create(reader, data)
    assert "GRANT CREATE ON DATABASE" in refused.value.remedy
    create(database, data)
    with pytest.raises(StorageError, match="permission denied for schema shop"):
        create(reader, data)
    standby = f"{database}&options=-c%20default_transaction_read_only%3Don"
    with pytest.raises(DatabaseBusy, match="read-only, as a standby is"):
        create(standby, data)
    with pytest.raises(StorageError, match="read-only, as a standby is"):
        connect_postgres(Location(standby, "new"), data / CRAWL).create_tables()
    assert connect_postgres(Location(standby, "shop"), data / CRAWL).has_tables(), "it can be read"


def test_a_server_with_few_connections_is_refused_before_the_run(data: Path, database: str) -> None:
    db = connect_postgres(Location(database, "shop"), data / CRAWL)
    db.check_connections(10)
    with pytest.raises(StorageError, match=r"\d+ connections are free; 40 processes need 120"):
        db.check_connections(40)


@pytest.mark.parametrize(
    ("state", "message"),
    [(ServerState(13, "UTF8", False, 0, None, False, True, 97, False), "PostgreSQL 13 is too old"),
     (ServerState(17, "LATIN1", False, 0, None, False, True, 97, False), "the encoding LATIN1")],
)  # fmt: skip
def test_a_server_that_lacks_something_is_refused(state: ServerState, message: str) -> None:
    with pytest.raises(CrawlError, match=message):
        state.check("shop")
