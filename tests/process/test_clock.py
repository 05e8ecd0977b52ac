"""The wall clock jumps: nobody is declared dead, no retry comes early, no wait grows. The one mock is of time."""

import signal
from pathlib import Path

import pytest

from .house import House, until
from .library import Library
from .site import Asked, Page, Site, html

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
    """A file that holds the seconds by which the wall clock of every process started from now on is off."""
    folder = tmp_path_factory.mktemp("clock")
    told = folder / "seconds"
    (folder / "sitecustomize.py").write_text(JUMPY.format(file=str(told)))
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")
    return told


@pytest.mark.parametrize("seconds", [-7200, 86400], ids=["two hours back", "a day ahead"])
def test_a_jump_of_the_wall_clock_kills_nobody_and_hurries_no_retry(
    house: House, site: Site, jump: Path, seconds: int
) -> None:
    library = Library(site, shelves=8, books=6, delay=0.1)
    house.write(library.defs(concurrency=4))

    def later(asked: Asked) -> Page:
        if asked.attempt == 1:
            return Page("not now", 503, {"Retry-After": "3"})
        return Page(html("<b>ISBN 000-1</b>"))

    site["/book/0-1"] = later
    running = house.start("--backups", "1")
    assert until(lambda: site.times("/book/0-1") == 1 or running.over), running.err
    jump.write_text(str(seconds))
    fetched = len(site.paths)
    done = running.wait(40)
    assert done.code == 0, done.err
    house.assert_clean(done)
    assert len(site.paths) > fetched
    assert house.counted("entry", "book") == library.rows()
    assert house.query("SELECT count(*) FROM nodes WHERE state IN ('DEAD', 'FAILED')") == [(0,)]
    assert len(done.summary["nodes"]) == 3, "no node was replaced"
    first, second = site.begun("/book/0-1")
    assert second - first >= 2.9, "the wait that was asked for was kept"
    others = [at for at in site.begun() if first + 0.2 < at < first + 2.9]
    assert len(others) <= 8, "those under way may finish; else the whole host is left alone"
    times = [
        at for (at,) in house.query("SELECT at FROM events WHERE source <> 'supervisor' AND kind = 'page' ORDER BY id")
    ]
    assert abs(times[-1] - times[0] - seconds) < 60, "the clock did jump for the crawl's processes"
    assert 0 < done.summary["seconds"] < 60


def test_a_jump_between_two_starts_changes_nothing(house: House, site: Site, jump: Path) -> None:
    library = Library(site, shelves=5, books=5, delay=0.1)
    house.write(library.defs(concurrency=4))
    running = house.start()
    assert until(lambda: len(site.paths) > 5 or running.over), running.err
    running.send(signal.SIGINT)
    assert running.wait().code == 130
    jump.write_text("-7200")
    house.crawl()
    assert house.counted("entry", "book") == library.rows()
    assert len(site.paths) == len(set(site.paths))
