"""Applies the plugin code of one def version to pages, in an extraction process."""

import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import orjson
from msgspec.structs import replace

from crawl_engine.errors import quote_text
from crawl_engine.extract.fields.field_texts import FieldConverter
from crawl_engine.extract.links.links import limit_links
from crawl_engine.extract.page.page import Page
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.model.definition import DataDef, Definitions, Task, TaskGroup
from crawl_engine.model.record import ExtractedLink, Extraction, RecordCounts, Rejection, to_text
from crawl_engine.model.step import StepResult
from crawl_engine.node.extraction.board import Phase, ProgressSlot
from crawl_engine.node.extraction.limits import ExtractionLimits
from crawl_engine.node.extraction.page_extraction import apply_data_defs, encode_row, failed_parser
from crawl_engine.node.extraction.result import PageResult, count_rejections
from crawl_engine.node.extraction.steps.chain import ChainWork, TaskChain, TimeLimit, needs_late_filters
from crawl_engine.node.extraction.steps.context import PageContext
from crawl_engine.node.extraction.task import PageTask
from crawl_engine.node.rules import judge_headers
from crawl_engine.plugins.contracts import Document
from crawl_engine.plugins.loading import Awaiter, PluginLoader
from crawl_engine.plugins.plugin_errors import NotApplicable, PluginUnavailable, describe_error
from crawl_engine.urls import QueryStripper

DocumentCall = Callable[[int, str, str, Any], Any]
"""A `NodeCall` with the number of the document before its arguments."""


class PluginSteps:
    """The chains and converters of one def version. One for each process."""

    def __init__(
        self, definitions: Definitions, slot: ProgressSlot, limits: ExtractionLimits, call: DocumentCall
    ) -> None:
        """`call` asks the node."""
        self._definitions = definitions
        self._slot = slot
        self._limits = limits
        self._call = call
        self._loader = PluginLoader(definitions.plugins)
        self._awaiter = Awaiter()
        self._priorities = {group.name: group.priority for group in definitions.task_groups}
        self._query_stripper = QueryStripper.from_definitions(definitions)
        self._chains: dict[tuple[str, str], TaskChain] = {}
        self._extractors: dict[tuple[str, str, str], RecordExtractor] = {}
        self._page_context: PageContext | None = None
        self._unit = 0

    def apply(self, task: PageTask, page: Page | None, body: bytes) -> PageResult:
        """The results of all units. `page`: None if the content is not text; then only plugin parsers read it."""
        results: list[tuple[int, StepResult]] = []
        stops: list[tuple[int, int]] = []
        group = task.context.group
        units = [(index, *unit) for index, unit in enumerate(task.units)]
        if page is None:
            units = [unit for unit in units if unit[3] and self._chain(group, unit[3]).parser is not None]

        def extract(position: int, extractor: RecordExtractor) -> Extraction:
            index, name, wants_rows, task_name = units[position]
            self._unit = index
            context = self._page_context = self._new_context(task, name, task_name, page)
            chain = self._chain(group, task_name) if task_name else None
            has_parser = chain is not None and chain.parser is not None
            if page is None:
                extraction = Extraction(data_def=name)
            elif has_parser or (chain is None and not wants_rows):  # also of a task whose plugin code died on this page
                extraction = extractor.extract_links(page, task.context)
            else:
                extraction = extractor.extract(page, task.context, self._slot)
            unit_results = _converter_warnings(context)
            if extraction.failure:
                unit_results.append(failed_parser(extraction.failure, context.task))
            if chain is None:
                extraction = _with_links(extraction, context)
            else:
                work = self._walk(chain, index, task, body, extraction, context)
                extraction = _merge(extraction, work, context)
                unit_results += work.results
                if wants_rows and work.stopped_at is not None:
                    stops.append((index, work.stopped_at))
            if wants_rows:
                results.extend((index, result) for result in unit_results)
            return extraction

        pairs = []
        for index, name, wants_rows, task_name in units:
            self._unit = index  # converters are loaded here
            pairs.append((self._extractor(group, name, task_name), wants_rows))
        if page is None:
            extracted = self._apply_to_bytes(task, pairs, extract)
        else:
            extracted = apply_data_defs(page, task.context, pairs, self._limits.links, self._slot, extract=extract)
        positions = [unit[0] for unit in units]
        extracted.rows = tuple([(positions[position], rows) for position, rows in extracted.rows])
        extracted.counts = tuple([(positions[position], counts) for position, counts in extracted.counts])
        extracted.results = tuple(results)
        if extracted.parts.keeps_rows:
            extracted.stops = tuple(stops)
        return extracted

    def _walk(
        self, chain: TaskChain, unit: int, task: PageTask, body: bytes, extraction: Extraction, context: PageContext
    ) -> ChainWork:
        """Run a chain on a page: on its bytes, or on the rows of its fields."""

        def on_step(step: int) -> None:
            self._slot.enter_step(unit, step)

        if chain.parser is None:
            work = chain.run(extraction.rows, context, on_step)
        else:
            document = Document(
                url=task.url, status=task.status, content_type=task.content_type, body=body, fetched_at=task.fetched_at
            )
            work = chain.parse(document, context, on_step)
        self._slot.enter(Phase.RECORDS)
        return work

    def has_parser(self, task: PageTask) -> bool:
        """Whether a plugin parser reads this page, so that its content may be anything."""
        tasks = [name for *_, name in task.units if name]
        return any(self._chain(task.context.group, name).parser is not None for name in tasks)

    def resume(self, header: Mapping[str, Any], body: bytes) -> PageResult:
        """Continue after the answer of a command. `body`: the line sent to it, and the line of its answer."""
        sent_line, _, answer_line = body.partition(b"\n")
        task = PageTask.from_header(dict(header["task"]))
        [(name, _, task_name)] = task.units
        context = self._new_context(task, name, task_name, None)
        chain = self._chain(task.context.group, task_name)
        try:
            answer = _load_json(answer_line)
        except ValueError:
            answer = None

        def on_step(step: int) -> None:
            self._slot.enter_step(0, step)

        sent, at, milliseconds = orjson.loads(sent_line), header["at"], header["ms"]
        work = chain.run_after_command(
            sent, answer, context, on_step, written=answer_line[:200], at=at, milliseconds=milliseconds
        )
        self._slot.enter(Phase.ANSWER)
        records, missing = max(work.counts.records, len(work.rejected)), work.counts.missing
        counts = RecordCounts(records, len(work.rejected), missing, work.filtered)
        return PageResult(
            page_kind="rows",
            rows=((0, tuple(encode_row(row) for row in _sendable(work))),),
            links=tuple(context.links.values()),
            rejected=tuple(work.rejected),
            rejected_counts=count_rejections(work.rejected),
            filtered=work.filtered,
            counts=((0, counts),),
            results=tuple((0, result) for result in work.results),
            stops=() if work.stopped_at is None else ((0, work.stopped_at),),
        )

    def _apply_to_bytes(
        self, task: PageTask, pairs: Sequence[tuple[RecordExtractor, bool]],
        extract: Callable[[int, RecordExtractor], Extraction],
    ) -> PageResult:  # fmt: skip
        """Run plugin parsers on content that is not a page; rules judge it by its headers."""
        rows: list[tuple[int, tuple[str, ...]]] = []
        links: list[ExtractedLink] = []
        rejected: list[Rejection] = []
        counts: list[tuple[int, RecordCounts]] = []
        filtered = 0
        for position, (extractor, wants_rows) in enumerate(pairs):
            extraction = extract(position, extractor)
            links += extraction.links
            filtered += extraction.counts.filtered
            if wants_rows:
                rows.append((position, tuple(encode_row(row) for row in extraction.rows)))
                rejected += extraction.rejected
                counts.append((position, extraction.counts))
        parts = judge_headers(task.context.rules, task.headers, task.context.agent)
        if not parts.keeps_rows:
            rows, rejected, counts = [], [], []
        kept, dropped = limit_links([tuple(links)], self._limits.links)
        return PageResult(
            page_kind="binary", rows=tuple(rows), links=tuple(kept), dropped_links=dropped, rejected=tuple(rejected),
            rejected_counts=count_rejections(rejected), filtered=filtered, counts=tuple(counts), parts=parts,
        )  # fmt: skip

    def _new_context(self, task: PageTask, data_def: str, task_name: str, page: Page | None) -> PageContext:
        definition = self._definitions.data_def(data_def)
        return PageContext(
            task.context, url=task.url, base=task.url if page is None else page.base, status=task.status,
            fetched_at=task.fetched_at, data_def=data_def,
            task=task_name or self._task_of(task.context.group, data_def),
            fields=definition.columns if definition is not None else (), priorities=self._priorities,
            max_links=self._limits.links, call=partial(self._call, self._slot.document),
            query_stripper=self._query_stripper,
        )  # fmt: skip

    def _task_of(self, group: str, data_def: str) -> str:
        """The first task of a group with a dataDef."""
        return next((task.name for task in self._tasks(group) if task.data_def == data_def), "")

    def _chain(self, group: str, task: str) -> TaskChain:
        key = (group, task)
        if key not in self._chains:
            definition = self._task(group, task)
            self._chains[key] = TaskChain(
                definition,
                self._data_def(definition.data_def),
                self._loader.create,
                self._awaiter,
                self._limits.seconds,
            )
        return self._chains[key]

    def _extractor(self, group: str, name: str, task: str) -> RecordExtractor:
        key = (group, name, task)
        if key not in self._extractors:
            data_def = self._data_def(name)
            if task and needs_late_filters(self._task(group, task)):
                data_def = replace(data_def, filters=())
            self._extractors[key] = RecordExtractor(
                data_def, self._priorities, max_links=self._limits.links, converters=self._converter,
                query_stripper=self._query_stripper,
            )  # fmt: skip
        return self._extractors[key]

    def _task(self, group: str, name: str) -> Task:
        return next(task for task in self._tasks(group) if task.name == name)

    def _tasks(self, group: str) -> Sequence[Task]:
        return (self._definitions.task_group(group) or TaskGroup(name=group)).tasks

    def _data_def(self, name: str) -> DataDef:
        data_def = self._definitions.data_def(name)
        assert data_def is not None, "the node knows these defs"
        return data_def

    def _converter(self, name: str) -> FieldConverter:
        """A converter of the defs as a callable for fields. Raises ValueError if it cannot be loaded."""
        before = self._slot.enter_converter(self._unit)
        try:
            with TimeLimit(self._limits.seconds):
                instance = self._loader.create(name, {})
        except PluginUnavailable as error:
            raise ValueError(str(error)) from None
        finally:
            self._slot.leave_converter(before)
        limit = TimeLimit(self._limits.seconds, pauses_cpu_limit=False)

        def convert(text: str) -> str:
            before = self._slot.enter_converter(self._unit)
            try:
                with limit:
                    return call(text).strip()
            finally:
                self._slot.leave_converter(before)

        def call(text: str) -> str:
            try:
                value = self._awaiter.finish(instance.convert(text, self._page_context))
                if isinstance(value, str):
                    return str.__str__(value)  # it may have a class of its own, whose methods are plugin code
                if not isinstance(value, list | tuple | dict | bytes):
                    return to_text(value)
            except NotApplicable:
                return text
            except MemoryError:
                raise
            except BaseException as error:
                raise ValueError(f"{name}: {quote_text(text)}: {describe_error(error)}") from None
            raise ValueError(f"{name}: it must give a text or a number, not {type(value).__name__}")

        return convert


def _merge(extraction: Extraction, work: ChainWork, context: PageContext) -> Extraction:
    """The extraction with the rows of its chain. A failed task follows no links."""
    missing = dict(extraction.counts.missing) | dict(work.counts.missing)
    records = max(extraction.counts.records, work.counts.records) + len(work.rejected)
    rejected = min(records, extraction.counts.rejected + len(work.rejected))
    return replace(
        extraction,
        rows=tuple(_sendable(work)),
        links=(*extraction.links, *context.links.values()),
        rejected=(*extraction.rejected, *work.rejected),
        counts=RecordCounts(records, rejected, tuple(missing.items()), extraction.counts.filtered + work.filtered),
    )


def _load_json(text: bytes) -> Any:
    """The value of a JSON text. Raises ValueError, and MemoryError, which orjson reports as invalid JSON."""
    try:
        return orjson.loads(text)
    except ValueError:
        return json.loads(text)


def _converter_warnings(context: PageContext) -> list[StepResult]:
    """The warnings of the converters of a page: those of its parser."""
    return [StepResult(context.task, "parser", "warning", code, 0.0, text) for text, code in context.take_warnings()]


def _with_links(extraction: Extraction, context: PageContext) -> Extraction:
    return replace(extraction, links=(*extraction.links, *context.links.values())) if context.links else extraction


def _sendable(work: ChainWork) -> list[dict[str, Any]]:
    """The rows; before a command, decimals become texts, which keep all digits in any language."""
    return work.rows if work.stopped_at is None else [_decimals_as_texts(row) for row in work.rows]


def _decimals_as_texts(value: Any) -> Any:
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dict):
        return {key: _decimals_as_texts(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_decimals_as_texts(item) for item in value]
    return value
