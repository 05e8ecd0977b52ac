"""Asks for the robots.txt of hosts, once or again, and stores the results."""

from collections.abc import Iterable

from engine import urls
from engine.model.job import OPEN_STATES, JobKind, JobState, robots_key
from engine.store.db.connector import Database
from engine.store.tables.host import hosts
from engine.store.tables.job import jobs, sequences
from engine.store.transactions.outcome import JobOutcome, RobotsResult


def add_robots_job(db: Database, run: int, host: int, host_key: str, origin: str) -> None:
    """Create the job that reads a host's robots.txt, in the open transaction; nothing if the host has one."""
    sequence = sequences.ensure(db, run, "", host, JobKind.ROBOTS, None)
    jobs.add_robots(db, run, sequence, f"{origin}/robots.txt", robots_key(host_key))


def ask_stale_hosts(db: Database, run: int, now: float, agent: str | None = None) -> int:
    """Ask for each robots.txt that is too old or could not be read, where pages are open; returns how many.

    `now`: wall clock. `agent`: those read for another product token are asked for too; None: it has not changed.
    The pages wait for the answer.
    """
    return _ask_again(db, run, hosts.want_stale_robots(db, run, now, agent))


def ask_hosts_of_jobs(db: Database, run: int, ids: Iterable[int]) -> None:
    """Ask again for each robots.txt that could not be read, of the hosts of these jobs."""
    _ask_again(db, run, hosts.want_robots_of_jobs(db, ids))


def ask_guarded_host(db: Database, run: int, host: int) -> None:
    """Ask for the robots.txt of a host whose address is no longer guarded; its pages wait for the answer."""
    _ask_again(db, run, hosts.want_guarded_robots(db, host))


def apply_result(db: Database, run: int, outcome: JobOutcome) -> int | None:
    """Store the result of a robots job; returns the host whose robots.txt it is."""
    robots = outcome.robots
    if outcome.job.kind is JobKind.ROBOTS and outcome.state is JobState.SKIPPED:
        hosts.mark_guarded(db, outcome.job.host)
        return None
    if robots is None and outcome.job.kind is JobKind.ROBOTS and outcome.state not in OPEN_STATES:
        # a robots job that failed must not hold back the pages of its host forever
        robots = RobotsResult(0, outcome.reason or "its job failed", 0.0)
    if robots is None:
        return None
    host = outcome.job.host
    if outcome.job.target is not None:  # a redirect moved the job to another host
        host = hosts.find(db, run, urls.host_key(outcome.job.url)) or host
    hosts.set_robots(
        db, host, robots.status, robots.text, robots.crawl_delay, agent=robots.agent, fetched_at=robots.fetched_at
    )
    return host


def _ask_again(db: Database, run: int, wanted: list[tuple[int, str, str]]) -> int:
    for host, key, origin in wanted:
        ended = jobs.find_ended(db, run, robots_key(key))
        if ended is not None:
            jobs.reopen(db, [ended], [(ended, sequences.ensure(db, run, "", host, JobKind.ROBOTS, None))])
        else:
            add_robots_job(db, run, host, key, origin)
    return len(wanted)
