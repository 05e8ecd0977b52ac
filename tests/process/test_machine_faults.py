"""Machines are killed, cut off from the network or from the database: rows are exact, and hosts are asked politely."""

import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.postgres_server import PostgresServer

from .islands import Islands, serve_islands
from .machine_group import MachineGroup
from .machine_network import machine_network
from .project import until
from .stopwatch import slowness

_TAKEOVER_SECONDS = 5.0
_CUT_OFF_SECONDS = 3.5
"""Nodes that are cut off for so long were killed, with the requests that they had sent."""
_LOOPBACK = [f"127.0.0.{number}" for number in range(2, 10)]


class _Fault:
    """Notes what was done to the machines, for the message of a failed test, and how long nobody led."""

    def __init__(self, group: MachineGroup, islands: Islands) -> None:
        self._group, self._islands = group, islands
        self._begun_at = time.monotonic()
        self.notes: list[str] = []
        self.late: list[tuple[float, float]] = []
        """When requests arrive that a link held which was cut for a moment; its machine need not have noticed."""

    @property
    def is_late(self) -> bool:
        """Whether the crawl is near its end."""
        return len(self._islands.site.exchanges) > 0.75 * self._islands.size

    def note(self, text: str) -> None:
        """Note it with the time."""
        self.notes.append(f"{time.monotonic() - self._begun_at:.1f} s: {text}")

    def take_away(self, number: int, take: Callable[[], None]) -> None:
        """Take a machine away; if it leads, another one must lead within five seconds."""
        lease = self._group.lease()
        leads = self._group.leader() == number
        take()
        taken_at = time.monotonic()
        self.note(f"machine {number} is away{' and led' * leads}")
        if leads:
            assert until(lambda: self._group.lease().fence > lease.fence, 20), self.explain()
            seconds = time.monotonic() - taken_at
            self.note(f"machine {self._group.leader()} leads after {seconds:.2f} s")
            assert seconds < _TAKEOVER_SECONDS + 0.5 * (slowness() - 1), self.explain()

    def explain(self) -> str:
        return "\n".join([*self.notes, self._group.logs()])

    def assert_exact(self) -> None:
        """All machines have ended with the run, its rows are exact, and the hosts were asked politely."""
        codes = [running.wait(240).code for running in self._group.running]
        self.note(f"exit codes {codes}, {len(self._islands.site.exchanges)} requests of {self._islands.size} pages")
        assert set(codes) <= {0, -9}, self.explain()
        expected = self._islands.rows()
        leader = self._group.leader()
        assert leader is not None
        for actual in (self._group.rows(leader), self._group.exported_rows(leader - 1)):
            assert (expected - actual, actual - expected) == ({}, {}), self.explain()
        assert self._group.query("SELECT count(*) FROM jobs WHERE state NOT IN ('DONE', 'SKIPPED')") == [(0,)]
        assert "Traceback" not in self._group.logs(), self.explain()
        self._islands.assert_polite(self.late)


def kill_at_random(fault: _Fault, group: MachineGroup, rng: random.Random, count: int) -> None:
    """Kill machines, and start most of them again."""
    absent: set[int] = set()
    for _ in range(count):
        time.sleep(rng.uniform(0.5, 5))
        if fault.is_late:
            break
        victim = rng.choice([n for n in range(len(group.running)) if n not in absent])
        fault.take_away(victim, lambda victim=victim: group.kill(victim))
        absent.add(victim)
        if len(absent) == len(group.running) - 1 or rng.random() < 0.7:
            back = rng.choice(sorted(absent))
            absent.remove(back)
            time.sleep(rng.uniform(0, 2))
            group.restart(back)
            fault.note(f"machine {back} is back")


@pytest.mark.quick
@pytest.mark.parametrize("seed", [1])
def test_a_killed_machine_costs_no_row(tmp_path: Path, database: str, seed: int) -> None:
    run_killed(tmp_path, database, seed, shelves=2, books=5, kills=2)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(4))
def test_machines_killed_at_random(tmp_path: Path, database: str, seed: int) -> None:
    run_killed(tmp_path, database, seed, shelves=20, books=6, kills=6)


def run_killed(folder: Path, database: str, seed: int, *, shelves: int, books: int, kills: int) -> None:
    with serve_islands(_LOOPBACK) as site:
        islands = Islands(site, shelves, books)
        group = MachineGroup(folder, database, islands, count=3)
        try:
            fault = _start(group, islands)
            kill_at_random(fault, group, random.Random(seed), kills)
            fault.assert_exact()
            print(*fault.notes, sep="\n")
        finally:
            group.kill_all()


def _start(group: MachineGroup, islands: Islands) -> _Fault:
    """Start the machines, and wait until they work."""
    group.start()
    assert until(lambda: len(islands.site.exchanges) > 20), group.logs()
    return _Fault(group, islands)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(5))
def test_links_cut_at_random(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    with machine_network(3, 8) as network, serve_islands(network.addresses) as site, ExitStack() as exits:
        server = PostgresServer(address=network.addresses[0])
        exits.callback(server.close)
        islands = Islands(site, 40, 8)
        group = MachineGroup(tmp_path, server.create_database(), islands, count=3, network=network)
        exits.callback(group.kill_all)
        fault = _start(group, islands)
        for _ in range(4):
            time.sleep(rng.uniform(0.5, 6))
            victim, silently, seconds = rng.randrange(3), rng.random() < 0.5, 60 ** rng.random()
            if fault.is_late:
                break
            fault.note(f"link {victim} is cut for {seconds:.1f} s{', silently' * silently}")
            if seconds > _TAKEOVER_SECONDS + 2:
                fault.take_away(victim, lambda v=victim, s=silently: network.cut(v, silently=s))
            else:
                network.cut(victim, silently=silently)
            time.sleep(seconds)
            if seconds < _CUT_OFF_SECONDS:
                fault.late.append((time.monotonic(), time.monotonic() + 1 + seconds))
            network.join(victim)
            fault.note(f"link {victim} is back")
        fault.assert_exact()
        print(*fault.notes, sep="\n")


@pytest.mark.sweep
def test_postgresql_restarted_at_random(tmp_path: Path) -> None:
    rng = random.Random(1)
    with serve_islands(_LOOPBACK) as site, ExitStack() as exits:
        server = PostgresServer()
        exits.callback(server.close)
        islands = Islands(site, 25, 6)
        group = MachineGroup(tmp_path, server.create_database(), islands, count=2)
        exits.callback(group.kill_all)
        fault = _start(group, islands)
        for number in range(5):
            time.sleep(rng.uniform(0.5, 6))
            mode = ("fast", "immediate")[number % 2]
            server.stop(mode)
            seconds = 10 ** rng.random() - 1
            fault.note(f"PostgreSQL was stopped ({mode}) for {seconds:.1f} s")
            time.sleep(seconds)
            server.start()
        fault.assert_exact()
        print(*fault.notes, sep="\n")


@pytest.mark.sweep
def test_two_machines_are_twice_as_fast(tmp_path: Path, postgres: PostgresServer) -> None:
    speeds = []
    for count in (1, 2):
        with serve_islands([f"127.0.1.{number}" for number in range(1, 101)]) as site:
            islands = Islands(site, 2, 5, delay=0, concurrency=1, page_seconds=0.2)
            group = MachineGroup(tmp_path / str(count), postgres.create_database(), islands, count=count)
            try:
                group.start("--set", "concurrency=5", quorum=count)
                assert [running.wait(240).code for running in group.running] == [0] * count, group.logs()
            finally:
                group.kill_all()
            islands.assert_polite()
            times = site.start_times()
            start, end = len(times) // 5, len(times) * 4 // 5
            speeds.append((end - start) / (times[end] - times[start]))
    assert speeds[1] >= 1.9 * speeds[0], speeds
    print(speeds)
