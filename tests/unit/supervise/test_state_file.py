"""`state.jsonl`: whole at any time, written anew when it is lost or damaged, never a reason for a run to end."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.store.db.connector import Database
from engine.store.db.schema import CRAWL, migrate_databases
from engine.store.tables import checkpoints, runs
from engine.store.tables.checkpoints import Checkpoint
from engine.supervise.checkpoints.state_file import StateFile

KEYS = [
    "run", "group", "step_name", "completed", "completed_at", "validation_status", "reason", "content_hash",
    "dependencies",
]  # fmt: skip


class Ground:
    def __init__(self, folder: Path) -> None:
        migrate_databases(folder)
        self.db = Database.open(folder / CRAWL, durable=False)
        with self.db.transaction():
            self.run = runs.create(self.db, None, 0.0)
        self.write(Checkpoint(step="seeder", group="g", content_hash="1", completed_at=7.5, status="valid"))
        self.write(Checkpoint(step="loader", group="g", content_hash="2", dependencies=("seeder",), reason="x"))
        self.path = folder / "state.jsonl"
        self.file = StateFile(self.db, folder, self.run)
        self.file.refresh()

    def write(self, checkpoint: Checkpoint) -> None:
        with self.db.transaction():
            checkpoints.write(self.db, self.run.seq, [checkpoint])

    @property
    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.path.read_text("utf-8").splitlines()]


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    ground = Ground(tmp_path)
    yield ground
    ground.db.close()


def test_it_has_a_line_for_each_step_in_their_order(ground: Ground) -> None:
    assert [list(line) for line in ground.lines] == [KEYS, KEYS]
    assert ground.lines == [
        {
            "run": ground.run.id, "group": "g", "step_name": "seeder", "completed": True, "completed_at": 7.5,
            "validation_status": "valid", "reason": None, "content_hash": "1", "dependencies": [],
        },
        {
            "run": ground.run.id, "group": "g", "step_name": "loader", "completed": False, "completed_at": None,
            "validation_status": "provisional", "reason": "x", "content_hash": "2", "dependencies": ["seeder"],
        },
    ]  # fmt: skip
    assert stat.S_IMODE(ground.path.stat().st_mode) == 0o600


def test_it_is_replaced_when_an_entry_changes_and_left_alone_else(ground: Ground) -> None:
    first = ground.path.stat().st_ino, ground.path.stat().st_mtime_ns
    ground.file.refresh()
    assert (ground.path.stat().st_ino, ground.path.stat().st_mtime_ns) == first
    ground.write(Checkpoint(step="loader", group="g", content_hash="2", completed_at=9.0, status="valid"))
    ground.file.refresh()
    assert [line["completed"] for line in ground.lines] == [True, True]


@pytest.mark.parametrize("harm", ["gone", "empty", "torn", "false", "replaced"])
def test_a_lost_or_damaged_file_is_written_again(ground: Ground, harm: str) -> None:
    whole = ground.path.read_bytes()
    match harm:
        case "gone":
            ground.path.unlink()
        case "empty":
            ground.path.write_bytes(b"")
        case "torn":
            os.truncate(ground.path, 30)
        case "false":
            ground.path.write_bytes(whole.replace(b"false", b" true"))
        case "replaced":
            ground.path.unlink()
            ground.path.write_bytes(b"\0" * len(whole))
    ground.file.refresh()
    assert ground.path.read_bytes() == whole


def test_where_it_cannot_be_written_nothing_fails_and_it_comes_back(
    ground: Ground, caplog: pytest.LogCaptureFixture
) -> None:
    whole = ground.path.read_bytes()
    ground.path.unlink()
    ground.path.mkdir()
    for _ in range(3):
        ground.file.refresh()
    assert len(caplog.records) == 1, "it is said once"
    ground.path.rmdir()
    ground.file.refresh()
    assert ground.path.read_bytes() == whole
    assert [p.name for p in ground.path.parent.iterdir() if "state" in p.name] == ["state.jsonl"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device")
def test_a_full_disk_fails_nothing_and_leaves_the_old_lines(ground: Ground) -> None:
    old = ground.path.read_bytes()
    ground.write(Checkpoint(step="loader", group="g", content_hash="3"))
    beside = ground.path.with_name(".state.jsonl.new")
    beside.symlink_to("/dev/full")
    ground.file.refresh()
    assert ground.path.read_bytes() == old
    ground.file.refresh()
    assert ground.lines[1]["content_hash"] == "3"
