"""Doorbells: what is rung is answered, nothing read from the file can run, and a lost file heals by itself."""

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

from engine.queue import QUEUE_FILE, Doorbells, discard_queue


class Listener:
    """A process that answers rings, in a thread."""

    def __init__(self, folder: Path, gate: Callable[[], bool] = lambda: True, room: int = 1) -> None:
        self.heard: list[int] = []
        self.together: list[int] = []
        self.bells = Doorbells(folder, on_slice=self._answer, gate=gate, capacity=lambda: room)
        self.thread = threading.Thread(target=self.bells.consume, daemon=True)

    def _answer(self, sequences: list[int]) -> None:
        self.together.append(len(sequences))
        self.heard += sequences
        if 13 in sequences:
            raise RuntimeError("an unlucky slice")

    def hears(self, *expected: int, seconds: float = 5.0) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.heard == list(expected):
                return True
            time.sleep(0.005)
        return False


@contextmanager
def listening(folder: Path, gate: Callable[[], bool] = lambda: True, room: int = 1) -> Iterator[Listener]:
    listener = Listener(folder, gate, room)
    listener.thread.start()
    deadline = time.monotonic() + 5
    while listener.bells._consumer is None and time.monotonic() < deadline:
        time.sleep(0.001)
    try:
        yield listener
    finally:
        listener.bells.stop()
        listener.thread.join(5)
        listener.bells.close()


def _messages(folder: Path) -> list[bytes]:
    with sqlite3.connect(folder / QUEUE_FILE) as db:
        return [bytes(row[0]) for row in db.execute("SELECT data FROM task ORDER BY id")]


def _insert(folder: Path, data: bytes) -> None:
    with sqlite3.connect(folder / QUEUE_FILE) as db:
        name = db.execute("SELECT queue FROM task LIMIT 1").fetchone() or ("crawl",)
        db.execute("INSERT INTO task (queue, data, priority) VALUES (?, ?, 0)", (name[0], data))


def test_rings_are_answered_in_order(tmp_path: Path) -> None:
    with listening(tmp_path) as node:
        Doorbells(tmp_path).ring([3, 1, 2, 1])
        assert node.hears(3, 1, 2, 1)
        node.bells.ring([9])
        assert node.hears(3, 1, 2, 1, 9)


def test_rings_that_wait_are_answered_together_as_far_as_there_is_room(tmp_path: Path) -> None:
    Doorbells(tmp_path).ring([*range(40), 5])
    with listening(tmp_path, room=10) as node:
        assert node.hears(*range(40), 5)
        assert node.together == [10, 10, 10, 10, 1]


def test_a_message_nobody_understands_costs_no_other_ring(tmp_path: Path) -> None:
    bells = Doorbells(tmp_path)
    bells.ring([1])
    _insert(tmp_path, b"no message")
    bells.ring([2])
    with listening(tmp_path, room=10) as node:
        assert node.hears(1, 2)


def test_each_ring_is_answered_by_one_node(tmp_path: Path) -> None:
    with listening(tmp_path) as one, listening(tmp_path) as two:
        Doorbells(tmp_path).ring(range(60))
        deadline = time.monotonic() + 10
        while len(one.heard) + len(two.heard) < 60 and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05)
        assert sorted(one.heard + two.heard) == list(range(60))


def test_a_message_is_json_and_says_only_which_sequence(tmp_path: Path) -> None:
    bells = Doorbells(tmp_path)
    assert bells.has_pending() is False
    bells.ring([7])
    assert bells.has_pending() is True
    (message,) = _messages(tmp_path)
    told = json.loads(message)
    assert [7] in told
    assert any(isinstance(part, str) and part.endswith("crawl_slice") for part in told)
    assert (tmp_path / QUEUE_FILE).stat().st_mode & 0o777 == 0o600


class _Harm:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.write_text, (Path(self.path), "harm"))


def test_nothing_that_is_read_from_the_file_can_run(tmp_path: Path) -> None:
    target = tmp_path / "harm"
    Doorbells(tmp_path)
    _insert(tmp_path, pickle.dumps(_Harm(str(target))))
    _insert(tmp_path, b"not a message at all")
    _insert(tmp_path, b'["x","no_such_task",null,[],{}]')
    _insert(tmp_path, b"{}")
    with listening(tmp_path) as node:
        Doorbells(tmp_path).ring([5])
        assert node.hears(5), "the next ring is answered all the same"
    assert not target.exists()


def test_a_slice_that_raises_does_not_stop_the_next(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    with listening(tmp_path) as node:
        Doorbells(tmp_path).ring([13, 4])
        assert node.hears(13, 4)


def test_a_closed_gate_leaves_rings_to_others(tmp_path: Path) -> None:
    open_ = threading.Event()
    bells = Doorbells(tmp_path)
    bells.ring([1])
    with listening(tmp_path, gate=open_.is_set) as node:
        time.sleep(0.15)
        assert node.heard == []
        assert len(_messages(tmp_path)) == 1
        open_.set()
        node.bells.wake()
        assert node.hears(1)
    assert bells.has_pending() is False


def test_a_wake_answers_at_once(tmp_path: Path) -> None:
    with listening(tmp_path) as node:
        time.sleep(0.1)
        waits = []
        for i in range(20):
            began = time.monotonic()
            node.bells.ring([i])
            assert node.hears(*range(i + 1))
            waits.append(time.monotonic() - began)
        assert sorted(waits)[10] < 0.1


@pytest.mark.parametrize("how", ["replaced", "damaged"])
def test_a_queue_that_was_replaced_or_damaged_heals_while_nodes_consume(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    supervisor = Doorbells(tmp_path)
    with listening(tmp_path) as node:
        supervisor.ring([1])
        assert node.hears(1)
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
        supervisor.ring([2])
        assert node.hears(1, 2)
        node.bells.ring([3])
        assert node.hears(1, 2, 3)
    supervisor.close()


def test_of_a_missing_or_foreign_file_nothing_is_said(tmp_path: Path) -> None:
    bells = Doorbells(tmp_path)
    assert bells.has_pending() is False
    discard_queue(tmp_path)
    assert bells.has_pending() is None
    other = Doorbells(tmp_path)
    assert bells.has_pending() is None, "another file has its name now"
    assert other.has_pending() is False
    discard_queue(tmp_path)
    (tmp_path / QUEUE_FILE).write_bytes(b"not a database" * 1000)
    assert other.has_pending() is None
    other.close()
    assert other.has_pending() is None, "it cannot be opened"
    discard_queue(tmp_path)
    (tmp_path / QUEUE_FILE).mkdir()
    assert other.has_pending() is None


def test_a_ring_that_cannot_be_written_is_logged_and_not_raised(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    bells = Doorbells(tmp_path)
    with sqlite3.connect(tmp_path / QUEUE_FILE) as db:
        db.execute("DROP TABLE task")
    bells.ring([1])
    assert "rings lost" in caplog.text


def test_discard_takes_everything_away_and_may_be_repeated(tmp_path: Path) -> None:
    Doorbells(tmp_path).ring([1])
    for _ in range(2):
        discard_queue(tmp_path)
        assert list(tmp_path.iterdir()) == []


def test_a_consumer_stops_within_two_seconds_with_rings_left_for_others(tmp_path: Path) -> None:
    with listening(tmp_path) as node:
        node.bells.ring([1])
        assert node.hears(1)
        began = time.monotonic()
        node.bells.stop()
        node.thread.join(4)
        assert not node.thread.is_alive()
        assert time.monotonic() - began < 2.0
        Doorbells(tmp_path).ring([2])
        time.sleep(0.05)
        assert node.heard == [1]
    assert len(_messages(tmp_path)) == 1


def test_stop_may_be_repeated(tmp_path: Path) -> None:
    with listening(tmp_path) as node:
        node.bells.stop()
        node.bells.stop()
        node.thread.join(4)
        node.bells.stop()
        assert not node.thread.is_alive()


def test_a_stop_before_consuming_is_not_forgotten(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    listener.bells.stop()
    listener.thread.start()
    try:
        listener.thread.join(1)
        assert not listener.thread.is_alive()
    finally:
        listener.bells.stop()
        listener.thread.join(4)
