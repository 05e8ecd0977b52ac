"""Lists the stages of each kind of job, and runs jobs through them; retries failed requests."""

import contextlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from crawl_engine.errors import CrawlError
from crawl_engine.http.byte_budget import ByteBudget
from crawl_engine.http.errors import NoRoom
from crawl_engine.http.robots_request import MAX_ROBOTS_REDIRECTS
from crawl_engine.model.host import product_token
from crawl_engine.model.job import HostPlan, JobKind, JobState, LeasedJob
from crawl_engine.node.extraction.extractor import PageExtractor
from crawl_engine.node.extraction.page_extraction import ExtractionUnavailable
from crawl_engine.node.handlers.act_on_rules import ActOnRules
from crawl_engine.node.handlers.ask_again import RetryText
from crawl_engine.node.handlers.file_job import FileHandler, KeepFreshFile
from crawl_engine.node.handlers.file_rows import FileRows
from crawl_engine.node.handlers.follow_refresh import FollowRefresh
from crawl_engine.node.handlers.freshness import FreshnessRules, Revalidation
from crawl_engine.node.handlers.hop_rules import (
    ClaimTarget,
    EndRobotsRedirects,
    HopRule,
    KeepBody,
    KeepLogin,
    LeaseAgain,
    StayOnSite,
)
from crawl_engine.node.handlers.login_job import LoginHandler
from crawl_engine.node.handlers.login_page import LoginPageReader
from crawl_engine.node.handlers.obey_robots import ObeyRobots
from crawl_engine.node.handlers.page_fetch import FailGivenUp, Fetch, NeedLogin, StartChain, WaitForTurn
from crawl_engine.node.handlers.page_stages import (
    Extract,
    Finish,
    HoldFiles,
    JudgeStatus,
    ReadBody,
)
from crawl_engine.node.handlers.render import AskPlainOnce, PlainAnswers, RenderPage
from crawl_engine.node.handlers.rendered_files import KeepRendered
from crawl_engine.node.handlers.robots_job import RobotsHandler
from crawl_engine.node.handlers.sitemap_job import SitemapHandler
from crawl_engine.node.handlers.visited_page import PageStage, VisitedPage
from crawl_engine.node.node_context import NodeContext
from crawl_engine.node.outcomes import OutcomeBuilder
from crawl_engine.node.requests.host_addresses import HostAddresses
from crawl_engine.node.requests.named_hosts import RedirectRule
from crawl_engine.node.requests.request_sender import Attempt, RequestSender
from crawl_engine.node.requests.shared_jars import SharedJars
from crawl_engine.node.rules import RulesOfPlans
from crawl_engine.store.pages.documents import NewDocument
from crawl_engine.store.pages.temporary import DocumentUse
from crawl_engine.store.tables.host.cookie_jars import CookiesChanged
from crawl_engine.store.tables.host.host_speeds import NO_ANSWER
from crawl_engine.store.tables.host.hosts import HostFailure
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.row.held_rows import HeldRows
from crawl_engine.store.tables.row.rows import NewRows

_MAX_PLANS = 10_000
_FINAL_STATES = (JobState.DONE, JobState.FAILED, JobState.SKIPPED)
"""Only in these states does a plugin loader's result count: other attempts are repeated."""
_HOLDING = (NewDocument, NewRows, HeldRows)
"""Effects that hold the bytes of a body until they are committed."""


class _PlanStages(NamedTuple):
    """The stages that have something to do for the jobs of a plan, each list in the order of the kind of job."""

    all: tuple[PageStage, ...]
    without_robots: tuple[PageStage, ...]
    """For a host whose robots.txt allows all."""
    stored: tuple[PageStage, ...]
    """For a page that is stored."""


class Pipeline:
    """Processes one job at a time for each slot of the fetch loop, which calls `process`."""

    def __init__(
        self,
        node: NodeContext,
        *,
        sender: RequestSender,
        shared_jars: SharedJars,
        page_extractor: PageExtractor,
        byte_budget: ByteBudget,
        login_page_reader: LoginPageReader,
    ) -> None:
        """`byte_budget` limits the bodies of all jobs together, from reading to the commit."""
        settings, db_access, file_parts = node.settings, sender.db_access, sender.file_parts
        self._def_cache = def_cache = node.def_cache
        self._page_extractor = page_extractor
        self._sender = sender
        self._shared_jars = shared_jars
        self._revalidation = revalidation = Revalidation(db_access)
        self._outcomes = outcomes = OutcomeBuilder(source=node.name, max_attempts=settings.max_attempts)
        redirect_rule, agent = RedirectRule(sender.named_hosts), product_token(settings.user_agent)
        self.robots_cache = robots_cache = sender.robots_cache

        start = StartChain(settings.max_redirects, def_cache.query_stripper, sender.cookie_header)
        wait = WaitForTurn(sender)
        fail = FailGivenUp(outcomes)
        need_login, keep_login = NeedLogin(db_access, outcomes), KeepLogin(outcomes)
        obey_robots = ObeyRobots(robots_cache, sender, outcomes, settings.max_attempts)
        stay, claim = StayOnSite(redirect_rule, outcomes), ClaimTarget(db_access, outcomes)
        keep_body, lease_again = KeepBody(db_access, outcomes), LeaseAgain(outcomes)

        def fetch(*hop_rules: HopRule) -> Fetch:
            return Fetch(sender, revalidation, outcomes, hop_rules)

        fetch_page = fetch(stay, keep_login, keep_body, lease_again, claim, obey_robots)
        judge, retry_text = JudgeStatus(revalidation, outcomes), RetryText(outcomes)
        read, extract = ReadBody(db_access, outcomes), Extract(page_extractor, outcomes, RulesOfPlans(settings))
        refresh = FollowRefresh(outcomes, (stay, keep_login, LeaseAgain(outcomes, always=True)))
        keep_rendered = KeepRendered(file_parts, db_access, outcomes)
        self._plain_answers = plain_answers = PlainAnswers()
        act = ActOnRules(page_extractor, db_access, outcomes)
        finish = act, keep_rendered, HoldFiles(FileRows(def_cache)), Finish(outcomes, settings)
        download = FileHandler(
            fetch(stay, keep_login, keep_body, lease_again, obey_robots), file_parts, outcomes, db_access
        )
        self._stages: dict[JobKind, tuple[PageStage, ...]] = {
            JobKind.PAGE: (
                fail, need_login, start, obey_robots, AskPlainOnce(plain_answers), wait, fetch_page, judge, retry_text,
                read, extract,
                RenderPage(plain_answers, db_access, (wait, fetch_page, judge, retry_text, read, extract)), refresh,
                *finish,
            ),
            JobKind.EXTRACT: (read, extract, *finish),
            JobKind.FILE: (
                KeepFreshFile(download, FreshnessRules(settings.live_seconds)),
                fail, need_login, start, obey_robots, wait, download,
            ),
            JobKind.SITEMAP: (
                fail, start, obey_robots, wait, fetch(stay, keep_body, lease_again, obey_robots),
                SitemapHandler(settings.max_body, page_extractor, db_access, def_cache, outcomes),
            ),
            JobKind.ROBOTS: (
                StartChain(MAX_ROBOTS_REDIRECTS), wait,
                RobotsHandler(
                    fetch(EndRobotsRedirects(redirect_rule, outcomes), lease_again), outcomes, robots_cache, agent
                ),
            ),
            JobKind.LOGIN: (
                fail, wait,
                LoginHandler(
                    settings=settings, sender=sender, db_access=db_access, def_cache=def_cache,
                    robots_cache=robots_cache, redirect_rule=redirect_rule, outcomes=outcomes,
                    page_reader=login_page_reader,
                ),
            ),
        }  # fmt: skip
        self._stored_stages: tuple[PageStage, ...] = (stay, start, judge, read, extract, refresh, *finish)
        self._byte_budget = byte_budget
        self._host_addresses = HostAddresses(sender.fetcher.resolvers)
        self._attempts: set[Attempt] = set()
        """Those that run."""
        self._by_plan: dict[HostPlan, _PlanStages] = {}

    def prepare(self, jobs: Sequence[LeasedJob]) -> None:
        """Read the stored versions of these jobs' pages, all at once. On failure, each job reads its own."""
        with contextlib.suppress(CrawlError):
            self._revalidation.load(jobs)

    async def process(self, job: LeasedJob, started: Callable[[], None]) -> JobOutcome:
        """The outcome of the job. `started` is called when its request is about to be sent."""
        outcome, page = None, VisitedPage(started=started, attempt=Attempt(job.host, self._byte_budget.open_share()))
        self._attempts.add(page.attempt)
        try:
            outcome = await self._process(job, page)
        except NoRoom as shortage:
            outcome = self._outcomes.postponed(job, str(shortage))
        except ExtractionUnavailable as error:
            outcome = self._outcomes.retry(job, job.url, str(error))
            outcome.remove(HostFailure)
        finally:
            self._attempts.discard(page.attempt)
            share = page.attempt.share
            if share.granted:
                if outcome is not None and any(isinstance(effect, _HOLDING) for effect in outcome.effects):
                    outcome.release_when_settled(share.release)
                else:
                    share.release()
        self._add_costs(outcome, page.attempt)
        keeps = job.plan.keeps_documents
        return outcome if keeps is None else outcome.add(DocumentUse(keeps))

    def _add_costs(self, outcome: JobOutcome, attempt: Attempt) -> None:
        """Add the costs of a job's requests to its outcome, and the backoff of its host."""
        if attempt.loaded and outcome.state in _FINAL_STATES:
            results = self._sender.group_loaders.to_unit_results(outcome.job, attempt.loaded)
            outcome.effects = (*results, *outcome.effects)
        if attempt.changed_sites:
            outcome.add(*[CookiesChanged(self._shared_jars.jar(site)) for site in attempt.changed_sites])
        if attempt.responses and (address := self._host_addresses.find_new(outcome.job)) is not None:
            outcome.add(address)
        stats = outcome.stats
        stats.requests, stats.responses = attempt.requests - attempt.reserved, attempt.responses
        stats.seconds, stats.received = attempt.seconds, attempt.received
        stats.is_rendered = attempt.is_rendered
        if outcome.job.kind is not JobKind.ROBOTS:
            unanswered = attempt.requests - attempt.responses
            stats.answers = (*attempt.answers, *((NO_ANSWER, 0.0),) * unanswered)
        if attempt.backoff is not None and attempt.backoff.until:
            outcome.add(attempt.backoff)

    def stages_of(self, job: LeasedJob) -> tuple[PageStage, ...]:
        """The stages that have something to do for a job, in the order of its kind."""
        stages = self._by_plan.get(job.plan)
        if stages is None:
            if len(self._by_plan) >= _MAX_PLANS:
                self._by_plan.clear()
            stages = self._by_plan[job.plan] = self._list_stages(job)
        if job.stored is not None and job.kind is JobKind.PAGE:
            return stages.stored
        allows_all = self.robots_cache.allows_all(job.host, job.defs_version)
        return stages.without_robots if allows_all else stages.all

    def _list_stages(self, job: LeasedJob) -> _PlanStages:
        applying = tuple([stage for stage in self._stages[job.kind] if stage.applies(job.plan)])
        without_robots = tuple([stage for stage in applying if not isinstance(stage, ObeyRobots)])
        stored = self._stored_stages if job.kind is JobKind.PAGE else ()
        return _PlanStages(applying, without_robots, tuple([stage for stage in stored if stage.applies(job.plan)]))

    def waiting_hosts(self) -> dict[int, float]:
        sent = [(attempt.host, attempt.sent_at) for attempt in self._attempts if attempt.sent_at is not None]
        return dict(sorted(sent, key=lambda item: -item[1]))  # the oldest of a host comes last

    def forget(self, job: LeasedJob) -> None:
        """Free the state of a job, however it ended."""
        self._sender.dismiss(job)
        self._revalidation.forget(job)
        self._plain_answers.forget(job)

    async def aclose(self) -> None:
        """Close all connections, end the extraction processes."""
        self._page_extractor.close()
        await self._sender.aclose()

    async def _process(self, job: LeasedJob, page: VisitedPage) -> JobOutcome:
        stored = job.stored
        if stored is not None:
            page.use(stored)
        for stage in self.stages_of(job):
            result = await stage.run(job, page)
            if not isinstance(result, VisitedPage):
                return result
            if page.stored is not stored:  # redirects may have led to it, from another host
                stored, job = page.stored, self._def_cache.plan_for(job, page.url)
        raise AssertionError("the last stage gives the outcome")
