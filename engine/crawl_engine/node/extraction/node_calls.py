"""Answers plugin code that asks its node: values that a run's steps share, and checkpoints."""

from typing import Any

import msgspec
import orjson

from crawl_engine.model.job import LeasedJob
from crawl_engine.node.db_access import DbAccess
from crawl_engine.node.extraction import wire

MAX_VALUE_BYTES = 65_536
"""Of one stored value, as JSON."""
MAX_PAGE_BYTES = 1_000_000
"""Of all values that one page stores."""


class NodeCalls:
    """The calls of one attempt at a job."""

    def __init__(self, db_access: DbAccess, job: LeasedJob) -> None:
        self._db_access = db_access
        self._job = job
        self._kept: dict[str, str] = {}
        self.stored_values: dict[str, str] = {}
        """What the job's commit writes: JSON by key."""

    def begin(self) -> None:
        """Start a request: values stored before it stay."""
        self._kept = dict(self.stored_values)

    def restart(self) -> None:
        """Start the request again, possibly without a unit: the values it stored are dropped."""
        self.stored_values = dict(self._kept)

    async def answer(self, call: wire.NodeCallRequest) -> Any:
        """The answer to a call; None also if nothing is stored. For a `set`, the problem."""
        value = msgspec.json.decode(call.value)
        match call.call:
            case "get":
                text = self.stored_values.get(call.key) or self._db_access.step_value(self._job.run, call.key)
                return None if text is None else orjson.loads(text)
            case "set":
                return self._set(call.key, orjson.dumps(value))
            case "checkpoint" if value is not None:
                await self._db_access.write_checkpoint(self._job, str(value))
                return str(value)
            case "checkpoint":
                return self._db_access.checkpoint(self._job.page_id)
        return None

    def _set(self, key: str, value: bytes) -> str | None:
        others = sum(len(text) for name, text in self.stored_values.items() if name != key)
        if len(value) > MAX_VALUE_BYTES or others + len(value) > MAX_PAGE_BYTES:
            return f"a value has at most {MAX_VALUE_BYTES:,} bytes, and all values of a page {MAX_PAGE_BYTES:,}"
        self.stored_values[key] = value.decode()
        return None
