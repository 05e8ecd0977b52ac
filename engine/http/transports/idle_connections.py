"""Keeps connections for further requests: within the limit of open files, the oldest closed first."""

import asyncio
import resource
import select
from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Protocol

_IDLE_SECONDS = 15.0
_SHARE_OF_FILES = 4
"""A quarter of the files that the process may open; the others are for requests, databases and pipes."""
_MOST_IDLE = 2_000


class KeptConnection(Protocol):
    """A connection of any wire."""

    def can_serve(self) -> bool:
        """Whether it is open, and nothing has arrived since its last response."""

    def close(self) -> None:
        """Close it at once."""


class IdleConnections:
    """The idle connections of all wires of an event loop, by what they may serve."""

    def __init__(self) -> None:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._limit = _MOST_IDLE if files < 0 else min(_MOST_IDLE, files // _SHARE_OF_FILES)
        self._by_key: dict[Hashable, deque[KeptConnection]] = {}
        self._kept: OrderedDict[KeptConnection, tuple[Hashable, float]] = OrderedDict()
        """With when they became idle: the oldest first."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, key: Hashable, connection: KeptConnection) -> None:
        """Keep a connection whose response has ended."""
        loop = asyncio.get_running_loop()
        self._kept[connection] = key, loop.time()
        self._by_key.setdefault(key, deque()).append(connection)
        if len(self._kept) > self._limit:
            self._close_oldest()
        if self._timer is None:
            self._timer = loop.call_later(_IDLE_SECONDS, self._sweep)

    def take(self, key: Hashable) -> KeptConnection | None:
        """The connection that became idle last, of those that can serve a request. The others are closed."""
        while (waiting := self._by_key.get(key)) is not None:
            connection = waiting.pop()
            self._forget(connection, waiting)
            if connection.can_serve():
                return connection
            connection.close()
        return None

    def close_all(self) -> None:
        """Close all connections: their files are needed, or no request follows."""
        while self._kept:
            self._close_oldest()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_oldest(self) -> None:
        key, _ = next(iter(self._kept.values()))
        waiting = self._by_key[key]
        connection = waiting.popleft()
        self._forget(connection, waiting)
        connection.close()

    def _forget(self, connection: KeptConnection, waiting: deque[KeptConnection]) -> None:
        key, _ = self._kept.pop(connection)
        if not waiting:
            del self._by_key[key]

    def _sweep(self) -> None:
        """Close what is idle for too long; look again when the next one will be."""
        self._timer, loop = None, asyncio.get_running_loop()
        while self._kept:
            _, since = next(iter(self._kept.values()))
            if since + _IDLE_SECONDS > loop.time():
                self._timer = loop.call_at(since + _IDLE_SECONDS, self._sweep)
                return
            self._close_oldest()


def is_readable(number: int) -> bool:
    """Whether bytes, or the end, can be read from an open file now."""
    poll = select.poll()
    poll.register(number, select.POLLIN)
    return bool(poll.poll(0))
