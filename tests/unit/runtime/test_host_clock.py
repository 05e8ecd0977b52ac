"""The clock file: send times, backoff and slots of a host, shared by processes."""

import multiprocessing
import os
import signal
import struct
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from unittest.mock import Mock

import pytest

from crawl_engine.model import bounds
from crawl_engine.runtime import host_clock
from crawl_engine.runtime.clock import boottime
from crawl_engine.runtime.host_clock import HostClock, data_dir_path, machine_path

HOST = "shop.example:443"
_forked = multiprocessing.get_context("fork")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "hosts.clock"


class Other:
    """Another process with the file open, which holds what `work` took until it is killed."""

    def __init__(self, path: Path, user: str, work: Callable[[HostClock], object]) -> None:
        receiving, sending = _forked.Pipe(duplex=False)
        self.process = _forked.Process(target=self._run, args=(path, user, work, sending))
        self.process.start()
        self.result = receiving.recv()

    def _run(self, path: Path, user: str, work: Callable[[HostClock], object], sending: Connection) -> None:
        clock = HostClock(path, user)
        sending.send(work(clock))
        time.sleep(60)

    def kill(self) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()


def test_the_processes_that_hold_the_places_of_a_host_are_known(path: Path) -> None:
    clock = HostClock(path, "a")
    record = clock.find(HOST)
    assert clock.list_holders(record, 2) == [None, None]
    other = Other(path, "b", lambda clock: [clock.lock_slot(clock.find(HOST), slot) for slot in (0, 1)])
    assert clock.list_holders(record, 2) == [other.process.pid] * 2
    other.kill()
    assert clock.list_holders(record, 2) == [None, None]
    clock.close()


def test_two_processes_never_send_closer_than_the_delay(path: Path) -> None:
    def send_ten(clock: HostClock) -> list[float]:
        record, sent = clock.find(HOST), []
        while len(sent) < 10:
            if (at := clock.reserve(record, 0.02)) == 0:
                sent.append(boottime())
            else:
                time.sleep(max(0.0, at - boottime()))
        return sent

    receiving, sending = _forked.Pipe(duplex=False)
    other = _forked.Process(target=lambda: sending.send(send_ten(HostClock(path, "b"))))
    other.start()
    mine = send_ten(HostClock(path, "a"))
    times = sorted([*mine, *receiving.recv()])
    other.join()
    assert times[-1] - times[0] >= 19 * 0.02 - 0.01, "none was sent too soon, whatever the processor did meanwhile"


@pytest.mark.parametrize("delay", [7_201.0, 40_000.0, bounds.DELAY.le])
def test_the_longest_delay_that_is_allowed_is_shared(path: Path, delay: float) -> None:
    other = Other(path, "a", lambda clock: clock.reserve(clock.find(HOST), delay))
    assert other.result == 0.0
    clock = HostClock(path, "b")
    assert clock.reserve(clock.find(HOST), delay) > boottime() + delay - 60
    other.kill()


def test_a_slot_is_held_by_one_process_and_freed_by_its_death(path: Path) -> None:
    clock = HostClock(path, "a")
    record = clock.find(HOST)
    other = Other(path, "a", lambda clock: clock.lock_slot(clock.find(HOST), 0))
    assert other.result is True
    assert not clock.lock_slot(record, 0)
    assert clock.lock_slot(record, 1)
    other.kill()
    assert clock.lock_slot(record, 0)


def test_slots_are_divided_among_the_data_dirs_that_use_a_host(path: Path) -> None:
    clock = HostClock(path, "a")
    record = clock.find(HOST)
    clock.join(record)
    assert clock.share(record, 8) == range(8)
    other = Other(path, "b", lambda clock: (clock.join(clock.find(HOST)), clock.share(clock.find(HOST), 8))[1])
    twin = Other(path, "a", lambda clock: clock.join(clock.find(HOST)))
    assert sorted([*clock.share(record, 8), *other.result]) == list(range(8))
    assert len(clock.share(record, 8)) == 4, "another node of the same data dir does not count"
    assert clock.share(record, 1) in (range(1), range(1)), "both contend for a single slot"
    other.kill()
    assert clock.share(record, 8) == range(8)
    twin.kill()


def test_a_burst_strikes_once_and_its_backoff_is_seen_by_others(path: Path) -> None:
    clock = HostClock(path, "a")
    record, now = clock.find(HOST), boottime()
    assert clock.backoff(record) == 0
    assert clock.strike(record, now - 0.2, now + 2, now)
    assert not clock.strike(record, now - 0.1, now + 4, now), "it was on the wire when the first answer came"
    assert clock.backoff(record) == now + 2
    assert not clock.strike(record, now - 0.1, now + 4, now + 9), "but its Retry-After counts"
    assert clock.backoff(record) == now + 9
    assert clock.strike(record, boottime() + 1, now + 3, now), "a later request is answered 429: the next burst"
    other = Other(path, "b", lambda clock: clock.backoff(clock.find(HOST)))
    assert other.result == now + 9
    other.kill()


def test_the_file_is_void_after_a_reboot(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = HostClock(path, "a")
    record = clock.find(HOST)
    assert clock.reserve(record, 60.0) == 0.0
    assert clock.reserve(record, 60.0) > boottime() + 50
    clock.close()
    monkeypatch.setattr(host_clock, "boot_id", lambda: "another boot")
    clock = HostClock(path, "a")
    assert clock.reserve(clock.find(HOST), 60.0) == 0.0


def test_a_damaged_deadline_is_ignored(path: Path) -> None:
    clock = HostClock(path, "a")
    record = clock.find(HOST)
    for damage in (1e300, float("inf"), float("nan"), -5.0, boottime() + 1e6):
        with path.open("r+b") as file:
            file.seek(record.offset + 16)
            file.write(struct.pack("=2d", damage, damage))
        assert clock.backoff(record) == 0.0
        assert clock.reserve(record, 0.0) == 0.0


def test_a_file_that_is_cut_costs_its_values_alone(path: Path) -> None:
    clock = HostClock(path, "a")
    record = clock.find("h:80")
    now = boottime()
    clock.strike(record, now, now + 50, now + 50)
    os.truncate(path, 0)
    assert clock.backoff(record) == 0.0
    assert clock.reserve(record, 0.5) == 0.0
    assert clock.reserve(record, 0.5) > now
    assert clock.find("h:80") == record
    clock.close()


def test_each_host_has_a_record_of_its_own(path: Path) -> None:
    clock = HostClock(path, "a")
    records = {clock.find(f"host{n}.example:80") for n in range(500)}
    assert len(records) == 500
    assert clock.find("host7.example:80") in records


def test_only_the_user_may_read_it_and_a_link_is_refused(path: Path) -> None:
    HostClock(path, "a").close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    link = path.with_name("link")
    link.symlink_to(path)
    with pytest.raises(OSError, match="link"):
        HostClock(link, "a")


def test_where_the_files_are(tmp_path: Path) -> None:
    assert machine_path({"XDG_STATE_HOME": "/state"}) == Path("/state/crawl-console/hosts.clock")
    assert machine_path({}) == Path.home() / ".local/state/crawl-console/hosts.clock"
    assert data_dir_path(tmp_path) == tmp_path / "hosts.clock"


def test_a_user_without_a_home_has_no_file_and_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", Mock(side_effect=KeyError))
    assert machine_path({"XDG_STATE_HOME": "/state"}) == Path("/state/crawl-console/hosts.clock")
    with pytest.raises(OSError, match="no home directory"):
        machine_path({})


def test_a_lock_that_another_process_keeps_is_not_waited_for_on_the_spot(path: Path) -> None:
    other = Other(path, "b", lambda clock: clock._try_lock(clock.find(HOST).offset))
    clock = HostClock(path, "a")
    record = clock.find(HOST)
    try:
        start = boottime()
        at = clock.reserve(record, 0.02)
        assert boottime() - start < 0.05
        assert 0.0 < at - start < 0.05
        while (at := clock.reserve(record, 0.02)) and boottime() < start + 5:
            time.sleep(max(0.0, at - boottime()))
        assert 0.08 < boottime() - start < 2.0, "then it continues without the lock"
        start = boottime()
        clock.strike(record, start, start + 9, start)
        assert boottime() - start < 0.05
        assert clock.backoff(record) == start + 9
    finally:
        other.kill()


def test_a_record_that_is_kept_is_not_given_to_another_host(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_clock, "_PROBES", 1)
    monkeypatch.setattr(host_clock, "_RECORDS", 1)
    clock = HostClock(path, "a")
    record = clock.find(HOST)
    clock.join(record)
    monkeypatch.setattr(host_clock, "_IDLE_SECONDS", 0.2)
    time.sleep(0.15)
    clock.keep(record)
    time.sleep(0.1)
    kept = clock._read(record)[0]
    clock.find("other:80")
    assert clock._read(record)[0] == kept
    time.sleep(0.3)
    clock.find("other:80")
    assert clock._read(record)[0] != kept, "its own locks do not keep it"


def test_each_wait_for_a_lock_has_its_own_patience(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = HostClock(path, "a")
    record = clock.find(HOST)
    monkeypatch.setattr(clock, "_try_lock", lambda offset: False)
    assert clock.reserve(record, 0.0) > 0.0
    monkeypatch.undo()
    assert clock.reserve(record, 0.0) == 0.0
    time.sleep(0.12)
    monkeypatch.setattr(clock, "_try_lock", lambda offset: False)
    assert clock.reserve(record, 0.0) > 0.0


def test_who_loses_two_turns_in_a_row_waits_for_the_lock_each_time(path: Path) -> None:
    """It once took the second turn, too, without the lock: two requests at one moment."""
    other = Other(path, "b", lambda clock: clock._try_lock(clock.find(HOST).offset))
    clock = HostClock(path, "a")
    record = clock.find(HOST)
    try:
        assert clock.reserve(record, 0.1) > 0.0
        next_at = boottime() + 0.12
        clock._write(record.offset + host_clock._NEXT_AT, struct.pack("=d", next_at))  # as the other does
        assert clock.reserve(record, 0.1) == next_at
        time.sleep(next_at + 0.01 - boottime())
        assert clock.reserve(record, 0.1) > 0.0
    finally:
        other.kill()
