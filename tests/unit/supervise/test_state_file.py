"""`state.jsonl` is always complete, is rewritten after damage, and never stops a run."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.schema import CRAWL, open_databases
from crawl_engine.store.tables.row import content_sums
from crawl_engine.store.tables.row.content_sums import ContentSum
from crawl_engine.store.tables.run import checkpoints, runs
from crawl_engine.store.tables.run.checkpoints import Checkpoint
from crawl_engine.supervise.checkpoints import state_file
from crawl_engine.supervise.checkpoints.state_file import StateFile

KEYS = [
    "run", "group", "task", "step_name", "completed", "completed_at", "validation_status", "reason", "content_hash",
    "dependencies", "done", "failed", "open", "rows", "document_sum", "row_sum",
]  # fmt: skip


class StateFileHarness:
    def __init__(self, folder: Path) -> None:
        open_databases(folder).close()
        self.db = connect(folder / CRAWL, durable=False)
        with self.db.transaction():
            self.run = runs.create(self.db, None, 0.0)
        self.write(Checkpoint(step="seeder", group="g", content_hash="1", completed_at=7.5, status="valid"))
        self.write(
            Checkpoint(step="loader", group="g", position=1, content_hash="2", dependencies=("seeder",), reason="x")
        )
        self.path = folder / "state.jsonl"
        self.file = StateFile(self.db, self.run)
        self.file.refresh()

    def write(self, checkpoint: Checkpoint) -> None:
        with self.db.transaction():
            checkpoints.write(self.db, self.run.seq, [checkpoint])

    @property
    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.path.read_text("utf-8").splitlines()]


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[StateFileHarness]:
    harness = StateFileHarness(tmp_path)
    yield harness
    harness.db.close()


def test_it_has_a_line_for_each_step_in_order(harness: StateFileHarness) -> None:
    assert [list(line) for line in harness.lines] == [KEYS, KEYS]
    counts = {"done": 0, "failed": 0, "open": 0, "rows": 0}
    assert harness.lines == [
        {
            "run": harness.run.id, "group": "g", "task": None, "step_name": "seeder", "completed": True,
            "completed_at": 7.5, "validation_status": "valid", "reason": None, "content_hash": "1", "dependencies": [],
            **counts, "document_sum": "0" * 32, "row_sum": "0" * 32,
        },
        {
            "run": harness.run.id, "group": "g", "task": None, "step_name": "loader", "completed": False,
            "completed_at": None, "validation_status": "provisional", "reason": "x", "content_hash": "2",
            "dependencies": ["seeder"],
            **counts, "document_sum": None, "row_sum": None,
        },
    ]  # fmt: skip
    assert stat.S_IMODE(harness.path.stat().st_mode) == 0o600


def test_it_is_replaced_only_when_an_entry_changes(harness: StateFileHarness) -> None:
    first = harness.path.stat().st_ino, harness.path.stat().st_mtime_ns
    harness.file.refresh()
    assert (harness.path.stat().st_ino, harness.path.stat().st_mtime_ns) == first
    harness.write(Checkpoint(step="loader", group="g", position=1, content_hash="2", completed_at=9.0, status="valid"))
    harness.file.refresh()
    assert [line["completed"] for line in harness.lines] == [True, True]


def add_rows(harness: StateFileHarness, count: int) -> None:
    with harness.db.transaction():
        content_sums.move(harness.db, harness.run.seq, {"g": ContentSum(rows=count)})


def test_new_counts_wait_for_their_second_and_a_changed_entry_does_not(
    harness: StateFileHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, flushed = [100.0], list[int]()
    monkeypatch.setattr("crawl_engine.supervise.checkpoints.state_file.time.monotonic", lambda: now[0])
    monkeypatch.setattr("crawl_engine.supervise.checkpoints.state_file.os.fsync", flushed.append)
    harness.file.refresh()
    add_rows(harness, 1)
    harness.file.refresh(at_once=False)
    assert [line["rows"] for line in harness.lines] == [0, 0]
    now[0] += 1.0
    harness.file.refresh(at_once=False)
    assert [line["rows"] for line in harness.lines] == [1, 1]
    assert flushed == [], "counts alone are not flushed"
    add_rows(harness, 1)
    harness.write(Checkpoint(step="loader", group="g", position=1, content_hash="2", completed_at=9.0, status="valid"))
    harness.file.refresh(at_once=False)
    assert [line["rows"] for line in harness.lines] == [2, 2]
    assert len(flushed) == 1
    add_rows(harness, 1)
    harness.file.refresh()
    assert [line["rows"] for line in harness.lines] == [3, 3], "at the end"


@pytest.mark.parametrize("damage", ["gone", "empty", "torn", "false", "replaced"])
def test_a_missing_or_damaged_file_is_rewritten(harness: StateFileHarness, damage: str) -> None:
    whole = harness.path.read_bytes()
    match damage:
        case "gone":
            harness.path.unlink()
        case "empty":
            harness.path.write_bytes(b"")
        case "torn":
            os.truncate(harness.path, 30)
        case "false":
            harness.path.write_bytes(whole.replace(b"false", b" true"))
        case "replaced":
            harness.path.unlink()
            harness.path.write_bytes(b"\0" * len(whole))
    harness.file.refresh()
    assert harness.path.read_bytes() == whole


def test_a_failed_write_is_retried_and_stops_nothing(
    harness: StateFileHarness, caplog: pytest.LogCaptureFixture
) -> None:
    whole = harness.path.read_bytes()
    harness.path.unlink()
    harness.path.mkdir()
    for _ in range(3):
        harness.file.refresh()
    assert len(caplog.records) == 1, "it is said once"
    harness.path.rmdir()
    harness.file.refresh()
    assert harness.path.read_bytes() == whole
    assert [p.name for p in harness.path.parent.iterdir() if "state" in p.name] == ["state.jsonl"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device")
def test_a_full_disk_keeps_the_old_lines(harness: StateFileHarness) -> None:
    old = harness.path.read_bytes()
    harness.write(Checkpoint(step="loader", group="g", position=1, content_hash="3"))
    with pytest.MonkeyPatch.context() as full:
        full.setattr(state_file, "create_draft", lambda _: os.open("/dev/full", os.O_WRONLY))
        harness.file.refresh()
    assert harness.path.read_bytes() == old
    harness.file.refresh()
    assert harness.lines[1]["content_hash"] == "3"
