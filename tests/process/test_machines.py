"""Several machines work for one run: their rows are exact, whichever of them is killed, stopped or cut off."""

import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.postgres_server import PostgresServer

from .library import Library
from .machine_group import MachineGroup
from .project import until
from .site import Site

TAKEOVER_SECONDS = 5.0


@pytest.fixture
def library(site: Site) -> Library:
    return Library(site, shelves=8, books=8, delay=0.15)


@pytest.fixture
def group(tmp_path: Path, database: str, library: Library) -> Iterator[MachineGroup]:
    group = MachineGroup(tmp_path, database, library)
    yield group
    group.kill_all()


def assert_exact(group: MachineGroup, library: Library, machine: int) -> None:
    actual, expected = group.rows(machine), library.rows()
    assert (expected - actual, actual - expected) == ({}, {}), group.logs()
    assert group.query("SELECT count(*) FROM jobs WHERE state <> 'DONE' AND state <> 'SKIPPED'") == [(0,)]
    assert "Traceback" not in group.logs(), group.logs()


def test_two_machines_share_a_run_and_end_with_it(group: MachineGroup, library: Library) -> None:
    group.start()
    codes = [running.wait().code for running in group.running]
    assert codes == [0, 0], group.logs()
    leader = group.leader()
    assert leader is not None
    assert_exact(group, library, leader)
    assert not (group.projects[1 - leader].data / "output" / "latest").exists()
    worked = dict(group.query("SELECT supervisor, sum(done) FROM nodes GROUP BY supervisor"))
    assert len(worked) == 2, worked


def start(group: MachineGroup, site: Site) -> int:
    """Start the machines; returns which one leads, once they work."""
    group.start()
    assert until(lambda: len(site.paths) > 20), group.logs()
    leader = group.leader()
    assert leader is not None
    return leader


def test_another_machine_leads_within_five_seconds_of_the_death_of_the_leader(
    group: MachineGroup, library: Library, site: Site
) -> None:
    leader = start(group, site)
    fence = group.lease().fence
    group.kill(leader)
    died_at = time.monotonic()
    assert until(lambda: group.lease().fence > fence, 8), group.logs()
    assert time.monotonic() - died_at < TAKEOVER_SECONDS
    assert group.running[1 - leader].wait().code == 0, group.logs()
    assert_exact(group, library, 1 - leader)


@pytest.mark.quick
def test_a_leader_that_is_stopped_leaves_and_the_run_continues(
    group: MachineGroup, library: Library, site: Site
) -> None:
    leader = start(group, site)
    group.running[leader].send(signal.SIGTERM)
    assert group.running[leader].wait().code == 143, group.logs()
    assert group.running[1 - leader].wait().code == 0, group.logs()
    assert_exact(group, library, 1 - leader)


def test_a_database_that_is_read_only_for_a_while_is_waited_for(
    group: MachineGroup, library: Library, site: Site, postgres: PostgresServer, database: str
) -> None:
    start(group, site)
    set_read_only(postgres, database, value="on")
    try:
        time.sleep(4)
        group.kill(1)
        group.restart(1)
        time.sleep(4)
        assert not any(running.exited for running in group.running), group.logs()
    finally:
        set_read_only(postgres, database, value="off")
    assert [running.wait().code for running in group.running] == [0, 0], group.logs()
    leader = group.leader()
    assert leader is not None
    assert_exact(group, library, leader)


def set_read_only(postgres: PostgresServer, database: str, *, value: str) -> None:
    """Have the server refuse to write, as one that was replaced in a failover does."""
    postgres.execute(database, f"ALTER SYSTEM SET default_transaction_read_only = {value}")
    postgres.execute(database, "SELECT pg_reload_conf()")


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(20))
def test_machines_killed_and_cut_off_at_random(
    tmp_path: Path, postgres: PostgresServer, database: str, site: Site, seed: int
) -> None:
    rng, library = random.Random(seed), Library(site, shelves=16, books=8, delay=0.5)
    group = MachineGroup(tmp_path, database, library, count=3)
    try:
        group.start()
        assert until(lambda: len(site.paths) > 6), group.logs()
        for _ in range(4):
            time.sleep(rng.uniform(0.5, 6))
            victim = rng.randrange(3)
            if any(running.exited and running.process.returncode == 0 for running in group.running):
                break
            match rng.choice(["kill", "freeze", "server"]):
                case "kill":
                    group.kill(victim)
                    group.restart(victim)
                case "freeze":
                    group.freeze(victim)
                    time.sleep(rng.uniform(1, 9))
                    group.freeze(victim, thaw=True)
                case _:
                    postgres.stop("immediate")
                    time.sleep(rng.uniform(0, 7))
                    postgres.start()
        for number, running in enumerate(group.running):
            if running.wait(120).code == 3:  # it was started while the server was away
                group.restart(number)
        codes = [running.wait(120).code for running in group.running]
        assert codes == [0, 0, 0], group.logs()
        leader = group.leader()
        assert leader is not None
        assert_exact(group, library, leader)
    finally:
        group.kill_all()
