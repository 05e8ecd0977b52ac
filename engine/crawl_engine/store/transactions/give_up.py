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

_OVERLOADED, _SERVER_ERROR = 503, 500
"""From the second status on an answer neither refuses the crawler for good nor serves it."""

_MINUTES = 120
"""Seconds from which a time is told in minutes."""


def note_answers(commit: Commit, made: Sequence[tuple[JobOutcome, AttemptStats]]) -> None:
    """Count refusals in a row, in the order of the outcomes; a good answer ends the row.

    Called when the rests of hosts are written.
    """
    served, resting = set[int](), False
    refused, asked = dict[int, list[JobOutcome]](), dict[int, float]()
    for outcome, stats in made:
        host, status = outcome.job.host, stats.answers[-1][0] if stats.answers else 0
        if stats.blocked and status != _OVERLOADED:
            refused.setdefault(host, []).append(outcome)
        elif 0 < status < _SERVER_ERROR:
            served.add(host)
            refused.pop(host, None)
        if (backoff := outcome.find(Backoff)) is not None:
            resting = True
            if backoff.asked_until:
                asked[host] = max(asked.get(host, 0.0), backoff.asked_until)
    if served:
        refusals.forget(commit.db, served)
    for host, outcomes in refused.items():
        _count(commit, host, len(outcomes), asked.pop(host, 0.0), outcomes[-1].job.plan.rule.give_up)
    if asked:
        refusals.note_waits(commit.db, asked)
    if resting:
        refusals.end_rests(commit.db)


def _count(commit: Commit, host: int, refused: int, waits_until: float, rule: GiveUpRule | None) -> None:
    """Count refusals of a host; give it up if they are many, and have lasted. `rule`: None: never."""
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
