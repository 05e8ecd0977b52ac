"""The connection pool of aiohttp, without its idle connections on which the server has sent something unasked.

Such a response would be taken for that of the next request, whose own would go to the one after it, and so on.
"""

from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey
from aiohttp.connector import Connection
from aiohttp.helpers import set_exception
from aiohttp.tracing import Trace

from engine.http.checked_tls import TlsFlood


class _CheckedHandler(ResponseHandler):
    """Closes its connection when something arrives while it is idle."""

    is_idle = False

    def data_received(self, data: bytes) -> None:
        if data and self.is_idle:  # without data aiohttp calls it itself
            self.close()
        else:
            super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        if isinstance(exc, TlsFlood) and self._payload is not None:
            # aiohttp would raise an error of its own, about the body alone
            set_exception(self._payload, exc)
            self._payload = None
        super().connection_lost(exc)


class CheckedConnector(aiohttp.TCPConnector):
    """Overrides private methods: pyproject.toml bounds the version, and tests send such responses."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = partial(_CheckedHandler, loop=self._loop)  # type: ignore[assignment]

    async def _get(self, key: ConnectionKey, traces: list[Trace]) -> Connection | None:
        connection = await super()._get(key, traces)
        if connection is not None and isinstance(connection.protocol, _CheckedHandler):
            connection.protocol.is_idle = False
        return connection

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        if isinstance(protocol, _CheckedHandler):
            protocol.is_idle = True
        super()._release(key, protocol, should_close=should_close)
