"""Extracts the pages of a node: itself where that is certainly cheap, else in an extraction process."""

import asyncio
from collections.abc import Container, Iterable, Sequence

from engine.extract.documents.sitemap import parse_sitemap
from engine.extract.page.context import Context
from engine.extract.page.page import Page, PageTooCostly
from engine.extract.page.patterns import OutOfTime
from engine.extract.select.login_check import compile_check
from engine.http.byte_budget import BodyShare, ByteBudget
from engine.http.decode import content_type_at
from engine.model.definition import Definitions
from engine.model.host import product_token
from engine.model.job import JobKind, LeasedJob
from engine.model.link import Carried
from engine.model.record import PageWarning, RecordCounts, Texts
from engine.model.step import StepResult
from engine.node.db_access import DbAccess
from engine.node.def_cache import CompiledDataDef
from engine.node.extraction import wire
from engine.node.extraction.child_jobs import ChildJobs
from engine.node.extraction.inline import INLINE_SECONDS, MAX_INLINE_SITEMAP_BYTES, is_plain, may_be_inline
from engine.node.extraction.node_calls import NodeCalls
from engine.node.extraction.page_extraction import (
    REPEATED,
    ExtractedPage,
    UnreadablePage,
    apply_data_defs,
    check_supported,
    ends_when_empty,
    parse_page,
    read_sitemap_text,
)
from engine.node.extraction.plugin_worker import PluginWorker
from engine.node.extraction.process_pool import ExtractionPool
from engine.node.extraction.request import ExtractionRequest
from engine.node.extraction.result import PageExtraction, SitemapUrls
from engine.node.extraction.task import PageTask
from engine.node.lines import take_first
from engine.node.node_context import NodeContext
from engine.node.seen_set import SeenSet
from engine.node.tuning import LARGE_PAGE_BYTES, HeapTrimmer
from engine.store.pages.body import Body
from engine.store.tables.job.linked_jobs import ChildJob
from engine.store.tables.job.results import UnitResult
from engine.store.tables.row.health import NewWarnings, PageCounts
from engine.store.tables.row.rows import NewRows


class SelectorWarnings:
    """Warns once for each dataDef, and once for each kind of fault."""

    def __init__(self) -> None:
        self._warned: set[int] = set()
        self._warned_faults: set[str] = set()

    def warn(self, compiled: Iterable[CompiledDataDef], page_kind: str, faults: Sequence[str] = ()) -> tuple[str, ...]:
        """The warnings about a page of that kind; empty if all were given before. `faults`: what was skipped on it."""
        new_faults = [fault for fault in faults if fault not in self._warned_faults]
        self._warned_faults.update(new_faults)
        messages = []
        for one in compiled:
            warning = _describe_mismatch(one, page_kind)
            if warning and one.id not in self._warned:
                self._warned.add(one.id)
                messages.append(warning)
        return (*messages, *new_faults)


def _describe_mismatch(compiled: CompiledDataDef, page_kind: str) -> str:
    """The selector that matches nothing on pages of that kind; empty: every selector can match."""
    if compiled.json_selector and page_kind in ("html", "xml"):
        selector, what = compiled.json_selector, "`jmespath:` reads JSON"
    elif compiled.embedded_selector and page_kind != "html":
        selector, what = compiled.embedded_selector, "`jsonld:` and `jmespath(CSS):` read the JSON in HTML"
    else:
        return ""
    return f"{compiled.data_def}.{selector}: {what}, and this page is {page_kind.upper()}"


_SITEMAP_TYPE = "application/xml"


class PageExtractor:
    """Extracts pages for one node, on its fetch loop."""

    def __init__(
        self,
        node: NodeContext,
        *,
        seen_set: SeenSet,
        heap_trimmer: HeapTrimmer,
        pool: ExtractionPool,
        plugin_worker: PluginWorker,
        answer_budget: ByteBudget,
        db_access: DbAccess,
    ) -> None:
        """`answer_budget`: bytes that uncommitted answers of extraction processes may hold together."""
        self._node = node
        self._run_time, self._agent = node.run_time, product_token(node.settings.user_agent)
        self._def_cache = node.def_cache
        self._child_jobs = ChildJobs(node.def_cache, seen_set, db_access)
        self._heap_trimmer = heap_trimmer
        self._pool = pool
        self._plugin_worker = plugin_worker
        self._answer_budget = answer_budget
        self._db_access = db_access
        self._selector_warnings = SelectorWarnings()
        self._max_links = node.settings.max_links

    async def extract(
        self,
        job: LeasedJob,
        *,
        body: Body,
        content_type: str,
        url: str,
        status: int,
        fetched_at: float,
        headers: tuple[tuple[str, str], ...] = (),
        check: str = "",
    ) -> PageExtraction:
        """Extract a page; `headers`: of its answer. Raises UnsupportedContent or UnreadablePage.

        `check`: the selector of an element that a page has while the login to its host lasts.
        """
        if job.lineage.link.page is not None and url != job.url and self._db_access.is_page_of_another(job, url):
            return PageExtraction((), (), (), (), 0, replaced_by=REPEATED)
        context = self._create_context(job)
        context.check = check
        compiled = self._applicable_data_defs(job)
        without_rows = self.unchanged_data_defs(job)
        runs_plugins = any(c.is_plugin for c in compiled)
        if not runs_plugins and may_be_inline(body.read(), content_type):
            page, damaged = parse_page(
                body.read(), content_type, url=url, status=status, fetched_at=fetched_at, headers=headers
            )
            extraction = self._extract_here(job, compiled, without_rows, context, page, body.read(), damaged=damaged)
            if extraction is not None:
                return extraction
        self._heap_trimmer.record_page(body.size)
        if not runs_plugins:
            check_supported(body.read(), content_type_at(content_type, url))
        task = PageTask(
            defs=job.defs_version,
            data_defs=tuple([(c.data_def, c.id not in without_rows) for c in compiled]),
            url=url,
            content_type=content_type,
            status=status,
            fetched_at=fetched_at,
            context=context,
            headers=headers,
            tasks=tuple([c.task for c in compiled]) if runs_plugins else (),
        )
        await _pack_large(body)
        share = self._answer_budget.open_share()
        definitions = (job.defs_version, self._def_cache.definitions(job.defs_version))
        calls = NodeCalls(self._db_access, job)
        try:
            if runs_plugins:
                answer = await self._plugin_worker.extract(task, body, definitions, share=share, on_call=calls)
            else:
                answer = await self._extract_elsewhere(task, body, definitions, share)
            share.finish_reading()
            children, later_children = take_first(self._child_jobs.pieces(job, answer.links))
            children = (*self._child_jobs.of_series(job, answer.blocks), *children)
        except BaseException:
            share.release()
            raise
        return PageExtraction(
            _stored_rows(compiled, answer.rows),
            children,
            answer.rejected,
            answer.rejected_counts,
            answer.damaged,
            answer.dropped_links,
            answer.noindex,
            share,
            _page_counts(compiled, answer.counts),
            later_children,
            self._selector_warnings.warn(compiled, answer.page_kind, answer.faults),
            self._unit_results(job, compiled, answer.results),
            runs_plugins,
            calls.stored_values,
            answer.replaced_by,
            answer.refresh_to,
            new_warnings=_new_warnings(compiled, answer.warnings),
            digest=answer.digest,
        )

    def _create_context(self, job: LeasedJob) -> Context:
        """What extraction knows of a job."""
        settings, is_page = self._node.settings, job.kind is JobKind.PAGE
        context = Context(
            group=job.group,
            locator=job.lineage.locator,
            locator_url=job.lineage.locator_url,
            depth=job.lineage.depth,
            run=self._node.run.id,
            run_time=self._run_time,
            nofollow=job.plan.rule.nofollow,
            meta_nofollow=settings.meta_nofollow,
            meta_noindex=settings.meta_noindex,
            agent=self._agent,
            meta_refresh=settings.meta_refresh and is_page,
            wants_digest=is_page and job.request.body is None,
        )
        if job.lineage.carried is not None:
            carried = Carried.from_json(job.lineage.carried)
            context.carried, context.blocks_before = dict(carried.values), carried.blocks
            context.form_page = carried.form_page
        if job.lineage.page_number is not None:
            context.until_empty = True
        if job.plan.group.canonical and job.lineage.link.relation != "canonical":
            context.canonical, context.requested_url = True, job.url
        return context

    async def _extract_elsewhere(
        self, task: PageTask, body: Body, definitions: tuple[int, Definitions], share: BodyShare
    ) -> wire.PageAnswer:
        """Extract a page without plugin code in an extraction process."""
        names = [name for name, _ in task.data_defs]
        request = ExtractionRequest(
            header=task.to_header(), body=body, definitions=definitions, data_defs=names, share=share
        )
        answer = await self._pool.work(request)
        assert isinstance(answer, wire.PageAnswer)
        return answer

    def unchanged_data_defs(self, job: LeasedJob) -> tuple[int, ...]:
        """For a re-extraction: ids of the dataDefs whose rows stay as they are."""
        if not job.extraction.extracted_with:
            return ()
        compiled = self._def_cache.compiled_data_defs(job)
        if any(ends_when_empty(data_def.extractor) for data_def in compiled):
            return ()
        return tuple(data_def.id for data_def in compiled if data_def.id in job.extraction.extracted_with)

    async def read_sitemap(self, body: Body, now: float | None = None) -> SitemapUrls:
        """The URLs of an unpacked sitemap, with `now` also when they were modified. Raises UnreadablePage."""
        self._heap_trimmer.record_page(body.size)
        if body.size <= MAX_INLINE_SITEMAP_BYTES and may_be_inline(body.read(), _SITEMAP_TYPE):
            entries = parse_sitemap(read_sitemap_text(body.read(), _SITEMAP_TYPE), now)
            return SitemapUrls(
                entries.pages, entries.sitemaps, 0, modified=entries.modified, is_cut_short=entries.is_cut_short
            )
        await _pack_large(body)
        header = {"kind": "sitemap", "content_type": _SITEMAP_TYPE} | ({} if now is None else {"now": now})
        share = self._answer_budget.open_share()
        try:
            answer = await self._pool.work(ExtractionRequest(header=header, body=body, share=share))
        except BaseException:
            share.release()
            raise
        assert isinstance(answer, wire.SitemapAnswer)
        share.finish_reading()
        return SitemapUrls(
            answer.pages, answer.sitemaps, answer.dropped, share, answer.modified, answer.is_cut_short
        )  # fmt: skip

    def close(self) -> None:
        """End the extraction processes and the commands."""
        self._plugin_worker.close()
        self._pool.close()

    def _applicable_data_defs(self, job: LeasedJob) -> Sequence[CompiledDataDef]:
        """The dataDefs to apply. In a re-extraction, a dataDef whose rows stay is applied only for its links."""
        compiled = self._def_cache.compiled_data_defs(job)
        made_before = self.unchanged_data_defs(job)
        if not made_before or job.extraction.links_stale:
            return compiled
        return [data_def for data_def in compiled if data_def.id not in made_before]

    def _extract_here(
        self,
        job: LeasedJob,
        compiled: Sequence[CompiledDataDef],
        without_rows: Container[int],
        context: Context,
        page: Page,
        body: bytes,
        *,
        damaged: int,
    ) -> PageExtraction | None:
        """Extract a page on the fetch loop; None: it takes too long."""
        try:
            speeds = [c.extractor.speed for c in compiled]
            if context.check:
                speeds.append(compile_check(context.check).speed)
            if not is_plain(page, body, speeds):
                return None
            extracted = apply_data_defs(
                page,
                context,
                [(c.extractor, c.id not in without_rows) for c in compiled],
                self._max_links,
                patience=INLINE_SECONDS,
            )
        except OutOfTime:
            return None
        except PageTooCostly as error:
            raise UnreadablePage(str(error)) from error
        return PageExtraction(
            _stored_rows(compiled, extracted.rows),
            self._children(job, extracted, compiled),
            extracted.rejected,
            wire.count_rejections(extracted.rejected),
            damaged,
            extracted.dropped_links,
            extracted.noindex,
            counts=_page_counts(compiled, extracted.counts),
            warnings=self._selector_warnings.warn(compiled, page.kind, extracted.faults),
            results=self._unit_results(job, compiled, extracted.results) if extracted.results else (),
            replaced_by=extracted.replaced_by,
            refresh_to=extracted.refresh_to,
            new_warnings=_new_warnings(compiled, extracted.warnings),
            digest=extracted.digest,
        )

    def _children(
        self, job: LeasedJob, extracted: ExtractedPage, compiled: Sequence[CompiledDataDef]
    ) -> tuple[ChildJob, ...]:
        have_details = any(data_def.extractor.sends_values for data_def in compiled)
        children = self._child_jobs.of_links(job, extracted.links, have_details=have_details)
        return (*self._child_jobs.of_series(job, extracted.blocks), *children) if extracted.blocks else children

    def _unit_results(
        self, job: LeasedJob, compiled: Sequence[CompiledDataDef], results: Sequence[tuple[int, StepResult]]
    ) -> tuple[UnitResult, ...]:
        """The results by unit; those of a built-in parser get the first task that uses their dataDef."""
        group = self._def_cache.definitions(job.defs_version).task_group(job.group)
        tasks = group.tasks if group is not None else ()
        named = []
        for index, result in results:
            unit = compiled[index]
            task = result.task or next((task.name for task in tasks if task.data_def == unit.data_def), "")
            named.append(UnitResult(unit.id, job.group, result._replace(task=task)))
        return tuple(named)


async def _pack_large(body: Body) -> None:
    """Compress a large body: its extraction, which may be as large, need not wait beside it."""
    if body.size >= LARGE_PAGE_BYTES:
        await asyncio.to_thread(body.pack)


def _stored_rows(compiled: Sequence[CompiledDataDef], rows: Sequence[tuple[int, Texts]]) -> tuple[NewRows, ...]:
    made = [(compiled[index], texts) for index, texts in rows if len(texts)]
    return tuple([NewRows(one.data_def, one.id, texts, unique=one.unique_key) for one, texts in made])


def _page_counts(
    compiled: Sequence[CompiledDataDef], counts: Sequence[tuple[int, RecordCounts]]
) -> tuple[PageCounts, ...]:
    data_defs = [(compiled[index], counted) for index, counted in counts]
    return tuple([PageCounts(one.id, counted, one.extractor.defaulted_fields) for one, counted in data_defs])


def _new_warnings(compiled: Sequence[CompiledDataDef], warnings: Sequence[PageWarning]) -> NewWarnings | None:
    """The effect of warnings; None without warnings."""
    if not warnings:
        return None
    ids = {one.data_def: one.id for one in compiled}
    return NewWarnings(tuple([(ids[warning.data_def], warning) for warning in warnings]))
