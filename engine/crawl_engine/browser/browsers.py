"""The browsers of a node: started on demand, each for several pages, replaced before they grow old."""

import asyncio
import contextlib
import logging
import shutil
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, Protocol

from msgspec.structs import replace

from crawl_engine.browser.far_ends import HostAccess
from crawl_engine.browser.find import find_browser
from crawl_engine.browser.messages import (
    OTHER_BYTES,
    Answer,
    GiveUp,
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
from crawl_engine.model.step import RENDERED_FILES
from crawl_engine.processes.launcher import Launcher, TemplateLink, TemplateLost
from crawl_engine.processes.orders import ProcessKind
from crawl_engine.processes.pool import Need, Pool
from crawl_engine.processes.worker import Question, Worker, WorkerEnded
from crawl_engine.runtime.beat_file import BrowserState, NodeBrowsers
from crawl_engine.runtime.file_folder import BROWSERS
from crawl_engine.runtime.task_set import TaskSet
from crawl_engine.settings import Settings

_QUIT_SECONDS = 3.0
_KIND = ProcessKind("crawl_engine.browser.chromium:main", "browser", leads_session=True)
_MAX_PAGES = 500
"""After which a browser is replaced: what it leaks goes with it."""
_LAUNCH_SECONDS = 30.0
_SPARE_SECONDS = 40.0
"""A browser that does not keep the deadline of a page itself, and then see to its own health, is killed."""
_MEMORY_FACTOR = 1.1
"""Times `browser_memory`: beyond it, the page of a browser that is at fault is ended."""
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 60.0
"""Seconds after a browser that did not start, in which none is started; doubled each time."""
_MAX_TOLD, _MAX_URLS, _URL_CHARACTERS, _REASON_CHARACTERS = 8, 3, 80, 120
"""Browsers of a node that a beat tells of, the URLs of each, and lengths of texts: its file has 4,096 bytes at most."""
_log = logging.getLogger(__name__)


class BrowserUnavailable(Exception):
    """No browser can be started. The message says why, and what to do."""


class PageRules(Protocol):
    """What the rules of the crawl say of the requests of a page. The methods raise what ends its job."""

    def find_access(self, host_key: str) -> HostAccess:
        """What the defs say of a host (`name:port`)."""

    async def judge_document(self, url: str) -> Verdict:
        """Whether the page may go on to a further document of its host; returns when it is its turn."""

    async def judge_part(self, url: str) -> Verdict:
        """Whether the page may ask for something else."""


class BrowserProcess(Worker):
    """One browser with its driver."""

    def __init__(self, launcher: Launcher, settings: Settings, profiles: Path, executable: str, *, shows: bool) -> None:
        """Start it. `shows`: with windows. Raises TemplateLost, OSError."""
        super().__init__(
            launcher, _KIND, max_bytes=(1 + len(RENDERED_FILES)) * settings.max_body + OTHER_BYTES, is_serial=False
        )
        self._max_body = settings.max_body
        self._max_memory = settings.browser_memory
        self._launch = Launch(
            executable=executable, profiles=str(profiles), sandbox=settings.browser_sandbox, seconds=_LAUNCH_SECONDS,
            memory=int(_MEMORY_FACTOR * settings.browser_memory), shows=shows,
        )  # fmt: skip
        self.profiles = profiles
        self.pages = 0
        """Those that it was given so far."""
        self.memory = 0
        """Bytes, after its last page."""
        self.launched: asyncio.Task[None] | None = None
        self.started_at = time.monotonic()
        self.urls: list[str] = []
        """Those that it loads, for people."""
        self.failure = ""
        """The page after which it opened no other."""

    @property
    def is_worn(self) -> bool:
        """Whether it gets no further page: what it leaks goes with it."""
        return self.pages >= _MAX_PAGES or self.memory > self._max_memory

    async def quit(self) -> None:
        """End the browser in order, so that its profile is deleted."""
        try:
            with contextlib.suppress(WorkerEnded, TimeoutError):
                async with asyncio.timeout(_QUIT_SECONDS):
                    await self.ask(Question[Answer](encode(Quit()), seconds=_QUIT_SECONDS, read=self.read))
        finally:
            self.kill("is replaced")

    async def launch(self) -> None:
        """Raises BrowserUnavailable."""
        seconds = self._launch.seconds + _SPARE_SECONDS
        try:
            answer = await self.ask(Question[Answer](encode(self._launch), seconds=seconds, read=self.read))
        except WorkerEnded as end:
            raise BrowserUnavailable(f"the browser does not start: {end}") from end
        if isinstance(answer, NotRendered):
            self.kill("does not start")
            raise BrowserUnavailable(answer.text)

    async def load(
        self, visit: Visit, rules: PageRules, admit: Callable[[], Awaitable[None]]
    ) -> tuple[Rendered | NotRendered, float]:
        """The answer, and the seconds for which further documents of the page waited for their turns.

        `admit`: returns when the first request may be sent. Raises WorkerEnded, and what `rules` and it raise.
        """
        question = _VisitQuestion(self, visit, rules, admit)
        try:
            answer = await self.ask(question)
        except asyncio.CancelledError:
            self.reply(question, encode(GiveUp()))
            raise
        finally:
            question.close()
        if question.failure is not None:
            raise question.failure
        if not isinstance(answer, Rendered | NotRendered):
            self.kill("sent an invalid answer")
            return NotRendered(text="its browser sent an invalid answer"), question.waited
        self.memory = answer.memory or self.memory
        if isinstance(answer, NotRendered) and answer.is_at_fault:
            for need in self.serves:
                need.is_disturbed = True
        if isinstance(answer, NotRendered) and answer.is_broken:
            self.failure = answer.text
            self.kill("is replaced")
        return answer, question.waited

    def explain_end(self) -> tuple[str, bool]:
        """Why it ended, and whether that was its fault."""
        if self.failure:
            return f"opened no page after one that failed: {self.failure}", True
        if self.pages >= _MAX_PAGES:
            return f"had loaded {self.pages:,} pages", False
        if self.is_worn:
            return f"had {self.memory / 1e6:,.0f} MB, more than browser_memory", False
        return str(WorkerEnded(self, is_late=False, is_first=False)), True

    def read(self, header: memoryview, body: memoryview) -> Answer:
        """The answer in a frame. Raises InvalidAnswer."""
        return decode_answer(header, body, self._max_body)

    def pause(self, question: Question[Answer], *, paused: bool) -> None:
        """Stop the time of a question while it waits for a turn, or let it go on."""
        self._pause(question, paused=paused)


class _VisitQuestion(Question[Answer]):
    """One page; what it may ask for is asked on the way."""

    def __init__(
        self, browser: BrowserProcess, visit: Visit, rules: PageRules, admit: Callable[[], Awaitable[None]]
    ) -> None:
        super().__init__(encode(visit), seconds=visit.seconds + _SPARE_SECONDS)
        self._browser = browser
        self._rules = rules
        self._admit = admit
        self._is_admitted = False
        self._waiting = 0
        """Documents that wait for their turn."""
        self._judging = TaskSet()
        self.failure: Exception | None = None
        """What a rule raised: the page ended without its document."""

    def read(self, header: memoryview, body: memoryview) -> Answer | None:
        answer = self._browser.read(header, body)
        if not isinstance(answer, May):
            return answer
        self._judging.start(self._judge(answer))
        return None

    def close(self) -> None:
        self._judging.cancel()

    async def _judge(self, may: May) -> None:
        verdict = Verdict("it cannot be judged")
        self._waiting += may.is_document
        try:
            if not may.is_document:
                verdict = await self._rules.judge_part(may.url)
            elif self._is_admitted:
                began = time.monotonic()
                verdict = await self._rules.judge_document(may.url)
                self.waited += time.monotonic() - began
            else:
                self._is_admitted = True
                await self._admit()
                verdict = Verdict()
        except Exception as error:
            self.failure = self.failure or error
        finally:
            self._waiting -= may.is_document
            self._browser.reply(self, encode(replace(verdict, number=may.number)))
            self._browser.pause(self, paused=self._waiting > 0)


class PageNeed(Need):
    """Who needs a place for a page."""

    is_alone: bool = False
    """Whether it must be the only page of its browser."""
    had_company: bool = False
    """Whether another page had a place in its browser meanwhile."""
    is_disturbed: bool = False
    """Whether a page of its browser was ended meanwhile for the sake of the others."""

    @property
    def is_suspect(self) -> bool:
        """Whether the end of its browser may be its fault or that of another page."""
        return self.had_company and not self.is_alone

    def may_blame(self, answer: NotRendered) -> bool:
        """Whether another page may be why this one has no document."""
        is_doubtful = answer.is_broken or answer.is_crashed
        return self.is_suspect and (is_doubtful or (answer.retryable and self.is_disturbed))


class _BrowserPages(Pool[BrowserProcess, PageNeed]):
    """A browser has places for several pages."""

    def __init__(self, start: Callable[[PageNeed], BrowserProcess], settings: Settings) -> None:
        super().__init__(start, is_reusable=lambda _: True)
        self._places = settings.browser_pages
        self.starts_at = 0.0
        """By the clock of the loop; none is started before."""
        self.is_closing = False
        self.past = NodeBrowsers()
        """Of those that ended."""

    def choose(self, need: PageNeed) -> BrowserProcess | Literal["start"] | None:
        """The browser with the fewest pages; a new one while there may be more."""
        open_ = [one for one in self.processes if one.is_open and not one.is_worn]
        places = 1 if need.is_alone else self._places
        free = [one for one in open_ if len(one.serves) < places and not any(other.is_alone for other in one.serves)]
        if free:
            return min(free, key=lambda one: len(one.serves))
        may_start = asyncio.get_running_loop().time() >= self.starts_at
        return "start" if may_start and len(open_) < need.size else None

    def _on_end(self, process: BrowserProcess) -> None:
        super()._on_end(process)
        if process.pages and not self.is_closing:
            reason, is_fault = process.explain_end()
            replaced = self.past.replaced + 1
            self.past = NodeBrowsers(replaced=replaced, reason=reason[:_REASON_CHARACTERS], is_fault=is_fault)


class BrowserPool:
    """For one event loop."""

    def __init__(
        self, link: TemplateLink, settings: Settings, folder: Path, name: str, *, shows: bool = False
    ) -> None:  # fmt: skip
        """`folder`: the data dir. `name`: of the node. `shows`: the pages stay open, each in a window."""
        self._shows = shows
        self._launcher = Launcher(link, "browser")
        self._settings = settings
        self._folder = folder / BROWSERS / name
        self._pool = _BrowserPages(self._start, settings)
        self._started = 0
        self._pause = 0.0
        self._failure = ""
        """Why the last browser did not start."""
        self._endings = TaskSet()

    @property
    def pids(self) -> list[int]:
        """The live processes. Callable from any thread."""
        return self._pool.pids

    def has_free(self) -> bool:
        return self._pool.has_free(self.need())

    def describe(self) -> NodeBrowsers | None:
        """The browsers and those before them; None: none was started. Callable from any thread."""
        if not self._started:
            return None
        now, processes = time.monotonic(), list(self._pool.processes)
        return replace(
            self._pool.past,
            processes=tuple(
                [
                    BrowserState(
                        pid=pid, pages=one.pages, loading=len(one.urls), rss=one.memory, age=now - one.started_at,
                        urls=tuple([url[:_URL_CHARACTERS] for url in one.urls[:_MAX_URLS]]),
                    )
                    for one in processes[:_MAX_TOLD]
                    if (pid := one.pid) is not None
                ]
            ),
        )  # fmt: skip

    @asynccontextmanager
    async def reserve(self, need: PageNeed, url: str) -> AsyncIterator[BrowserProcess]:
        """A browser with a place for one page; waits until one has it. Raises BrowserUnavailable, UsageError.

        `url`: without secrets.
        """
        if self._failure and not any(one.is_open for one in self._pool.processes):
            self._check_pause()
        async with self._pool.reserve(need) as browser:
            if len(browser.serves) > 1:
                for one in browser.serves:
                    one.had_company = True
            if browser.launched is None:
                browser.launched = asyncio.create_task(self._launch(browser))
                browser.launched.add_done_callback(_note_end)  # nobody may wait for it any more
            await asyncio.shield(browser.launched)
            browser.pages += 1
            browser.urls.append(url)
            try:
                yield browser
            finally:
                browser.urls.remove(url)
                if browser.is_worn and len(browser.serves) == 1:
                    self._endings.start(browser.quit())

    async def aclose(self) -> None:
        """End the browsers in order."""
        self._pool.is_closing = True
        for one in self._pool.processes:
            if one.is_open:
                self._endings.start(one.quit())
        await asyncio.gather(*self._endings, return_exceptions=True)
        self._pool.close()
        self._launcher.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def need(self) -> PageNeed:
        return PageNeed(BROWSERS, size=self._settings.browsers)

    def _check_pause(self) -> None:
        """Raise BrowserUnavailable if no browser may be started yet."""
        left = self._pool.starts_at - asyncio.get_running_loop().time()
        if left > 0:
            raise BrowserUnavailable(
                f"the next browser is started in {left:.0f} s, as the last one failed: {self._failure}"
            )

    def _start(self, _: PageNeed) -> BrowserProcess:
        executable = find_browser(self._settings, shows=self._shows)
        self._sweep()
        self._started += 1
        try:
            profiles = self._folder / str(self._started)
            return BrowserProcess(self._launcher, self._settings, profiles, executable, shows=self._shows)
        except (TemplateLost, OSError) as error:
            raise BrowserUnavailable(f"no browser process can be started: {error}") from error

    def _sweep(self) -> None:
        """Delete the profiles of browsers that were killed."""
        used = {one.profiles for one in self._pool.processes}
        with contextlib.suppress(OSError):
            for path in self._folder.iterdir():
                if path not in used:
                    shutil.rmtree(path, ignore_errors=True)

    async def _launch(self, browser: BrowserProcess) -> None:
        """Raises BrowserUnavailable: for all that wait, unless another browser runs."""
        try:
            await browser.launch()
        except BrowserUnavailable as error:
            self._pause = min(_LONGEST_PAUSE, 2 * self._pause) or _FIRST_PAUSE
            self._pool.starts_at = asyncio.get_running_loop().time() + self._pause
            self._failure = text = str(error)
            _log.warning("browser: %s; the next one is started in %g s at the earliest", text, self._pause)
            if not any(one.is_open for one in self._pool.processes):
                self._pool.fail_waiting(lambda: BrowserUnavailable(text))
            raise
        self._pause, self._failure = 0.0, ""


def _note_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        task.exception()
