"""Logs in to a host: fetches its login page, fills in the form, sends it, and judges what comes after it."""

from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlencode

from engine import urls
from engine.http.credentials import may_carry_credentials
from engine.http.errors import FetchFailed
from engine.http.request import expand
from engine.http.response import FetchResponse
from engine.model.definition import HostRule
from engine.model.host import LoginRule
from engine.model.job import JobState, LeasedJob, Request
from engine.model.link import FORM_TYPE
from engine.node.db_access import DbAccess
from engine.node.def_cache import DefCache
from engine.node.extraction.page_extraction import UnreadablePage, UnsupportedContent
from engine.node.handlers.login_page import LoginForm, LoginPageReader, is_same_page
from engine.node.handlers.login_visit import AskedDelay, LoginFailed, LoginVisit
from engine.node.handlers.robots_cache import RobotsCache, RobotsGuarded, RobotsPending
from engine.node.host_gate import HostBackingOff
from engine.node.outcomes import OutcomeBuilder
from engine.node.requests.redirect_rule import RedirectRule
from engine.node.requests.request_sender import RequestSender
from engine.settings import Settings
from engine.store.pages.body import Body
from engine.store.transactions.logins import login_page_url
from engine.store.transactions.outcome import JobOutcome

_MAX_REFUSED = 2
"""Attempts at a login that the site refuses: many lock an account after a few wrong passwords."""


class LoginHandler:
    """One for each node."""

    def __init__(
        self,
        *,
        settings: Settings,
        sender: RequestSender,
        db_access: DbAccess,
        def_cache: DefCache,
        robots_cache: RobotsCache,
        redirect_rule: RedirectRule,
        outcomes: OutcomeBuilder,
        page_reader: LoginPageReader,
    ) -> None:
        self._settings = settings
        self._sender = sender
        self._db_access = db_access
        self._def_cache = def_cache
        self._robots_cache = robots_cache
        self._redirect_rule = redirect_rule
        self._outcomes = outcomes
        self._page_reader = page_reader
        self._delays: dict[str, AskedDelay] = {}

    async def log_in(self, job: LeasedJob) -> JobOutcome:
        """The outcome: DONE, or READY for another attempt, or FAILED: no page of the host is then asked for.

        Nothing of the login pages is stored. The requests of one login follow one another on this node, each in its
        turn at its host. robots.txt does not bar the login page: the defs name it, and it is no page of the crawl.
        """
        host = self._db_access.host_login(job.host)
        host_rule = self._def_cache.host_rule(job.defs_version, host.key)
        rule = host_rule.login
        if rule is None:
            return JobOutcome(job=job, state=JobState.SKIPPED, reason="the defs no longer have this login")
        try:
            await self._require_robots(job)
            values = {name: expand(text) for name, text in rule.form.items()}
            visit = LoginVisit(
                job, host.key, sender=self._sender, redirect_rule=self._redirect_rule, def_cache=self._def_cache,
                robots_cache=self._robots_cache, settings=self._settings, delays=self._delays,
            )  # fmt: skip
            await self._try(visit, host_rule, rule, login_page_url(host.origin, rule), values)
        except RobotsPending:
            return JobOutcome(job=job, state=JobState.READY)
        except HostBackingOff as backoff:
            return JobOutcome(job=job, state=JobState.READY, backoff_until=backoff.until)
        except FetchFailed as failure:
            return self._failed(job, failure.reason, is_final=not failure.retryable)
        except (UnreadablePage, UnsupportedContent) as error:
            return self._failed(job, f"its page cannot be read: {error}", is_final=False)
        except LoginFailed as error:
            is_final = error.refused and job.attempts + 1 >= _MAX_REFUSED
            return self._failed(job, str(error), is_final=is_final)
        event = self._outcomes.event(job, "INFO", f"logged in to {host.key}", "host")
        return JobOutcome(job=job, state=JobState.DONE, attempts=1, events=(event,))

    def _failed(self, job: LeasedJob, reason: str, *, is_final: bool) -> JobOutcome:
        outcome = (
            self._outcomes.failed(job, reason, job.url) if is_final else self._outcomes.retry(job, job.url, reason)
        )
        if outcome.state is JobState.FAILED:
            outcome.events = ()  # the commit says it once for the host
        return outcome

    async def _require_robots(self, job: LeasedJob) -> None:
        """A host whose robots.txt cannot be read is asked for nothing. Raises RobotsPending, LoginFailed."""
        try:
            robots = await self._robots_cache.rules(job.host, job.defs_version)
        except RobotsGuarded:
            return  # the guard decides about the login, too
        if robots is not None and not robots.readable:
            raise LoginFailed(robots.refusal(job.url) or "its robots.txt cannot be read", refused=False)

    async def _try(
        self, visit: LoginVisit, host_rule: HostRule, rule: LoginRule, login_url: str, values: Mapping[str, str]
    ) -> None:
        url, response = await visit.fetch(login_url, Request())
        forms = await self._page_reader.read_forms(url, response, Body(response.take_body()), rule.selector)
        form = _choose_form(forms, rule)
        if not self._may_send(visit.job, host_rule, rule, form.action):
            raise LoginFailed(
                f"the form would send the password unencrypted to {urls.origin(form.action)}; name it with http: in "
                "`login.url` if that is meant"
            )
        refusal = self._redirect_rule.refusal(visit.job, url, form.action)
        if refusal is not None:
            raise LoginFailed(f"the form leads to another site: {refusal}")
        url, response = await visit.fetch(*_fill(form, values, url))
        with suppress(UnsupportedContent):  # an image or an archive is no login page
            await self._judge(rule, login_url, url, response)

    async def _judge(self, rule: LoginRule, login_url: str, url: str, response: FetchResponse) -> None:
        """Judge the page after the form. Raises LoginFailed, UnreadablePage and UnsupportedContent."""
        body = Body(response.take_body())
        if rule.check is not None:
            if body.size and await self._page_reader.is_logged_out(url, response, body, rule.check):
                raise LoginFailed("the page after it lacks `check`: wrong name or password, or wrong selector")
        elif is_same_page(url, login_url) and body.size:
            forms = await self._page_reader.read_forms(url, response, body, rule.selector)
            if any(_has_fields(form, rule) for form in forms):
                raise LoginFailed("the login page came back: wrong name or password")

    def _may_send(self, job: LeasedJob, host_rule: HostRule, rule: LoginRule, url: str) -> bool:
        """Whether the fields of the form may go to a URL: unencrypted only to a host that the defs name so."""
        if rule.url.startswith("http:") and urls.host_of(rule.url) == urls.host_of(url):
            return True
        plain_hosts = self._def_cache.plain_hosts(job.defs_version)
        if may_carry_credentials(host_rule, url, "", plain_hosts):
            return True
        return self._db_access.is_named_host(job.run, urls.host_key(url))  # such as by a list of URLs


def _choose_form(forms: list[LoginForm], rule: LoginRule) -> LoginForm:
    if rule.selector is not None:
        if not forms:
            raise LoginFailed("no form of the login page matches `selector`")
        return forms[0]
    for form in forms:
        if _has_fields(form, rule):
            return form
    if len(forms) == 1:
        return forms[0]
    names = ", ".join(rule.form)
    if forms:
        raise LoginFailed(f"none of the {len(forms)} forms of the login page has the fields {names}; write `selector`")
    raise LoginFailed("the login page has no form")


def _has_fields(form: LoginForm, rule: LoginRule) -> bool:
    return set(rule.form) <= {name for name, _ in form.fields}


def _fill(form: LoginForm, values: Mapping[str, str], page_url: str) -> tuple[str, Request]:
    """The URL and the request of the form with these values: in the place of its own, the others behind them."""
    left, fields = dict(values), list[tuple[str, str]]()
    for name, value in form.fields:
        if name not in values:
            fields.append((name, value))
        elif name in left:  # the first of several controls of one name
            fields.append((name, left.pop(name)))
    text = urlencode([*fields, *left.items()])
    # what browsers send, and what some frameworks compare; without the query, which pages may fill as they like
    source = page_url.partition("?")[0]
    if form.method == "GET":
        return f"{form.action}?{text}", Request(headers=(("Referer", source),))
    headers = ("Referer", source), ("Origin", urls.origin(page_url))
    return form.action, Request(method="POST", headers=headers, body=text, content_type=FORM_TYPE)
