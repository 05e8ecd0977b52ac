"""The node's heartbeat: a thread that tells how the node is, as long as its other threads tick."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING

from engine.errors import CrawlError
from engine.node.tuning import CpuPinner
from engine.runtime.beat_file import INTERVAL, Beat, BeatWriter, resident_bytes

if TYPE_CHECKING:
    from engine.node.process import Node


class NodeBeatThread(threading.Thread):
    """Writes the node's beat while its threads tick."""

    def __init__(self, node: Node, processor: CpuPinner) -> None:
        super().__init__(name="beat", daemon=True)
        self._cpu_pinner = processor
        self._node = node
        self._writer = BeatWriter(node.folder / "beats" / f"n{node.epoch}")
        self._stopped = threading.Event()
        self._number = 0

    def run(self) -> None:
        """The thread."""
        while True:
            self.write_beat(self._node.state())
            self._cpu_pinner.adjust()
            self._node.heap_trimmer.trim_if_due()
            with contextlib.suppress(CrawlError):
                self._node.sync_role()
            if self._stopped.wait(INTERVAL):
                return

    def write_beat(self, state: str) -> None:
        """One beat, unless a thread hangs."""
        node = self._node
        if node.is_stalled:
            return
        self._number += 1
        beat = Beat(
            number=self._number,
            state=state,
            in_flight=node.capacity.held,
            done=node.committer.done,
            failed=node.committer.failed,
            rss=resident_bytes(),
            lag=node.loop.lag,
            now=node.alarm or (node.loop.current_url if node.capacity.held else ""),
        )
        with contextlib.suppress(OSError):  # a full disk may refuse the very first record
            self._writer.write(beat)

    def stop(self) -> None:
        """The last beat says that the node ends on purpose."""
        self._stopped.set()
        self.join(1.0)
        self.write_beat("SHUTDOWN")
