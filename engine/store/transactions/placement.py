"""Where new work enters: the host and sequence of a job are found or made, and each new host gets its robots job."""

from collections.abc import Callable
from dataclasses import dataclass

from engine.model.job import JobKind
from engine.model.job_key import robots_key
from engine.store.db.connector import Database
from engine.store.tables import hosts, jobs, sequences
from engine.store.tables.hosts import HostPolicy


def apply_host_policy(db: Database, run: int, host_key: str, manners: HostPolicy) -> None:
    """Treat a host that a run knows in another way from now on: its pages wait for its robots.txt, or no longer."""
    host, origin, (before, robots) = hosts.apply_policy(db, run, host_key, manners)
    if robots != before and robots == "WANTED":
        _add_robots_job(db, run, host, host_key, origin)
    elif robots != before and robots == "OFF":
        sequences.recheck_skipped_of_host(db, host)


def _add_robots_job(db: Database, run: int, host: int, host_key: str, origin: str) -> None:
    sequence = sequences.ensure(db, run, "", host, JobKind.ROBOTS, None)
    jobs.add_robots(db, run, sequence, f"{origin}/robots.txt", robots_key(host_key))


@dataclass(frozen=True, slots=True)
class Placement:
    """The ids of a sequence and of its host."""

    sequence: int
    host: int


class PlacementCache:
    """Finds the place of a job in one run, and remembers those that were committed."""

    def __init__(self, run: int, manners: Callable[[str], HostPolicy], max_pages: Callable[[str], int | None]) -> None:
        """`manners` answers for a host key (`name:port`), `max_pages` for a group."""
        self._run = run
        self._host_policy = manners
        self._max_pages = max_pages
        self._committed: dict[tuple[str, str, JobKind], Placement] = {}
        self._uncommitted: dict[tuple[str, str, JobKind], Placement] = {}

    def find_or_create(
        self, db: Database, group: str, host_key: str, origin: str, kind: JobKind = JobKind.PAGE
    ) -> Placement:
        """The place of a job; made where missing, inside the open transaction."""
        key = (group, host_key, kind)
        place = self._committed.get(key) or self._uncommitted.get(key)
        if place is None:
            manners = self._host_policy(host_key)
            host, new = hosts.ensure(db, self._run, host_key, origin, manners)
            if new and manners.robots:
                _add_robots_job(db, self._run, host, host_key, origin)
            sequence = sequences.ensure(db, self._run, group, host, kind, self._max_pages(group))
            place = self._uncommitted[key] = Placement(sequence, host)
        return place

    def commit_cache(self) -> None:
        """The transaction was committed: what it found is real."""
        self._committed |= self._uncommitted
        self._uncommitted = {}

    def rollback_cache(self) -> None:
        """The transaction was rolled back: what it made is not there."""
        self._uncommitted = {}
