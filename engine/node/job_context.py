"""Builds the `Context` of a job, which tells extraction its group, run and carried values."""

from engine import urls
from engine.extract.page.context import Context
from engine.model.host import product_token
from engine.model.job import JobKind, LeasedJob
from engine.model.link import Carried
from engine.node.def_cache import DefCache
from engine.settings import Settings


class JobContexts:
    """One for each node."""

    def __init__(self, settings: Settings, def_cache: DefCache, run: str, run_time: str) -> None:
        self._meta_nofollow = settings.meta_nofollow
        self._meta_noindex = settings.meta_noindex
        self._meta_refresh = settings.meta_refresh
        self._agent = product_token(settings.user_agent)
        self._def_cache = def_cache
        self._run = run
        self._run_time = run_time

    def create(self, job: LeasedJob, url: str) -> Context:
        """The context of a job whose page is at that URL."""
        context = Context(
            group=job.group,
            locator=job.lineage.locator,
            locator_url=job.lineage.locator_url,
            depth=job.lineage.depth,
            run=self._run,
            run_time=self._run_time,
            nofollow=self._def_cache.host_rule(job.defs_version, urls.host_key(url)).nofollow,
            meta_nofollow=self._meta_nofollow,
            meta_noindex=self._meta_noindex,
            agent=self._agent,
            meta_refresh=self._meta_refresh and job.kind is JobKind.PAGE,
            wants_digest=job.kind is JobKind.PAGE and job.request.body is None,
        )
        if job.lineage.carried is not None:
            carried = Carried.from_json(job.lineage.carried)
            context.carried, context.blocks_before = dict(carried.values), carried.blocks
            context.form_page = carried.form_page
        if job.lineage.page_number is not None:
            context.until_empty = True
        if (
            job.lineage.link.relation != "canonical"
            and self._def_cache.task_group(job.defs_version, job.group).canonical
        ):
            context.canonical, context.requested_url = True, job.url
        return context
