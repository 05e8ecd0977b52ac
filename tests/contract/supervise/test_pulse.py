"""The beats of a machine: they are written, the others are read, and a machine that is cut off is told at once."""

import threading
import time
from typing import Any

import pytest

from crawl_engine import __version__
from crawl_engine.errors import StorageError
from crawl_engine.store.db.connector import connect
from crawl_engine.store.db.schema import CRAWL
from crawl_engine.store.tables.run import machines, supervisors
from crawl_engine.supervise.machines import pulse as pulse_module
from crawl_engine.supervise.machines.pulse import Pulse
from tests.contract.store.harness import StoreHarness


class _Severed:
    """A connection that does not answer, or fails."""

    def __init__(self, *, hangs: bool) -> None:
        self._hangs = hangs

    def execute(self, *_: object) -> Any:
        if self._hangs:
            time.sleep(5)
        raise StorageError("no route")

    all = execute

    def close(self) -> None:
        """Nothing is open."""


def join(store: StoreHarness) -> int:
    with store.db.transaction():
        return machines.join(store.db, identity="boot:2:1", host="web", program=__version__, now=0.0)


def test_beats_are_written_and_the_others_are_read(store: StoreHarness) -> None:
    epoch, told = join(store), threading.Event()
    pulse = Pulse(lambda: connect(store.folder / CRAWL, busy_seconds=1), epoch, store.run, told.set)
    pulse.start()
    looks: list[Any] = []
    deadline = time.monotonic() + 10
    while len(looks) < 2 and time.monotonic() < deadline:
        looks += pulse.take_looks()
        time.sleep(0.02)
    view, _ = looks[-1]
    assert [machine.beats for machine in view.machines if machine.epoch == epoch] == [1]
    assert view.stage == "INIT" and view.exit_code is None
    assert not told.is_set()
    with store.db.transaction():
        supervisors.end(store.db, epoch, 0.0)
    assert told.wait(10) and pulse.is_cut_off, "its row has ended"
    pulse.stop()


@pytest.mark.parametrize("hangs", [True, False])
def test_a_machine_without_a_database_is_cut_off(
    store: StoreHarness, hangs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulse_module, "CUT_OFF_SECONDS", 0.3)
    told = threading.Event()
    pulse = Pulse(lambda: _Severed(hangs=hangs), 1, store.run, told.set)  # type: ignore[arg-type, return-value]
    pulse.start()
    assert told.wait(3) and pulse.is_cut_off
    assert hangs or [view for view, _ in pulse.take_looks()][:1] == [None]
    pulse.stop()
