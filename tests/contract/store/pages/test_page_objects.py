"""The setting page_store: large bodies are objects of a bucket or a shared folder, small ones stay in PostgreSQL."""

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from crawl_engine.errors import UsageError
from crawl_engine.node.db_access import DbAccess
from crawl_engine.store.db.connector import DatabaseBusy
from crawl_engine.store.pages import documents
from crawl_engine.store.pages.documents import NewDocument
from crawl_engine.store.pages.objects import BodyObjects, check_page_store
from crawl_engine.store.pages.page_store import PageStore
from tests.contract.store.harness import StoreHarness, document
from tests.object_store import ObjectStore, object_store

__all__ = ["object_store"]
_DICE = random.Random(7)
SMALL, MEDIUM, LARGE = b"<p>small</p>", _DICE.randbytes(30_000), _DICE.randbytes(700_000)


class Killed(BaseException):
    """Stands for the end of the process."""


def die(*_: object) -> None:
    raise Killed


class Objects:
    """What a store has, in a folder or a bucket."""

    def __init__(self, folder: Path, bucket: ObjectStore | None) -> None:
        self.folder, self.bucket = folder, bucket
        self.url = f"file://{folder}" if bucket is None else "s3://bucket/deep/pages"
        folder.mkdir()

    def names(self) -> list[str]:
        if self.bucket is not None:
            return sorted(path.rsplit("/", 1)[1] for path in self.bucket.objects)
        return sorted(path.name for path in self.folder.rglob("*") if path.is_file())

    def fail(self, failing: bool) -> None:
        """Answer nothing but errors."""
        if self.bucket is not None:
            self.bucket.fault = (400, "Strange") if failing else None
        elif failing:
            self.folder.rename(self.folder.with_name("away"))
        else:
            self.folder.with_name("away").rename(self.folder)


@pytest.fixture(params=["folder", "bucket"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    bucket = request.getfixturevalue("object_store") if request.param == "bucket" else None
    return Objects(tmp_path / "objects", bucket)


@pytest.fixture
def store(shared_store: StoreHarness) -> StoreHarness:
    return shared_store


@pytest.fixture
def pages(store: StoreHarness, objects: Objects) -> PageStore:
    return PageStore(store.folder, page_store=objects.url)


def three() -> list[NewDocument]:
    return [document(f"http://a/{len(body)}", body) for body in (SMALL, MEDIUM, LARGE)]


def record(store: StoreHarness, ids: Sequence[int], added: Sequence[NewDocument]) -> None:
    with store.db.transaction():
        documents.add(store.db, store.run, list(zip(ids, added, strict=True)))


def test_large_bodies_are_objects_which_every_reader_finds(
    store: StoreHarness, pages: PageStore, objects: Objects
) -> None:
    added = three()
    ids = pages.add(added)
    assert objects.names() == sorted(
        f"{d.body.digest.hex()}-{page}" for page, d in zip(ids[1:], added[1:], strict=True)
    )
    other = PageStore(store.folder, read_only=True)
    assert [other.read(page) for page in ids] == [SMALL, MEDIUM, LARGE]
    tagged = other.read_tagged(ids[2])
    assert tagged is not None
    assert tagged.body.read() == LARGE
    assert max(size.body for size in other.iterate_sizes()) < 1_000, "rows stay small"


def test_an_object_is_deleted_with_the_last_page_that_has_it(
    store: StoreHarness, pages: PageStore, objects: Objects
) -> None:
    ids = pages.add(three())
    again = document("http://a/30000", MEDIUM)
    again.equal_page = ids[1]
    (sharing,) = pages.add([again])
    assert len(objects.names()) == 2
    pages.delete(ids)
    assert len(objects.names()) == 1
    assert [pages.read(page) for page in (*ids, sharing)] == [None, None, None, MEDIUM]
    pages.delete([sharing])
    assert objects.names() == []
    assert list(pages.iterate_sizes()) == []


def test_a_lost_object_is_a_missing_body(pages: PageStore, objects: Objects) -> None:
    ids = pages.add(three())
    pages.objects.delete([pages._db.value("SELECT body FROM pages WHERE id = ?", (ids[1],))])
    assert [pages.read(page) for page in ids] == [SMALL, None, LARGE]
    again = document("http://a/30000", MEDIUM)
    again.equal_page = ids[1]
    assert pages.read(pages.add([again])[0]) == MEDIUM


@pytest.mark.parametrize("call", ["put", "delete"])
def test_a_kill_between_rows_and_objects_leaves_neither(
    store: StoreHarness, pages: PageStore, objects: Objects, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    kept, keeping = pages.add(three()), three()
    record(store, kept, keeping)
    with monkeypatch.context() as patch, pytest.raises(Killed):
        if call == "put":
            patch.setattr(BodyObjects, "put", die)
            pages.add([document("http://b/1", MEDIUM + b"1")])
        else:
            lost = pages.add([document("http://b/1", MEDIUM + b"1")])
            patch.setattr(BodyObjects, "delete", die)
            pages.delete(lost)
    later = PageStore(store.folder)
    store.end_nodes()
    later.delete_orphans(store.db)
    assert [size.id for size in later.iterate_sizes()] == kept
    assert len(objects.names()) == 2
    assert [later.read(page) for page in kept] == [SMALL, MEDIUM, LARGE]


def test_a_store_that_fails_is_tried_again_without_new_rows(pages: PageStore, objects: Objects) -> None:
    added = three()
    objects.fail(True)
    for _ in range(3):
        with pytest.raises(DatabaseBusy):
            pages.add(added)
    objects.fail(False)
    ids = pages.add(added)
    assert [size.id for size in pages.iterate_sizes()] == ids
    assert [pages.read(page) for page in ids] == [SMALL, MEDIUM, LARGE]
    objects.fail(True)
    with pytest.raises(DatabaseBusy):
        pages.read(ids[1])
    with pytest.raises(DatabaseBusy):
        pages.delete(ids)
    objects.fail(False)
    pages.delete(ids)
    assert objects.names() == []
    assert list(pages.iterate_sizes()) == []


async def test_a_node_waits_for_a_store_that_fails_and_its_loop_goes_on(
    store: StoreHarness, pages: PageStore, objects: Objects
) -> None:
    ids = pages.add(three())
    access = DbAccess(store.folder)
    objects.fail(True)
    small = await access.page_body(ids[0])
    assert small is not None
    assert small.body.read() == SMALL
    reading = asyncio.create_task(access.page_body(ids[1]))
    await asyncio.sleep(0.3)
    assert not reading.done()
    objects.fail(False)
    stored = await reading
    assert stored is not None
    assert stored.body.read() == MEDIUM


def test_a_page_store_that_cannot_serve_is_refused(
    store: StoreHarness, objects: Objects, tmp_path: Path, refused: Callable[[Path, str], str]
) -> None:
    check_page_store(store.folder, objects.url)
    assert objects.names() == [], "the probe is deleted"
    assert "for a crawl in PostgreSQL" in refused(tmp_path / "files", objects.url)
    objects.fail(True)
    assert "No such file" in (said := refused(store.folder, objects.url)) or "Strange" in said
    objects.fail(False)
    assert "Permission" in refused(store.folder, "file:///proc") or "No such" in refused(store.folder, "file:///proc")


@pytest.fixture
def refused() -> Callable[[Path, str], str]:
    def check(data: Path, url: str) -> str:
        with pytest.raises(UsageError) as caught:
            check_page_store(data, url)
        return str(caught.value)

    return check
