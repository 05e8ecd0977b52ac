"""Answers users' code that asks its node for something in the middle of a page."""

import asyncio

from engine.node import extraction_wire as wire
from engine.node.extraction_request import ChildState


class CallReplies:
    """The replies that are being made."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def answer(self, child: ChildState, call: wire.NodeCallRequest) -> None:
        """Have the node answer; until then the time of the document does not count."""
        child.clock.pause(paused=True)
        task = asyncio.get_running_loop().create_task(self._reply(child, call))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reply(self, child: ChildState, call: wire.NodeCallRequest) -> None:
        on_call = child.requests[0].on_call
        value = await on_call(call) if on_call is not None else None
        child.clock.pause(paused=False)
        child.connection.write(wire.encode_frame({"kind": "reply", "value": value}))
