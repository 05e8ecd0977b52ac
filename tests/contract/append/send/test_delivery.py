"""Delivery to a plugin appender: at least once, in order, no id with two contents, whatever is killed when."""

import json
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from crawl_engine.append.loop.turns import TurnResult
from crawl_engine.append.send import delivery as delivery_module
from crawl_engine.append.send.class_process import ClassProcess
from crawl_engine.append.send.delivery_batch import DeliveryBatch, build_batch, read_changes
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.db.sqlite import SqliteDatabase
from crawl_engine.store.tables.output import deliveries, outputs
from crawl_engine.store.tables.row import rows
from crawl_engine.store.tables.run import nodes
from tests.contract.append.harness import COLUMNS, books, wait_started
from tests.contract.append.send.class_harness import ClassHarness, run_until_delivered
from tests.templates import SupervisedProcess, children_of, template_pid


@pytest.fixture
def harness(tmp_path: Path) -> ClassHarness:
    return ClassHarness(tmp_path)


def test_rows_are_delivered_once_and_in_order(harness: ClassHarness) -> None:
    harness.add(books(250))
    harness.deliver()
    ids = [change[0] for batch in harness.batches() for change in batch]
    assert ids == sorted(harness.stored_rows())
    assert harness.sink_rows() == harness.stored_rows()
    assert max(map(len, harness.batches())) == delivery_module.BATCH_ROWS
    assert harness.output("sink").rows == 250
    assert (harness.folder / "batches.jsonl").read_text().endswith('"closed"\n')


def test_a_delivered_row_that_is_taken_back_is_deleted_before_the_rows_that_follow(harness: ClassHarness) -> None:
    first = harness.add(books(3))
    harness.add(books(2, start=10))
    with closing(harness.delivery_loop()) as loop:
        run_until_delivered(loop)
        harness.add(books(2, start=20), job=first)
        assert outputs.find_backlog(harness.db, 1, 5) is not None
        run_until_delivered(loop)
    changes = [(id_, has_row) for batch in harness.batches() for id_, has_row in batch]
    assert changes[5:] == [(1, False), (2, False), (3, False), (6, True), (7, True)]
    assert harness.sink_rows() == harness.stored_rows()
    assert harness.output("sink").rows == 4
    assert deliveries.list_withdrawals(harness.db, 1, 0, 10) == []


def test_a_row_that_is_taken_back_before_it_is_delivered_leaves_no_trace(harness: ClassHarness) -> None:
    first = harness.add(books(3))
    harness.add([], job=first)
    harness.add(books(1))
    harness.deliver()
    assert harness.batches() == [[[4, True]]]


def test_a_failed_batch_is_sent_again_as_it_was(harness: ClassHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawl_engine.append.loop.turns.RETRY_SECONDS", 0.0)
    fail = harness.folder / "batches.jsonl.fail"
    job = harness.add(books(3))
    fail.touch()
    with closing(harness.delivery_loop()) as loop:
        assert loop.run_turn() is TurnResult.BLOCKED
        error = harness.output("sink").error
        assert error == "ValueError: the sink is full (plugins/out.py:14)"
        harness.add(books(1, start=9), job=job)
        fail.unlink()
        run_until_delivered(loop)
    assert harness.output("sink").error is None
    assert harness.batches() == [[[1, True], [2, True], [3, True]], [[1, False], [2, False], [3, False], [4, True]]]
    assert harness.sink_rows() == harness.stored_rows()
    assert harness.output("sink").rows == 1


class Killed(BaseException):
    """Stands for the end of the appender process."""


@pytest.mark.parametrize("taken_back", [1, 2, 3])
def test_rows_that_are_taken_back_after_a_crash_follow_as_deleted(
    harness: ClassHarness, taken_back: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batch was delivered, and not acknowledged: the rows that are left come again, then the deletion."""
    jobs = [harness.add(books(1, start=i)) for i in range(3)]
    ask = ClassProcess.ask

    def crash(self: ClassProcess, *arguments: Any) -> bytes:
        ask(self, *arguments)
        raise Killed

    with monkeypatch.context() as patch, closing(harness.delivery_loop()) as loop:
        patch.setattr(ClassProcess, "ask", crash)
        with pytest.raises(Killed):
            loop.run_turn()
    assert harness.batches() == [[[1, True], [2, True], [3, True]]]
    harness.add([], job=jobs[taken_back - 1])
    harness.deliver()
    left = [[id_, True] for id_ in (1, 2, 3) if id_ != taken_back]
    assert [change for batch in harness.batches()[1:] for change in batch] == [*left, [taken_back, False]]
    harness.assert_contents_stable()
    assert harness.sink_rows() == harness.stored_rows()
    assert len(harness.stored_rows()) == 2
    assert harness.output("sink").rows == 2


@pytest.mark.sweep
def test_a_kill_at_any_step_loses_nothing_and_changes_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after each commit of the loop, and each request to the class."""
    left = -1

    def is_due() -> bool:
        nonlocal left
        left -= 1
        return left == 0

    execute, ask = SqliteDatabase.execute, ClassProcess.ask

    class Fragile(SqliteDatabase):
        def execute(self, sql: str, parameters: Any = ()) -> Any:
            if sql != "COMMIT":
                return execute(self, sql, parameters)
            if is_due():
                raise Killed
            result = execute(self, sql, parameters)
            if is_due():
                raise Killed
            return result

    def fragile_ask(self: ClassProcess, *arguments: Any) -> bytes:
        if is_due():
            raise Killed
        answer = ask(self, *arguments)
        if is_due():
            raise Killed
        return answer

    monkeypatch.setattr(ClassProcess, "ask", fragile_ask)
    steps = 0
    while True:
        steps += 1
        folder = tmp_path / str(steps)
        folder.mkdir()
        harness = ClassHarness(folder)
        jobs = [harness.add(books(2, start=10 * i)) for i in range(3)]
        left = steps
        killed = False
        with closing(harness.delivery_loop(Fragile.open(folder / CRAWL))) as loop:
            try:
                run_until_delivered(loop)
                harness.add(books(2, start=40), job=jobs[1])
                run_until_delivered(loop)
            except Killed:
                killed = True
            left = -1
        harness.add(books(1, start=50), job=jobs[0])
        harness.deliver()
        assert harness.sink_rows() == harness.stored_rows(), f"killed at step {steps}"
        assert harness.output("sink").rows == len(harness.stored_rows())
        harness.assert_contents_stable()
        harness.db.close()
        if not killed:
            break
    assert steps > 10


def test_an_appender_that_is_removed_and_named_again_continues(harness: ClassHarness) -> None:
    harness.add(books(3))
    harness.deliver()
    with harness.db.transaction():
        outputs.prune(harness.db, harness.run.seq, [])
    harness.publish()
    harness.add(books(1, start=9))
    harness.deliver()
    assert [[change[0] for change in batch] for batch in harness.batches()] == [[1, 2, 3], [4]]


def test_new_code_gets_the_next_rows_and_none_again(harness: ClassHarness) -> None:
    harness.add(books(3))
    with closing(harness.delivery_loop()) as loop:
        run_until_delivered(loop)
        harness.publish(harness.source.replace('change["row"]["title"]', '"new"'))
        assert not harness.output("sink").dirty
        harness.add(books(1, start=9))
        run_until_delivered(loop)
    assert list(harness.sink_rows().values())[:3] == list(harness.stored_rows().values())[:3]
    assert harness.sink_rows()[4] == "new"


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.sweep) for n in range(1, 20))])
def test_kills_at_random_moments_lose_and_double_nothing(tmp_path: Path, seed: int) -> None:
    """Of the appender process and of the processes of the classes, while rows are added and replaced."""
    rng = random.Random(seed)
    harness = ClassHarness(tmp_path, ("book", "author"))
    stop = threading.Event()
    errors: list[BaseException] = []

    def work() -> None:
        jobs: list[tuple[str, int]] = []
        try:
            while not stop.is_set():
                name, again = rng.choice(jobs) if jobs and rng.random() < 0.2 else (rng.choice(harness.names), None)
                job = harness.add(books(rng.randrange(30), start=len(jobs)), name, job=again)
                jobs.append((name, job))
                time.sleep(rng.uniform(0, 0.01))
        except BaseException as error:
            errors.append(error)

    own_db = connect(tmp_path / CRAWL)
    epochs = []
    for _ in range(12):
        with own_db.transaction():
            epochs.append(nodes.insert_appender(own_db, harness.run.seq, harness.supervisor, 0.0))
    own_db.close()
    harness.epoch = lambda: epochs.pop(0)  # type: ignore[method-assign]
    worker = threading.Thread(target=lambda: _with_db(harness, work))
    spawned: list[SupervisedProcess] = []
    worker.start()
    try:
        process = harness.spawn()
        spawned.append(process)
        for _ in range(10):
            time.sleep(rng.uniform(0.2, 0.9))
            victims = children_of(template_pid())
            if victims and rng.random() < 0.5:
                os.kill(rng.choice(victims), signal.SIGKILL)
                continue
            process.send_signal(signal.SIGKILL)
            process.wait()
            process = harness.spawn()
            spawned.append(process)
        stop.set()
        worker.join()
        assert not errors
        assert wait_started(harness, 12 - len(epochs))
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0, harness.log()
    finally:
        stop.set()
        worker.join()
        for process in spawned:
            process.kill()
    harness.db = connect(tmp_path / CRAWL)
    assert outputs.find_backlog(harness.db, 1, rows.last_id(harness.db, 1)) is None, harness.log()
    for name in harness.names:
        assert harness.sink_rows(name) == harness.stored_rows(name)
        expected = "".join(f"<{row['title']}|{row['price']!r}>" for row in stored_books(harness, name))
        content = Path(harness.output("lines", name).path).read_bytes().decode()
        assert content == " ".join(COLUMNS) + "\n" + expected
    harness.assert_contents_stable()


def stored_books(harness: ClassHarness, name: str) -> Iterator[dict[str, Any]]:
    for _, text in rows.list_by_data_def(harness.db, harness.run.seq, name, 0, 1_000_000):
        yield json.loads(text, parse_float=Decimal)


def _with_db(harness: ClassHarness, work: Any) -> None:
    harness.db.close()
    harness.db = connect(harness.folder / CRAWL)
    try:
        work()
    finally:
        harness.db.close()


def test_a_withdrawal_is_a_change_of_a_batch(harness: ClassHarness) -> None:
    job = harness.add(books(2))
    harness.deliver()
    harness.add(books(1, start=7), job=job)
    delivery = deliveries.get(harness.db, harness.run.seq, "sink", "book")
    assert delivery is not None
    changes = read_changes(harness.db, harness.run.seq, delivery, "book", 100)
    batch = build_batch("r", "book", changes, changes.rows)
    assert [json.loads(line)["id"] for line in batch.lines] == [1, 2, 3]
    assert (batch.rows, batch.row, batch.withdrawal) == ([3], 3, 2)
    assert [change.row for change in build_batch("r", "book", changes, []).changes] == [1, 2]
    first = read_changes(harness.db, harness.run.seq, delivery, "book", 1)
    assert (len(first.rows), len(first.withdrawals)) == (0, 1)


def test_rows_are_offered_before_they_are_sent(harness: ClassHarness) -> None:
    """Another connection sees it while the target has the batch."""
    harness.add(books(3))
    offered = []

    class Looks:
        def deliver(self, sent: DeliveryBatch, data_def: str) -> None:
            offered.append(harness.db.one("SELECT offered, cursor FROM deliveries WHERE data_def = ?", (data_def,)))

        def close(self) -> None: ...

    with closing(harness.delivery_loop()) as loop:
        loop._create_target = lambda *_: Looks()
        run_until_delivered(loop)
    assert offered == [(3, 0)]


def test_parts_of_the_changes_keep_their_order(harness: ClassHarness) -> None:
    """However few are read at once: all parts, one behind another, are the whole."""
    jobs = [harness.add(books(3, start=10 * i)) for i in range(4)]
    harness.deliver()
    for i, job in enumerate([2, 0, 3, 0]):
        harness.add(books(2, start=100 + 10 * i), job=jobs[job])
        harness.add(books(1, start=200 + i))
    delivery = deliveries.get(harness.db, harness.run.seq, "sink", "book")
    assert delivery is not None

    def lines_of(limit: int) -> list[bytes]:
        lines: list[bytes] = []
        at = delivery
        while True:
            changes = read_changes(harness.db, harness.run.seq, at, "book", limit)
            batch = build_batch("r", "book", changes, changes.rows)
            if not batch.lines and changes.row == at.cursor:
                return lines
            lines += batch.lines
            at = replace(at, cursor=changes.row, withdrawal=changes.withdrawal)

    whole = lines_of(1000)
    assert [b"deleted" in line for line in whole].count(True) == 9
    for limit in range(1, 25):
        assert lines_of(limit) == whole, limit
