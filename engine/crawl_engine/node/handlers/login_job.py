"""Logs in to a host: fetches the login page, fills in and sends the form, judges the answer."""

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from msgspec import field

from crawl_engine import urls
from crawl_engine.extract.links.form_encoding import encode_form, merge_fields
from crawl_engine.extract.links.html_form import HtmlForm, with_query
from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.redirects import build_redirect_request
from crawl_engine.http.request import expand, may_carry_credentials
from crawl_engine.http.response import FetchResponse
from crawl_engine.http.robots_request import ask_for_robots
from crawl_engine.model.host import HostPolicy, HostRule, LoginRule
from crawl_engine.model.job import JobKind, JobState, LeasedJob, Request
from crawl_engine.model.link import NO_BUTTON
from crawl_engine.model.retry_policy import classify_status
from crawl_engine.node.db_access import DbAccess
from crawl_engine.node.def_cache import DefCache
from crawl_engine.node.extraction.page_extraction import UnreadablePage, UnsupportedContent
from crawl_engine.node.handlers.login_page import LoginPageReader, is_same_page
from crawl_engine.node.handlers.visited_page import PageStage, VisitedPage
from crawl_engine.node.host_gate import HostBackingOff
from crawl_engine.node.outcomes import OutcomeBuilder
from crawl_engine.node.requests.named_hosts import RedirectRule
from crawl_engine.node.requests.request_sender import Attempt, RequestSender
from crawl_engine.node.requests.robots_cache import RobotsCache, RobotsGuarded, RobotsPending
from crawl_engine.robots.host_policy import resolve_host_policy
from crawl_engine.settings import Settings
from crawl_engine.store.pages.body import Body
from crawl_engine.store.tables.host.hosts import Backoff
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.run.events import Event
from crawl_engine.store.transactions.logins import login_page_url

_MAX_REFUSED = 2
"""Attempts at a login that the site refuses: many lock an account after a few wrong passwords."""
_ROBOTS_SECONDS = 24 * 3600.0
"""Seconds for which a robots.txt that was read counts."""


class AskedDelay(NamedTuple):
    """The delay that robots.txt of another host than the pages' asks for; a node keeps them from login to login."""

    seconds: float
    read_at: float
    """By the monotonic clock."""


_NO_DELAY = AskedDelay(0.0, float("-inf"))


class LoginFailed(Exception):
    """The login cannot be made; the message says why."""

    def __init__(self, reason: str, *, refused: bool = True) -> None:
        """`refused`: by the site or the defs; otherwise a later attempt may succeed."""
        super().__init__(reason)
        self.refused = refused


class LoginVisit:
    """The requests of one login: each at its host, redirects included."""

    def __init__(self, handler: "LoginHandler", job: LeasedJob, host_key: str, attempt: Attempt) -> None:
        """`host_key`: the host of the pages, whose limits the lease has."""
        self._handler = handler
        self._attempt = attempt
        self._own_host = host_key
        self._own_job = self.job = job
        # where the job was admitted; at another host it was under that host's limits
        self._host = host_key if job.plan.host_key == host_key else ""

    async def fetch(self, url: str, request: Request) -> tuple[str, FetchResponse]:
        """The last URL and the page there, after redirects. Raises LoginFailed and what sending raises."""
        for _ in range(self._handler.settings.max_redirects + 1):
            response = await self._send(url, request)
            if response.refusal is not None:
                raise LoginFailed(f"blocked: {response.refusal}", refused=False)
            match classify_status(response.status):
                case "ok" | "no-page":
                    return url, response
                case "redirect":
                    target = response.location
                case "retry":
                    raise LoginFailed(f"HTTP {response.status}", refused=False)
                case _:
                    raise LoginFailed(f"HTTP {response.status}")
            if target is None:
                raise LoginFailed(response.location_problem or "invalid redirect")
            refusal = self._handler.redirect_rule.refusal(self.job, url, target)
            if refusal is not None:
                raise LoginFailed(refusal)
            request = build_redirect_request(request, response.status, url, target)
            if request.body is not None and urls.origin(url) != urls.origin(target):
                raise LoginFailed(f"a redirect would send the password to {urls.origin(target)}")
            url = target
        raise LoginFailed(f"more than {self._handler.settings.max_redirects} redirects")

    async def _send(self, url: str, request: Request) -> FetchResponse:
        host_key = urls.host_key(url)
        if host_key != self._host:
            if host_key != self._own_host:
                await self._ask_delay(url)
            await self._go_to(url)
        return await self._handler.sender.send(self.job, self._attempt, url, request)

    async def _go_to(self, url: str) -> None:
        host_key = urls.host_key(url)
        self.job = self._handler.def_cache.plan_for(self._own_job, url)
        if host_key != self._own_host:
            policy = self._policy(host_key)
            asked = self._handler.delays.get(host_key, _NO_DELAY) if policy.robots else _NO_DELAY
            delay = max(self._own_job.terms.delay, policy.delay, asked.seconds)
            self.job = self.job._replace(
                terms=self._own_job.terms._replace(delay=delay, concurrency=policy.concurrency)
            )
        await self._handler.sender.change_host(self.job)
        self._host = host_key

    async def _ask_delay(self, url: str) -> None:
        """Read the robots.txt of a host that is not that of the pages, once a day. Raises LoginFailed."""
        host_key, now = urls.host_key(url), time.monotonic()
        asked = self._handler.delays.get(host_key, _NO_DELAY)
        if now - asked.read_at < _ROBOTS_SECONDS or not self._policy(host_key).robots:
            return
        answer = await ask_for_robots(f"{urls.origin(url)}/robots.txt", self._send_robots)
        robots = await self._handler.robots_cache.parse(*answer)
        if not robots.readable:
            raise LoginFailed(f"{urls.origin(url)}: {robots.refusal(url)}", refused=False)
        self._handler.delays[host_key] = AskedDelay(robots.delay, now)

    async def _send_robots(self, url: str, request: Request) -> FetchResponse:
        await self._go_to(url)
        return await self._handler.sender.send(self.job._replace(kind=JobKind.ROBOTS), self._attempt, url, request)

    def _policy(self, host_key: str) -> HostPolicy:
        definitions = self._handler.def_cache.definitions(self.job.defs_version)
        return resolve_host_policy(definitions, self._handler.settings, host_key)


class LoginHandler(PageStage, frozen=True):
    """One for each node."""

    settings: Settings
    sender: RequestSender
    db_access: DbAccess
    def_cache: DefCache
    robots_cache: RobotsCache
    redirect_rule: RedirectRule
    outcomes: OutcomeBuilder
    page_reader: LoginPageReader
    delays: dict[str, AskedDelay] = field(default_factory=dict)
    """By host, of other hosts than those of pages."""

    async def run(self, job: LeasedJob, page: VisitedPage) -> JobOutcome:
        """The outcome: DONE, READY for another attempt, or FAILED; after FAILED no page of the host is asked for.

        Nothing of the login pages is stored. The requests of a login follow one another on this node, each in its turn
        at its host. robots.txt does not bar the login page: the defs name it, and it is not a page of the crawl.
        """
        host = self.db_access.host_login(job.host)
        host_rule = self.def_cache.plan(job, host.key).rule
        rule = host_rule.login
        if rule is None:
            return JobOutcome(job=job, state=JobState.SKIPPED, reason="the defs no longer have this login")
        try:
            await self._require_robots(job)
            values = {name: expand(text) for name, text in rule.form.items()}
            visit = LoginVisit(self, job, host.key, page.attempt)
            await self._try(visit, host_rule, rule, login_page_url(host.origin, rule), values)
        except RobotsPending:
            return JobOutcome(job=job, state=JobState.READY)
        except HostBackingOff as backoff:
            return JobOutcome(job=job, state=JobState.READY, effects=(Backoff(backoff.until),))
        except FetchFailed as failure:
            return self._failed(job, failure.reason, is_final=not failure.retryable)
        except (UnreadablePage, UnsupportedContent) as error:
            return self._failed(job, f"its page cannot be read: {error}", is_final=False)
        except LoginFailed as error:
            is_final = error.refused and job.attempts + 1 >= _MAX_REFUSED
            return self._failed(job, str(error), is_final=is_final)
        event = self.outcomes.event(job, "INFO", f"logged in to {host.key}", "host")
        return JobOutcome(job=job, state=JobState.DONE, attempts=1, effects=(event,))

    def _failed(self, job: LeasedJob, reason: str, *, is_final: bool) -> JobOutcome:
        outcome = self.outcomes.failed(job, reason, job.url) if is_final else self.outcomes.retry(job, job.url, reason)
        if outcome.state is JobState.FAILED:
            outcome.remove(Event)  # the commit says it once for the host
        return outcome

    async def _require_robots(self, job: LeasedJob) -> None:
        """Raises RobotsPending or LoginFailed while the host's robots.txt cannot be read."""
        try:
            robots = await self.robots_cache.rules(job.host, job.defs_version)
        except RobotsGuarded:
            return  # the guard decides about the login, too
        if robots is not None and not robots.readable:
            raise LoginFailed(robots.refusal(job.url) or "its robots.txt cannot be read", refused=False)

    async def _try(
        self, visit: LoginVisit, host_rule: HostRule, rule: LoginRule, login_url: str, values: Mapping[str, str]
    ) -> None:
        url, response = await visit.fetch(login_url, Request())
        forms = await self.page_reader.read_forms(url, response, Body(response.take_body()), rule)
        form = _choose_form(forms, rule)
        if not self._may_send(visit.job, host_rule, rule, form.action):
            raise LoginFailed(
                f"the form would send the password unencrypted to {urls.origin(form.action)}; name it with http: in "
                "`login.url` if that is meant"
            )
        refusal = self.redirect_rule.refusal(visit.job, url, form.action)
        if refusal is not None:
            raise LoginFailed(f"the form leads to another site: {refusal}")
        url, response = await visit.fetch(*_fill(form, values, url))
        with suppress(UnsupportedContent):  # an image or an archive is not a login page
            await self._judge(rule, login_url, url, response)

    async def _judge(self, rule: LoginRule, login_url: str, url: str, response: FetchResponse) -> None:
        """Judge the page after the form. Raises LoginFailed, UnreadablePage and UnsupportedContent."""
        body = Body(response.take_body())
        if rule.check is not None:
            if body.size and await self.page_reader.is_logged_out(url, response, body, rule.check):
                raise LoginFailed("the page after it lacks `check`: wrong name or password, or wrong selector")
        elif is_same_page(url, login_url) and body.size:
            forms = await self.page_reader.read_forms(url, response, body, rule)
            if any(_has_fields(form, rule) for form in forms):
                raise LoginFailed("the login page came back: wrong name or password")

    def _may_send(self, job: LeasedJob, host_rule: HostRule, rule: LoginRule, url: str) -> bool:
        """Whether the form may go to a URL: unencrypted only to a host that the defs name with `http:`."""
        if rule.url.startswith("http:") and urls.host_of(rule.url) == urls.host_of(url):
            return True
        plain_hosts = self.def_cache.version(job.defs_version).plain_hosts
        if may_carry_credentials(host_rule, url, "", plain_hosts):
            return True
        return self.db_access.is_named_host(job.run, urls.host_key(url))  # such as by a list of URLs


def _choose_form(forms: list[HtmlForm], rule: LoginRule) -> HtmlForm:
    with_button = "" if rule.submit in (None, NO_BUTTON) else f" with the button `{rule.submit}`"
    if rule.selector is not None:
        if not forms:
            raise LoginFailed(f"no form{with_button} of the login page matches `selector`")
        return forms[0]
    for form in forms:
        if _has_fields(form, rule):
            return form
    if len(forms) == 1:
        return forms[0]
    names = ", ".join(rule.form)
    if forms:
        raise LoginFailed(f"none of the {len(forms)} forms of the login page has the fields {names}; write `selector`")
    raise LoginFailed(f"the login page has no form{with_button}")


def _has_fields(form: HtmlForm, rule: LoginRule) -> bool:
    return set(rule.form) <= {field.name for field in form.fields}


def _fill(form: HtmlForm, values: Mapping[str, str], page_url: str) -> tuple[str, Request]:
    """The URL and the request of the form with these values; values of unknown fields come last."""
    merged = merge_fields(form.fields, tuple(values.items()))
    fields = [field._replace(is_template=False) for field in merged]
    # browsers send it and some frameworks compare it; without the query, which pages may fill as they like
    source = page_url.partition("?")[0]
    if form.method == "GET":
        query = encode_form(fields, _no_values, form.query_encoding)
        return with_query(form.action, query.text), Request(headers=(("Referer", source),))
    headers = ("Referer", source), ("Origin", urls.origin(page_url))
    body = encode_form(fields, _no_values, form.encoding)
    return form.action, Request(method="POST", headers=headers, body=body.text, content_type=body.content_type)


def _no_values(_: str) -> None:
    return None
