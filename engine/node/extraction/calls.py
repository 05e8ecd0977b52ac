"""Answers users' code that asks its node for something in the middle of a page."""

import asyncio
import logging
from typing import Any

from engine.node.extraction import wire
from engine.node.extraction.request import ChildState, ExtractionRequest
from engine.runtime.frames import encode_frame

_log = logging.getLogger(__name__)


class CallReplies:
    """The replies that are being made."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def answer(self, child: ChildState, call: wire.NodeCallRequest) -> None:
        """Have the node answer; until then the time of the document does not count."""
        child.clock.pause(paused=True)
        task = asyncio.get_running_loop().create_task(self._reply(child, child.requests[0], call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reply(self, child: ChildState, request: ExtractionRequest, call: wire.NodeCallRequest) -> None:
        value: Any = None
        problem = ""
        try:
            if request.on_call is not None:
                value = await request.on_call.answer(call)
        except Exception as error:
            _log.warning("%s of users' code failed: %s", call.call, error)
            problem = f"{call.call} failed: {error}"[:300]
        if child.requests and child.requests[0] is request and child.is_open:
            child.clock.pause(paused=False)
            child.connection.write(encode_frame({"kind": "reply", "value": value, "problem": problem}))
