"""The process of one browser: starts it, and has it load several pages at once."""

import asyncio
import contextlib
import os
import shutil
import signal
from pathlib import Path

from msgspec.structs import replace
from playwright.async_api import Browser, Playwright, async_playwright
from playwright.async_api import Error as BrowserError

from engine.browser.messages import (
    Answer,
    BrowserReady,
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
from engine.browser.visit import PageVisit
from engine.processes.child_limits import become_first_victim
from engine.processes.frames import PREFIX, encode_frame
from engine.processes.start import ChildStart
from engine.runtime import log_file

_ARGUMENTS = (
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--dns-prefetch-disable",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-features=IsolateOrigins,site-per-process,WebRtcHideLocalIpsWithMdns",
    "--disable-site-isolation-trials",  # the requests of frames of other sites are judged with those of their page
    "--deny-permission-prompts",
    "--disable-background-networking",
    "--no-pings",
)


_SHORT = Path("/proc/self/cwd")
"""The folder of the profiles: Chromium has a socket in its TMPDIR, whose path may have 107 bytes."""
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
        self._agent = ""
        """The User-Agent of the browser."""
        self._verdicts: dict[int, asyncio.Future[bool]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        with contextlib.suppress(EOFError, ConnectionError):
            while True:
                number, header_size, body_size = PREFIX.unpack(await self._reader.readexactly(PREFIX.size))
                question = decode_question(await self._reader.readexactly(header_size))
                await self._reader.readexactly(body_size)
                if isinstance(question, Verdict):
                    self._verdicts.pop(number).set_result(question.allowed)
                    continue
                task = asyncio.create_task(self._answer(number, question))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _answer(self, number: int, question: Launch | Visit | Quit) -> None:
        if isinstance(question, Launch):
            answer: Answer = await self._launch(question)
        elif isinstance(question, Quit):
            answer = await self._quit()
        elif self._browser is None or not self._browser.is_connected():
            answer = NotRendered(text="the browser has ended", is_broken=True)
        else:
            agent = f"{self._agent} {question.agent}"
            answer = await PageVisit(self._browser, question, agent, lambda url: self._ask(number, url)).run()
        if isinstance(answer, Rendered):
            answer = replace(answer, memory=tree_bytes(os.getpid()))
        body = answer.body if isinstance(answer, Rendered) else b""
        self._writer.writelines(encode_frame(encode(answer), body, number))
        with contextlib.suppress(ConnectionError):
            await self._writer.drain()

    async def _ask(self, number: int, url: str) -> bool:
        self._verdicts[number] = asyncio.get_running_loop().create_future()
        self._writer.writelines(encode_frame(encode(May(url)), b"", number))
        return await self._verdicts[number]

    async def _launch(self, launch: Launch) -> BrowserReady | NotRendered:
        self._profiles = launch.profiles
        Path(launch.profiles).mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chdir(launch.profiles)
        os.environ["TMPDIR"] = str(_SHORT if _SHORT.exists() else launch.profiles)
        try:
            async with asyncio.timeout(launch.seconds):
                self._playwright = await async_playwright().start()
                self._browser = await self._playwright.chromium.launch(
                    executable_path=launch.executable, args=[*_ARGUMENTS], chromium_sandbox=launch.sandbox,
                    handle_sigint=False, handle_sigterm=False, handle_sighup=False, timeout=launch.seconds * 1000,
                )  # fmt: skip
        except TimeoutError:
            return NotRendered(text=f"the browser did not start within {launch.seconds:g} s", is_broken=True)
        except BrowserError as error:
            return NotRendered(text=describe_start(str(error)), is_broken=True)
        context = await self._browser.new_context()
        page = await context.new_page()
        own = str(await page.evaluate("navigator.userAgent"))
        await context.close()
        self._agent = own.replace("HeadlessChrome", "Chrome")
        return BrowserReady(self._browser.version)

    async def _quit(self) -> BrowserReady:
        with contextlib.suppress(BrowserError):
            if self._browser is not None:
                await self._browser.close()
        shutil.rmtree(self._profiles, ignore_errors=True)
        return BrowserReady("")


def tree_bytes(root: int) -> int:
    """The resident memory of the processes below this one; 0 where /proc does not tell."""
    parents: dict[int, tuple[int, int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = entry.read_text().rpartition(")")[2].split()
            parents[int(entry.parent.name)] = int(fields[1]), int(fields[21])
    below, total = {root}, 0
    for pid in sorted(parents):  # a child has a higher number, until they begin anew
        parent, pages = parents[pid]
        if parent in below:
            below.add(pid)
            total += pages
    return total * os.sysconf("SC_PAGE_SIZE")


def describe_start(text: str) -> str:
    """Why a browser does not start, with what to do."""
    if any(mark in text for mark in _SANDBOX_MARKS):
        return (
            "the browser cannot use its sandbox here, as for root or in a container: run as another user, or set "
            "browser_sandbox = false if you trust the sites"
        )
    own = [line.partition("[err] ")[2] for line in text.splitlines() if "[err] " in line and "dbus" not in line]
    lines = own or [line.strip() for line in text.splitlines() if line.strip() and "===" not in line]
    return f"the browser does not start: {' '.join(lines)[-300:]}"


async def _serve(start: ChildStart) -> None:
    reader, writer = await asyncio.open_unix_connection(sock=start.connect())
    await BrowserChild(reader, writer).serve()


def main(start: ChildStart) -> None:
    """Serve a node until it closes the socket; the browser ends with this process."""
    log_file.log_to_stderr()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    become_first_victim()
    asyncio.run(_serve(start))
