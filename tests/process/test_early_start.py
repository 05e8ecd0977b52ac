"""Nodes and the appender start while the supervisor still imports; they leave no trace where they are not needed."""

import os
import signal
from pathlib import Path

import pytest

from .library import Library
from .project import Project, parent_of, until
from .site import Site

pytestmark = pytest.mark.timeout(60)

SLOW_READ = """
import sys
if "console" in sys.orig_argv:
    import pathlib, time
    from engine.defs import sources
    read = sources.read
    def read_slowly(*arguments):
        pathlib.Path({mark!r}).touch()
        time.sleep(3)
        return read(*arguments)
    sources.read = read_slowly
"""


@pytest.fixture
def mark(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that a supervisor writes before it reads the defs, for which it then takes 3 s."""
    folder, mark = tmp_path / "slow", tmp_path / "mark"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SLOW_READ.format(mark=str(mark)))
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return mark


def waiting(project: Project) -> list[int]:
    return project.children("node") + project.children("append")


def test_processes_start_before_the_defs_are_read(project: Project, site: Site, mark: Path) -> None:
    project.write(Library(site, shelves=1, books=1).defs())
    running = project.start("--nodes", "2")
    assert until(mark.exists)
    assert len(project.children("node")) == 2 and len(project.children("append")) == 1
    assert not (project.data / "crawl.db").exists() and not (project.data / "logs").exists()
    early = set(waiting(project))
    done = running.wait()
    assert done.code == 0, done.err
    pids = {pid for (pid,) in project.query("SELECT pid FROM nodes UNION SELECT pid FROM appenders")}
    assert pids == early
    assert sorted(path.name for path in (project.data / "logs").iterdir()) == ["appender.log", "n1.log", "n2.log"]
    project.assert_clean(done)


def test_they_end_with_a_supervisor_that_is_killed(project: Project, site: Site, mark: Path) -> None:
    project.write(Library(site, shelves=1, books=1).defs())
    running = project.start("--nodes", "2")
    assert until(mark.exists)
    assert len(waiting(project)) == 3
    running.send(signal.SIGKILL)
    running.wait()
    project.assert_no_process_left(3)
    assert [path.name for path in project.data.iterdir()] == ["supervisor.lock"]


def test_they_end_with_a_supervisor_that_is_stopped(project: Project, site: Site, mark: Path) -> None:
    project.write(Library(site, shelves=1, books=1).defs())
    running = project.start("--nodes", "2")
    assert until(mark.exists)
    running.send(signal.SIGTERM)
    assert running.wait().code == 143
    assert waiting(project) == []


def test_they_end_before_a_refusal_is_reported(project: Project) -> None:
    project.write("nonsense: 1\n")
    done = project.start("--nodes", "4").wait()
    assert done.code == 2
    assert project.live_processes() == {}
    assert [path.name for path in project.data.iterdir()] == ["supervisor.lock"]


def test_one_that_died_is_replaced(project: Project, site: Site, mark: Path) -> None:
    project.write(Library(site, shelves=1, books=1).defs())
    running = project.start("--nodes", "2")
    assert until(mark.exists)
    for pid in (project.children("node")[0], *project.children("append")):
        assert parent_of(pid) == running.pid
        os.kill(pid, signal.SIGKILL)
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert project.query("SELECT count(*) FROM nodes") == [(2,)], "no node crashed"


def test_of_a_range_of_nodes_the_least_number_is_started(project: Project, site: Site, mark: Path) -> None:
    project.write(Library(site, shelves=1, books=1).defs())
    running = project.start("--nodes", "1-3", "--backups", "1")
    assert until(mark.exists)
    assert len(project.children("node")) == 1
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
