"""Beats for this machine in threads: no slow tick delays a beat, and a lost database shows at once."""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable

from crawl_engine.errors import CrawlError
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.run import machines
from crawl_engine.store.tables.run.machines import MachineView
from crawl_engine.supervise.machines.election import BEAT_SECONDS, CUT_OFF_SECONDS, LOOK_SECONDS

_WATCH_SECONDS = 0.1
_ANALYZE_PAUSES = (1, 1, 2, 4, 8, 16, 32)
"""Seconds between the first samples; the server takes its own each minute."""


class Pulse:
    """Beats each second, looks at the other machines, and says when no beat got through for three seconds.

    Beside that it has the server count and sample the tables of a young crawl.
    """

    def __init__(
        self, connect: Callable[[], Database], epoch: int, run: int | None, on_cut_off: Callable[[], None]
    ) -> None:
        """`on_cut_off` is called in a thread, once."""
        self._db, self._statistics_db = connect(), connect()
        self._epoch = epoch
        self.run = run
        """The run of this machine, once it has one."""
        self._on_cut_off = on_cut_off
        self._looks: deque[tuple[MachineView | None, float]] = deque()
        self._beaten_at = time.monotonic()
        """When the last beat that got through was sent."""
        self._stopping = threading.Event()
        self.is_cut_off = False
        """Whether others count this machine as silent, or soon will."""
        works = (self._beat, self._watch, self._analyze)
        self._threads = [threading.Thread(target=work, daemon=True) for work in works]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def take_looks(self) -> list[tuple[MachineView | None, float]]:
        """What was read since the last call, and when; None: a read failed."""
        return [self._looks.popleft() for _ in range(len(self._looks))]

    def stop(self) -> None:
        """Beat no more."""
        self._stopping.set()

    def _beat(self) -> None:
        sent_at = 0.0
        while not self._stopping.is_set():
            now = time.monotonic()
            try:
                if now - sent_at >= BEAT_SECONDS:
                    if not machines.beat(self._db, self._epoch):
                        break
                    sent_at = self._beaten_at = now
                view = machines.read_view(self._db, self.run)
                self._looks.append((view, time.monotonic()))
            except CrawlError:
                self._looks.append((None, time.monotonic()))
            self._stopping.wait(LOOK_SECONDS)
        self._db.close()
        if not self._stopping.is_set():  # its row has ended
            self._beaten_at = 0.0

    def _analyze(self) -> None:
        """What the server does not know yet, its plans read whole."""
        for pause in _ANALYZE_PAUSES:
            if self._stopping.wait(pause):
                break
            with contextlib.suppress(CrawlError):
                machines.analyze(self._statistics_db)
        self._statistics_db.close()

    def _watch(self) -> None:
        while not self._stopping.wait(_WATCH_SECONDS):
            if time.monotonic() - self._beaten_at > CUT_OFF_SECONDS:
                self.is_cut_off = True
                self._on_cut_off()
                return
