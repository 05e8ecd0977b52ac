"""Gives up a host that refuses for good: what is left of it fails without a request."""

import time
from collections.abc import Sequence

from crawl_engine.errors import plural
from crawl_engine.model.host import GiveUpRule
from crawl_engine.store.tables.host import refusals
from crawl_engine.store.tables.host.hosts import Backoff
from crawl_engine.store.tables.outcome import AttemptStats, Commit, JobOutcome
from crawl_engine.store.tables.run import events
from crawl_engine.store.tables.run.events import Event

_SERVER_ERROR = 500
"""From this status on an answer neither refuses the crawler nor serves it."""

_MINUTES = 120
"""Seconds from which a time is told in minutes."""


def note_answers(commit: Commit, made: Sequence[tuple[JobOutcome, AttemptStats]]) -> None:
    """Count refusals in a row, in the order of the outcomes; an answer that is none ends the row.

    Called when the rests of hosts are written.
    """
    refused: dict[int, int] = {}
    rules: dict[int, GiveUpRule | None] = {}
    waits: dict[int, float] = {}
    served, rests = set[int](), False
    for outcome, stats in made:
        host = outcome.job.host
        if stats.blocked:
            refused[host] = refused.get(host, 0) + 1
            rules[host] = outcome.job.plan.rule.give_up
        elif _is_served(stats):
            served.add(host)
            refused.pop(host, None)
        if (backoff := outcome.find(Backoff)) is not None:
            rests = True
            waits[host] = max(waits.get(host, 0.0), backoff.asked_until)
    if served:
        refusals.forget(commit.db, served)
    for host, count in refused.items():
        _count(commit, host, count, waits.pop(host, 0.0), rules[host])
    if rests:
        refusals.note_waits(commit.db, waits)
        refusals.end_rests(commit.db)


def _is_served(stats: AttemptStats) -> bool:
    return bool(stats.answers) and 0 < stats.answers[-1][0] < _SERVER_ERROR


def _count(commit: Commit, host: int, refused: int, waits_until: float, rule: GiveUpRule | None) -> None:
    db, now, limiter = commit.db, commit.now, refusals.find_limiter(commit.db, host)
    row = refusals.add(db, limiter.id, refused, now, max(now, waits_until))
    if row.given_up or rule is None or row.refused < rule.refusals or row.seconds < rule.after:
        return
    commit.touched_hosts.update(refusals.give_up(db, limiter.id))
    refusals.end_rests(db)
    took = f"{row.seconds / 60:.0f} min" if row.seconds >= _MINUTES else f"{row.seconds:.0f} s"
    text = f"{limiter.name}: given up after {plural(row.refused, 'refusal')} in a row in {took}"
    remedy = "what is left of it fails without a request, and `crawl-console retry` asks again"
    events.add(db, commit.run, [Event(time.time(), "WARNING", "store", "host", f"{text}; {remedy}")])
