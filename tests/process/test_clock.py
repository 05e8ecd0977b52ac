"""The wall clock jumps (mocked): no process is declared dead, no retry comes early, no wait grows."""

import signal
from pathlib import Path

import pytest

from tests.sample import sampled

from .library import Library
from .project import Project, until
from .site import Page, Request, Site, html

pytestmark = pytest.mark.timeout(90)

JUMPY = """\
import os, time
_real, _file = time.time, {file!r}


def _jumped():
    try:
        with open(_file) as file:
            return _real() + float(file.read() or 0)
    except OSError:
        return _real()


time.time = _jumped
"""


@pytest.fixture
def jump(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with the offset in seconds of the wall clock, for every process started from now on."""
    folder = tmp_path_factory.mktemp("clock")
    offset_file = folder / "seconds"
    (folder / "sitecustomize.py").write_text(JUMPY.format(file=str(offset_file)))
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")
    return offset_file


@pytest.mark.quick
@pytest.mark.parametrize("seconds", sampled([-7200, 86400], 1), ids=["two hours back", "a day ahead"])
def test_a_wall_clock_jump_kills_no_process_and_hastens_no_retry(
    project: Project, site: Site, jump: Path, seconds: int
) -> None:
    library = Library(site, shelves=8, books=6, delay=0.1)
    project.write(library.defs(concurrency=4))

    def later(request: Request) -> Page:
        if request.attempt == 1:
            return Page("not now", 503, {"Retry-After": "3"})
        return Page(html("<b>ISBN 000-1</b>"))

    site["/book/0-1"] = later
    running = project.start("--backups", "1")
    assert until(lambda: site.count("/book/0-1") == 1 or running.exited), running.err
    jump.write_text(str(seconds))
    fetched = len(site.paths)
    done = running.wait(40)
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert len(site.paths) > fetched
    assert project.count_rows("entry", "book") == library.rows()
    assert project.query("SELECT count(*) FROM nodes WHERE state IN ('DEAD', 'FAILED')") == [(0,)]
    assert len(done.summary["nodes"]) == 3, "no node was replaced"
    first, second = site.start_times("/book/0-1")
    assert second - first >= 2.9, "the requested wait was kept"
    others = [at for at in site.start_times() if first + 0.2 < at < first + 2.9]
    assert len(others) <= 8, "requests in flight may finish; the rest of the host waits"
    times = [
        at
        for (at,) in project.query("SELECT at FROM events WHERE source <> 'supervisor' AND kind = 'page' ORDER BY id")
    ]
    assert abs(times[-1] - times[0] - seconds) < 60, "the clock did jump for the crawl's processes"
    assert 0 < done.summary["seconds"] < 60


@pytest.mark.sweep
def test_a_jump_between_two_starts_changes_nothing(project: Project, site: Site, jump: Path) -> None:
    library = Library(site, shelves=5, books=5, delay=0.1)
    project.write(library.defs(concurrency=4))
    running = project.start()
    assert until(lambda: len(site.paths) > 5 or running.exited), running.err
    running.send(signal.SIGINT)
    assert running.wait().code == 130
    jump.write_text("-7200")
    project.crawl()
    assert project.count_rows("entry", "book") == library.rows()
    assert len(site.paths) == len(set(site.paths))
