"""The browsers of a node: started on demand, each for several pages, replaced before they grow old."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from engine.browser.find import find_browser
from engine.browser.messages import (
    OTHER_BYTES,
    Answer,
    Launch,
    May,
    NotRendered,
    Quit,
    Rendered,
    Verdict,
    Visit,
    decode_answer,
    encode,
)
from engine.model.step import RENDERED_FILES
from engine.processes.launcher import Launcher, TemplateLink, TemplateLost
from engine.processes.orders import ProcessKind
from engine.processes.pool import Claim, Pool
from engine.processes.worker import Question, Worker, WorkerEnded
from engine.runtime.file_folder import BROWSERS
from engine.settings import Settings

_QUIT_SECONDS = 3.0
_KIND = ProcessKind("engine.browser.chromium:main", "browser", leads_session=True)
_MAX_PAGES = 500
"""After which a browser is replaced: what it leaks goes with it."""
_LAUNCH_SECONDS = 30.0
_MAX_LATE_PAGES = 2
_SPARE_SECONDS = 10.0
"""A browser that does not keep the deadline of a page itself is killed."""


class BrowserUnavailable(Exception):
    """No browser can be started. The message says why, and what to do."""


class BrowserProcess(Worker):
    """One browser with its driver."""

    def __init__(self, launcher: Launcher, settings: Settings, profiles: Path) -> None:
        """Start it. Raises TemplateLost, OSError."""
        super().__init__(
            launcher, _KIND, max_bytes=(1 + len(RENDERED_FILES)) * settings.max_body + OTHER_BYTES, is_serial=False
        )
        self._max_body = settings.max_body
        self.profiles = profiles
        self.pages = 0
        """Those that it was given so far."""
        self.memory = 0
        """Bytes, after its last page."""
        self.late_pages = 0
        """In a row: a part of the browser may have died, and left it hanging."""
        self._max_memory = settings.browser_memory
        self.launched: asyncio.Task[None] | None = None

    @property
    def is_worn(self) -> bool:
        """Whether it gets no further page: what it leaks goes with it."""
        return self.pages >= _MAX_PAGES or self.memory > self._max_memory

    async def quit(self) -> None:
        """End the browser in order, so that its profile is deleted."""
        with contextlib.suppress(WorkerEnded, TimeoutError):
            async with asyncio.timeout(_QUIT_SECONDS):
                await self.ask(Question[Answer](encode(Quit()), seconds=_QUIT_SECONDS, read=self.read))

    async def launch(self, launch: Launch) -> None:
        """Raises BrowserUnavailable."""
        question = Question[Answer](encode(launch), seconds=launch.seconds + _SPARE_SECONDS, read=self.read)
        try:
            answer = await self.ask(question)
        except WorkerEnded as end:
            raise BrowserUnavailable(f"the browser does not start: {end}") from end
        if isinstance(answer, NotRendered):
            self.kill("does not start")
            raise BrowserUnavailable(answer.text)

    async def load(self, visit: Visit, judge: Callable[[str], Awaitable[bool]]) -> Rendered | NotRendered:
        """Raises WorkerEnded. `judge`: whether the page may go on to a further document of its host."""
        question = _VisitQuestion(self, visit, judge)
        try:
            answer = await self.ask(question)
        except asyncio.CancelledError:
            self.kill("is no longer needed")
            raise
        finally:
            for task in question.decisions:
                task.cancel()
        if not isinstance(answer, Rendered | NotRendered):
            self.kill("sent an invalid answer")
            return NotRendered(text="its browser sent an invalid answer")
        if isinstance(answer, Rendered):
            self.memory, self.late_pages = answer.memory, 0
        elif answer.is_late:
            self.late_pages += 1
            if self.late_pages >= _MAX_LATE_PAGES:
                self.kill("does not answer")
        return answer

    def read(self, header: memoryview, body: memoryview) -> Answer:
        """The answer in a frame. Raises InvalidAnswer."""
        return decode_answer(header, body, self._max_body)


class _VisitQuestion(Question[Answer]):
    """One page; whether it may go on to a further document is asked on the way."""

    def __init__(self, browser: BrowserProcess, visit: Visit, judge: Callable[[str], Awaitable[bool]]) -> None:
        super().__init__(encode(visit), seconds=visit.seconds + _SPARE_SECONDS)
        self._browser = browser
        self._judge = judge
        self.decisions: set[asyncio.Task[None]] = set()

    def read(self, header: memoryview, body: memoryview) -> Answer | None:
        answer = self._browser.read(header, body)
        if not isinstance(answer, May):
            return answer
        task = asyncio.get_running_loop().create_task(self._decide(answer.url))
        self.decisions.add(task)
        task.add_done_callback(self.decisions.discard)
        return None

    async def _decide(self, url: str) -> None:
        allowed = False
        try:
            allowed = await self._judge(url)
        finally:
            self._browser.reply(self, encode(Verdict(allowed)))


class _BrowserPages(Pool[BrowserProcess, Claim]):
    """A browser has places for several pages."""

    def __init__(self, start: Callable[[Claim], BrowserProcess], places: int) -> None:
        super().__init__(start, is_reusable=lambda _: True)
        self._places = places

    def choose(self, claim: Claim) -> BrowserProcess | Literal["start"] | None:
        """The browser with the fewest pages; a new one while there may be more."""
        open_ = [one for one in self.processes if one.is_open and not one.is_worn]
        free = [one for one in open_ if len(one.claims) < self._places]
        if free:
            return min(free, key=lambda one: len(one.claims))
        return "start" if len(open_) < claim.size else None


class BrowserPool:
    """For one event loop."""

    def __init__(self, link: TemplateLink, settings: Settings, folder: Path, name: str) -> None:
        """`folder`: the data dir. `name`: of the node."""
        self._launcher = Launcher(link, "browser")
        self._settings = settings
        self._folder = folder / BROWSERS / name
        self._pool = _BrowserPages(self._start, settings.browser_pages)
        self._started = 0

    @property
    def pids(self) -> list[int]:
        """The live processes. Callable from any thread."""
        return self._pool.pids

    def has_free(self) -> bool:
        return self._pool.has_free(self._claim())

    @asynccontextmanager
    async def reserve(self) -> AsyncIterator[BrowserProcess]:
        """A browser with a place for one page; waits until one has it. Raises BrowserUnavailable."""
        async with self._pool.reserve(self._claim()) as browser:
            if browser.launched is None:
                browser.launched = asyncio.create_task(self._launch(browser))
            await asyncio.shield(browser.launched)
            browser.pages += 1
            try:
                yield browser
            finally:
                if browser.is_worn and len(browser.claims) == 1:
                    await browser.quit()
                    browser.kill("is replaced")

    async def aclose(self) -> None:
        """End the browsers in order."""
        await asyncio.gather(*[one.quit() for one in self._pool.processes if one.is_open])
        self._pool.close()
        self._launcher.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _claim(self) -> Claim:
        return Claim(BROWSERS, size=self._settings.browsers)

    def _start(self, _: Claim) -> BrowserProcess:
        self._started += 1
        try:
            return BrowserProcess(self._launcher, self._settings, self._folder / str(self._started))
        except (TemplateLost, OSError) as error:
            raise BrowserUnavailable(f"no browser process can be started: {error}") from error

    async def _launch(self, browser: BrowserProcess) -> None:
        launch = Launch(
            executable=find_browser(self._settings), profiles=str(browser.profiles),
            sandbox=self._settings.browser_sandbox, seconds=_LAUNCH_SECONDS,
        )  # fmt: skip
        await browser.launch(launch)
