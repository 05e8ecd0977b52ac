"""Runs what users' code awaits."""

import asyncio
import inspect
from typing import Any


class Awaiter:
    """One event loop for all calls of a process, so that clients and connections of users' code live on in it."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def finish(self, value: Any) -> Any:
        """The value, awaited if it is awaitable."""
        if not inspect.isawaitable(value):
            return value
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(_awaited(value))


async def _awaited(value: Any) -> Any:
    return await value
