"""Asks for the robots.txt of hosts, once or again, and stores the results."""

from collections.abc import Iterable, Sequence

from msgspec import field

from crawl_engine import urls
from crawl_engine.model.job import OPEN_STATES, JobKind, JobState, robots_key
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.host import hosts
from crawl_engine.store.tables.host.hosts import WantedRobots
from crawl_engine.store.tables.job import jobs, sequences
from crawl_engine.store.tables.outcome import Commit, Effect, JobOutcome


class RobotsResult(Effect):
    """A host's robots.txt: HTTP status (0: no answer; GUARDED), text, and its crawl delay in seconds."""

    status: int
    text: str
    """Of the file, or why it cannot be read."""
    crawl_delay: float
    agent: str = ""
    """The product token it was read for."""
    fetched_at: float | None = None
    """Wall clock, seconds since 1970; None: it could not be read."""
    content_signal: dict[str, str] = field(default_factory=dict)
    """What it says of the use of pages: by use, `yes` or `no`."""


class RobotsWanted(Effect):
    """The robots.txt of the host must be asked for first: the address guard refused that, and now it would not."""


def add_robots_job(db: Database, run: int, host: int, host_key: str, origin: str) -> None:
    """Create the job that reads a host's robots.txt, in the open transaction; nothing if the host has one."""
    sequence = sequences.ensure(db, run, "", host, JobKind.ROBOTS)
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


def write_wanted(commit: Commit, made: Sequence[tuple[JobOutcome, RobotsWanted]]) -> None:
    """Ask for the robots.txt of hosts whose addresses are no longer guarded; their pages wait for the answers."""
    for host in {outcome.job.host for outcome, _ in made}:
        _ask_again(commit.db, commit.run, hosts.want_guarded_robots(commit.db, host))


def settle(_: Commit, outcomes: Sequence[JobOutcome]) -> Iterable[tuple[JobOutcome, Effect]]:
    """A job of a robots.txt that ended without one must not hold back the pages of its host forever."""
    for outcome in outcomes:
        if outcome.job.kind is not JobKind.ROBOTS or outcome.state in OPEN_STATES:
            continue
        if outcome.state is JobState.SKIPPED:
            yield outcome, RobotsResult(hosts.GUARDED, "", 0.0)
        elif outcome.find(RobotsResult) is None:
            yield outcome, RobotsResult(0, outcome.reason or "its job failed", 0.0)


def write_results(commit: Commit, made: Sequence[tuple[JobOutcome, RobotsResult]]) -> None:
    for outcome, robots in made:
        host = outcome.job.host
        if robots.status == hosts.GUARDED:
            hosts.mark_guarded(commit.db, host)
            continue
        if outcome.job.target is not None:  # a redirect moved the job to another host
            host = hosts.find(commit.db, commit.run, urls.host_key(outcome.job.url)) or host
        hosts.set_robots(
            commit.db, host, robots.status, robots.text, robots.crawl_delay,
            agent=robots.agent, fetched_at=robots.fetched_at, content_signal=robots.content_signal,
        )  # fmt: skip
        commit.touched_hosts.add(host)


def _ask_again(db: Database, run: int, wanted: list[WantedRobots]) -> int:
    for host, key, origin in wanted:
        ended = jobs.find_ended(db, run, robots_key(key))
        if ended is not None:
            jobs.reopen(db, [ended], [(ended, sequences.ensure(db, run, "", host, JobKind.ROBOTS))])
        else:
            add_robots_job(db, run, host, key, origin)
    return len(wanted)
