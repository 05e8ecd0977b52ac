"""Builds the outcomes of jobs, with the events that report them."""

import random
import time
from collections.abc import Sequence
from typing import Literal

from crawl_engine import urls
from crawl_engine.errors import plural
from crawl_engine.http.errors import AddressRefused, FetchFailed
from crawl_engine.http.redirects import RedirectChain
from crawl_engine.http.response import FetchResponse
from crawl_engine.http.signing.clock_skew import describe_clock
from crawl_engine.model.job import JobKind, JobOrigin, JobState, LeasedJob, ReasonCode
from crawl_engine.model.retry_policy import retry_wait
from crawl_engine.model.step import StepResult
from crawl_engine.node.extraction.extractor import PageExtraction
from crawl_engine.node.extraction.result import PageResult
from crawl_engine.runtime.clock import store_time
from crawl_engine.store.tables.host.hosts import HostFailure
from crawl_engine.store.tables.job.jobs import PRIORITY_RANGE, AskedAgain
from crawl_engine.store.tables.job.linked_jobs import Children
from crawl_engine.store.tables.job.results import UnitResult
from crawl_engine.store.tables.job.step_values import PluginRun
from crawl_engine.store.tables.outcome import Effect, JobOutcome
from crawl_engine.store.tables.row.health import NewWarnings, PageCounts
from crawl_engine.store.tables.row.rows import NewRows, RejectedRecords
from crawl_engine.store.tables.run.events import URL_FOLLOWS, Event, Level
from crawl_engine.store.transactions.logins import LoginNews

_MAX_REJECTION_EVENTS = 5
_POSTPONED_SECONDS = 10.0
_ASKED_AGAIN_AFTER = 2
"""The pause before a page is asked for once more is that of the second retry."""


class OutcomeBuilder:
    """One for each node; `source` names it in events."""

    def __init__(self, *, source: str, max_attempts: int) -> None:
        self._source = source
        self._max_attempts = max_attempts

    def extracted(
        self,
        job: LeasedJob,
        extraction: PageExtraction,
        *,
        status: int,
        url: str,
        fetch_time: str,
        size: int,
        hops: int,
        has_surplus: bool = False,
    ) -> JobOutcome:
        """DONE, with the results of extraction. `fetch_time`: for the event, such as `12 ms` or `stored`."""
        result, units = extraction.result, extraction.units
        rows = sum([len(texts) for _, texts in result.rows]) + sum([len(held.texts) for held in extraction.held])
        text = _describe_page(status, fetch_time, size, rows)
        problems = [] if size else ["empty page"]
        if result.damaged:
            problems.append(f"{result.damaged:,} byte{'s' if result.damaged > 1 else ''} replaced")
        if has_surplus:
            problems.append("more bytes than its length says")
        notes = [*problems, *[part.note for part in result.parts.values() if part.note]]
        if notes or url != job.url or job.kind is not JobKind.PAGE:
            text = "; ".join([text + url, *notes])
        made = [(units[index], texts) for index, texts in result.rows if len(texts)]
        effects: list[Effect] = [NewRows(unit.data_def, unit.id, texts, unique=unit.unique_key) for unit, texts in made]
        effects += extraction.held
        counted = [(units[index], counts) for index, counts in result.counts]
        effects += [PageCounts(unit.id, counts, unit.extractor.defaulted_fields) for unit, counts in counted]
        effects += [UnitResult(units[index].id, job.group, step_result) for index, step_result in result.results]
        effects.append(self.event(job, "WARNING" if problems else "INFO", text))
        if result.rejected_counts:
            effects += [self.event(job, "WARNING", text, "row") for text in describe_rejections(result, url)]
        effects += [self.event(job, "WARNING", f"{note}: {url}", "row") for note in extraction.notes]
        if result.dropped_links:
            links = plural(result.dropped_links, "link")
            effects.append(self.event(job, "WARNING", f"{links} beyond max_links dropped on {url}"))
        reason = describe_step_errors([step_result for _, step_result in result.results]) if result.results else None
        if reason is not None:
            effects.append(self.event(job, "ERROR", f"FAILED: {reason}  {url}"))
        if result.warnings or result.signs:
            effects.append(list_warnings(extraction))
        effects += [RejectedRecords(*one) for one in result.rejected_counts]
        if extraction.children or extraction.later_children is not None:
            effects.append(Children(extraction.children, extraction.later_children))
        if extraction.stored_values is not None:  # a retry would store the values again
            effects.append(PluginRun(extraction.stored_values if reason is None else {}))
        outcome = JobOutcome(
            job=job,
            state=JobState.DONE if reason is None or job.extraction.page_job is not None else JobState.FAILED,
            reason=reason,
            hops=hops,
            effects=tuple(effects),
        )
        if extraction.share is not None:
            outcome.release_when_settled(extraction.share.release)
        return outcome

    def emptied(self, job: LeasedJob, text: str, url: str, hops: int) -> JobOutcome:
        """DONE without rows, by a rule of the page."""
        event = self.event(job, "INFO", f"{text}  {url}")
        return JobOutcome(job=job, state=JobState.DONE, hops=hops, effects=(event,))

    def asked_again(self, job: LeasedJob, url: str, why: str) -> JobOutcome:
        """READY later, from its first request: what the page does not show may be missing for a moment."""
        wait = retry_wait(_ASKED_AGAIN_AFTER, random.random())
        text = f"{why}: asked for once more in {wait:.1f} s  {urls.without_credentials(url)}"
        outcome = self._start_again(job, why, AskedAgain(), self.event(job, "INFO", text))
        outcome.not_before = store_time() + wait
        return outcome

    def skipped(self, job: LeasedJob, reason: str, url: str, hops: int, code: ReasonCode | None = None) -> JobOutcome:
        """SKIPPED by a rule of the page; a re-extraction deletes the page's rows and leaves it DONE."""
        state = JobState.DONE if job.extraction.page_job is not None else JobState.SKIPPED
        return self.ended(job, state, reason, url, hops=hops, code=code)

    def logged_out(
        self, job: LeasedJob, url: str, why: str, on_lost: Literal["relogin", "pause"] = "relogin"
    ) -> JobOutcome:
        """READY from its first request, after a new login if the login of its request is still in force."""
        reason = f"logged out: {why}"
        event = self.event(job, "INFO", f"{reason}  {urls.without_credentials(url)}")
        return self._start_again(job, reason, LoginNews(on_lost), event)

    def _start_again(self, job: LeasedJob, reason: str, *effects: Effect) -> JobOutcome:
        """READY from its first request, at the host of that one."""
        moved = job.target is not None and urls.host_key(job.target) != urls.host_key(job.url)
        return JobOutcome(
            job=job, state=JobState.READY, reason=reason, effects=effects,
            next_host=(urls.host_key(job.url), urls.origin(job.url)) if moved else None,
        )  # fmt: skip

    def unsupported(self, job: LeasedJob, reason: str, url: str, hops: int) -> JobOutcome:
        """The content is not a page."""
        is_extract = job.kind is JobKind.EXTRACT
        return self._kept(job, reason) if is_extract else self.not_a_page(job, reason, url, hops=hops)

    def unreadable(self, job: LeasedJob, reason: str, url: str, hops: int) -> JobOutcome:
        """FAILED: the page cannot be read."""
        is_extract = job.kind is JobKind.EXTRACT
        return self._kept(job, reason) if is_extract else self.ended(job, JobState.FAILED, reason, url, hops=hops)

    def _kept(self, job: LeasedJob, reason: str) -> JobOutcome:
        """FAILED: a re-extraction that leaves the rows of its page."""
        text = f"{urls.without_credentials(job.url)}: {reason}; it keeps its old rows"
        return JobOutcome(job=job, state=JobState.FAILED, reason=reason, effects=(self.event(job, "WARNING", text),))

    def not_a_page(self, job: LeasedJob, reason: str, url: str, *, hops: int = 0) -> JobOutcome:
        """The document is not a page: SKIPPED for a link, FAILED for a locator."""
        ends_series = job.lineage.link.page is not None  # not the first page, which the defs name
        state = JobState.SKIPPED if job.lineage.origin is JobOrigin.LINK or ends_series else JobState.FAILED
        return self.ended(job, state, reason, url, hops=hops, code=ReasonCode.NO_PAGE)

    def fetch_failed(self, job: LeasedJob, url: str, failure: FetchFailed) -> JobOutcome:
        """A request without a response: retried if that may help; SKIPPED if the address guard refused it."""
        if isinstance(failure, AddressRefused):
            skipped = self.ended(job, JobState.SKIPPED, failure.reason, url, hops=job.hops, code=ReasonCode.ADDRESS)
            skipped.target = job.target  # where the job continues if the defs name the host later
            return skipped.add(HostFailure(failed=False, guarded=failure.host_key))
        # all pages of a host wait for its robots.txt: one garbled answer must not end them
        garbled = job.kind is JobKind.ROBOTS and failure.kind in ("protocol", "encoding")
        retries = failure.retryable or garbled
        outcome = self.retry(job, url, failure.reason) if retries else self.failed(job, failure.reason, url)
        if failure.kind == "variable":
            outcome.remove(HostFailure)  # nothing was sent
        return outcome

    def given_back(self, job: LeasedJob, chain: RedirectChain) -> JobOutcome:
        """READY, to continue at the last redirect; a request that repeats its body starts again."""
        hops, target = (chain.hops, chain.url) if chain.request.is_plain_get and chain.hops else (job.hops, job.target)
        return JobOutcome(job=job, state=JobState.READY, hops=hops, target=target)

    def retry(self, job: LeasedJob, url: str, reason: str, *, at_once: bool = False, when: str = "") -> JobOutcome:
        """READY later, or with `at_once` now; FAILED after the last attempt. `when`: for the event."""
        attempt = job.attempts + 1
        if attempt >= (job.plan.retry.attempts or self._max_attempts):
            return self.failed(job, f"{reason} ({attempt} attempt{'s' if attempt > 1 else ''})", url)
        wait = retry_wait(attempt, random.random())
        shown = urls.without_credentials(url)
        when = when or f"in {wait:.1f} s"
        event = self.event(job, "WARNING", f"{reason}; attempt {attempt + 1} {when}  {shown}")
        return JobOutcome(
            job=job, state=JobState.READY, reason=reason, attempts=1,
            not_before=None if at_once else store_time() + wait,
            hops=job.hops, target=job.target, effects=(event, HostFailure()),
        )  # fmt: skip

    def retry_status(self, job: LeasedJob, url: str, response: FetchResponse) -> JobOutcome:
        """As `retry`, for the status of a response."""
        when = _describe_rest(response) if response.exceeds_rate else ""
        return self.retry(job, url, f"HTTP {response.status}", when=when)

    def refused(self, job: LeasedJob, url: str, response: FetchResponse) -> JobOutcome:
        """The site refused the crawler. READY, behind the other jobs of its sequence, or FAILED: the last attempt."""
        when = _describe_rest(response) if response.refuses_host else "after the other pages"
        outcome = self.retry(
            job, url, f"blocked: {response.refusal}", at_once=not response.refuses_host, when=when
        )  # fmt: skip
        outcome.remove(HostFailure)
        outcome.stats.blocked = True
        if response.is_signed and job.attempts == 0 and (skew := describe_clock(dict(response.headers))):
            outcome.add(self.event(job, "WARNING", f"the refused request was signed, and {skew}", kind="host"))
        if outcome.state is JobState.READY:
            outcome.priority = job.lineage.priority - PRIORITY_RANGE
        return outcome

    def postponed(self, job: LeasedJob, shortage: str) -> JobOutcome:
        """READY later: this machine lacks something. That counts neither as a failure nor as an attempt.

        `shortage`: for the event; empty: a body waits for memory, which other bodies give back soon.
        """
        event = self.event(job, "WARNING", f"{shortage}  {urls.without_credentials(job.url)}") if shortage else None
        return JobOutcome(
            job=job, state=JobState.READY, not_before=store_time() + _POSTPONED_SECONDS * random.uniform(0.5, 1.5),
            hops=job.hops, target=job.target, effects=() if event is None else (event,),
        )  # fmt: skip

    def failed(self, job: LeasedJob, reason: str, url: str, hops: int = 0) -> JobOutcome:
        """FAILED: a fetch that was sent and failed."""
        failed = self.ended(job, JobState.FAILED, reason, url, hops=hops)
        failed.attempts = 1
        return failed.add(HostFailure())

    def ended(
        self, job: LeasedJob, state: JobState, reason: str, url: str, *, hops: int = 0, code: ReasonCode | None = None
    ) -> JobOutcome:
        """The job ends in this state, for this reason."""
        level: Level = "ERROR" if state is JobState.FAILED else "INFO"
        event = self.event(job, level, f"{state}: {reason}  {urls.without_credentials(url)}")
        return JobOutcome(job=job, state=state, reason=reason, reason_code=code, hops=hops, effects=(event,))

    def event(self, job: LeasedJob, level: Level, text: str, kind: str = "page") -> Event:
        """A new event about the job; for a re-extraction, about the job of its page."""
        return Event(time.time(), level, self._source, kind, text, job.page_id)


def list_warnings(extraction: PageExtraction) -> NewWarnings:
    ids = {unit.data_def: unit.id for unit in extraction.units}
    found = (*extraction.result.warnings, *extraction.result.signs)
    return NewWarnings(tuple([(ids[warning.data_def], warning) for warning in found]))


def describe_step_errors(results: Sequence[StepResult]) -> str | None:
    """`TASK/STEP: text` of the first error, and the number of further ones; None: no step failed."""
    errors = [result for result in results if result.outcome == "error"]
    if not errors:
        return None
    more = f" (+{len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{errors[0].task}/{errors[0].step}: {errors[0].text}{more}"


def _describe_rest(response: FetchResponse) -> str:
    wait = f": {response.retry_after:.0f} s at least" if response.retry_after else ""
    return f"after its host's rest{wait}"


def _describe_page(status: int, fetch_time: str, size: int, rows: int) -> str:
    """All but the URL of the page."""
    return f"{status} {fetch_time:>7} {size / 1000:4.0f} kB {rows:3} row{' ' if rows == 1 else 's'}{URL_FOLLOWS}"


def describe_rejections(result: PageResult, url: str) -> list[str]:
    """Texts of events about the first rejected records of a page, and the number of further ones."""
    shown = result.rejected[:_MAX_REJECTION_EVENTS]
    texts = [f"{r.data_def}.{r.field}: {r.reason} {r.place} on {url}" for r in shown]
    more = sum(one.records for one in result.rejected_counts) - len(shown)
    return [*texts, f"{more} more records rejected on {url}"] if more else texts
