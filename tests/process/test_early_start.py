"""The template starts while the supervisor still imports; it leaves no trace where it is not needed."""

import os
import signal
import sys
from pathlib import Path

import pytest

from .library import Library
from .project import Project, parent_of, until
from .site import Site

pytestmark = pytest.mark.timeout(60)

SLOW_READ = """
import sys
if "crawl_console" in sys.orig_argv:
    import pathlib, time
    from crawl_engine.defs.yaml import sources
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


def test_the_template_starts_before_the_defs_are_read(project: Project, site: Site, mark: Path) -> None:
    project.write(Library(site, shelves=1, books=1).defs())
    running = project.start("--nodes", "2")
    assert until(mark.exists)
    assert until(lambda: len(project.children("template")) == 1)
    assert [path.name for path in project.data.iterdir()] == ["supervisor.lock"]
    done = running.wait()
    assert done.code == 0, done.err
    assert sorted(path.name for path in (project.data / "logs").iterdir()) == ["appender.log", "n1.log", "n2.log"]
    project.assert_clean(done)


@pytest.mark.quick
def test_it_ends_with_a_supervisor_that_is_killed(project: Project, site: Site, mark: Path) -> None:
    project.write(Library(site, shelves=1, books=1).defs())
    running = project.start("--nodes", "2")
    assert until(mark.exists)
    running.send(signal.SIGKILL)
    running.wait()
    project.assert_no_process_left(3)
    assert [path.name for path in project.data.iterdir()] == ["supervisor.lock"]


def test_it_ends_with_a_supervisor_that_is_stopped(project: Project, site: Site, mark: Path) -> None:
    project.write(Library(site, shelves=1, books=1).defs())
    running = project.start("--nodes", "2")
    assert until(mark.exists)
    running.send(signal.SIGTERM)
    assert running.wait().code == 143
    assert set(project.live_processes()) <= {running.pid}


@pytest.mark.quick
def test_it_ends_before_a_refusal_is_reported(project: Project) -> None:
    project.write("nonsense: 1\n")
    done = project.start("--nodes", "4").wait()
    assert done.code == 2
    assert project.live_processes() == {}
    assert [path.name for path in project.data.iterdir()] == ["supervisor.lock"]


def test_one_that_died_is_followed_by_another(project: Project, site: Site, mark: Path) -> None:
    project.write(Library(site, shelves=1, books=1).defs())
    running = project.start("--nodes", "2")
    assert until(mark.exists)
    assert until(lambda: project.children("template"))
    [pid] = project.children("template")
    assert parent_of(pid) == running.pid
    os.kill(pid, signal.SIGKILL)
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert project.query("SELECT count(*) FROM nodes") == [(2,)], "no node crashed"


PLAIN = """
import sys
if "crawl_console" in sys.orig_argv:
    from crawl_engine.processes import child_limits
    child_limits.become_subreaper = lambda: False
"""


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere all processes are plain")
def test_where_prctl_is_refused_processes_are_plain_and_a_warning_says_so_once(
    project: Project, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(PLAIN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    library = Library(site, shelves=2, books=3)
    project.write(library.defs())
    done = project.start("--nodes", "2").wait()
    assert done.code == 0, done.err
    assert len(project.rows("book")) == 6
    texts = project.query("SELECT text FROM events WHERE kind = 'process'")
    assert [text for (text,) in texts] == [
        "prctl is refused here: each process has an interpreter of its own, and takes longer to start"
    ]
    project.assert_clean(done)
