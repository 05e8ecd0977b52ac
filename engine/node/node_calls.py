"""Answers what users' code asks of its node: values that the steps of a run share, and checkpoints of a job."""

from typing import Any

import orjson

from engine.model.job import LeasedJob
from engine.node import extraction_wire as wire
from engine.node.db_access import DbAccess

MAX_VALUE_BYTES = 65_536
"""Of one stored value, as JSON."""
_MAX_VALUES = 1_000
"""Values that one page may store."""


class NodeCalls:
    """The calls of one attempt at a job."""

    def __init__(self, db_access: DbAccess, job: LeasedJob) -> None:
        self._db_access = db_access
        self._job = job
        self.stored_values: dict[str, str] = {}
        """What the job's commit writes: JSON by key."""

    async def answer(self, call: wire.NodeCallRequest) -> Any:
        """The answer; None also where nothing is stored."""
        match call.call:
            case "get":
                text = self.stored_values.get(call.key) or self._db_access.step_value(self._job.run, call.key)
                return None if text is None else orjson.loads(text)
            case "set":
                text = orjson.dumps(call.value).decode()
                if len(text) <= MAX_VALUE_BYTES and len(self.stored_values) < _MAX_VALUES:
                    self.stored_values[call.key] = text
                    return None
                return f"a value has at most {MAX_VALUE_BYTES:,} bytes, and a page stores at most {_MAX_VALUES:,}"
            case "checkpoint" if call.value is not None:
                await self._db_access.write_checkpoint(self._job, str(call.value))
                return str(call.value)
            case "checkpoint":
                return self._db_access.checkpoint(self._job.page_job or self._job.id)
        return None
