"""Actions that are repeated: scrolling as by a wheel, and clicks, until nothing comes."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

from playwright.async_api import JSHandle, Page
from playwright.async_api import TimeoutError as BrowserTimeout

from crawl_engine.browser.target import Target, written
from crawl_engine.browser.traffic import PageTraffic

GONE, END = "gone", "end"
_NOTCH = 120
"""Pixels of one turn of a wheel."""
_PAUSE = 0.25
_STILL = 4
"""So many times in a row nothing more came: that is the end."""
_POLL = 0.02
_SETTLE_SECONDS = 0.1
"""Without a change, after which what a click has begun is there."""
_BEGIN_SECONDS = 2.0
"""In which a click begins to change something."""
_BUSY_SECONDS = 2.0
"""So long a page that changes all the time is waited for, once it has no request open."""
_CLICK_MILLISECONDS = 1_000
_GONE_SECONDS = 1.0
"""So long an element is gone that does not come back: many are hidden or disabled while more comes."""
_IN_VAIN = 3
"""Clicks in a row that change nothing."""
_WHEEL = """
([wheel, notch, fresh]) => new Promise(done => {
    const page = document.scrollingElement || document.documentElement;
    const list = root => {
        for (const one of root.querySelectorAll('*')) {
            if (one.shadowRoot) list(one.shadowRoot);
            if (one !== page && one.tagName != 'TEXTAREA' && one.scrollHeight > one.clientHeight + 1
                && one.clientHeight >= 100 && one.clientWidth >= 100
                && /auto|scroll|overlay/.test(getComputedStyle(one).overflowY))
                wheel.boxes.push(one);
        }
    };
    if (fresh) { wheel.boxes = []; list(document); }
    const hasRoom = one => one.scrollTop + one.clientHeight < one.scrollHeight - 1;
    const isShown = one => {
        const place = one.getBoundingClientRect();
        return place.height > 0 && place.width > 0 && place.bottom > 0 && place.top < innerHeight
            && (!one.checkVisibility || one.checkVisibility({visibilityProperty: true}));
    };
    const turn = one => {
        const before = one.scrollTop;
        one.scrollBy({top: notch, behavior: 'instant'});
        return one.scrollTop - before;
    };
    const open = wheel.boxes.filter(one => one.isConnected && hasRoom(one) && isShown(one));
    let moved = Math.max(0, ...open.map(turn));
    if (!moved) moved = Math.max(0, turn(page));
    const end = () => done({
        moved, view: innerHeight, boxes: open.length,
        size: wheel.boxes.reduce((sum, one) => sum + one.scrollHeight, page.scrollHeight),
        count: document.getElementsByTagName('*').length,
    });
    requestAnimationFrame(() => setTimeout(end));
    setTimeout(end, 200);
})
"""
"""Turns a wheel once: boxes in view scroll first, then the page. Gives what moved, and the size of all that scrolls."""
_COUNT_CHANGES = """
() => {
    const seen = {changes: 0};
    new MutationObserver(list => { seen.changes += list.length; }).observe(
        document, {subtree: true, childList: true, characterData: true});
    return seen;
}
"""
_IS_GONE = """
one => !one.isConnected || !one.getClientRects().length
    || [one, one.parentElement].some(part => part && part.matches(':disabled, [aria-disabled=true], .disabled'))
"""


class InVain(Exception):
    """An action did not reach what it was to reach. The text says what is missing."""


class Repeats:
    """The repeated actions of one page. `on_state` is called whenever the page may show something else."""

    def __init__(self, page: Page, traffic: PageTraffic, on_state: Callable[[], Awaitable[None]]) -> None:
        self._page = page
        self._traffic = traffic
        self._on_state = on_state
        self._ignored: set[str] = set()
        """Requests that were open before, such as those that wait for news."""

    async def scroll(self, until: str) -> None:
        """Scroll so many screens, to the end, or until a selector matches. Raises InVain, BrowserError."""
        wheel = await self._begin("() => ({boxes: []})")
        if until.isdigit():
            for _ in range(int(until)):
                await self._turn_screen(wheel)
                await asyncio.sleep(_PAUSE)
                await self._on_state()
            return
        passed, still, fresh, size = 0.0, 0, True, None
        while still < _STILL:
            if until != END and await self._page.query_selector(written(until)) is not None:
                return
            turned = await self._turn(wheel, fresh=fresh)
            passed += turned["moved"]
            waited = await self._await_requests()
            now = turned["size"], turned["count"]
            fresh = waited or now != size or not turned["moved"]
            if passed > turned["view"] / 2 or (fresh and passed):
                # a box shows less than the page
                await self._on_state()
                passed = 0.0
            if turned["moved"] or now != size or self._traffic.pending:
                still = 0
            else:
                still += 1
            if not turned["moved"]:
                await asyncio.sleep(_PAUSE)
            size = now
        await self._on_state()
        if until != END:
            raise InVain(f"{until} did not come")

    async def click(self, target: Target, name: str, until: str) -> None:
        """Click a target until it is gone or disabled, a selector matches, or so many times. Raises InVain.

        `name`: what messages call the target.
        """
        seen = await self._begin(_COUNT_CHANGES)
        clicks = in_vain = 0
        most = int(until) if until.isdigit() else None
        while in_vain < _IN_VAIN or most is not None:
            if clicks == most or (most is None and until != GONE and await self._page.query_selector(written(until))):
                return
            before = await self._changes(seen)
            if not await self._click(target, is_first=not clicks):
                if until == GONE or most is not None:
                    return
                raise InVain(f"{until} did not come, and {name} is gone")
            clicks += 1
            has_changed = await self._await_changes(seen, before)
            in_vain = 0 if has_changed else in_vain + 1
            await self._on_state()
        raise InVain(f"{name} is still there, and {_IN_VAIN} clicks changed nothing")

    async def _click(self, target: Target, *, is_first: bool) -> bool:
        """Whether it could be clicked; False: it is gone. The first time it is waited for."""
        if is_first:
            await target.click()
            return True
        since = monotonic()
        while True:
            await self._await_requests()
            element = await target.find()
            if element is None or await element.evaluate(_IS_GONE):
                if monotonic() - since > _GONE_SECONDS:
                    return False
                await asyncio.sleep(_POLL)
                continue
            with contextlib.suppress(BrowserTimeout):  # it may go meanwhile
                await element.click(timeout=_CLICK_MILLISECONDS)
                return True

    async def _begin(self, script: str) -> JSHandle:
        self._ignored = set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_BUSY_SECONDS):
                await self._await_requests()
        self._ignored = {*self._traffic.pending}
        return await self._page.evaluate_handle(script)

    async def _turn(self, wheel: JSHandle, *, fresh: bool) -> dict[str, Any]:
        turned: dict[str, Any] = await self._page.evaluate(_WHEEL, [wheel, _NOTCH, fresh])
        return turned

    async def _turn_screen(self, wheel: JSHandle) -> None:
        """One height of the window."""
        passed, fresh, view = 0.0, True, 1.0
        while passed < view:
            turned = await self._turn(wheel, fresh=fresh)
            passed, view, fresh = passed + turned["moved"], turned["view"], await self._await_requests()
            if not turned["moved"]:
                return

    async def _await_requests(self) -> bool:
        """Wait for those that have begun since; whether there were any."""
        waited = False
        while self._traffic.pending - self._ignored:
            waited = True
            await asyncio.sleep(_POLL)
        if waited:  # what came is written by now
            await asyncio.sleep(_POLL)
        return waited

    async def _changes(self, seen: JSHandle) -> int:
        return int(await seen.evaluate("seen => seen.changes"))

    async def _await_changes(self, seen: JSHandle, before: int) -> bool:
        """Wait for what a click has begun; whether it has changed the document."""
        began = changed_at = monotonic()
        count = before
        while True:
            await asyncio.sleep(_POLL)
            waited = await self._await_requests()
            now, changes = monotonic(), await self._changes(seen)
            if waited:
                began = now
            if changes != count:
                count, changed_at = changes, now
            if count == before:
                if now - began > _BEGIN_SECONDS:
                    return False
            elif now - changed_at > _SETTLE_SECONDS or now - began > _BUSY_SECONDS:
                return True
