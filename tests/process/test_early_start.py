"""Nodes start while the supervisor still imports; they leave no trace where they are not needed."""

import os
import signal
from pathlib import Path

import pytest

from engine.settings import usable_cpus

from .library import Library
from .project import Project, parent_of, until
from .site import Site

EARLY = min(2, usable_cpus() - 1)
pytestmark = [pytest.mark.timeout(60), pytest.mark.skipif(not EARLY, reason="one processor: no node starts early")]

SLOW_READ = """
import sys
if "console" in sys.orig_argv:
    import pathlib, time
    from engine.defs.yaml import sources
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


def test_nodes_start_before_the_defs_are_read(project: Project, site: Site, mark: Path) -> None:
    project.write(Library(site, shelves=1, books=1).defs())
    running = project.start("--nodes", "2")
    assert until(mark.exists)
    early = project.children("node")
    assert len(early) == EARLY
    assert [path.name for path in project.data.iterdir()] == ["supervisor.lock"]
    done = running.wait()
    assert done.code == 0, done.err
    assert [pid for (pid,) in project.query("SELECT pid FROM nodes ORDER BY number")][:EARLY] == early
    assert sorted(path.name for path in (project.data / "logs").iterdir()) == ["appender.log", "n1.log", "n2.log"]
    project.assert_clean(done)


def test_they_end_with_a_supervisor_that_is_killed(project: Project, site: Site, mark: Path) -> None:
    project.write(Library(site, shelves=1, books=1).defs())
    running = project.start("--nodes", "2")
    assert until(mark.exists)
    assert len(project.children("node")) == EARLY
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
    assert set(project.live_processes()) <= {running.pid}


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
    [pid, *_] = project.children("node")
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
