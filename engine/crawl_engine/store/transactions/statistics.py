"""The part of a commit that counts rows, records, requests, answers, latencies and contents."""

from collections import Counter
from collections.abc import Iterable, Sequence

from crawl_engine.model.job import JobKind, JobState
from crawl_engine.store.db.connector import Database
from crawl_engine.store.pages import documents
from crawl_engine.store.pages.documents import NewDocument
from crawl_engine.store.read import content
from crawl_engine.store.read.job_range import find_ids
from crawl_engine.store.tables.host import answers, host_speeds, hosts
from crawl_engine.store.tables.host.answers import Answer
from crawl_engine.store.tables.host.hosts import HostLatency
from crawl_engine.store.tables.outcome import AttemptStats, Commit, Effect, JobOutcome
from crawl_engine.store.tables.row import content_sums, rows
from crawl_engine.store.tables.row.content_sums import ContentSum
from crawl_engine.store.tables.row.rows import NewRows
from crawl_engine.store.tables.run import metrics, page_limits
from crawl_engine.store.tables.run.metrics import FetchStats
from crawl_engine.store.transactions import give_up

_ANSWERED = (JobKind.PAGE, JobKind.SITEMAP, JobKind.FILE)


class ContentChange(Effect):
    """The rows and the document of a job move the sums of its group."""

    replaced: tuple[bytes | None, ...]
    """The digest of the document that another one replaces, if any."""


def settle_contents(commit: Commit, outcomes: Sequence[JobOutcome]) -> Iterable[tuple[JobOutcome, Effect]]:
    """Before the jobs are updated: the documents that others replace."""
    for outcome in outcomes:
        if outcome.page is not None or outcome.find(NewRows) is not None:
            row = commit.leased.get(outcome.job.id)
            replaced = row.document if outcome.page is not None and row is not None else None
            yield outcome, ContentChange(() if replaced is None else (bytes.fromhex(replaced),))


def write_contents(commit: Commit, made: Sequence[tuple[JobOutcome, ContentChange]]) -> None:
    """Move the sums; the documents are written already."""
    new = {outcome.job.id: outcome.find(NewDocument) for outcome, _ in made}
    stored = [outcome.page for outcome, _ in made if outcome.page is not None and new[outcome.job.id] is None]
    stored_digests = documents.list_digests(commit.db, stored) if stored else {}
    sums: dict[str, ContentSum] = {}
    for outcome, change in made:
        group_sum = sums.setdefault(outcome.job.group, ContentSum())
        if outcome.page is not None:
            document = new[outcome.job.id]
            group_sum.add_document(document.digest if document is not None else stored_digests.get(outcome.page))
            for digest in change.replaced:
                group_sum.subtract_document(digest)
        for rows_ in [new.counted() for new in outcome.find_all(NewRows)]:
            group_sum.add_rows(rows_.digests, len(rows_.texts))
    content_sums.move(commit.db, commit.run, sums)


def write_stats(commit: Commit, made: Sequence[tuple[JobOutcome, AttemptStats]]) -> None:
    """Count requests and answers, return turns that were not used, have paces follow latencies, reset strikes."""
    _add_fetch_stats(commit, made)
    page_limits.settle(commit.db, [outcome.job for outcome, _ in made if outcome.job.terms.limits])
    counts = Counter((outcome.job.host, status) for outcome, stats in made for status, _ in stats.answers)
    host_speeds.count_answers(commit.db, counts)
    for outcome, _ in made:
        if outcome.unused_turn:
            hosts.return_turn(commit.db, outcome.job.host, outcome.unused_turn, commit.now)
    fetched = [(outcome.job, stats) for outcome, stats in made if stats.responses and outcome.job.kind in _ANSWERED]
    answers.add(commit.db, [Answer(job.host, job.attempts == 0, stats.blocked) for job, stats in fetched])
    served = set[int]()
    for outcome, _ in made:
        if outcome.job.host not in served and outcome.state is JobState.DONE and outcome.is_served:
            served.add(outcome.job.host)
    hosts.reset_strikes(commit.db, served, commit.now)
    give_up.note_answers(commit, made)
    if any(outcome.job.terms.throttled for outcome, _ in made):
        hosts.adapt_paces(commit.db, _host_latencies(made))


def _host_latencies(made: Sequence[tuple[JobOutcome, AttemptStats]]) -> list[HostLatency]:
    sums: dict[int, list[float]] = {}
    for outcome, stats in made:
        if outcome.job.terms.throttled and stats.responses:
            host_sums = sums.setdefault(outcome.job.host, [0, 0.0, 0, 0.0])
            first = 0 if outcome.state is JobState.DONE else 2
            host_sums[first] += stats.responses
            host_sums[first + 1] += stats.seconds
    return [
        HostLatency(host, int(answers), seconds / (answers or 1), failed_seconds / (failures or 1))
        for host, (answers, seconds, failures, failed_seconds) in sums.items()
    ]


def _add_fetch_stats(commit: Commit, made: Sequence[tuple[JobOutcome, AttemptStats]]) -> None:
    sums: dict[str, list[float]] = {}
    for outcome, stats in made:
        retried = outcome.state is JobState.READY and outcome.attempts > 0
        requests = stats.requests if outcome.job.kind is JobKind.PAGE else 0
        if stats.responses or retried or requests or stats.noindex:
            ended = outcome.state is not JobState.READY
            new = (
                stats.responses, stats.seconds, stats.received, retried, stats.noindex, requests,
                ended and stats.is_rendered is False, ended and stats.is_rendered is True,
            )  # fmt: skip
            for index, value in enumerate(new):
                sums.setdefault(outcome.job.group, [0, 0.0, 0, 0, 0, 0, 0, 0])[index] += value
    metrics.add(
        commit.db, commit.run,
        [FetchStats(group, int(n), seconds, *map(int, others)) for group, (n, seconds, *others) in sums.items()],
    )  # fmt: skip


def recount(db: Database, run: int) -> None:
    """Count the rows of a run again and sum its contents, which were changed by hand; in the open transaction."""
    content_sums.replace(db, run, content.sum_contents(db, run))
    rows.recount(db, run, *find_ids(db, run, "rows"))
