"""Lists what a commit writes: one writer for each type of effect, in the order of writing."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from crawl_engine.store.pages import documents, temporary
from crawl_engine.store.pages.documents import CheckedDocument, NewDocument
from crawl_engine.store.pages.temporary import DocumentUse
from crawl_engine.store.tables.host import cookie_jars, hosts
from crawl_engine.store.tables.host.cookie_jars import CookiesChanged
from crawl_engine.store.tables.host.hosts import Backoff, HostAddress, HostFailure
from crawl_engine.store.tables.job import jobs, results, step_values
from crawl_engine.store.tables.job.jobs import AskedAgain
from crawl_engine.store.tables.job.linked_jobs import Children
from crawl_engine.store.tables.job.results import UnitResult
from crawl_engine.store.tables.job.step_values import PluginRun
from crawl_engine.store.tables.outcome import AttemptStats, Commit, Effect, JobOutcome
from crawl_engine.store.tables.row import files, health, rows
from crawl_engine.store.tables.row.files import DownloadedFile
from crawl_engine.store.tables.row.health import NewWarnings, PageCounts
from crawl_engine.store.tables.row.held_rows import HeldRows
from crawl_engine.store.tables.row.rows import NewRows, RejectedRecords
from crawl_engine.store.tables.run import events, landings, page_repeats
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.tables.run.landings import Landed
from crawl_engine.store.tables.run.page_repeats import PageSeen
from crawl_engine.store.transactions import children, logins, placement, release, robots, statistics, supersede
from crawl_engine.store.transactions.logins import LoginNews
from crawl_engine.store.transactions.release import EndedFile
from crawl_engine.store.transactions.robots import RobotsResult, RobotsWanted
from crawl_engine.store.transactions.statistics import ContentChange
from crawl_engine.store.transactions.supersede import FailedSteps, OldRows, Outdated

Made = tuple[JobOutcome, Effect]
Settler = Callable[[Commit, Sequence[JobOutcome]], Iterable[Made]]
Writer = Callable[[Commit, Any], None]

SETTLERS: tuple[Settler, ...] = (
    placement.settle_guarded,
    logins.settle,
    robots.settle,
    page_repeats.settle,
    landings.settle,
    supersede.settle_outdated,
    supersede.settle_carried,
    supersede.settle_reextracted,
    release.settle,
    statistics.settle_contents,
)
"""Called in this order before the jobs are updated: each may change outcomes, and returns effects that follow."""

WRITERS: dict[type[Effect], Writer] = {
    NewDocument: documents.write,
    CheckedDocument: documents.write_checked,
    DocumentUse: temporary.write,
    Landed: supersede.write_landings,
    OldRows: supersede.write_old_rows,
    NewRows: rows.write,
    ContentChange: statistics.write_contents,
    RejectedRecords: rows.write_rejected,
    PageCounts: health.write,
    NewWarnings: health.write_warnings,
    UnitResult: results.write,
    PluginRun: step_values.write,
    FailedSteps: supersede.write_failed_steps,
    Outdated: supersede.write_outdated,
    Children: children.write,
    PageSeen: page_repeats.write,
    AskedAgain: jobs.write_asked_again,
    DownloadedFile: files.write,
    HeldRows: release.write_held,
    EndedFile: release.write_ended,
    Backoff: hosts.write_backoffs,
    RobotsWanted: robots.write_wanted,
    HostFailure: hosts.write_failures,
    HostAddress: hosts.write_addresses,
    RobotsResult: robots.write_results,
    LoginNews: logins.write,
    CookiesChanged: cookie_jars.write,
    AttemptStats: statistics.write_stats,
    Event: events.write,
}
"""Called in this order after the jobs were updated, each with all effects of its type of the accepted outcomes."""


def settle(commit: Commit, outcomes: Sequence[JobOutcome]) -> list[Made]:
    """Settle the states of outcomes; returns the effects that follow."""
    return [made for settler in SETTLERS for made in settler(commit, outcomes)]


def write(commit: Commit, accepted: Sequence[JobOutcome], settled: Sequence[Made]) -> None:
    """Write the effects of accepted outcomes."""
    following: dict[int, list[Effect]] = {}
    for outcome, effect in settled:
        following.setdefault(outcome.job.id, []).append(effect)
    made: dict[type[Effect], list[Made]] = {kind: [] for kind in WRITERS}
    for outcome in accepted:
        for effect in (outcome.stats, *outcome.effects, *following.get(outcome.job.id, ())):
            made[type(effect)].append((outcome, effect))
    for kind, of_kind in made.items():
        if of_kind:
            WRITERS[kind](commit, of_kind)
    if commit.vacant_keys:  # a page that was extracted again keeps a key that it still has
        supersede.promote_doubles(commit.db, commit.run, commit.vacant_keys)
        commit.vacant_keys.clear()
