"""Tasks beside the work that began them."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class TaskSet(set[asyncio.Task[None]]):
    """The tasks that have not ended. The event loop holds none of its tasks, so that one could be lost as garbage."""

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin a task, which leaves the set when it ends."""
        task = asyncio.get_running_loop().create_task(work)
        self.add(task)
        task.add_done_callback(self.discard)
        return task

    def cancel(self) -> None:
        """Cancel all of them; they leave the set as they end."""
        for task in self:
            task.cancel()
