"""A pages.db that is lost, or older than crawl.db: missing pages are not reused, and no id is used twice."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from crawl_engine.model.job import document_key
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.schema import CRAWL, PAGES, open_databases
from crawl_engine.store.db.sqlite import SqliteDatabase
from crawl_engine.store.pages import documents, page_store
from crawl_engine.store.pages.page_store import PageStore
from tests.contract.store.harness import StoreHarness, document

pytestmark = pytest.mark.sqlite
ALIAS = "http://a/old"


class Killed(BaseException):
    """Stands for the end of the process."""


class Fragile(SqliteDatabase):
    """Ends the process before or after the n-th commit."""

    left = -1

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        if sql != "COMMIT":
            return super().execute(sql, parameters)
        self._falls()
        super().execute(sql)
        return self._falls()

    def _falls(self) -> None:
        Fragile.left -= 1
        if Fragile.left == 0:
            raise Killed


@pytest.fixture
def stored(store: StoreHarness) -> dict[str, int]:
    """Documents of five pages by URL, and an alias of the first; their bodies are lost."""
    pages = PageStore(store.folder)
    ids = {}
    for number in range(5):
        url = f"http://a/{number}"
        [ids[url]] = pages.add([document(url, b"body")])
    pages.close()
    with store.db.transaction():
        for url, page in ids.items():
            redirected_from = [ALIAS] if page == 1 else []
            documents.add(store.db, store.run, [(page, document(url, b"body", redirected_from=redirected_from))])
    return ids


def _served(store: StoreHarness, *urls: str) -> int:
    keys = [document_key(url) for url in urls]
    return len(documents.list_stored(store.db, store.run, keys, 0.0))


def _lose(folder: Path) -> None:
    for path in folder.glob(f"{PAGES}*"):
        path.unlink()
    open_databases(folder).close()


def _noted(store: StoreHarness) -> list[tuple[str]]:
    return store.db.all("SELECT text FROM events WHERE text LIKE 'pages.db has lost%'")


def test_nothing_happens_if_no_page_is_lost(store: StoreHarness, stored: dict[str, int]) -> None:
    pages = PageStore(store.folder)
    assert pages.reconcile(store.db, store.run) == 0
    assert _served(store, *stored, ALIAS) == 6
    assert pages.add([document("http://a/new", b"x")]) == [6]
    assert _noted(store) == []


def test_lost_pages_are_not_reused_and_no_id_is_reused(store: StoreHarness, stored: dict[str, int]) -> None:
    _lose(store.folder)
    pages = PageStore(store.folder)
    assert pages.reconcile(store.db, store.run) == 5
    assert _served(store, *stored, ALIAS) == 0
    assert len(_noted(store)) == 1
    [page] = pages.add([document("http://a/new", b"x")])
    assert page > max(stored.values())
    assert documents.get_metadata(store.db, 1) is not None, "its job can still be shown"
    assert pages.reconcile(store.db, store.run) == 0
    assert len(_noted(store)) == 1


def test_an_older_copy_serves_the_pages_it_has(store: StoreHarness, stored: dict[str, int]) -> None:
    db = connect(store.folder / PAGES)
    with db.transaction():
        db.execute("DELETE FROM pages WHERE id > 3")
        db.execute("UPDATE sqlite_sequence SET seq = 3")
    db.close()
    assert PageStore(store.folder).reconcile(store.db, store.run) == 2
    assert _served(store, *stored, ALIAS) == 4
    assert PageStore(store.folder).read(1) == b"body"


def test_the_original_file_put_back_serves_no_orphan(store: StoreHarness, stored: dict[str, int]) -> None:
    """It holds bodies without a document, left by a crash, with ids that may be in use now."""
    pages = PageStore(store.folder)
    orphans = pages.add([document(f"http://a/orphan/{number}", b"orphan") for number in range(5)])
    pages.close()
    shutil.copy(store.folder / PAGES, store.folder / "before.db")
    _lose(store.folder)
    pages = PageStore(store.folder)
    pages.reconcile(store.db, store.run)
    new = pages.add([document(f"http://a/new/{number}", b"new") for number in range(3)])
    with store.db.transaction():
        documents.add(store.db, store.run, [(p, document(f"http://a/new/{p}", b"new")) for p in new])
    pages.close()
    _lose(store.folder)
    shutil.copy(store.folder / "before.db", store.folder / PAGES)
    pages = PageStore(store.folder)
    pages.reconcile(store.db, store.run)
    assert not set(new) & set(orphans)
    assert _served(store, *(f"http://a/new/{page}" for page in new)) == 0


@pytest.mark.parametrize("copy", [False, True], ids=["lost", "an older copy"])
@pytest.mark.parametrize("moment", range(1, 5), ids=["crawl.db before", "after", "pages.db before", "after it"])
def test_a_kill_at_any_commit_leaves_nothing_undone(
    store: StoreHarness, stored: dict[str, int], moment: int, copy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_store, "_SCAN_BATCH", 2)
    _lose(store.folder)
    if copy:
        PageStore(store.folder).add([document("http://a/0", b"body")])
    crawl, pages = Fragile.open(store.folder / CRAWL), PageStore(store.folder)
    pages._db = Fragile.open(store.folder / PAGES)
    Fragile.left = moment
    with pytest.raises(Killed):
        pages.reconcile(crawl, store.run)
    Fragile.left = -1
    crawl.close()
    pages.close()
    if _served(store, *list(stored)[1:]):
        seq = connect(store.folder / PAGES).value("SELECT seq FROM sqlite_sequence") or 0
        assert seq < max(stored.values()), "else the next start would not check"
    PageStore(store.folder).reconcile(store.db, store.run)
    assert _served(store, *stored, ALIAS) == (2 if copy else 0)
    assert len(_noted(store)) == 1
    assert PageStore(store.folder).add([document("http://a/new", b"x")])[0] > max(stored.values())
