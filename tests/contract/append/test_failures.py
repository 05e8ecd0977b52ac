"""Kills at every step, disks that refuse, and epochs that end: nothing is lost, doubled, or recorded too early."""

import errno
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from engine.append import appender as loop
from engine.append import sqlite as sqlite_output
from engine.append.turns import TurnResult
from engine.errors import Fenced
from engine.store.db.connector import Database, DatabaseBusy
from engine.store.db.schema import CRAWL
from engine.store.tables import outputs, rows, supervisors
from tests.contract.append.house import TYPES, House, book, books, recorded, settle


@pytest.fixture(params=TYPES)
def house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    return House(tmp_path, request.param)


class Killed(BaseException):
    """The process ends here."""


class Axe:
    """Kills at the n-th thing that touches the disk: half of a write is done, a commit is done or not."""

    def __init__(self) -> None:
        self.left = -1

    def falls(self) -> bool:
        self.left -= 1
        return self.left == 0

    def hang(self, monkeypatch: pytest.MonkeyPatch) -> type[Database]:
        axe = self
        pwrite, fsync, ftruncate, replace, execute = os.pwrite, os.fsync, os.ftruncate, Path.replace, Database.execute

        def half(file: int, data: bytes, at: int) -> int:
            if axe.falls():
                pwrite(file, data[: len(data) // 2], at)
                raise Killed
            return pwrite(file, data, at)

        def around(work: Any) -> Any:
            def killed(*arguments: Any) -> Any:
                if axe.falls():
                    raise Killed
                result = work(*arguments)
                if axe.falls():
                    raise Killed
                return result

            return killed

        class Fragile(Database):
            def execute(self, sql: str, parameters: Any = ()) -> Any:
                return around(execute)(self, sql, parameters) if sql == "COMMIT" else execute(self, sql, parameters)

        monkeypatch.setattr(os, "pwrite", half)
        monkeypatch.setattr(os, "fsync", around(fsync))
        monkeypatch.setattr(os, "ftruncate", around(ftruncate))
        monkeypatch.setattr(Path, "replace", around(replace))
        monkeypatch.setattr(sqlite_output, "Database", Fragile)
        return Fragile


@pytest.mark.parametrize("type_", TYPES)
def test_a_kill_at_any_step_loses_and_doubles_nothing(
    type_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    axe = Axe()
    fragile = axe.hang(monkeypatch)
    while True:
        steps += 1
        folder = tmp_path / str(steps)
        folder.mkdir()
        house = House(folder, type_)
        job = house.add(books(3))
        axe.left = steps
        killed = False
        with closing(house.appender(db=fragile.open(folder / CRAWL))) as appender:
            try:
                settle(appender)
                house.add(books(3, start=10))
                settle(appender)
                house.add(books(2, start=20), job=job)
                settle(appender)
            except Killed:
                killed = True
            axe.left = -1
        house.drain()
        assert house.found() == house.expected(), f"killed at step {steps}"
        house.db.close()
        if not killed:
            break
    assert steps > 20


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("call", ["pwrite", "fsync"])
@pytest.mark.parametrize("type_", ["csv", "jsonl"])
def test_a_failed_write_is_tried_again(
    type_: str, call: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = House(tmp_path, type_)
    monkeypatch.setattr(loop, "RETRY_SECONDS", 0.0)
    real = getattr(os, call)
    with closing(house.appender()) as appender:
        settle(appender)
        house.add(books(10))
        before = recorded(house)

        def failing(*arguments: Any) -> Any:
            if call == "pwrite":
                real(arguments[0], b"torn", arguments[2])
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(os, call, failing)
        for _ in range(3):
            assert appender.run_turn() is not TurnResult.IDLE
            assert recorded(house).cursor in (before.cursor, rows.last_id(house.db, 1))
        assert os.strerror(code) in appender._heartbeat.problem
        assert recorded(house).bytes == before.bytes
        inode = house.path().stat().st_ino
        monkeypatch.setattr(os, call, real)
        settle(appender)
        assert house.found() == house.expected()
        assert (house.path().stat().st_ino != inode) == (code == errno.EIO)
    assert not house.behind()


def test_one_failing_output_does_not_hold_the_others(tmp_path: Path) -> None:
    house = House(tmp_path, "csv", ("book", "author"))
    house.declare("author", path=tmp_path / "file" / "author.csv")
    (tmp_path / "file").write_text("no folder")
    house.add(books(5), "author")
    house.add(books(5), "book")
    with closing(house.appender()) as appender:
        while appender.run_turn() is not TurnResult.BLOCKED:
            pass
        assert house.found("book") == house.expected("book")
        assert house.behind()


def test_a_full_database_disk_holds_and_goes_on(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.add(books(10))
    real = outputs.advance

    def full(*_: Any, **__: Any) -> None:
        raise DatabaseBusy("crawl.db: database or disk is full", "Free some space.")

    with closing(house.appender()) as appender:
        settle_until = [appender.run_turn() for _ in range(1)]
        assert settle_until == [TurnResult.MORE]
        monkeypatch.setattr(outputs, "advance", full)
        for _ in range(3):
            with pytest.raises(DatabaseBusy):
                appender.run_turn()
        monkeypatch.setattr(outputs, "advance", real)
        settle(appender)
    assert house.found() == house.expected()


def test_an_appender_whose_supervisor_ended_writes_nothing(house: House) -> None:
    with closing(house.appender()) as appender:
        settle(appender)
        before = recorded(house)
        with house.db.transaction():
            supervisors.begin(house.db, "next", house.run.seq, 1.0)
        house.add(books(5))
        with pytest.raises(Fenced):
            appender.run_turn()
    assert recorded(house) == before
    assert house.found() == []


def test_a_fence_that_falls_during_a_write_records_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.add(books(5))
    real = rows.list_after
    with closing(house.appender()) as appender:
        appender.run_turn()
        before = recorded(house)

        def after(*arguments: Any) -> Any:
            with house.db.transaction():
                supervisors.begin(house.db, "next", house.run.seq, 1.0)
            return real(*arguments)

        monkeypatch.setattr(rows, "list_after", after)
        with pytest.raises(Fenced):
            appender.run_turn()
    assert recorded(house) == before
    monkeypatch.setattr(rows, "list_after", real)
    house.supervisor = 2
    house.drain()
    assert house.found() == house.expected()


def test_memory_is_bounded_by_the_size_of_rows(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "BATCH_CHARACTERS", 20_000)
    monkeypatch.setattr(loop, "FIRST_ROWS", 20)
    house.add([book(i, title="x" * 1000) for i in range(200)])
    with closing(house.appender()) as appender:
        settle(appender)
        assert appender._batch_limit < 25
    assert house.found() == house.expected()
