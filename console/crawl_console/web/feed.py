"""Server-sent events: what changed since the last second, made once and sent to all who listen."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import orjson
from msgspec import Struct

SECONDS = 1.0
"""Between two messages."""
_MAX_WAITING = 8
"""Messages that wait for a client; one that is slower misses them and gets the whole state again."""
_MAX_MISSED = 60
_ALIVE_SECONDS = 15.0
_RETRY = b"retry: 2000\n\n"
_ALIVE = b"event: alive\ndata: {}\n\n"
"""A browser that misses it knows that the server does not answer."""


class Update(Struct, frozen=True):
    """What is to be known at one moment: an object, and a message that is sent once."""

    number: int
    """The same as long as nothing changes."""
    state: dict[str, Any]
    message: bytes = b""


class Channel:
    """Reads updates while anybody listens. A message `status` has the keys of the object whose values changed."""

    def __init__(self, read: Callable[[], Awaitable[Update]] | None) -> None:
        self.read = read
        self._feeds: set[Feed] = set()
        self._ticking: asyncio.Task[None] | None = None
        self._state: dict[str, Any] = {}
        self._closed = False

    @property
    def listeners(self) -> list[str]:
        """The addresses of those who listen."""
        return sorted(feed.address for feed in self._feeds)

    def open(self, address: str) -> "Feed":
        """From now on the messages are kept for a client, who then gets them by `messages`."""
        feed = Feed(address)
        self._feeds.add(feed)
        if self._ticking is None:
            self._state = {}
            self._ticking = asyncio.create_task(self._tick())
        elif self._state:
            feed.put(_status(self._state))
        return feed

    async def messages(
        self, feed: "Feed", first: Callable[[], Awaitable[bytes]] | None = None
    ) -> AsyncIterator[bytes]:  # fmt: skip
        """The messages for one client, until it leaves or the channel is closed. `first`: what it alone gets."""
        try:
            yield _RETRY
            if first is not None and (message := await first()):
                yield message
            while not self._closed:
                try:
                    message = await asyncio.wait_for(feed.messages.get(), _ALIVE_SECONDS)
                except TimeoutError:
                    message = _ALIVE
                yield message
        finally:
            self._feeds.discard(feed)
            if not self._feeds and self._ticking is not None:
                self._ticking.cancel()
                self._ticking = None

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        for feed in self._feeds:
            feed.put(_ALIVE)

    async def _tick(self) -> None:
        number = -1
        while True:
            with contextlib.suppress(Exception):  # the next second may be better; a view says what is wrong
                assert self.read is not None
                update = await self.read()
                if update.number != number:
                    self._publish(update)
                    number = update.number
            await asyncio.sleep(SECONDS)

    def _publish(self, update: Update) -> None:
        before, self._state = self._state, update.state
        changed = {key: value for key, value in update.state.items() if key not in before or before[key] != value}
        messages = [message for message in (_status(changed) if changed else b"", update.message) if message]
        for feed in list(self._feeds):
            if feed.missed > _MAX_MISSED:  # its client left before its answer began
                self._feeds.discard(feed)
            elif feed.missed:
                feed.restart(_status(update.state))
            else:
                for message in messages:
                    feed.put(message)


class Feed:
    """The messages that wait for one client."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.messages: asyncio.Queue[bytes] = asyncio.Queue(_MAX_WAITING)
        self.missed = 0
        """Messages since it was full."""

    def put(self, message: bytes) -> None:
        try:
            self.messages.put_nowait(message)
        except asyncio.QueueFull:
            self.missed += 1

    def restart(self, message: bytes) -> None:
        """Give up the messages that wait for this one, once the client has begun to read again."""
        if self.messages.full():
            self.missed += 1
            return
        while not self.messages.empty():
            self.messages.get_nowait()
        self.missed = 0
        self.put(message)


def _status(state: dict[str, Any]) -> bytes:
    return b"event: status\ndata: %b\n\n" % orjson.dumps(state)
