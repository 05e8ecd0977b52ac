"""Files of old runs are deleted unless another run has the same content; hard links are counted right."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from crawl_engine.files.prune import FileChoice, choose_files, prune_files
from crawl_engine.model.run import Limits
from crawl_engine.runtime.file_folder import FileFolder
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.row import files
from crawl_engine.store.tables.row.files import UnneededFile
from crawl_engine.store.tables.run import runs
from tests.contract.store.harness import StoreHarness

SIZE = 1_000


class Downloads:
    """Runs with files; equal content is linked to the file of an earlier run, as nodes do it."""

    def __init__(self, store: StoreHarness) -> None:
        self.store, self.data = store, store.folder
        self.first: dict[str, Path] = {}
        self.ids: list[str] = []

    def add_run(self, *contents: str, state: str = "DONE", begun: float = 0.0) -> None:
        db = self.store.db
        with db.transaction():
            run = runs.create(db, None, begun)
            db.execute("UPDATE runs SET state = ? WHERE seq = ?", (state, run.seq))
            folder = FileFolder(self.data, run.id)
            folder.create()
            for content in contents:
                digest = hashlib.sha256(content.encode()).hexdigest()
                path = folder.path / f"{digest}.bin"
                if digest in self.first:
                    os.link(self.first[digest], path)
                else:
                    path.write_bytes(content.encode() * SIZE)
                    self.first[digest] = path
                db.execute(
                    "INSERT INTO files (run, job, path, size, hash, type, key, at, validators)"
                    " VALUES (?, 0, ?, ?, ?, '', x'', 0, '')",
                    (run.seq, f"files/{path.name}", SIZE, digest),
                )
        self.ids.append(run.id)

    def on_disk(self) -> list[str]:
        """The contents of the files of each run."""
        folders = [self.data / "output" / id_ / "files" for id_ in self.ids]
        return ["".join(sorted(path.read_text()[0] for path in folder.glob("*.bin"))) for folder in folders]

    def choose(self, **limits: float) -> FileChoice:
        return choose_files(self.store.db, self.data, Limits(**limits))  # type: ignore[arg-type]

    def prune(self, **limits: float) -> FileChoice:
        choice = self.choose(**limits)
        assert sum(prune_files(self.store.db, self.data, choice)) == choice.files
        assert self.choose(keep=10**6).left == choice.left
        return choice


@pytest.fixture
def downloads(store: StoreHarness) -> Downloads:
    store.db.execute("DELETE FROM runs")
    return Downloads(store)


def test_files_that_another_run_has_stay(downloads: Downloads) -> None:
    downloads.add_run("a", "b", "c")
    downloads.add_run("b", "c", "d")
    downloads.add_run("c", "e")
    choice = downloads.prune(keep=1)
    assert (choice.files, choice.bytes, choice.left) == (4, 3 * SIZE, 2 * SIZE)
    assert downloads.on_disk() == ["c", "c", "ce"]
    assert downloads.store.db.value("SELECT count(*) FROM files") == 4
    assert downloads.prune(keep=1).files == 0


def test_the_unfinished_run_and_the_last_done_one_stay(downloads: Downloads) -> None:
    for content, state in (("a", "DONE"), ("b", "KILLED"), ("c", "DONE"), ("d", "KILLED"), ("e", "READY")):
        downloads.add_run(content, state=state)
    downloads.prune(keep=0)
    assert downloads.on_disk() == ["", "", "c", "", "e"]


@pytest.mark.parametrize(
    ("limits", "left"),
    [
        ({"older_than": 10**12}, ["ab", "bc", "cd"]),
        ({"older_than": 0}, ["", "c", "cd"]),
        ({"max_bytes": 4 * SIZE}, ["ab", "bc", "cd"]),
        ({"max_bytes": 4 * SIZE - 1}, ["b", "bc", "cd"]),
        ({"max_bytes": 0}, ["", "c", "cd"]),
    ],
)
def test_limits_of_age_and_bytes(downloads: Downloads, limits: dict[str, float], left: Sequence[str]) -> None:
    for contents in ("ab", "bc", "cd"):
        downloads.add_run(*contents)
    downloads.prune(**limits)
    assert downloads.on_disk() == left


@pytest.mark.parametrize(("limits", "most"), [({"keep": 1}, 1), ({"max_bytes": 12 * SIZE}, 7)])
def test_many_runs_are_not_measured_one_by_one(
    downloads: Downloads, monkeypatch: pytest.MonkeyPatch, limits: dict[str, float], most: int
) -> None:
    for number in range(40):
        downloads.add_run(chr(ord("A") + number))
    measured, iterate = list[int](), files.iterate_unneeded

    def count(db: Database, chosen: Sequence[int]) -> Iterator[UnneededFile]:
        measured.append(len(chosen))
        return iterate(db, chosen)

    monkeypatch.setattr(files, "iterate_unneeded", count)
    assert downloads.choose(**limits).files == (28 if "max_bytes" in limits else 39)
    assert len(measured) <= most


def test_a_file_with_a_name_elsewhere_frees_nothing(downloads: Downloads, tmp_path: Path) -> None:
    downloads.add_run("a")
    downloads.add_run("b")
    os.link(next(iter(downloads.first.values())), tmp_path / "mine")
    assert (downloads.choose(keep=1).files, downloads.choose(keep=1).bytes) == (1, 0)


def test_a_prune_that_was_killed_is_finished_by_the_next(downloads: Downloads) -> None:
    downloads.add_run("a", "b")
    downloads.add_run("b")
    db = downloads.store.db
    [forgotten] = files.iterate_unneeded(db, [db.value("SELECT min(seq) FROM runs")])
    with db.transaction():
        files.delete(db, [forgotten.id])  # killed before the file
    choice = downloads.prune(keep=1)
    assert (choice.files, choice.bytes) == (1, SIZE)
    assert downloads.on_disk() == ["b", "b"]


def test_runs_without_files_and_missing_folders_are_no_problem(downloads: Downloads) -> None:
    downloads.add_run()
    downloads.add_run("a")
    next(iter(downloads.first.values())).unlink()
    downloads.add_run("b")
    assert downloads.prune(keep=0).bytes == 0
