"""The browsers of a node: starts that fail, pages that are given up, browsers that are replaced."""

import asyncio
import gc
import logging
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from crawl_engine.browser import browsers
from crawl_engine.browser.browsers import BrowserPool, BrowserUnavailable, PageNeed
from crawl_engine.browser.messages import NotRendered
from crawl_engine.settings import Settings

pytestmark = pytest.mark.asyncio


class FakeBrowser:
    """A process that starts when it is told to."""

    made: list["FakeBrowser"] = []  # noqa: RUF012
    failure: str | None = None
    holds = False

    def __init__(self, _launcher: Any, _settings: Settings, profiles: Path, *_: Any, **__: Any) -> None:
        self.profiles = profiles
        self.serves: list[Any] = []
        self.urls: list[str] = []
        self.pages, self.is_worn, self.is_open = 0, False, True
        self.launched: asyncio.Task[None] | None = None
        self.key = self.ended = self.on_finish = None
        self.pid = 1
        self.may_start = asyncio.Event()
        self.quits = 0
        FakeBrowser.made.append(self)

    async def launch(self) -> None:
        if FakeBrowser.holds:
            await self.may_start.wait()
        if FakeBrowser.failure:
            self.kill()
            raise BrowserUnavailable(FakeBrowser.failure)

    async def quit(self) -> None:
        self.quits += 1
        await asyncio.sleep(0.05)
        self.kill()

    def kill(self, _reason: str = "") -> None:
        self.is_open = False

    def close(self) -> None:
        self.is_open = False


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> BrowserPool:
    monkeypatch.setattr(browsers, "BrowserProcess", FakeBrowser)
    monkeypatch.setattr(browsers, "find_browser", lambda *_, **__: "/usr/bin/chromium")
    FakeBrowser.made, FakeBrowser.failure, FakeBrowser.holds = [], None, False
    return BrowserPool(Mock(), Settings(browser_pages=2), tmp_path, "n1")


async def use(pool: BrowserPool, seconds: float = 0.0, need: PageNeed | None = None) -> None:
    async with pool.reserve(need or pool.need(), "https://shop.example/"):
        await asyncio.sleep(seconds)


async def test_a_start_that_fails_fails_what_waits_and_is_tried_again_after_a_pause(
    pool: BrowserPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeBrowser.failure = "no display"
    results = await asyncio.gather(*[use(pool) for _ in range(6)], return_exceptions=True)
    assert all(isinstance(result, BrowserUnavailable) for result in results), results
    for _ in range(100):
        with pytest.raises(
            BrowserUnavailable, match=r"the next browser is started in \d s, as the last one failed: no"
        ):
            await use(pool)
    assert len(FakeBrowser.made) == 1, "failed starts cost no CPU"
    now = asyncio.get_running_loop().time
    monkeypatch.setattr(pool._pool, "starts_at", now() - 1)
    with pytest.raises(BrowserUnavailable, match=r"^no display"):
        await use(pool)
    assert pool._pool.starts_at > now() + 9, "each pause is longer"
    FakeBrowser.failure = None
    monkeypatch.setattr(pool._pool, "starts_at", now() - 1)
    await use(pool)
    assert len(FakeBrowser.made) == 3


async def test_a_page_that_is_given_up_while_its_browser_starts_leaves_it_to_the_next(
    pool: BrowserPool, caplog: pytest.LogCaptureFixture
) -> None:
    FakeBrowser.holds = True
    first = asyncio.create_task(use(pool))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    [made] = FakeBrowser.made
    assert made.is_open
    assert made.serves == []
    made.may_start.set()
    await use(pool)
    assert FakeBrowser.made == [made]
    FakeBrowser.failure, made.is_open = "late", False
    second = asyncio.create_task(use(pool))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    second.cancel()
    FakeBrowser.made[-1].may_start.set()
    await asyncio.gather(second, return_exceptions=True)
    await asyncio.sleep(0)
    FakeBrowser.made[-1].launched = None
    gc.collect()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_worn_browser_ends_beside_the_next_one(pool: BrowserPool) -> None:
    pages = [asyncio.create_task(use(pool, 0.1)) for _ in range(2)]
    await asyncio.sleep(0.02)
    [old] = FakeBrowser.made
    old.is_worn = True
    began = asyncio.get_running_loop().time()
    await use(pool)
    assert asyncio.get_running_loop().time() < began + 0.05, "it waits for no page of the old one"
    await asyncio.gather(*pages)
    await asyncio.sleep(0.1)
    assert old.quits == 1
    assert not old.is_open
    assert len(FakeBrowser.made) == 2


async def test_a_node_that_ends_gives_up_browsers_that_start(pool: BrowserPool) -> None:
    FakeBrowser.holds = True
    waiting = [asyncio.create_task(use(pool)) for _ in range(3)]
    await asyncio.sleep(0.01)
    closing = asyncio.create_task(pool.aclose())
    await asyncio.sleep(0.1)
    FakeBrowser.made[0].may_start.set()
    async with asyncio.timeout(2):
        await closing
        await asyncio.gather(*waiting, return_exceptions=True)
    assert not FakeBrowser.made[0].is_open


async def test_a_page_alone_waits_for_an_empty_browser_and_shares_it_with_none(pool: BrowserPool) -> None:
    suspect, first = pool.need(), pool.need()
    beside = [asyncio.create_task(use(pool, 0.05, one)) for one in (first, suspect)]
    await asyncio.gather(*beside)
    assert first.had_company
    assert suspect.had_company
    suspect.is_alone = True
    busy = asyncio.create_task(use(pool, 0.1))
    await asyncio.sleep(0.02)
    alone = asyncio.create_task(use(pool, 0.1, suspect))
    await asyncio.sleep(0.02)
    later = pool.need()
    waiting = asyncio.create_task(use(pool, 0.0, later))
    [browser] = FakeBrowser.made
    await busy
    await asyncio.sleep(0)
    assert browser.serves == [suspect], "what came later waits"
    await alone
    await waiting
    assert not later.had_company


@pytest.mark.parametrize(
    ("answer", "blames"),
    [
        (NotRendered(text="the page crashed", is_crashed=True), True),
        (NotRendered(text="timeout after 30 s"), False),
        (NotRendered(text="the browser has ended", is_broken=True), True),
    ],
)
def test_a_page_that_crashed_in_company_is_not_to_blame_for_sure(answer: NotRendered, blames: bool) -> None:
    need = PageNeed("browsers")
    assert not need.may_blame(answer), "it was alone"
    need.had_company = True
    assert need.may_blame(answer) is blames
    need.is_alone = True
    assert not need.may_blame(answer)
