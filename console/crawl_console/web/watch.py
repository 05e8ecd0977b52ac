"""Watches data dirs: each is read once a second at most, on its own thread, for all clients."""

import asyncio
import itertools
import os
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import orjson
from msgspec import Struct, field
from msgspec.structs import replace
from starlette.requests import Request

from crawl_console.client import supervisor_alarm
from crawl_console.crawl.orders import Undo
from crawl_console.crawl.servers import ServerClient, ServerRow, list_servers, remove_server, write_server
from crawl_console.crawl.source import DataSource, LogLines, PollResult, poll
from crawl_console.crawl.status import (
    describe_unreadable,
    empty_line,
    event_as_dict,
    line_of,
    require_folder,
    status_as_dict,
)
from crawl_console.web.feed import Channel, Update
from crawl_console.web.given import GivenOrders
from crawl_engine.errors import CrawlError, StorageError, UsageError, reason_of, suggest
from crawl_engine.model.run import RunState
from crawl_engine.store.db.connector import DatabaseBusy
from crawl_engine.store.db.file_header import CRAWL
from crawl_engine.store.db.location import STORE_FILE
from crawl_engine.store.read.snapshot import DEFAULT_LIMIT, EMPTY_SNAPSHOT
from crawl_engine.store.tables.run.runs import LastEnd

SECONDS = 1.0
"""Between two reads of a data dir."""
_MAX_UNDO_STEPS = 20
_MAX_LINES = 100
"""Lines of the log that one message has."""
_MAX_REPLAYED = 500
"""Lines that a client gets which was away."""
_MAX_ORDERS = 4
"""Carried out at once."""
_BUSY_SECONDS = 10.0
"""How long the last view stands for a database that is busy."""

_MAX_CLIENTS = 100
_SEEN_SECONDS = 60.0
"""How long somebody who asked is listed."""

Answer = TypeVar("Answer")
_NOTHING = PollResult(0.0, 0.0, EMPTY_SNAPSHOT, None)


class CrawlView(Struct, frozen=True):
    """What was read of a data dir at one moment."""

    name: str
    """In URLs."""
    label: str
    """In metrics."""
    data: Path
    number: int
    """The next view has the next one."""
    at: float
    """Monotonic seconds."""
    poll: PollResult
    line: dict[str, Any]
    """As `status --all --json` prints it."""
    status: dict[str, Any]
    """As `status --json` prints it."""
    error: str | None = None
    """Why the data dir cannot be read now; `line` and `status` are empty then, `poll` is what was read last."""
    read_at: float = 0.0
    """When `poll` was read, wall clock; 0: never."""
    exit_code: int | None = None
    """Of the latest run, if it has ended."""
    last_end: LastEnd | None = None
    """Of the run that ended last, which may be an earlier one."""
    last_success: float | None = None
    """When a run last ended with exit code 0, wall clock."""
    last_event: int = 0
    log: tuple[dict[str, Any], ...] = ()
    """The lines that came since the view before, as `events --json` prints them; the first view has none."""

    @property
    def trouble(self) -> str | None:
        """Why the crawl is not well: no run is alive, and the last did not end well. Names nothing of the crawl."""
        run = self.poll.snapshot.run
        if self.error is not None:
            return "a data directory cannot be read"
        if run is None:
            return "there is no run yet"
        if self.poll.is_live or self.exit_code == 0:
            return None
        if self.exit_code is None:
            return "the supervisor is gone, and the run has not ended"
        if run.state is RunState.DONE:
            return "the last run ended with failures"
        return f"the last run ended {run.state}"


class UndoSteps:
    """How to take back the last orders about jobs, each once, by a number."""

    def __init__(self) -> None:
        self._steps: dict[int, Undo] = {}
        self._numbers = itertools.count(1)

    def add(self, step: Undo) -> int:
        number = next(self._numbers)
        self._steps[number] = step
        self._steps.pop(number - _MAX_UNDO_STEPS, None)
        return number

    def take(self, number: int) -> Undo | None:
        return self._steps.pop(number, None)


class Watch:
    """One data dir. All methods but `ask`'s function run on the event loop."""

    def __init__(self, name: str, data: Path, label: str | None = None) -> None:
        """`label`: in metrics; the name without it."""
        self.name = name
        self.label = label or name
        self.data = data
        self.undo_steps = UndoSteps()
        self.given = GivenOrders()
        self.channel = Channel(self._update)
        self._source = DataSource(data)
        self._stamp: tuple[Any, ...] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"watch {name}")
        self._reading: asyncio.Task[CrawlView] | None = None
        self._view: CrawlView | None = None
        self._publishing: Future[None] | None = None
        self._lines: deque[dict[str, Any]] = deque(maxlen=_MAX_REPLAYED)
        """The last lines of the log: a view may be read for others than those who listen."""
        self._told = 0
        """The id of the last line that those who listen got."""

    async def current(self) -> CrawlView:
        """The newest view, at most a second old; those who ask meanwhile share one read."""
        view = self._view
        if view is not None and time.monotonic() - view.at < SECONDS:
            return view
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._refresh())
        return await asyncio.shield(self._reading)

    def expire(self) -> None:
        """Have the next view read anew: an order was carried out."""
        if self._view is not None:
            self._view = replace(self._view, at=float("-inf"))

    async def ask(self, question: Callable[[DataSource], Answer]) -> Answer:
        """Have the thread of the data dir read more. Raises CrawlError."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._answer, question)

    async def listen(self, address: str, after: int | None = None) -> AsyncIterator[bytes]:
        """The messages for one client; with `after`, first the lines of the log that came since that one."""
        if not self.channel.listeners:
            self._told = (await self.current()).last_event
        feed, upto = self.channel.open(address), self._told  # later lines come by the feed
        return self.channel.messages(feed, None if after is None else partial(self._replay, after, upto))

    async def _replay(self, after: int, upto: int) -> bytes:
        """The message with the lines of the latest run between these, the last of them if there are many."""
        view = await self.current()
        run = view.poll.snapshot.run
        if run is None or view.error is not None:
            return b""
        seq, begin = run.seq, max(after, upto - _MAX_REPLAYED)
        lines = await self.ask(lambda source: source.events(seq, begin, _MAX_REPLAYED))
        return log_message([event_as_dict(id_, line) for id_, line in lines if id_ <= upto])

    def publish(self, row: ServerRow) -> None:
        """Say in the data dir who serves it, unless that is still under way."""
        if self._publishing is None or self._publishing.done():
            self._publishing = self._thread.submit(write_server, self.data, row)

    def close(self) -> None:
        self.channel.close()
        self._thread.submit(remove_server, self.data)
        self._thread.submit(self._source.close)
        self._thread.shutdown(wait=False)

    async def _refresh(self) -> CrawlView:
        loop = asyncio.get_running_loop()
        self._view = await loop.run_in_executor(self._thread, self._read, self._view)
        self._lines.extend(self._view.log)
        return self._view

    async def _update(self) -> Update:
        view = await self.current()
        lines = [line for line in self._lines if line["id"] > self._told]
        self._told = max(self._told, view.last_event)
        return Update(view.number, {**view.status, "error": view.error}, log_message(lines))

    def _answer(self, question: Callable[[DataSource], Answer]) -> Answer:
        self._follow_files()
        return question(self._source)

    def _read(self, before: CrawlView | None) -> CrawlView:
        """The next view; whatever happens, the one after it is tried again."""
        number = before.number + 1 if before is not None else 1
        now = time.monotonic()
        try:
            require_folder(self.data)
            self._follow_files()
            return self._view_of(number, before)
        except DatabaseBusy as error:
            if before is not None and before.error is None and now - before.poll.at < _BUSY_SECONDS:
                return replace(before, number=number, at=now, log=())
            return self._unreadable(number, before, error)
        except Exception as error:
            self._forget()
            return self._unreadable(number, before, error)

    def _view_of(self, number: int, before: CrawlView | None) -> CrawlView:
        source = self._source
        read = poll(source, DEFAULT_LIMIT)
        view, run = read.snapshot, read.snapshot.run
        alarm = supervisor_alarm(self.data, view)
        ended, exit_code = source.ended(run.seq) if run is not None else (None, None)
        last_event, log = self._new_lines(run.seq if run is not None else None, before)
        return CrawlView(
            self.name, self.label, self.data, number, time.monotonic(), read,
            line=line_of(self.data, view, ended, alarm),
            status=status_as_dict(view, alarm, list_servers(self.data)),
            exit_code=exit_code,
            last_end=source.last_end() if run is not None else None,
            last_success=source.last_success() if run is not None else None,
            last_event=last_event,
            read_at=time.time(),
            log=tuple(event_as_dict(id_, event) for id_, event in log),
        )  # fmt: skip

    def _new_lines(self, run: int | None, before: CrawlView | None) -> tuple[int, LogLines]:
        """The last event, and the lines of the log since the view before; the last ones if there are many."""
        if run is None:
            return 0, ()
        last = self._source.last_event_id()
        if before is None or before.error is not None or not before.last_event or before.last_event >= last:
            return last, ()
        lines = self._source.events(run, max(before.last_event, last - _MAX_LINES), _MAX_LINES)
        return max(last, lines[-1][0]) if lines else last, lines  # some came since `last` was read

    def _unreadable(self, number: int, before: CrawlView | None, error: Exception) -> CrawlView:
        text = describe_unreadable(self.data, error if isinstance(error, CrawlError | OSError) else _fault(error))
        return CrawlView(
            self.name, self.label, self.data, number, time.monotonic(),
            before.poll if before is not None else _NOTHING,
            line=empty_line(self.data, text), status=status_as_dict(EMPTY_SNAPSHOT), error=text,
            read_at=before.read_at if before is not None else 0.0,
        )  # fmt: skip

    def _follow_files(self) -> None:
        """Open the database anew where another one stands in its place, or a copy of it was read."""
        stamp = tuple(map(_identity, (self.data / CRAWL, self.data / STORE_FILE)))
        if stamp != self._stamp:
            self._forget()
            self._stamp = stamp

    def _forget(self) -> None:
        try:
            self._source.close()
        finally:
            self._source, self._stamp = DataSource(self.data), None


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file it is; None: there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _fault(error: Exception) -> CrawlError:
    return StorageError(f"a fault of the program: {reason_of(error)}")


def log_message(lines: Sequence[dict[str, Any]]) -> bytes:
    """A message with lines of the log; its id is that of the last one."""
    if not lines:
        return b""
    return b"id: %d\nevent: log\ndata: %b\n\n" % (lines[-1]["id"], orjson.dumps(lines))


class Crawls(Struct):
    """The data dirs that are served, by name."""

    watches: dict[str, Watch]
    control: bool = False
    requests: dict[str, tuple[int, float]] = {}
    """By address: how many there were, and when the last one came, wall clock."""
    channel: Channel = field(default_factory=lambda: Channel(None))
    """Of the list of all."""
    orders: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_ORDERS))
    """Each may wait for its supervisor, and takes a thread meanwhile."""

    def __post_init__(self) -> None:
        self.channel.read = self._update

    def find(self, request: Request) -> Watch:
        """The data dir that `?data=NAME` names; the only one without it. Raises UsageError."""
        name = request.query_params.get("data")
        if name is None and len(self.watches) == 1:
            return next(iter(self.watches.values()))
        if name is None:
            raise UsageError("which data directory?", f"Add ?data=NAME, one of: {', '.join(self.watches)}.")
        if name not in self.watches:
            raise UsageError(f"no data directory '{name}'{suggest(name, list(self.watches))}", "GET / lists them.")
        return self.watches[name]

    async def views(self) -> list[CrawlView]:
        return await asyncio.gather(*(watch.current() for watch in self.watches.values()))

    def note(self, address: str) -> None:
        """Count a request that was let through."""
        count, _ = self.requests.pop(address, (0, 0.0))
        self.requests[address] = count + 1, time.time()
        if len(self.requests) > _MAX_CLIENTS:
            del self.requests[next(iter(self.requests))]

    def publish(self, url: str, socket: str | None) -> None:
        """Say in each data dir who asks now."""
        listening = Counter(self.channel.listeners)
        for watch in self.watches.values():
            listening.update(watch.channel.listeners)
        since = time.time() - _SEEN_SECONDS
        clients = [
            ServerClient(address, listening[address], count)
            for address, (count, at) in sorted(self.requests.items())
            if at > since or listening[address]
        ]
        for watch in self.watches.values():
            watch.publish(ServerRow(os.getpid(), url, socket, self.control, clients))

    def close(self) -> None:
        self.channel.close()
        for watch in self.watches.values():
            watch.close()

    async def _update(self) -> Update:
        views = await self.views()
        return Update(sum(view.number for view in views), {view.name: view.line for view in views})


def name_folders(folders: Sequence[Path]) -> dict[str, Path]:
    """The folders by their shortest distinct ends: `data`, or `north-data` and `south-data`."""
    parts = list(map(_parts, folders))
    size, names = 1, [each[-1] for each in parts]
    while len(set(names)) < len(names) and size < max(map(len, parts)):
        size += 1
        names = ["-".join(each[-size:]) for each in parts]
    return dict(zip(names, folders, strict=True))


def label_folders(folders: Sequence[Path]) -> list[str]:
    """Their names in metrics, which do not change when another folder is served: `north`, or `north-data` of a `data`.

    Where two would be the same, each is the whole path.
    """
    labels = ["-".join(parts[-2:]) if parts[-1] == "data" else parts[-1] for parts in map(_parts, folders)]
    return [
        label if labels.count(label) == 1 else str(folder.absolute())
        for label, folder in zip(labels, folders, strict=True)
    ]


def _parts(folder: Path) -> list[str]:
    return [part for part in folder.absolute().parts if part != "/"] or ["root"]
