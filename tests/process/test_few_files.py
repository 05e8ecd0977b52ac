"""Disks without room for more files (inodes): intake pauses visibly and resumes, as on a full disk."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sample import sampled

from .library import Library
from .project import Project, until
from .site import Site
from .small_disk import SmallDisk, small_disk

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", files=400) as disk:
        yield disk


@pytest.mark.quick
@pytest.mark.parametrize("free", sampled([4, 12, 14], 1))
def test_a_start_with_few_free_files_waits_or_says_why(
    project: Project, site: Site, disk: SmallDisk, free: int
) -> None:
    project.data = disk.path / "data"
    library = Library(site, shelves=2)
    project.write(library.defs())
    ballast = disk.use_up_files(free)
    running = project.start("--set", "min_free=4000000")
    assert until(lambda: running.exited or "PAUSED: disk nearly full: room for only" in running.err, 20), running.err
    if running.exited:
        done = running.wait()
        print(done.code, done.err)
        assert done.code == 3
        assert "Traceback" not in done.err + project.logs()
        shutil.rmtree(ballast)
        project.crawl("--set", "min_free=4000000")
    else:
        print(running.err)
        assert not running.exited
        shutil.rmtree(ballast)
        done = running.wait()
        assert done.code == 0, done.err
    project.assert_clean(done)
    assert project.count_rows("entry", "book") == library.rows()
    assert project.query("SELECT max(takeovers) FROM runs") == [(0,)]
