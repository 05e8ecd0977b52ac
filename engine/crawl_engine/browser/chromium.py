"""The process of one browser: starts it, and has it load several pages at once."""

import asyncio
import contextlib
import gc
import os
import re
import shutil
import signal
from functools import partial
from importlib.metadata import version
from pathlib import Path

from msgspec.structs import replace
from playwright.async_api import Browser, Playwright, async_playwright
from playwright.async_api import Error as BrowserError

from crawl_engine.browser.messages import (
    Answer,
    BrowserReady,
    GiveUp,
    Launch,
    May,
    NotRendered,
    Quit,
    Rendered,
    Verdict,
    Visit,
    decode_question,
    encode,
)
from crawl_engine.browser.process_tree import end_processes, start_guard, tree_bytes
from crawl_engine.browser.visit import PageVisit
from crawl_engine.processes.child_limits import become_first_victim
from crawl_engine.processes.frames import PREFIX, encode_frame
from crawl_engine.processes.start import ChildStart
from crawl_engine.runtime import log_file
from crawl_engine.runtime.task_set import TaskSet

_ARGUMENTS = (
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--dns-prefetch-disable",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    # of several such options the last one alone counts: the first two lines are what playwright leaves out
    "--disable-features=AvoidUnnecessaryBeforeUnloadCheckSync,DestroyProfileOnBrowserClose,HttpsUpgrades,"
    "HttpsFirstBalancedModeAutoEnable,LensOverlay,MediaRouter,PaintHolding,OptimizationHints,PreconnectToSearch,"
    "DialMediaRouteProvider,NetworkTimeServiceQuerying,IsolateOrigins,site-per-process,WebRtcHideLocalIpsWithMdns,"
    "Prerender2,LocalNetworkAccessChecks",
    "--disable-site-isolation-trials",  # the requests of frames of other sites are judged with those of their page
    "--disable-blink-features=SharedWorker,WebTransport",  # no page would see their requests
    "--deny-permission-prompts",
    "--no-pings",
    # the proxy of the node resolves all names, and carries what belongs to a page; all else leads nowhere
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--proxy-server=http://127.0.0.1:1",
    "--proxy-bypass-list=<-loopback>",
)
_LEFT_OUT = ("--disable-popup-blocking",)
"""Arguments of playwright: scripts open no windows by themselves, without an action of the defs."""
_HEALTH_SECONDS = 20.0
"""A browser that opens no page within them is replaced."""


_SHORT = Path("/proc/self/cwd")
"""The folder of the profiles: Chromium has a socket in its TMPDIR, whose path may have 107 bytes."""
_TEXT_CHARACTERS = 300
_QUIT_SECONDS = 2.0
_SANDBOX_MARKS = ("without --no-sandbox", "No usable sandbox", "SUID sandbox helper", "Operation not permitted (1)")
"""What Chromium writes where it cannot use its sandbox."""


class BrowserChild:
    """Serves a node over one socket until that is closed."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._profiles = ""
        self._shows = False
        self._agent = ""
        """The User-Agent of the browser."""
        self._verdicts: dict[tuple[int, int], asyncio.Future[Verdict]] = {}
        """By the numbers of the page and of its question."""
        self._visits: dict[int, asyncio.Task[None]] = {}
        """The pages that load, by their numbers."""
        self._tasks = TaskSet()

    async def serve(self) -> None:
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                number, header_size, body_size = PREFIX.unpack(await self._reader.readexactly(PREFIX.size))
                question = decode_question(await self._reader.readexactly(header_size))
                await self._reader.readexactly(body_size)
                if isinstance(question, Verdict):
                    asked = self._verdicts.pop((number, question.number), None)
                    if asked is not None and not asked.done():
                        asked.set_result(question)
                    continue
                if isinstance(question, GiveUp):
                    if number in self._visits:
                        asyncio.get_running_loop().call_soon(self._visits[number].cancel)  # once it has begun
                    continue
                task = self._tasks.start(self._answer(number, question))
                if isinstance(question, Visit):
                    self._visits[number] = task

    async def _answer(self, number: int, question: Launch | Visit | Quit) -> None:
        try:
            answer = await self._find_answer(number, question)
        except asyncio.CancelledError:
            answer = NotRendered(text="it is no longer needed")
        finally:
            self._visits.pop(number, None)
        body = answer.body if isinstance(answer, Rendered) else b""
        self._writer.writelines(encode_frame(encode(answer), body, number))
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    async def _find_answer(self, number: int, question: Launch | Visit | Quit) -> Answer:
        if isinstance(question, Launch):
            return await self._launch(question)
        if isinstance(question, Quit):
            return await self._quit()
        if self._browser is None or not self._browser.is_connected():
            return NotRendered(text="the browser has ended", is_broken=True)
        return await self._load(self._browser, number, question)

    async def _load(self, browser: Browser, number: int, visit: Visit) -> Rendered | NotRendered:
        agent = f"{self._agent} {visit.agent}"
        try:
            answer = await PageVisit(browser, visit, agent, partial(self._ask, number), stays=self._shows).run()
        except Exception as error:  # of playwright itself: the page costs its job alone
            answer = NotRendered(text=f"{type(error).__name__}: {error}"[:_TEXT_CHARACTERS], is_broken=True)
        if isinstance(answer, NotRendered) and answer.is_broken:
            answer = replace(answer, is_broken=not await _is_well(browser))
        return replace(answer, memory=tree_bytes(os.getpid()))

    async def _ask(self, number: int, may: May) -> Verdict:
        asked: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
        self._verdicts[number, may.number] = asked
        self._writer.writelines(encode_frame(encode(may), b"", number))
        try:
            return await asked
        finally:
            self._verdicts.pop((number, may.number), None)

    async def _launch(self, launch: Launch) -> BrowserReady | NotRendered:
        try:
            async with asyncio.timeout(launch.seconds):
                opened = await self._open(launch)
        except TimeoutError:
            end_processes(os.getpid())
            return NotRendered(text=f"the browser did not start within {launch.seconds:g} s", is_broken=True)
        except OSError as error:
            return NotRendered(text=f"the browser does not start: {error.filename}: {error.strerror}", is_broken=True)
        except Exception as error:  # playwright raises others than its own where the driver dies
            return NotRendered(text=describe_start(str(error)), is_broken=True)
        return BrowserReady(opened)

    async def _open(self, launch: Launch) -> str:
        """Start the browser, and try it; returns its version."""
        self._profiles, self._shows = launch.profiles, launch.shows
        Path(launch.profiles).mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chdir(launch.profiles)
        start_guard(str(Path(launch.profiles).resolve()), launch.memory)
        # the reports of crashes lie in the folder of the configuration
        os.environ["TMPDIR"] = os.environ["XDG_CONFIG_HOME"] = str(_SHORT if _SHORT.exists() else launch.profiles)
        self._playwright = await async_playwright().start()
        self._browser = browser = await self._playwright.chromium.launch(
            executable_path=launch.executable, headless=not launch.shows, args=[*_ARGUMENTS],
            ignore_default_args=[*_LEFT_OUT], chromium_sandbox=launch.sandbox, timeout=launch.seconds * 1000,
            handle_sigint=False, handle_sigterm=False, handle_sighup=False,
        )  # fmt: skip
        context = await browser.new_context()
        page = await context.new_page()
        own = str(await page.evaluate("navigator.userAgent"))
        await context.close()
        self._agent = own.replace("HeadlessChrome", "Chrome")
        return str(browser.version)

    async def _quit(self) -> BrowserReady:
        with contextlib.suppress(BrowserError, TimeoutError):
            async with asyncio.timeout(_QUIT_SECONDS):
                if self._browser is not None:
                    await self._browser.close()
        end_processes(os.getpid())
        shutil.rmtree(self._profiles, ignore_errors=True)
        return BrowserReady("")


async def _is_well(browser: Browser) -> bool:
    """Whether a browser in which a page failed still opens pages."""
    try:
        async with asyncio.timeout(_HEALTH_SECONDS):
            context = await browser.new_context()
            page = await context.new_page()
            await page.evaluate("1")
            await context.close()
    except (BrowserError, TimeoutError):
        return False
    return bool(browser.is_connected())


def describe_start(text: str) -> str:
    """Why a browser does not start, with what to do."""
    if any(mark in text for mark in _SANDBOX_MARKS):
        return (
            "the browser cannot use its sandbox here, as for root or in a container: run as another user, or set "
            "browser_sandbox = false if you trust the sites"
        )
    if "Protocol error" in text:
        return (
            f"the browser does not understand the installed playwright ({version('playwright')}): update both "
            f"(pip install -U playwright; apt-get upgrade chromium). It answered: {text.splitlines()[0][:200]}"
        )
    end = re.search(r"exitCode=(\w+), signal=(\w+)", text)
    own = [line.partition("[err] ")[2] for line in text.splitlines() if "[err] " in line and "dbus" not in line]
    if not own and end is not None:
        own = [f"it ended with exit code {end[1]}, signal {end[2]}, and said nothing; is it Chromium or Chrome?"]
    lines = own or [line.strip() for line in text.splitlines() if line.strip() and "===" not in line]
    return f"the browser does not start: {' '.join(lines)[-_TEXT_CHARACTERS:]}"


async def _serve(start: ChildStart) -> None:
    reader, writer = await asyncio.open_unix_connection(sock=start.connect())
    await BrowserChild(reader, writer).serve()


def main(start: ChildStart) -> None:
    """Serve a node until it closes the socket; the browser ends with this process."""
    log_file.log_to_stderr()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    become_first_victim()
    gc.enable()  # the template has none; what playwright leaves are cycles
    asyncio.run(_serve(start))
