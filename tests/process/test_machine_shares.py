"""A machine that joins late, or comes back, gets its share of the work within five seconds."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .islands import Islands, serve_islands
from .machine_group import MachineGroup
from .project import until
from .stopwatch import slowness

_SHARE_SECONDS, _WINDOW_SECONDS = 5.0, 3.0
_READY = "SELECT count(*) FROM nodes WHERE state IN ('READY', 'DONE') AND ended_at IS NULL"


class _Crawl:
    """Two machines crawl hosts without a delay; each names itself in its requests."""

    def __init__(self, folder: Path, url: str, islands: Islands, slots: int, count: int) -> None:
        self.islands, self._slots = islands, slots
        self.group = MachineGroup(folder, url, islands, count=count)

    def start(self, number: int) -> None:
        """Start a machine."""
        self.group.restart(number, "--set", f"concurrency={self._slots}", "--set", f"user_agent=m{number}")

    def join(self, number: int) -> float:
        """Start a machine, beside the others; returns when its node began to work."""
        self.start(number)
        assert until(lambda: self.group.query(_READY) == [(len(self.group.running),)], 20), self.group.logs()
        return time.monotonic()

    def come_back(self, number: int) -> float:
        """Kill a machine, and start it again."""
        self.group.kill(number)
        return self.join(number)

    def wait_for_equal_shares(self, since: float, *, seconds: float = _SHARE_SECONDS) -> None:
        """Within some seconds each machine sends its share of the requests, to a fifth, in the seconds that follow."""
        limit = seconds * slowness()
        time.sleep(_WINDOW_SECONDS)
        while not self._is_shared_equally():
            assert time.monotonic() - since < limit + _WINDOW_SECONDS, (self._found(), self.group.logs())
            time.sleep(0.1)
        print(self._found(), f"after {time.monotonic() - since - _WINDOW_SECONDS:.1f} s, limit {limit:.1f} s")

    def _is_shared_equally(self) -> bool:
        found = self._found()
        equal = found.total() / len(self.group.running)
        return all(0.8 * equal <= found[f"m{number}"] <= 1.2 * equal for number in range(len(self.group.running)))

    def _found(self) -> Counter[str]:
        """The requests of each machine in the last seconds."""
        since = time.monotonic() - _WINDOW_SECONDS
        exchanges = list(self.islands.site.exchanges)
        return Counter(exchange.request.headers["user-agent"] for exchange in exchanges if exchange.started >= since)

    def speed(self) -> float:
        """Requests a second in the last seconds."""
        return self._found().total() / _WINDOW_SECONDS

    def assert_exact(self) -> None:
        """All machines end, the rows are exact, and no host was asked by too many at once."""
        self.islands.page_seconds = 0.0
        assert {running.wait(120).code for running in self.group.running} == {0}, self.group.logs()
        leader = self.group.leader()
        assert leader is not None
        assert self.group.exported_rows(leader) == self.islands.rows(), self.group.logs()
        self.islands.assert_polite()


class _DelayedIslands(Islands):
    """All hosts have a delay."""

    def _has_delay(self, host: str) -> bool:
        return self.delay > 0


@contextmanager
def crawl(
    folder: Path, url: str, *, hosts: int, shelves: int, slots: int = 16, concurrency: int = 2, delay: float = 0.0,
    machines: int = 2,
) -> Iterator[_Crawl]:  # fmt: skip
    """A crawl in which the first machine has begun."""
    with serve_islands([f"127.0.2.{number}" for number in range(1, hosts + 1)]) as site:
        islands = _DelayedIslands(site, shelves, 5, delay=delay, concurrency=concurrency, page_seconds=0.2)
        run = _Crawl(folder, url, islands, slots, machines)
        try:
            run.start(0)
            assert until(lambda: len(site.exchanges) > 10), run.group.logs()
            yield run
        finally:
            run.group.kill_all()


@pytest.mark.parametrize(
    ("hosts", "shelves"), [pytest.param(2, 60, marks=pytest.mark.quick), pytest.param(12, 30, marks=pytest.mark.sweep)]
)
def test_a_machine_that_joins_late_and_one_that_comes_back_get_their_shares(
    tmp_path: Path, database: str, hosts: int, shelves: int
) -> None:
    with crawl(tmp_path, database, hosts=hosts, shelves=shelves) as run:
        run.wait_for_equal_shares(run.join(1))
        run.wait_for_equal_shares(run.come_back(0))
        run.wait_for_equal_shares(run.come_back(1))
        run.assert_exact()


@pytest.mark.sweep
def test_a_machine_that_joins_late_doubles_the_speed(tmp_path: Path, database: str) -> None:
    with crawl(tmp_path, database, hosts=100, shelves=8, slots=5, concurrency=1) as run:
        time.sleep(_WINDOW_SECONDS)
        alone = run.speed()
        run.wait_for_equal_shares(run.join(1))
        time.sleep(_WINDOW_SECONDS)
        together = run.speed()
        print(alone, together)
        assert together >= 1.8 * alone
        run.assert_exact()


@pytest.mark.sweep
def test_hosts_with_a_delay_change_machines_and_keep_their_gaps(tmp_path: Path, database: str) -> None:
    with crawl(tmp_path, database, hosts=12, shelves=40, delay=0.3) as run:
        run.wait_for_equal_shares(run.join(1))
        run.wait_for_equal_shares(run.come_back(0))
        run.wait_for_equal_shares(run.come_back(1))
        run.assert_exact()


@pytest.mark.sweep
def test_three_machines_have_equal_shares(tmp_path: Path, database: str) -> None:
    with crawl(tmp_path, database, hosts=24, shelves=30, machines=3) as run:
        run.wait_for_equal_shares(run.join(1))
        run.wait_for_equal_shares(run.join(2))
        run.wait_for_equal_shares(run.come_back(1))
        run.assert_exact()


@pytest.mark.sweep
def test_a_machine_that_stood_still_for_a_moment_gets_its_hosts_back(tmp_path: Path, database: str) -> None:
    with crawl(tmp_path, database, hosts=12, shelves=40) as run:
        run.wait_for_equal_shares(run.join(1))
        run.group.freeze(1)
        time.sleep(2.5)
        run.group.freeze(1, thaw=True)
        run.wait_for_equal_shares(time.monotonic(), seconds=15)
        run.assert_exact()
