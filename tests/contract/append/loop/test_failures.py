"""Kills at every step, write errors, and ended epochs: no row is lost, doubled, or recorded too early."""

import errno
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from crawl_engine.append.formats import sqlite as sqlite_output
from crawl_engine.append.loop import turns as retries
from crawl_engine.append.loop.turns import TurnResult
from crawl_engine.errors import Fenced
from crawl_engine.store.db.connector import DatabaseBusy
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.db.sqlite import SqliteDatabase
from crawl_engine.store.tables.output import outputs
from crawl_engine.store.tables.row import rows
from crawl_engine.store.tables.run import supervisors
from tests.contract.append.harness import GROWING, TYPES, Harness, book, books, recorded, run_until_idle
from tests.sample import sampled


@pytest.fixture(params=TYPES)
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    return Harness(tmp_path, request.param)


class Killed(BaseException):
    """Stands for the end of the process."""


class KillAtStep:
    """Raises `Killed` at the n-th disk operation: in the middle of a write, before or after any other."""

    def __init__(self) -> None:
        self.left = -1

    def is_due(self) -> bool:
        self.left -= 1
        return self.left == 0

    def install(self, monkeypatch: pytest.MonkeyPatch) -> type[SqliteDatabase]:
        kill = self
        pwrite, fsync, ftruncate, replace, execute = (
            os.pwrite,
            os.fsync,
            os.ftruncate,
            Path.replace,
            SqliteDatabase.execute,
        )

        def half(file: int, data: bytes, at: int) -> int:
            if kill.is_due():
                pwrite(file, data[: len(data) // 2], at)
                raise Killed
            return pwrite(file, data, at)

        def around(work: Any) -> Any:
            def killed(*arguments: Any) -> Any:
                if kill.is_due():
                    raise Killed
                result = work(*arguments)
                if kill.is_due():
                    raise Killed
                return result

            return killed

        class Fragile(SqliteDatabase):
            def execute(self, sql: str, parameters: Any = ()) -> Any:
                return around(execute)(self, sql, parameters) if sql == "COMMIT" else execute(self, sql, parameters)

        monkeypatch.setattr(os, "pwrite", half)
        monkeypatch.setattr(os, "fsync", around(fsync))
        monkeypatch.setattr(os, "ftruncate", around(ftruncate))
        monkeypatch.setattr(Path, "replace", around(replace))
        monkeypatch.setattr(sqlite_output, "SqliteDatabase", Fragile)
        return Fragile


@pytest.mark.parametrize("type_", sampled(TYPES, TYPES.index("sqlite")))
def test_a_kill_at_any_step_loses_and_doubles_nothing(
    type_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = 0
    kill = KillAtStep()
    fragile = kill.install(monkeypatch)
    while True:
        steps += 1
        folder = tmp_path / str(steps)
        folder.mkdir()
        harness = Harness(folder, type_)
        job = harness.add(books(3))
        kill.left = steps
        killed = False
        with closing(harness.appender(db=fragile.open(folder / CRAWL))) as appender:
            try:
                run_until_idle(appender)
                harness.add(books(3, start=10))
                run_until_idle(appender)
                harness.add(books(2, start=20), job=job)
                run_until_idle(appender)
            except Killed:
                killed = True
            kill.left = -1
        harness.drain()
        assert harness.written() == harness.expected(), f"killed at step {steps}"
        harness.db.close()
        if not killed:
            break
    assert steps > 20


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("call", ["pwrite", "fsync"])
@pytest.mark.parametrize("type_", ["csv", "jsonl"])
def test_a_failed_write_is_retried(
    type_: str, call: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = Harness(tmp_path, type_)
    monkeypatch.setattr(retries, "RETRY_SECONDS", 0.0)
    real = getattr(os, call)
    with closing(harness.appender()) as appender:
        run_until_idle(appender)
        harness.add(books(10))
        before = recorded(harness)

        def failing(*arguments: Any) -> Any:
            if call == "pwrite":
                real(arguments[0], b"torn", arguments[2])
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(os, call, failing)
        for _ in range(3):
            assert appender.run_turn() is not TurnResult.IDLE
            assert recorded(harness).cursor in (before.cursor, rows.last_id(harness.db, 1))
        assert os.strerror(code) in appender.context.monitor.problem
        assert recorded(harness).bytes == before.bytes
        inode = harness.path().stat().st_ino
        monkeypatch.setattr(os, call, real)
        run_until_idle(appender)
        assert harness.written() == harness.expected()
        assert (harness.path().stat().st_ino != inode) == (code == errno.EIO)
    assert not harness.has_backlog()


def test_a_failing_output_does_not_block_the_others(tmp_path: Path) -> None:
    harness = Harness(tmp_path, "csv", ("book", "author"))
    harness.declare("author", path=tmp_path / "file" / "author.csv")
    (tmp_path / "file").write_text("no folder")
    harness.add(books(5), "author")
    harness.add(books(5), "book")
    with closing(harness.appender()) as appender:
        while appender.run_turn() is not TurnResult.BLOCKED:
            pass
        assert harness.written("book") == harness.expected("book")
        assert harness.has_backlog()


@pytest.mark.parametrize("harness", GROWING, indirect=True)
def test_a_full_disk_of_the_database_pauses_the_appender(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.add(books(10))
    real = outputs.advance

    def full(*_: Any, **__: Any) -> None:
        raise DatabaseBusy("crawl.db: database or disk is full", "Free some space.")

    with closing(harness.appender()) as appender:
        turns = [appender.run_turn() for _ in range(1)]
        assert turns == [TurnResult.MORE]
        monkeypatch.setattr(outputs, "advance", full)
        for _ in range(3):
            with pytest.raises(DatabaseBusy):
                appender.run_turn()
        monkeypatch.setattr(outputs, "advance", real)
        run_until_idle(appender)
    assert harness.written() == harness.expected()


def test_an_appender_whose_supervisor_ended_writes_nothing(harness: Harness) -> None:
    with closing(harness.appender()) as appender:
        run_until_idle(appender)
        before = recorded(harness)
        with harness.db.transaction():
            supervisors.begin(harness.db, "next", harness.run.seq, 1.0)
        harness.add(books(5))
        with pytest.raises(Fenced):
            appender.run_turn()
    assert recorded(harness) == before
    assert harness.written() == []


@pytest.mark.parametrize("harness", GROWING, indirect=True)
def test_a_fence_during_a_write_records_nothing(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    harness.add(books(5))
    real = rows.list_after
    with closing(harness.appender()) as appender:
        appender.run_turn()
        before = recorded(harness)

        def after(*arguments: Any) -> Any:
            with harness.db.transaction():
                supervisors.begin(harness.db, "next", harness.run.seq, 1.0)
            return real(*arguments)

        monkeypatch.setattr(rows, "list_after", after)
        with pytest.raises(Fenced):
            appender.run_turn()
    assert recorded(harness) == before
    monkeypatch.setattr(rows, "list_after", real)
    harness.supervisor = 2
    harness.drain()
    assert harness.written() == harness.expected()


def test_memory_is_bounded_by_the_size_of_rows(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawl_engine.append.loop.appender.BATCH_CHARACTERS", 20_000)
    monkeypatch.setattr("crawl_engine.append.loop.appender.FIRST_ROWS", 20)
    harness.add([book(i, title="x" * 1000) for i in range(200)])
    with closing(harness.appender()) as appender:
        run_until_idle(appender)
        assert appender._batch_limit < 25
    assert harness.written() == harness.expected()
