"""A pages.db that is lost, or older than crawl.db: what it lacks serves nobody, and no id is given twice."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from engine.model.job_key import document_key
from engine.store.db.connector import Database
from engine.store.db.schema import CRAWL, PAGES, migrate_databases
from engine.store.pages import documents
from engine.store.pages.documents import PageStore
from tests.contract.store.house import House, document

ALIAS = "http://a/old"


class Killed(BaseException):
    """The process ends here."""


class Fragile(Database):
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
def stored(house: House) -> dict[str, int]:
    """Documents of five pages by URL, and an alias of the first; no body is there any more."""
    pages = PageStore(house.folder)
    found = {}
    for number in range(5):
        url = f"http://a/{number}"
        [found[url]] = pages.add([document(url, b"body")])
    pages.close()
    with house.db.transaction():
        for url, page in found.items():
            came_by = [ALIAS] if page == 1 else []
            documents.add(house.db, house.run, [(page, document(url, b"body", came_by=came_by))])
    return found


def _served(house: House, *urls: str) -> int:
    keys = [document_key(url) for url in urls]
    return len(documents.find_stored(house.db, house.run, keys, 0.0))


def _lose(folder: Path) -> None:
    for path in folder.glob(f"{PAGES}*"):
        path.unlink()
    migrate_databases(folder)


def _noted(house: House) -> list[tuple[str]]:
    return house.db.all("SELECT text FROM events WHERE text LIKE 'pages.db has lost%'")


def test_nothing_happens_where_nothing_is_lost(house: House, stored: dict[str, int]) -> None:
    pages = PageStore(house.folder)
    assert pages.reconcile(house.db, house.run) == 0
    assert _served(house, *stored, ALIAS) == 6
    assert pages.add([document("http://a/new", b"x")]) == [6]
    assert _noted(house) == []


def test_what_is_lost_serves_nobody_and_no_id_comes_again(house: House, stored: dict[str, int]) -> None:
    _lose(house.folder)
    pages = PageStore(house.folder)
    assert pages.reconcile(house.db, house.run) == 5
    assert _served(house, *stored, ALIAS) == 0
    assert len(_noted(house)) == 1
    [page] = pages.add([document("http://a/new", b"x")])
    assert page > max(stored.values())
    assert documents.get_metadata(house.db, 1) is not None, "what its job saw is still known"
    assert pages.reconcile(house.db, house.run) == 0
    assert len(_noted(house)) == 1


def test_an_older_copy_serves_what_it_has(house: House, stored: dict[str, int]) -> None:
    db = Database.open(house.folder / PAGES)
    with db.transaction():
        db.execute("DELETE FROM pages WHERE id > 3")
        db.execute("UPDATE sqlite_sequence SET seq = 3")
    db.close()
    assert PageStore(house.folder).reconcile(house.db, house.run) == 2
    assert _served(house, *stored, ALIAS) == 4
    assert PageStore(house.folder).read(1) == b"body"


def test_the_file_of_before_put_back_serves_no_orphan(house: House, stored: dict[str, int]) -> None:
    """It holds bodies that a crash left without a document, under ids that may be in use by now."""
    pages = PageStore(house.folder)
    orphans = pages.add([document(f"http://a/orphan/{number}", b"orphan") for number in range(5)])
    pages.close()
    shutil.copy(house.folder / PAGES, house.folder / "before.db")
    _lose(house.folder)
    pages = PageStore(house.folder)
    pages.reconcile(house.db, house.run)
    new = pages.add([document(f"http://a/new/{number}", b"new") for number in range(3)])
    with house.db.transaction():
        documents.add(house.db, house.run, [(p, document(f"http://a/new/{p}", b"new")) for p in new])
    pages.close()
    _lose(house.folder)
    shutil.copy(house.folder / "before.db", house.folder / PAGES)
    pages = PageStore(house.folder)
    pages.reconcile(house.db, house.run)
    assert not set(new) & set(orphans)
    assert _served(house, *(f"http://a/new/{page}" for page in new)) == 0


@pytest.mark.parametrize("copy", [False, True], ids=["lost", "an older copy"])
@pytest.mark.parametrize("moment", range(1, 5), ids=["crawl.db before", "after", "pages.db before", "after it"])
def test_a_kill_at_any_commit_leaves_nothing_undone(
    house: House, stored: dict[str, int], moment: int, copy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "_SCAN_BATCH", 2)
    _lose(house.folder)
    if copy:
        PageStore(house.folder).add([document("http://a/0", b"body")])
    crawl, pages = Fragile.open(house.folder / CRAWL), PageStore(house.folder)
    pages._db = Fragile.open(house.folder / PAGES)
    Fragile.left = moment
    with pytest.raises(Killed):
        pages.reconcile(crawl, house.run)
    Fragile.left = -1
    crawl.close()
    pages.close()
    if _served(house, *list(stored)[1:]):
        seq = Database.open(house.folder / PAGES).value("SELECT seq FROM sqlite_sequence") or 0
        assert seq < max(stored.values()), "else the next start would not look"
    PageStore(house.folder).reconcile(house.db, house.run)
    assert _served(house, *stored, ALIAS) == (2 if copy else 0)
    assert len(_noted(house)) == 1
    assert PageStore(house.folder).add([document("http://a/new", b"x")])[0] > max(stored.values())
