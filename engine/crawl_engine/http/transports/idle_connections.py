"""Keeps connections for further requests: within the limit of open files, the oldest closed first."""

import asyncio
import resource
from collections.abc import Hashable
from itertools import chain
from typing import Any, Protocol

_IDLE_SECONDS = 15.0
_SHARE_OF_FILES = 4
"""A quarter of the files that the process may open; the others are for requests, databases and pipes."""
_MOST_IDLE = 2_000
_SHARE_CLOSED = 16
"""Beyond the limit a sixteenth is closed at once: the search for the oldest takes longer than closing them."""


class KeptConnection(Protocol):
    """A connection of any wire."""

    idle_since: float
    """When its last response ended, by the clock of the loop."""

    def can_serve(self) -> bool:
        """Whether it is open, and nothing has arrived since its last response."""

    def close(self) -> None:
        """Close it at once."""


class IdleConnections:
    """The idle connections of all wires of an event loop, by what they may serve; of each the oldest first."""

    def __init__(self) -> None:
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._limit = _MOST_IDLE if files < 0 else min(_MOST_IDLE, files // _SHARE_OF_FILES)
        self._by_key: dict[Hashable, list[KeptConnection]] = {}
        self._count = 0
        self._timer: asyncio.TimerHandle | None = None

    def keep(self, key: Hashable, connection: KeptConnection) -> None:
        """Keep a connection whose response has ended."""
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._by_key.setdefault(key, []).append(connection)
        self._count += 1
        if self._count > self._limit:
            ages = sorted([one.idle_since for one in chain.from_iterable(self._by_key.values())])
            self._close_until(ages[self._limit // _SHARE_CLOSED])
        if self._timer is None:
            self._timer = loop.call_later(_IDLE_SECONDS, self._sweep)

    def take(self, key: Hashable) -> Any:
        """The connection that was kept last with this key, if any can serve a request. Those that cannot are closed."""
        waiting = self._by_key.get(key)
        while waiting:
            connection = waiting.pop()
            self._count -= 1
            if connection.can_serve():
                return connection
            connection.close()
        return None

    def close_all(self) -> None:
        """Close all connections: their files are needed, or no request follows."""
        self._close_until(asyncio.get_running_loop().time())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sweep(self) -> None:
        """Close what is idle for too long; look again when the next one will be."""
        loop = asyncio.get_running_loop()
        self._close_until(loop.time() - _IDLE_SECONDS)
        oldest = min([waiting[0].idle_since for waiting in self._by_key.values()], default=None)
        self._timer = None if oldest is None else loop.call_at(oldest + _IDLE_SECONDS, self._sweep)

    def _close_until(self, moment: float) -> None:
        """Close those that are idle since this moment or an earlier one."""
        closed = [one for one in chain.from_iterable(self._by_key.values()) if one.idle_since <= moment]
        kept = {key: [one for one in waiting if one.idle_since > moment] for key, waiting in self._by_key.items()}
        self._by_key = {key: waiting for key, waiting in kept.items() if waiting}
        self._count -= len(closed)
        for connection in closed:
            connection.close()
