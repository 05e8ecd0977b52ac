"""What every output must keep, whatever its type: the same rows out as in, through any loss, kill or replacement."""

import errno
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from appender_house import COLUMNS, House, settle

from engine.append import appender as loop
from engine.append import sqlite as sqlite_output
from engine.append.appender import Turn
from engine.beats import read_beat
from engine.errors import CrawlError, Fenced
from engine.store import nodes, outputs, rows, supervisors
from engine.store.connector import Busy, Database
from engine.store.schema import CRAWL

TYPES = ("csv", "jsonl", "sqlite")


@pytest.fixture(params=TYPES)
def house(request: pytest.FixtureRequest, tmp_path: Path) -> House:
    return House(tmp_path, request.param)


def book(number: int, **more: Any) -> dict[str, Any]:
    """A row with every kind of value and every character that a format might stumble over."""
    return {
        "title": f'Book {number}, "née" | ; \t\r\nnext line ☃ \U0001f600',
        "price": Decimal(f"{number}.50"),
        "stock": number % 2 == 0,
        "tags": ["a", f"t{number}"],
        "parts": [{"n": 1, "weight": Decimal("0.10"), "name": 'x"y'}],
        **more,
    }


def books(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [book(start + i) for i in range(count)]


def test_rows_come_out_as_they_went_in(house: House) -> None:
    house.add(books(50))
    house.add([{"title": "", "price": None, "stock": False, "tags": [], "parts": None}, {"title": "only"}])
    house.drain()
    assert house.found() == house.expected()


def test_a_file_stands_before_the_first_row(house: House) -> None:
    with closing(house.appender()) as appender:
        settle(appender)
    assert house.path().exists()
    assert house.found() == []
    if house.type == "csv":
        assert house.path().read_bytes() == b"title,price,stock,tags,parts\r\n"


def test_files_are_for_their_owner_alone(house: House) -> None:
    house.drain()
    assert house.path().stat().st_mode & 0o777 == 0o600
    assert house.path().parent.stat().st_mode & 0o777 == 0o700


def test_each_data_def_has_its_own_output(tmp_path: Path) -> None:
    house = House(tmp_path, "csv", ("book", "author", "empty"))
    for i in range(20):
        house.add([book(i)], "book")
        house.add([book(i), book(i + 1)], "author")
    house.drain()
    assert [len(house.found(name)) for name in ("book", "author", "empty")] == [20, 40, 0]
    assert all(house.found(name) == house.expected(name) for name in ("book", "author"))


def test_rows_of_other_runs_stay_out(house: House) -> None:
    house.add(books(3))
    with house.db.transaction():
        house.db.execute("UPDATE runs SET id = 'older' WHERE seq = 1")
        house.db.execute("INSERT INTO runs (id, created_at) VALUES ('newer', 1)")
    house.run = type(house.run)(2, "newer", *[getattr(house.run, n) for n in list(house.run.__slots__)[2:]])
    house.truth["book"].clear()
    house.declare("book")
    house.add(books(2, start=70))
    house.drain()
    assert house.found() == house.expected()
    assert len(house.found()) == 2


def test_what_lies_behind_the_record_is_cut_off(house: House) -> None:
    house.add(books(40))
    house.drain()
    size = recorded(house).bytes
    torn = house.path().read_bytes()[: size // 2] if house.type != "sqlite" else b""
    if house.type == "sqlite":
        with closing(Database.open(house.path())) as db, db.transaction():
            db.execute("INSERT INTO book (_id, title) VALUES (100000, 'not recorded')")
            db.execute("UPDATE _crawl_console SET cursor = 100000, rows = rows + 1")
    else:
        with house.path().open("ab") as file:
            file.write(torn)
    house.add(books(3, start=90))
    house.drain()
    assert house.found() == house.expected()


@pytest.mark.parametrize("kept", [0.0, 0.001, 0.37, 0.8, 0.999])
def test_a_file_cut_at_any_byte_is_made_again(house: House, kept: float) -> None:
    house.add(books(30))
    house.drain()
    os.truncate(house.path(), int(house.path().stat().st_size * kept))
    house.add(books(3, start=90))
    house.drain()
    assert house.found() == house.expected()


def test_a_file_cut_while_it_is_written_is_made_again(tmp_path: Path) -> None:
    house = House(tmp_path, "csv")
    with closing(house.appender()) as appender:
        for cut in range(0, 400, 13):
            house.add([book(cut)])
            settle(appender)
            os.truncate(house.path(), min(cut, house.path().stat().st_size - 1))
        settle(appender)
    assert house.found() == house.expected()


def test_a_missing_file_is_made_again(house: House) -> None:
    house.add(books(10))
    with closing(house.appender()) as appender:
        settle(appender)
        house.path().unlink()
        house.add(books(2, start=50))
        settle(appender)
        assert house.found() == house.expected()
        shutil.rmtree(house.path().parent)
        settle(appender)
        assert house.found() == house.expected()
    house.path().unlink()
    house.drain()
    assert house.found() == house.expected()


def test_another_file_under_the_name_is_replaced(house: House) -> None:
    house.add(books(10))
    house.drain()
    house.path().unlink()
    house.path().write_bytes(b"not what was written here, and longer than it\n" * 3000)
    house.drain()
    assert house.found() == house.expected()


def test_a_file_of_before_the_run_is_replaced(house: House) -> None:
    house.path().parent.mkdir(parents=True)
    house.path().write_bytes(b"from yesterday\n" * 100)
    house.add(books(2))
    house.drain()
    assert house.found() == house.expected()


def test_replaced_rows_leave_the_file(house: House) -> None:
    first = house.add(books(20))
    second = house.add(books(20, start=20))
    with closing(house.appender()) as appender:
        settle(appender)
        house.add(books(15, start=100), job=first)
        house.add([], job=second)
        settle(appender)
        assert house.found() == house.expected()
    assert not house.behind()


def test_rows_replaced_while_they_are_written_leave_the_file(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    job = house.add(books(5))
    replaced: list[int] = []
    real = rows.after

    def after(db: Database, run: int, cursor: int, limit: int) -> list[tuple[int, int, str]]:
        batch = real(db, run, cursor, limit)
        if batch and not replaced:
            replaced.append(house.add(books(5, start=50), job=job))
        return batch

    monkeypatch.setattr(rows, "after", after)
    house.drain()
    assert replaced
    assert house.found() == house.expected()


def test_rows_replaced_during_a_rebuild_leave_the_file(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    job, other = house.add(books(5)), house.add(books(5, start=20))
    replaced: list[int] = []
    real = rows.of_data_def

    def of_data_def(db: Database, run: int, name: str, cursor: int, limit: int) -> list[tuple[int, str]]:
        batch = real(db, run, name, cursor, limit)
        if batch and not replaced:
            replaced.append(house.add(books(2, start=70), job=other))
        return batch

    with closing(house.appender()) as appender:
        settle(appender)
        house.add(books(5, start=50), job=job)
        monkeypatch.setattr(rows, "of_data_def", of_data_def)
        settle(appender)
    assert replaced
    assert house.found() == house.expected()
    assert not house.behind()


def test_other_columns_make_the_file_anew(house: House) -> None:
    house.add(books(10))
    with closing(house.appender()) as appender:
        settle(appender)
        house.declare("book", ("title", "stock"))
        house.add(books(10, start=10))
        appender.turn()
        settle(appender)
        assert house.found(columns=("title", "stock")) == house.expected(columns=("title", "stock"))
    house.declare("book", ("stock", "title", "new"))
    house.drain()
    assert house.found(columns=("stock", "title", "new")) == house.expected(columns=("stock", "title", "new"))


def test_an_output_declared_later_has_all_rows(house: House, tmp_path: Path) -> None:
    house.add(books(10))
    with closing(house.appender()) as appender:
        settle(appender)
        path = tmp_path / "elsewhere" / house.path().name
        settings = {"columns": list(COLUMNS), "joins": {"tags": ";"}, "delimiter": ","}
        with house.db.transaction():
            outputs.ensure(
                house.db, 1, appender="copy", type_=house.type, data_def="book", path=str(path), settings=settings
            )
        house.add(books(3, start=10))
        settle(appender)
    assert house.found() == house.expected()
    shutil.copy(path, house.path())
    assert house.found() == house.expected()


def test_two_outputs_of_one_path_are_refused(tmp_path: Path) -> None:
    house = House(tmp_path, "csv", ("book", "author"))
    house.declare("author", path=house.path("book"))
    with closing(house.appender()) as appender, pytest.raises(CrawlError, match="both book and author"):
        settle(appender)


def test_tables_of_one_database_live_together(tmp_path: Path) -> None:
    house = House(tmp_path, "sqlite", ("book", "author"))
    house.declare("author", path=house.path("book"))
    job = house.add(books(5), "book")
    house.add(books(7), "author")
    with closing(house.appender()) as appender:
        settle(appender)
        house.add(books(2, start=30), "book", job=job)
        settle(appender)
    shutil.copy(house.path("book"), house.path("author"))
    assert house.found("book") == house.expected("book")
    assert house.found("author") == house.expected("author")


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
        try:
            appender = house.appender(db=fragile.open(folder / CRAWL))
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
    monkeypatch.setattr(loop, "RETRY", 0.0)
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
            assert appender.turn() is not Turn.IDLE
            assert recorded(house).cursor in (before.cursor, rows.last(house.db, 1))
        assert os.strerror(code) in appender._pulse.trouble
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
        while appender.turn() is not Turn.HELD:
            pass
        assert house.found("book") == house.expected("book")
        assert house.behind()


def test_a_full_database_disk_holds_and_goes_on(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.add(books(10))
    real = outputs.advance

    def full(*_: Any, **__: Any) -> None:
        raise Busy("crawl.db: database or disk is full", "Free some space.")

    with closing(house.appender()) as appender:
        settle_until = [appender.turn() for _ in range(1)]
        assert settle_until == [Turn.MORE]
        monkeypatch.setattr(outputs, "advance", full)
        for _ in range(3):
            with pytest.raises(Busy):
                appender.turn()
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
            appender.turn()
    assert recorded(house) == before
    assert house.found() == []


def test_a_fence_that_falls_during_a_write_records_nothing(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.add(books(5))
    real = rows.after
    with closing(house.appender()) as appender:
        appender.turn()
        before = recorded(house)

        def after(*arguments: Any) -> Any:
            with house.db.transaction():
                supervisors.begin(house.db, "next", house.run.seq, 1.0)
            return real(*arguments)

        monkeypatch.setattr(rows, "after", after)
        with pytest.raises(Fenced):
            appender.turn()
    assert recorded(house) == before
    monkeypatch.setattr(rows, "after", real)
    house.supervisor = 2
    house.drain()
    assert house.found() == house.expected()


def test_memory_is_bounded_by_the_size_of_rows(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "BATCH_CHARACTERS", 20_000)
    monkeypatch.setattr(loop, "FIRST_ROWS", 20)
    house.add([book(i, title="x" * 1000) for i in range(200)])
    with closing(house.appender()) as appender:
        settle(appender)
        assert appender._limit < 25
    assert house.found() == house.expected()


# real processes


@pytest.fixture
def spawned(house: House) -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate()


def test_kills_at_random_moments_lose_and_double_nothing(house: House, spawned: list[subprocess.Popen[bytes]]) -> None:
    dice = random.Random(f"kill {house.type}")
    enough = threading.Event()
    errors: list[BaseException] = []

    def work() -> None:
        db, house.db = house.db, Database.open(house.folder / CRAWL)
        try:
            jobs: list[int] = []
            while not enough.is_set():
                again = dice.choice(jobs) if jobs and dice.random() < 0.2 else None
                jobs.append(house.add(books(dice.randrange(60), start=len(jobs)), job=again))
                time.sleep(dice.uniform(0, 0.01))
        except BaseException as error:
            errors.append(error)
        finally:
            house.db, _ = db, house.db.close()

    worker = threading.Thread(target=work)
    # the worker owns a connection of its own; this thread only asks for epochs, through another
    mine = Database.open(house.folder / CRAWL)
    epochs = []
    for _ in range(6):
        with mine.transaction():
            epochs.append(nodes.insert_appender(mine, house.run.seq, house.supervisor, 0.0))
    house.epoch = lambda: epochs.pop(0)  # type: ignore[method-assign]
    worker.start()
    try:
        for _ in range(5):
            process = house.spawn()
            spawned.append(process)
            time.sleep(dice.uniform(0.3, 0.9))
            process.send_signal(signal.SIGKILL)
            process.wait()
    finally:
        enough.set()
        worker.join()
    assert not errors
    last = house.spawn()
    spawned.append(last)
    last.send_signal(signal.SIGTERM) if started(house, 6) else None
    assert last.wait(timeout=30) == 0, house.log()
    assert house.found() == house.expected()
    assert not house.behind()
    mine.close()


def test_a_drain_writes_everything_and_ends(house: House, spawned: list[subprocess.Popen[bytes]]) -> None:
    job = house.add(books(100))
    process = house.spawn()
    spawned.append(process)
    assert started(house, 1)
    house.add(books(100, start=500), job=job)
    house.add(books(2000, start=1000))
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGHUP)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=20) == 0, house.log()
    assert house.found() == house.expected()
    assert not house.behind()
    beat = read_beat(house.folder / "beats" / "a1")
    assert beat is not None
    assert beat.state == "SHUTDOWN"
    assert beat.rows >= 2100
    assert os.readlink(house.folder / "output" / "latest") == house.run.id


def test_the_end_of_the_lifeline_ends_it(house: House, spawned: list[subprocess.Popen[bytes]]) -> None:
    process = house.spawn()
    spawned.append(process)
    assert started(house, 1)
    began = time.monotonic()
    assert process.stdin
    process.stdin.close()
    assert process.wait(timeout=5) == 0
    assert time.monotonic() - began < 3
    house.add(books(3))
    house.drain()
    assert house.found() == house.expected()


def test_a_process_whose_epoch_is_over_ends_with_3(house: House, spawned: list[subprocess.Popen[bytes]]) -> None:
    with house.db.transaction():
        supervisors.end(house.db, house.supervisor, 1.0)
    process = house.spawn()
    spawned.append(process)
    assert process.wait(timeout=10) == 3
    assert "epoch is over" in house.log()
    assert "Traceback" not in house.log()


def test_a_new_one_waits_until_the_old_is_gone(house: House, spawned: list[subprocess.Popen[bytes]]) -> None:
    house.add(books(10))
    old = house.spawn()
    spawned.append(old)
    assert started(house, 1)
    old.send_signal(signal.SIGSTOP)
    new = house.spawn()
    spawned.append(new)
    waits = house.folder / "beats" / "a2"
    assert until(lambda: (beat := read_beat(waits)) is not None and beat.number > 3)
    beat = read_beat(waits)
    assert beat is not None
    assert beat.state == "STARTING"
    house.add(books(10, start=50))
    old.send_signal(signal.SIGKILL)
    assert until(lambda: not house.behind())
    assert house.found() == house.expected()
    new.send_signal(signal.SIGTERM)
    assert new.wait(timeout=10) == 0


def started(house: House, epoch: int) -> bool:
    """Wait for the appender's first look at its outputs."""
    beat = house.folder / "beats" / f"a{epoch}"
    return until(lambda: (told := read_beat(beat)) is not None and told.state in ("READY", "DONE", "DRAINING"))


def until(condition: Any, seconds: float = 15.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def recorded(house: House) -> outputs.Output:
    return outputs.listed(house.db, house.run.seq)[0]
