"""The list of several crawls: what it shows, what it opens, how the console goes back to it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawl_console.crawl.source import PollResult
from crawl_console.tui import crawls
from crawl_console.tui.config import Config
from crawl_console.tui.crawls import CrawlList, CrawlReader, CrawlState
from crawl_engine.model.run import Eta, RunState, Stage
from tests.console.builders import AT, run, snapshot
from tests.console.fakes import FakeSource, open_console
from tests.console.pictures import drawn_strips
from tests.console.terminals import Terminal

GOLDEN = Path(__file__).with_name("golden")
SIZES = ((80, 24), (160, 48))


def polled(pid: int | None = 4121, **changes: object) -> PollResult:
    return PollResult(0.0, 0.0, snapshot(run=run(**changes)), pid)


STATES = [
    CrawlState(Path("/srv/shop/data"), polled(eta=Eta(296.0, "img.example:443", False, "delay 0.5 s")), 2, AT - 60),
    CrawlState(
        Path("/srv/news/data"), polled(None, state=RunState.DONE, stage=Stage.SHUTDOWN_COMPLETE), 0, AT - 90_000
    ),
    CrawlState(Path("/srv/lost/data"), polled(None), 1),
    CrawlState(Path("/srv/a-crawl-with-a-name-that-is-long"), polled(None, state=RunState.FAILED), 0, AT - 9e6),
    CrawlState(Path("/srv/new/data"), PollResult(0.0, 0.0, replace(snapshot(), run=None), None)),
    CrawlState(Path("/srv/gone/data"), error="no such directory"),
    CrawlState(Path("/srv/odd/data"), error="damaged [b]x[/b]\x1b[31m (file is not a database)"),
]


class FakeReader:
    def __init__(self, folders: object) -> None:
        pass

    def read(self) -> list[CrawlState]:
        return STATES

    def close(self) -> None:
        pass


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CrawlList:
    monkeypatch.setattr(crawls, "CrawlReader", FakeReader)
    monkeypatch.setattr("time.time", lambda: AT + 300)
    return CrawlList([state.data for state in STATES], Config(tmp_path), 2.0)


def text_of(app: CrawlList) -> str:
    return "".join(f"{strip.text.rstrip()}\n" for strip in drawn_strips(app))


async def wait_for(pilot: object, app: CrawlList, text: str) -> None:
    for _ in range(200):
        if text in text_of(app):
            return
        await pilot.pause(0.02)  # type: ignore[attr-defined]
    raise AssertionError(text_of(app))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_list_matches_the_golden_file(app: CrawlList, size: tuple[int, int]) -> None:
    async with app.run_test(size=size) as pilot:
        await wait_for(pilot, app, "no such directory")
        path = GOLDEN / f"crawls-{size[0]}x{size[1]}.txt"
        if os.environ.get("SNAP"):
            path.write_text(text_of(app), "utf-8")
        assert text_of(app) == path.read_text("utf-8")


async def test_enter_chooses_and_a_broken_one_says_why(app: CrawlList) -> None:
    async with app.run_test() as pilot:
        await wait_for(pilot, app, "no such directory")
        await pilot.press("G", "k", "enter")
        assert app.is_running
        assert "no such directory" in next(iter(app._notifications)).message
        await pilot.press("g", "j", "enter")
    assert app.return_value == Path("/srv/news/data")


@pytest.mark.parametrize("key", ["q", "escape", "ctrl+c"])
async def test_it_is_left_without_a_choice(app: CrawlList, key: str) -> None:
    async with app.run_test() as pilot:
        await pilot.press(key)
    assert app.return_value is None


async def test_keys_of_a_run_do_nothing_here(app: CrawlList) -> None:
    async with app.run_test() as pilot:
        await wait_for(pilot, app, "no such directory")
        await pilot.press("slash", "vertical_line", "ctrl+s", "space", "y", "X", "c", "1")
        assert app.is_running
        await pilot.press("s", "f")  # by FAILED
        await wait_for(pilot, app, "FAIL")
    assert not app._exception


async def test_esc_on_a_screen_goes_back_to_the_list_and_q_does_not(tmp_path: Path) -> None:
    async with open_console(tmp_path, source=FakeSource(), has_list=True) as console:
        assert "esc crawls" in console.screen()
        await console.press("2", "enter")
        await console.settle()
        await console.press("escape")
        await console.settle()
        assert console.app.is_running
        await console.press("escape")
    assert console.app.goes_back
    async with open_console(tmp_path, source=FakeSource(), has_list=True) as console:
        await console.press("q")
    assert not console.app.goes_back


async def test_without_a_list_esc_stays(tmp_path: Path) -> None:
    async with open_console(tmp_path, source=FakeSource()) as console:
        assert "crawls" not in console.text()[-1]
        await console.press("escape")
        await console.settle()
        assert console.app.is_running


def test_the_reader_says_why_it_cannot_read(tmp_path: Path) -> None:
    for name in ("damaged", "new"):
        (tmp_path / name).mkdir()
    (tmp_path / "damaged" / "crawl.db").write_text("no database")
    reader = CrawlReader([tmp_path / name for name in ("damaged", "new", "gone")])
    for _ in range(2):  # the connection is opened again
        damaged, new, gone = reader.read()
        assert "damaged" in damaged.error
        assert (new.error, new.poll is not None and new.poll.snapshot.run) == ("", None)
        assert gone.error == "no such directory"
    reader.close()


def test_several_need_a_console(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "crawl_console", "--data", "a", "--data", "b"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, stdin=subprocess.DEVNULL)
    assert done.returncode == 2
    assert "several --data need the console" in done.stderr
    assert "status --all" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_enter_and_esc_in_a_real_terminal(tmp_path: Path) -> None:
    """Opened on two folders, of which one is a crawl that has ended; signals restore the terminal."""
    crawl = [sys.executable, "-m", "crawl_console", "demo", "--no-ui", "--pages", "3", "--data", "shop/data"]
    subprocess.run(crawl, check=True, capture_output=True, cwd=tmp_path)
    shown = Terminal(["--data", "shop/data", "--data", "gone/data"], cwd=tmp_path)
    try:
        shown.until(lambda screen: "no such directory" in screen and "DONE" in screen)
        shown.press("\r")
        shown.until("esc crawls")
        shown.press("\x1b")
        shown.until("2 crawls")
        os.kill(shown.pid, signal.SIGTERM)
        assert shown.wait() == 143
        assert shown.restored() == []
    finally:
        shown.end()
