"""Finds what an action is done to: by a selector, in frames too, or by the text that it shows."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from playwright.async_api import Error as BrowserError
from playwright.async_api import Frame, FrameLocator, Locator, Page

from crawl_engine.model.step import TEXT_PREFIX

_XPATH = "xpath:"
_POLL = 0.05


def written(selector: str) -> str:
    """A selector as the browser's driver wants it."""
    bare = selector.strip()
    return f"xpath={bare.removeprefix(_XPATH).strip()}" if bare.startswith(_XPATH) else bare


class Target:
    """An element of a page. It is looked for anew each time: pages replace what they show."""

    def __init__(self, page: Page, selector: str, frames: Sequence[str] = ()) -> None:
        """`selector`: CSS, `xpath: …`, or `text: …` of what can be clicked. `frames`: each inside the one before."""
        self._page = page
        self._text = selector.removeprefix(TEXT_PREFIX).strip() if selector.startswith(TEXT_PREFIX) else ""
        self._selector = written(selector)
        scope: Page | FrameLocator = page
        for frame in frames:
            scope = scope.frame_locator(written(frame)).first
        self._scope = scope
        self._is_in_frame = bool(frames)

    async def click(self, **options: Any) -> None:
        """Wait until it can be clicked, and do it. Raises BrowserError."""
        await (await self._await()).click(**options)

    async def fill(self, text: str) -> None:
        await (await self._await()).fill(text)

    async def select(self, option: str) -> None:
        await (await self._await()).select_option(option)

    async def appear(self, state: Any = "visible") -> None:
        """Wait until it is there. Raises BrowserError."""
        await (await self._await()).wait_for(state=state)

    async def find(self) -> Locator | None:
        """What is there now; None: nothing is."""
        if self._text:
            return await self._search()
        found = self._scope.locator(self._selector).first
        return found if await found.count() else None

    async def _await(self) -> Locator:
        """What to wait for; of a text, once it is shown anywhere."""
        if not self._text:
            return self._scope.locator(self._selector).first
        while (found := await self._search()) is None:
            await asyncio.sleep(_POLL)
        return found

    async def _search(self) -> Locator | None:
        """The first shown element with the text: buttons before links before others; the page before its frames."""
        scopes: Sequence[Frame | FrameLocator | Page] = [self._scope] if self._is_in_frame else self._page.frames
        for scope in scopes:
            for candidates in self._candidates(scope):
                try:
                    for number in range(await candidates.count()):
                        if await (one := candidates.nth(number)).is_visible():
                            return one
                except BrowserError:  # the frame has gone
                    break
        return None

    def _candidates(self, scope: Frame | FrameLocator | Page) -> Iterator[Locator]:
        for exact in (True, False):
            yield scope.get_by_role("button", name=self._text, exact=exact)
            yield scope.get_by_role("link", name=self._text, exact=exact)
        yield scope.get_by_text(self._text, exact=True)
