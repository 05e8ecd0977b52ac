"""Has hosts logged in before their pages, and judges pages answered without a login."""

import time
from collections.abc import Iterable, Sequence
from typing import Literal

from crawl_engine import urls
from crawl_engine.model.host import LoginRule
from crawl_engine.model.job import JobKind, JobState, login_key
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.host import cookie_jars, host_logins, hosts
from crawl_engine.store.tables.job import jobs, sequences
from crawl_engine.store.tables.outcome import Commit, Effect, JobOutcome
from crawl_engine.store.tables.run import events
from crawl_engine.store.tables.run.events import Event, Level

LOST_REASON = "logged out again after a new login"
_MAX_LOST_IN_ROW = 3
"""Pages in a row that fail right after a new login: from then on the host is paused."""


def ensure_job(db: Database, run: int, host: int, host_key: str, origin: str, rule: LoginRule) -> None:
    """Create the job that logs in to a host, in the open transaction; nothing if it is there."""
    sequence = sequences.ensure(db, run, "", host, JobKind.LOGIN)
    jobs.add_login(db, run, sequence, login_page_url(origin, rule), login_key(host_key))


def login_page_url(origin: str, rule: LoginRule) -> str:
    return urls.join(f"{origin}/", rule.url) or f"{origin}/"


def apply_rule(db: Database, run: int, host: int, rule: LoginRule | None) -> None:
    """The defs say something else about the login of a host."""
    login = host_logins.read(db, host)
    if rule is None:
        host_logins.turn_off(db, host)
        return
    ensure_job(db, run, host, login.key, login.origin, rule)
    host_logins.want(db, host, renewed=True)
    _reopen_job(db, run, login.key)


def resume_run(db: Database, run: int, *, fetches: bool = True) -> None:
    """At the start of a supervisor: log in again where that failed. `fetches`: whether it asks for pages at all."""
    cookie_jars.delete_earlier(db, run)
    if fetches:
        _ask(db, run, host_logins.list_failed(db, run))


def ask_host(db: Database, run: int, host_key: str) -> None:
    """An operator asks a host again: log in again if that failed."""
    host = hosts.find(db, run, host_key)
    if host is not None and host_logins.has_failed(db, host):
        _ask(db, run, [host])


def ask_hosts_of_jobs(db: Database, run: int, ids: Iterable[int]) -> None:
    """Jobs are retried: log in again where that failed, and forget what these jobs have lost."""
    chosen = list(ids)
    host_logins.remove_losses(db, chosen)
    _ask(db, run, host_logins.list_failed_of_jobs(db, chosen))


def abandon_failed(db: Database, run: int) -> None:
    """Give up the logins during which too many nodes ended."""
    for key in host_logins.abandon(db, run):
        _add_event(db, run, "WARNING", _describe_failure(key, "its node ended during the login"))


class LoginNews(Effect):
    """What an outcome says about the login of its host.

    `on_lost`: what follows a page that was answered without a login, while the login is in force; empty: it was not.
    """

    on_lost: Literal["", "relogin", "pause"] = ""


def settle(commit: Commit, outcomes: Sequence[JobOutcome]) -> Iterable[tuple[JobOutcome, Effect]]:
    """FAILED where a page was lost twice, READY where a login is outdated; news of those that serve."""
    db = commit.db
    lost = [outcome for outcome in outcomes if outcome.job.terms.login_number and outcome.find(LoginNews)]
    before = host_logins.read_losses(db, [outcome.job.id for outcome in lost]) if lost else {}
    for outcome in lost:
        if before.get(outcome.job.id, outcome.job.terms.login_number) < outcome.job.terms.login_number:
            outcome.state, outcome.reason = JobState.FAILED, LOST_REASON
            outcome.attempts, outcome.next_host = 1, None
            text = f"FAILED: {LOST_REASON}  {urls.without_credentials(outcome.job.url)}"
            yield outcome, Event(time.time(), "ERROR", "store", "page", text, outcome.job.id)
    for outcome in outcomes:
        if outcome.job.kind is JobKind.LOGIN:
            if outcome.state in (JobState.DONE, JobState.FAILED, JobState.SKIPPED):
                login = host_logins.read(db, outcome.job.host)
                if login.state == "WANTED" and login.number != outcome.job.terms.login_number:  # the defs have changed
                    outcome.state, outcome.reason, outcome.attempts = JobState.READY, None, 0
                    outcome.remove(Event)
            yield outcome, LoginNews()
        elif outcome.job.terms.login_number and outcome.stats.responses and outcome.state is JobState.DONE:
            yield outcome, LoginNews()


def write(commit: Commit, made: Sequence[tuple[JobOutcome, LoginNews]]) -> None:
    """Record, in their order, logins that were made or failed, pages that were lost, and logins that served a page."""
    good: set[int] = set()
    for outcome, news in made:
        if outcome.job.kind is JobKind.LOGIN:
            _apply_login(commit.db, commit.run, outcome)
        elif news.on_lost:
            if outcome.job.host in good:
                host_logins.reset_lost(commit.db, good)
                good.clear()
            _apply_loss(commit.db, commit.run, outcome, news.on_lost)
        else:
            good.add(outcome.job.host)
    if good:
        host_logins.reset_lost(commit.db, good)


def _apply_login(db: Database, run: int, outcome: JobOutcome) -> None:
    if outcome.state is JobState.DONE:
        host_logins.complete(db, outcome.job.host)
    elif outcome.state in (JobState.FAILED, JobState.SKIPPED):
        reason = outcome.reason or "its job failed"
        key = host_logins.fail(db, outcome.job.host, reason)
        if key is not None:
            _add_event(db, run, "WARNING", _describe_failure(key, reason), outcome.job.id)


def _apply_loss(db: Database, run: int, outcome: JobOutcome, on_lost: str) -> None:
    job, host = outcome.job, outcome.job.host
    if outcome.state is JobState.FAILED:
        host_logins.remove_losses(db, [job.id])
        if host_logins.count_lost(db, host) >= _MAX_LOST_IN_ROW:
            _pause(db, run, host, f"{_MAX_LOST_IN_ROW} pages in a row were {LOST_REASON}")
        return
    host_logins.add_loss(db, job.id, job.terms.login_number)
    login = host_logins.read(db, host)
    if login.state != "DONE" or login.number != job.terms.login_number:
        return  # sent with an older login: the newer one may last
    if on_lost == "pause":
        _pause(db, run, host, "its login was lost")
        return
    _ask(db, run, [host])
    _add_event(db, run, "WARNING", f"{login.key}: logged out on {urls.without_credentials(job.url)}; logging in again")


def _pause(db: Database, run: int, host: int, reason: str) -> None:
    """Pause a host; once an operator resumes it, it is logged in to before its next page."""
    _ask(db, run, [host])
    host_logins.pause(db, host)
    key = host_logins.read(db, host).key
    text = f"{key} is paused: {reason}; `crawl-console host {key} --resume` logs in again"
    _add_event(db, run, "WARNING", text)


def _ask(db: Database, run: int, hosts: Iterable[int]) -> None:
    for host in hosts:
        _reopen_job(db, run, host_logins.read(db, host).key)
        host_logins.want(db, host)


def _reopen_job(db: Database, run: int, host_key: str) -> None:
    ended = jobs.find_ended(db, run, login_key(host_key))
    if ended is not None:
        jobs.reopen(db, [ended], [])


def _describe_failure(host_key: str, reason: str) -> str:
    text = f"{host_key}: the login failed: {reason}"
    return f"{text}; its pages fail without a request, and `crawl-console retry` logs in again"


def _add_event(db: Database, run: int, level: Level, text: str, job: int | None = None) -> None:
    events.add(db, run, [Event(time.time(), level, "store", "host", text, job)])
