"""Doorbells are answered, no data read from the file can execute, and a lost or damaged file is replaced."""

import json
import logging
import pickle
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crawl_engine.queue import QUEUE_FILE, Doorbells, _Consumer, _PostgresStorage, _Storage, discard_queue


class Consumer:
    """A process that answers doorbells, in a thread."""

    def __init__(self, folder: Path, gate: Callable[[], bool] = lambda: True) -> None:
        self.answered = 0
        self.raises = False
        self.should_dequeue = gate
        self.doorbells = Doorbells(folder)
        self.thread = threading.Thread(target=self.doorbells.consume, args=(self,), daemon=True)

    def lease_rung(self) -> None:
        self.answered += 1
        if self.raises:
            raise RuntimeError("an unlucky slice")

    def answers(self, expected: int, seconds: float = 5.0) -> bool:
        """Whether so many doorbells are answered soon."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.answered == expected:
                return True
            time.sleep(0.005)
        return False


@contextmanager
def consuming(folder: Path, gate: Callable[[], bool] = lambda: True) -> Iterator[Consumer]:
    consumer = Consumer(folder, gate)
    consumer.thread.start()
    deadline = time.monotonic() + 5
    while consumer.doorbells._consumer is None and time.monotonic() < deadline:
        time.sleep(0.001)
    try:
        yield consumer
    finally:
        consumer.doorbells.stop()
        consumer.thread.join(5)
        consumer.doorbells.close()


def _messages(folder: Path) -> list[bytes]:
    with sqlite3.connect(folder / QUEUE_FILE) as db:
        return [bytes(row[0]) for row in db.execute("SELECT data FROM task ORDER BY id")]


def _insert(folder: Path, data: bytes) -> None:
    with sqlite3.connect(folder / QUEUE_FILE) as db:
        name = db.execute("SELECT queue FROM task LIMIT 1").fetchone() or ("crawl",)
        db.execute("INSERT INTO task (queue, data, priority) VALUES (?, ?, 0)", (name[0], data))


def test_a_doorbell_is_answered(tmp_path: Path) -> None:
    with consuming(tmp_path) as node:
        Doorbells(tmp_path).ring()
        assert node.answers(1)
        node.doorbells.ring()
        assert node.answers(2)


def test_one_doorbell_waits_at_most(tmp_path: Path) -> None:
    for _ in range(20):
        Doorbells(tmp_path).ring()
    assert len(_messages(tmp_path)) == 1


def test_each_doorbell_is_answered_by_one_node(tmp_path: Path) -> None:
    doorbells = Doorbells(tmp_path)
    with consuming(tmp_path) as one, consuming(tmp_path) as two:
        for count in range(1, 20):
            doorbells.ring()
            deadline = time.monotonic() + 5
            while one.answered + two.answered < count and time.monotonic() < deadline:
                time.sleep(0.005)
            assert one.answered + two.answered == count


def test_a_message_is_json_and_names_its_task_only(tmp_path: Path) -> None:
    doorbells = Doorbells(tmp_path)
    assert doorbells.has_pending() is False
    doorbells.ring()
    assert doorbells.has_pending() is True
    (message,) = _messages(tmp_path)
    parts = json.loads(message)
    assert any(isinstance(part, str) and part.endswith("crawl_slice") for part in parts)
    assert [part for part in parts if isinstance(part, list | dict)] == [[], {}]
    assert (tmp_path / QUEUE_FILE).stat().st_mode & 0o777 == 0o600


class _Harm:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.write_text, (Path(self.path), "harm"))


def test_no_data_read_from_the_file_can_execute(tmp_path: Path) -> None:
    target = tmp_path / "harm"
    Doorbells(tmp_path)
    _insert(tmp_path, pickle.dumps(_Harm(str(target))))
    _insert(tmp_path, b"not a message at all")
    _insert(tmp_path, b'["x","no_such_task",null,[],{}]')
    _insert(tmp_path, b"{}")
    Doorbells(tmp_path)._crawl_slice()
    with consuming(tmp_path) as node:
        assert node.answers(1), "the next doorbell is still answered"
    assert not target.exists()


def test_a_slice_that_raises_does_not_stop_the_next(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    with consuming(tmp_path) as node:
        for count in (1, 2):
            node.raises = count == 1
            Doorbells(tmp_path).ring()
            assert node.answers(count)


def test_a_closed_gate_leaves_doorbells_to_others(tmp_path: Path) -> None:
    open_ = threading.Event()
    doorbells = Doorbells(tmp_path)
    doorbells.ring()
    with consuming(tmp_path, gate=open_.is_set) as node:
        time.sleep(0.15)
        assert node.answered == 0
        assert len(_messages(tmp_path)) == 1
        open_.set()
        node.doorbells.wake()
        assert node.answers(1)
    assert doorbells.has_pending() is False


def test_a_wakeup_polls_at_once(tmp_path: Path) -> None:
    with consuming(tmp_path) as node:
        time.sleep(0.1)
        waits = []
        for i in range(20):
            started = time.monotonic()
            node.doorbells.ring()
            assert node.answers(i + 1)
            waits.append(time.monotonic() - started)
        assert sorted(waits)[10] < 0.1


@pytest.mark.parametrize("how", ["replaced", "damaged"])
def test_a_replaced_or_damaged_queue_recovers_while_nodes_consume(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    supervisor = Doorbells(tmp_path)
    with consuming(tmp_path) as node:
        supervisor.ring()
        assert node.answers(1)
        assert supervisor.has_pending() is not None
        if how == "damaged":
            with (tmp_path / QUEUE_FILE).open("r+b") as file:
                file.write(b"\xa5" * file.seek(0, 2) or b"")
                file.seek(0)
                file.write(b"\xa5" * 8192)
            (tmp_path / (QUEUE_FILE + "-wal")).write_bytes(b"")
        supervisor.close()
        discard_queue(tmp_path)
        supervisor = Doorbells(tmp_path)
        supervisor.ring()
        assert node.answers(2)
        node.doorbells.ring()
        assert node.answers(3)
    supervisor.close()


def test_a_missing_or_replaced_file_has_no_known_state(tmp_path: Path) -> None:
    doorbells = Doorbells(tmp_path)
    assert doorbells.has_pending() is False
    discard_queue(tmp_path)
    assert doorbells.has_pending() is None
    other = Doorbells(tmp_path)
    assert doorbells.has_pending() is None, "another file has its name"
    assert other.has_pending() is False
    discard_queue(tmp_path)
    (tmp_path / QUEUE_FILE).write_bytes(b"not a database" * 1000)
    assert other.has_pending() is None
    other.close()
    assert other.has_pending() is None, "it cannot be opened"
    discard_queue(tmp_path)
    (tmp_path / QUEUE_FILE).mkdir()
    assert other.has_pending() is None


def test_a_doorbell_that_cannot_be_written_is_logged_and_not_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    doorbells = Doorbells(tmp_path)
    with sqlite3.connect(tmp_path / QUEUE_FILE) as db:
        db.execute("DROP TABLE task")
    doorbells.ring()
    assert "doorbell lost" in caplog.text


def test_discard_deletes_everything_and_may_be_repeated(tmp_path: Path) -> None:
    Doorbells(tmp_path).ring()
    for _ in range(2):
        discard_queue(tmp_path)
        assert list(tmp_path.iterdir()) == []


def test_a_consumer_stops_within_two_seconds_and_leaves_doorbells_for_others(tmp_path: Path) -> None:
    with consuming(tmp_path) as node:
        node.doorbells.ring()
        assert node.answers(1)
        started = time.monotonic()
        node.doorbells.stop()
        node.thread.join(4)
        assert not node.thread.is_alive()
        assert time.monotonic() - started < 2.0
        Doorbells(tmp_path).ring()
        time.sleep(0.05)
        assert node.answered == 1
    assert len(_messages(tmp_path)) == 1


def test_stop_may_be_repeated(tmp_path: Path) -> None:
    with consuming(tmp_path) as node:
        node.doorbells.stop()
        node.doorbells.stop()
        node.thread.join(4)
        node.doorbells.stop()
        assert not node.thread.is_alive()


def test_a_stop_before_consuming_takes_effect(tmp_path: Path) -> None:
    consumer = Consumer(tmp_path)
    consumer.doorbells.stop()
    consumer.thread.start()
    try:
        consumer.thread.join(1)
        assert not consumer.thread.is_alive()
    finally:
        consumer.doorbells.stop()
        consumer.thread.join(4)


@pytest.mark.parametrize(
    ("kind", "hook"),
    [
        (_Storage, "_create_connection"),
        (_Storage, "conn"),
        (_Consumer, "_set_signal_handlers"),
        (_PostgresStorage, "_create_connection"),
        (_PostgresStorage, "flush_queue"),
    ],
)
def test_the_hooks_of_huey_that_are_overridden_exist(kind: type, hook: str) -> None:
    """They are not public: a Huey that renames one would ignore the override without an error."""
    assert hasattr(kind.__bases__[-1], hook)


def test_huey_keeps_its_connection_where_it_is_reset_after_damage(tmp_path: Path) -> None:
    storage = Doorbells(tmp_path)._huey.storage
    storage.sql("SELECT 1")
    assert storage._conn is storage.conn
