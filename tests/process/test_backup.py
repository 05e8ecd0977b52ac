"""A backup of a crawl that runs: the copy resumes to the same rows, and the original goes on untouched."""

import contextlib
import json
import os
import signal
import sqlite3
import stat
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from .library import Library
from .papers import entry, paper, without_url, write_defs
from .project import Project, until
from .site import Page, Site, html
from .small_disk import small_disk
from .verified_crawl import assert_exact_sums

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def copied(project: Project, tmp_path: Path) -> Project:
    """The project of the copy: the same defs, and the folder of the backup as its data dir."""
    folder = tmp_path / "copied"
    folder.mkdir(exist_ok=True)
    copy = Project(folder)
    copy.defs = project.defs
    return copy


def back_up(project: Project, copied: Project) -> dict[str, object]:
    done = project.run_with_data("backup", str(copied.data), "--json")
    assert done.code == 0, done.err
    result: dict[str, object] = json.loads(done.out)
    return result


def count(project: Project, table: str) -> int:
    with contextlib.suppress(sqlite3.OperationalError):  # not created yet
        return int(project.query(f"SELECT count(*) FROM {table}")[0][0])
    return 0


def assert_private(folder: Path) -> None:
    for path, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            status = (Path(path) / name).lstat()
            if not stat.S_ISLNK(status.st_mode):
                assert stat.S_IMODE(status.st_mode) == (0o700 if stat.S_ISDIR(status.st_mode) else 0o600), name


@pytest.mark.quick
def test_the_copy_and_the_original_both_resume_to_the_same_rows(project: Project, copied: Project, site: Site) -> None:
    library, gate = Library(site, shelves=5, books=6, delay=0.1), threading.Event()
    last = site.pages["/shelf/4"]
    assert isinstance(last, Page)
    site["/shelf/4"] = replace(last, hold=gate)
    project.write(library.defs(concurrency=4))
    running = project.start()
    assert until(lambda: count(project, "rows") > 8)
    result = back_up(project, copied)
    assert result["run"] == project.status()["run"]
    assert_private(copied.data)
    assert copied.status()["supervisor"] is None, "that of the original works on the original alone"
    assert not list(copied.data.glob("*-wal"))
    copied.assert_integrity()
    [(done,)] = copied.query("SELECT count(*) FROM jobs WHERE state = 'DONE'")
    assert 0 < done < library.size

    nodes = set(project.children("node"))
    assert len(nodes) == 2
    resumed = copied.start()
    assert until(lambda: len(copied.children("node")) == 2)
    assert nodes <= set(project.children("node")), "a start of the copy kills no process of the original"
    gate.set()
    assert resumed.wait().code == 0
    copied.assert_clean()
    assert copied.count_rows("entry", "book") == library.rows()
    assert_exact_sums(copied)
    assert copied.run_with_data("state", "--verify").code == 0
    assert running.wait().code == 0
    project.assert_clean()
    assert project.count_rows("entry", "book") == library.rows()
    assert_exact_sums(project)


def test_a_backup_of_a_killed_crawl_resumes_with_its_files(project: Project, copied: Project, site: Site) -> None:
    pages = []
    for number in range(12):
        site[f"/{number}.pdf"] = Page(b"%%PDF %d" % number, headers={"Content-Type": "application/pdf"}, delay=0.1)
        site[f"/{number}"] = html(entry(str(number), f"/{number}.pdf"))
        pages.append(site.url(f"/{number}"))
    write_defs(project, pages)
    running = project.start()
    assert until(lambda: count(project, "files") > 3)
    running.send(signal.SIGKILL)
    running.wait()
    project.assert_no_process_left()
    back_up(project, copied)
    assert_private(copied.data)
    [(downloaded,)] = copied.query("SELECT count(*) FROM files")
    site.clear_log()
    copied.crawl()
    assert len([path for path in site.paths if path.endswith(".pdf")]) <= 12 - downloaded
    rows = [json.loads(line) for line in copied.output("paper.jsonl").read_text().splitlines()]
    assert {row["title"]: without_url(row["paper"]) for row in rows} == {
        str(number): paper(b"%%PDF %d" % number) for number in range(12)
    }
    names = {path.name for path in copied.data.glob("output/latest/files/*.pdf")}
    assert names == {row["paper"]["path"].removeprefix("files/") for row in rows}

    project.crawl()
    copied.data = copied.folder / "whole"
    back_up(project, copied)
    for name in ("paper.csv", "paper.jsonl"):
        assert copied.output(name).read_bytes() == project.output(name).read_bytes()
    assert copied.run_with_data("state", "--verify").code == 0


@pytest.mark.quick
def test_a_full_disk_leaves_no_backup(project: Project, site: Site, tmp_path: Path) -> None:
    library = Library(site)
    project.write(library.defs())
    project.crawl()
    (project.data / "exports").mkdir()
    (project.data / "exports" / "large").write_bytes(bytes(5_000_000))
    with small_disk(tmp_path / "disk", size="4m") as disk:
        for leave in (100_000, 700_000, 3_900_000):
            ballast = disk.fill(leave)
            target = disk.path / "backup"
            done = project.run_with_data("backup", str(target))
            assert done.code == 3
            assert done.err.splitlines()[:1] == [f"error: {target}: the disk is full; no backup is left there"]
            assert not target.exists()
            ballast.unlink()


@pytest.mark.parametrize("place", ["data", "data/output/x", "full", "a-file"])
def test_a_target_that_cannot_take_a_backup_is_refused(project: Project, site: Site, place: str) -> None:
    project.write(Library(site, shelves=1, books=1).defs())
    project.crawl()
    (project.folder / "full").mkdir()
    (project.folder / "full" / "mine").touch()
    (project.folder / "a-file").touch()
    done = project.run_with_data("backup", str(project.folder / place))
    assert done.code == 2
    assert done.err.startswith(f"error: {project.folder / place}: ")
    assert [path.name for path in (project.folder / "full").iterdir()] == ["mine"]
    project.assert_integrity()
