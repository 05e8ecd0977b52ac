"""Outputs that are objects of a store: put as a whole, never partial, exact after kills and outages."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crawl_engine.append import object_writer
from crawl_engine.append.loop.appender import AppenderLoop
from crawl_engine.append.loop.chosen_outputs import BuiltInOutputs, WholeOutputs
from crawl_engine.append.loop.turns import TurnResult
from crawl_engine.store.tables.output import outputs
from tests.contract.append.harness import GROWING, TYPES, Harness, books, encoded, read, recorded, run_until_idle, until
from tests.object_store import ObjectStore


class ObjectHarness(Harness):
    """The output is an object: of the store's bucket `shop`, or a file of another folder."""

    def __init__(self, folder: Path, type_: str, store: ObjectStore | None) -> None:
        self.store = store
        self.target = folder / "far" / "deep" / f"book.{type_}"
        super().__init__(folder, type_)

    def declare(self, name: str, *arguments: Any, **more: Any) -> None:
        url = f"file://{self.target}" if self.store is None else f"s3://shop/deep/book.{self.type}"
        super().declare(name, *arguments, **more, path=url)  # type: ignore[arg-type]

    def appender(self, **more: Any) -> AppenderLoop:  # type: ignore[override]
        return super().appender(**{"chosen": WholeOutputs("rows", "object"), "whole_every": 0.0, **more})

    def content(self) -> bytes | None:
        if self.store is not None:
            return self.store.objects.get(f"/shop/deep/book.{self.type}")
        return self.target.read_bytes() if self.target.exists() else None

    def assert_exact(self) -> None:
        content = self.content()
        assert content is not None
        file = self.folder / f"copy.{self.type}"
        file.write_bytes(content)
        columns = ["title", "price", "stock", "tags", "parts"]
        assert sorted(repr(row) for row in read(self.type, file, "book", columns)) == self.expected()


@pytest.fixture(params=["file", "s3"])
def harness(request: pytest.FixtureRequest, tmp_path: Path, object_store: ObjectStore) -> ObjectHarness:
    return ObjectHarness(tmp_path, "csv", object_store if request.param == "s3" else None)


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize("remote", [True, False], ids=["s3", "file"])
def test_every_type_may_be_an_object(tmp_path: Path, object_store: ObjectStore, type_: str, remote: bool) -> None:
    harness = ObjectHarness(tmp_path, type_, object_store if remote else None)
    job = harness.add(books(30))
    harness.drain()
    harness.assert_exact()
    harness.add(books(5, start=100), job=job)
    harness.drain()
    harness.assert_exact()
    assert not [path for path in harness.path().parent.rglob("*book*") if path.is_file()], "the spool is deleted"


def test_the_object_of_an_earlier_run_stays_until_the_first_write(harness: ObjectHarness) -> None:
    if harness.store is not None:
        harness.store.put("/shop/deep/book.csv", b"yesterday")
    else:
        harness.target.parent.mkdir(parents=True)
        harness.target.write_bytes(b"yesterday")
    with closing(harness.appender(whole_every=600.0)) as appender:
        assert appender.run_turn() is TurnResult.BLOCKED
        harness.add(books(3))
        assert appender.run_turn() is TurnResult.BLOCKED
    assert harness.content() == b"yesterday"
    assert harness.has_backlog()
    harness.drain()
    harness.assert_exact()


def test_a_run_without_rows_gives_an_object_without_rows(harness: ObjectHarness) -> None:
    harness.drain()
    assert harness.content() == b"title,price,stock,tags,parts\r\n"


def test_an_object_that_was_changed_or_deleted_is_put_again(harness: ObjectHarness) -> None:
    harness.add(books(3))
    harness.drain()
    for damage in (b"other", None):
        if harness.store is not None:
            harness.store.objects.pop("/shop/deep/book.csv")
            if damage is not None:
                harness.store.put("/shop/deep/book.csv", damage)
        else:
            harness.target.unlink()
            if damage is not None:
                harness.target.write_bytes(damage)
        harness.drain()
        harness.assert_exact()


def test_an_unchanged_object_is_not_put_again(object_store: ObjectStore, tmp_path: Path) -> None:
    harness = ObjectHarness(tmp_path, "csv", object_store)
    harness.add(books(3))
    harness.drain()
    harness.drain()
    assert len(object_store.versions["/shop/deep/book.csv"]) == 1


@pytest.mark.parametrize("point", ["set_pending", "put", "finish_rebuild"])
def test_a_kill_at_any_point_leaves_a_whole_object(
    harness: ObjectHarness, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: Any) -> None:
        raise Killed

    harness.add(books(3))
    harness.drain()
    before = harness.content()
    harness.add(books(3, start=50))
    appender = harness.appender()
    target = object_writer._FolderTarget if harness.store is None else object_writer._StoreTarget
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(target if point == "put" else outputs, point, die)
        run_until_idle(appender)
    if point == "finish_rebuild":
        harness.assert_exact()
    else:
        assert harness.content() == before
    appender.close()
    harness.drain()
    harness.assert_exact()
    assert recorded(harness).rows == 6


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (
            (503, "SlowDown"),
            "Server returned non-2xx status code: 503 Service Unavailable",
        ),
        ((403, "QuotaExceeded"), "<Code>QuotaExceeded</Code>"),
        ((404, "NoSuchBucket"), "the bucket does not exist"),
    ],
)
def test_an_outage_is_shown_and_ends(
    tmp_path: Path, object_store: ObjectStore, fault: tuple[int, str], message: str
) -> None:
    harness = ObjectHarness(tmp_path, "csv", object_store)
    harness.add(books(3))
    object_store.fault = fault
    with closing(harness.appender()) as appender:
        assert until(lambda: appender.run_turn() is TurnResult.BLOCKED and recorded(harness).error is not None)
        error = recorded(harness).error
        assert error is not None
        assert error.startswith("s3://shop/deep/book.csv: ")
        assert message in error
        assert "s3cret-key" not in error
        assert harness.has_backlog()
        object_store.fault = None
        run_until_idle(appender)
    harness.assert_exact()
    assert recorded(harness).error is None


def test_credentials_that_may_only_write_suffice(tmp_path: Path, object_store: ObjectStore) -> None:
    object_store.is_write_only = True
    harness = ObjectHarness(tmp_path, "csv", object_store)
    for start in (0, 50):
        harness.add(books(3, start=start))
        harness.drain()
        harness.assert_exact()


def test_a_large_object_is_put_in_parts(tmp_path: Path, object_store: ObjectStore) -> None:
    harness = ObjectHarness(tmp_path, "jsonl", object_store)
    harness.add([{"title": "x" * 1_000_000, "price": None, "stock": None, "tags": [], "parts": []}] * 12)
    harness.drain()
    harness.assert_exact()
    assert any("partNumber=3" in request for request in object_store.requests)
    assert not object_store.uploads


def test_an_unreachable_store_is_an_error(
    tmp_path: Path, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    harness = ObjectHarness(tmp_path, "csv", object_store)
    with closing(harness.appender()) as appender:
        assert until(lambda: appender.run_turn() is TurnResult.BLOCKED and recorded(harness).error is not None)
    assert recorded(harness).error == "s3://shop/deep/book.csv: http://127.0.0.1:9 does not answer"


def test_objects_are_left_to_loops_of_their_own(tmp_path: Path) -> None:
    harness = ObjectHarness(tmp_path, GROWING[0], None)
    declared = outputs.list_outputs(harness.db, harness.run.seq)
    assert BuiltInOutputs().choose(declared) == []
    assert WholeOutputs("rows").choose(declared) == []
    assert WholeOutputs("rows", "object").choose(declared) == declared
    assert encoded("csv", None) == ""
