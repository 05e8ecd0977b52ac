"""Applies a dataDef to a page: extracts rows and links."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from crawl_engine.errors import quote_text
from crawl_engine.extract.collected import CollectedRecords, count_records, iter_earlier
from crawl_engine.extract.documents.json_expression import list_names
from crawl_engine.extract.documents.markup import SPANS
from crawl_engine.extract.fields.field_texts import ConverterSource, no_converters
from crawl_engine.extract.fields.fields import FieldReader, RecordRejected
from crawl_engine.extract.links.link_explanations import explain_links
from crawl_engine.extract.links.links import LinkExtractor, limit_links
from crawl_engine.extract.links.next_page import NextPageFinder
from crawl_engine.extract.links.record_links import PageRecordLinks, RecordLinks
from crawl_engine.extract.page.context import Context
from crawl_engine.extract.page.page import Page
from crawl_engine.extract.page.patterns import PatternTimeout, TimeBudget, TimedPattern
from crawl_engine.extract.page.reading import PageReading
from crawl_engine.extract.part_watch import PartWatch
from crawl_engine.extract.select.css import Speed
from crawl_engine.extract.select.embedded import EmbeddedSelector
from crawl_engine.extract.select.scope import Scope
from crawl_engine.extract.select.selector import Selector
from crawl_engine.extract.select.selector_syntax import JMESPATH_PREFIX
from crawl_engine.extract.select.selectors import TableRowSelector, compile_selector
from crawl_engine.extract.select.table_grid import meets_span
from crawl_engine.extract.tables.table_rows import TableInvalid, TableRows
from crawl_engine.late_regex import late_regex
from crawl_engine.model.definition import DataDef, FilterRule
from crawl_engine.model.link import PageBlocks
from crawl_engine.model.record import (
    NO_RECORDS,
    ExtractedLink,
    Extraction,
    RecordCounts,
    RejectCode,
    Rejection,
    to_text,
)
from crawl_engine.urls import QueryStripper

if TYPE_CHECKING:
    from crawl_engine.extract.tables.axis_table import AxisTableReader


class RecordFilter:
    """A compiled filter. If its pattern does not compile, it rejects every record."""

    def __init__(self, rule: FilterRule, data_def: DataDef) -> None:
        self._rule = rule
        self._join = next((field.join for field in data_def.fields if field.name == rule.field), "|")
        self._compile_error = ""
        self._pattern: TimedPattern | None = None
        try:
            self._pattern = TimedPattern(rule.pattern)
        except ValueError as error:
            self._compile_error = str(error)

    def drops(self, row: Mapping[str, Any], budget: TimeBudget) -> bool:
        """Whether the whole text of the field matches. Raises `RecordRejected`."""
        if self._pattern is None:
            raise RecordRejected(self._rule.field, self._rule.place, f"filter: {self._compile_error}")
        try:
            return self._pattern.fullmatch(to_text(row.get(self._rule.field), self._join), budget)
        except PatternTimeout as error:
            raise RecordRejected(self._rule.field, self._rule.place, f"filter: {error}") from None


_NUMBERED_COLUMN = late_regex(r"column[0-9]+_*")
_SHOWN_COLUMNS = 8
_NO_PRIORITIES: Mapping[str, int] = MappingProxyType({})


class RecordProgress(Protocol):
    """Notes the part of a page in progress."""

    def enter_field(self, index: int) -> None: ...

    def enter_links(self) -> None: ...


_Read = Callable[[Scope, PageReading], Any]


def _track(reads: Iterable[tuple[str, _Read]], progress: RecordProgress) -> Iterator[tuple[str, _Read]]:
    """The fields of a record, each noted before it is read."""
    for index, read in enumerate(reads):
        progress.enter_field(index)
        yield read


class RecordExtractor:
    """A dataDef in record mode, compiled once for many pages. Thread-safe.

    `priorities` holds the priority of each group, for links that set none; links beyond `max_links` on a page are
    dropped and counted. `query_stripper`: for the URLs of links; None: no host drops query keys. An invalid dataDef
    does not raise: each part that does not compile becomes a rejection.
    """

    def __init__(
        self, data_def: DataDef, priorities: Mapping[str, int] = _NO_PRIORITIES, *, max_links: int = 50_000,
        converters: ConverterSource = no_converters, query_stripper: QueryStripper | None = None,
    ) -> None:  # fmt: skip
        self._data_def = data_def
        fields = data_def.fields if data_def.axis is None else ()
        self._readers = tuple(FieldReader(field, converters=converters) for field in fields)
        self._reads = tuple((reader.name, reader.read_value) for reader in self._readers)
        self.record_fields = tuple(field.name for field in fields if field.value is None and field.scope is None)
        self.read_fields = tuple(field.name for field in fields if field.value is None)
        self._counted = tuple([name for reader in self._readers for name in reader.counted_names])
        self._reads_values = any(reader.needs for reader in self._readers)
        self.defaulted_fields = frozenset(
            [name for field in data_def.fields if field.has_default for name in field.counted_names]
        )
        """Fields with a default, which pages may lack; of a list of selectors, each of them."""
        self._filters = tuple(RecordFilter(rule, data_def) for rule in data_def.filters)
        self._max_links = max_links
        self.query_stripper = query_stripper
        self._link_extractor = LinkExtractor(data_def, priorities, max_links, query_stripper)
        self._record_links = RecordLinks(data_def, self._readers, priorities, max_links, query_stripper)
        self._watch = PartWatch(data_def)
        self._table = _table_reader(data_def, priorities, query_stripper)
        self._compile_error = ""
        self.block: Selector | None = None
        """Selects the records; None: the page is one record."""
        self.next_page: NextPageFinder | None = None
        try:
            if data_def.block is not None or data_def.sources:
                self.block = compile_selector(data_def.block, data_def.sources)
            self.next_page = (
                None
                if data_def.next is None
                else NextPageFinder(data_def.next, priorities, query_stripper, data_def.sources)
            )
        except ValueError as error:
            self._compile_error = f"query.block, query.from or next: {error}"
        selectors = [self.block if data_def.sources else None, *self._link_extractor.own_sources]
        self._sources = tuple(one for one in selectors if isinstance(one, EmbeddedSelector))
        self.reads_members = any(one.reads_members for one in self._sources)
        """Whether it reads files in an archive by their names."""

    @property
    def name(self) -> str:
        """The name of its dataDef."""
        return self._data_def.name

    @cached_property
    def _csv_columns(self) -> frozenset[str]:
        """The names of columns that its fields, its block and its links read in a CSV document."""
        fields = [field for field in self._data_def.fields if field.scope is None and field.selector is not None]
        texts = [text for field in fields for text in (field.selector or "", *field.fallbacks)]
        texts += [link.selector for link in self._data_def.links if link.source is None]
        names = set[str]()
        for text in (self._data_def.block or "", *texts):
            if text.strip().startswith(JMESPATH_PREFIX):
                with suppress(ValueError):
                    names |= list_names(text.strip().removeprefix(JMESPATH_PREFIX).strip())
        return frozenset(name for name in names if not _NUMBERED_COLUMN.fullmatch(name))

    def _read_csv(self, page: Page, reading: PageReading) -> None:
        """Find the header of a CSV document by the columns that its parts name."""
        line, wanted = self._data_def.header_line, self._csv_columns
        table = page.read_csv(line, wanted)
        if not wanted.isdisjoint(table.columns) or (not wanted and (table.columns or line is None)):
            return
        begins = "its header" if line is None else f"line {line}"
        if table.columns:
            has = f"{begins} is {', '.join(map(quote_text, table.columns[:_SHOWN_COLUMNS]))}"
        elif table.faulty:
            has = f"{begins} has {table.faulty:,} cells"
        else:
            has = "it is empty" if line is None else f"{begins} is blank"
        lacks = f"none of the columns that the fields name ({', '.join(sorted(wanted)[:_SHOWN_COLUMNS])})"
        text = f"{self.name}: the CSV has {lacks if wanted else 'no columns'}: {has}"
        reading.warn("", "no-columns", f"{text}; `header: N` in `query` gives its line")

    @property
    def has_fields(self) -> bool:
        """Whether it makes rows, not only links."""
        table = self._data_def.axis
        return bool(self._readers) or (table is not None and not table.makes_links)

    @property
    def sends_values(self) -> bool:
        """Whether its links carry or send values of the page, or lead to a next one."""
        return self.next_page is not None or bool(self._record_links)

    @cached_property
    def speed(self) -> Speed:
        """How long one search of its selectors may take."""
        if self._table is not None:
            return Speed.SLOW
        parts = (self.block, self.next_page, *self._readers, self._link_extractor, self._record_links)
        return max([part.speed for part in parts if part is not None])

    def extract(
        self,
        page: Page,
        context: Context,
        progress: RecordProgress | None = None,
        *,
        patience: float | None = None,
        links_only: bool = False,
    ) -> Extraction:
        """One row for each valid block that no filter drops, and the links; with `links_only`, no row is read.

        Without `block` the page is one record, even if all fields are missing. Raises `PageTooCostly`. `progress` is
        told about each field, and about the links. After `patience` seconds raises `OutOfTime`.
        """
        reading = PageReading(page, context, patience, self._data_def.name)
        if self._table is not None:
            return self._read_table(reading, links_only=links_only)
        if page.states is not None:
            return self._collect(reading, progress, links_only=links_only)
        if page.kind == "csv":
            self._read_csv(page, reading)
        return self._extract(reading, progress, links_only=links_only)

    def _collect(self, reading: PageReading, progress: RecordProgress | None, *, links_only: bool) -> Extraction:
        """The records and links of all states of a page: each record and each link once."""
        page, patience = reading.page, reading.time_budget
        collected = CollectedRecords(self._data_def.key)
        last = self._extract(reading, progress, links_only=links_only, collected=collected)
        found = [last]
        context = replace(reading.context, explains_links=False)
        for state in iter_earlier(page):
            patience.check_patience()
            collected.end_state()
            earlier = PageReading(state, context, patience.patience_left, self._data_def.name)
            found.append(self._extract(earlier, progress, links_only=links_only, collected=collected))
        by_key = {link.key: link for extraction in reversed(found) for link in extraction.links}
        kept, more = limit_links([by_key.values()], self._max_links)
        records = collected.merge()
        rejections = [record.rejection for record in records if record.rejection is not None]
        failed = dict.fromkeys(one for extraction in found for one in extraction.rejected if one.field in ("", "links"))
        return Extraction(
            data_def=self._data_def.name,
            rows=tuple([record.row for record in records if record.row]),
            links=tuple(kept),
            rejected=(*rejections, *failed),
            dropped_links=max(extraction.dropped_links for extraction in found) + more,
            counts=NO_RECORDS if links_only else count_records(records, self._counted),
        )

    def _extract(
        self, reading: PageReading, progress: RecordProgress | None, *, links_only: bool,
        collected: CollectedRecords | None = None,
    ) -> Extraction:  # fmt: skip
        """The records and links of one document. `collected`: gets the records, too, with their keys."""
        page, context = reading.page, reading.context
        rows: list[Mapping[str, Any]] = []
        rejected: list[Rejection] = []
        missing = dict.fromkeys(self._counted, 0)
        filtered = 0
        record_links = self._record_links.begin(reading) if self._record_links else None
        if self._compile_error:
            rejected.append(self._rejection("", self._compile_error, str(self._data_def.place)))
        for scope in self._scopes(reading) if record_links is not None or not links_only else ():
            reading.time_budget.check_patience()
            reading.missing.clear()
            unread = iter(self._reads) if progress is None else _track(self._reads, progress)
            try:
                row = self._read_row(unread, scope, reading)
                if self._filters and any(rule.drops(row, reading.time_budget) for rule in self._filters):
                    filtered += 1
                    if collected is not None:
                        collected.add_filtered(row)
                    continue
                if row:
                    rows.append(row)
                if collected is not None:
                    collected.add_row(row, reading.missing)
                if record_links is not None:
                    if progress is not None:
                        progress.enter_links()
                    record_links.add_record(scope, row)
            except RecordRejected as error:
                rejected.append(self._rejection(error.field, error.reason, str(error.place), error.code))
                for _, read in unread:  # also counts missing ones
                    with suppress(RecordRejected):
                        read(scope, reading)
                if collected is not None:
                    absent = [*reading.missing]
                    collected.add_rejected(self._read_key(scope, reading), rejected[-1], absent)
                    reading.missing[:] = absent
            for name in reading.missing:
                missing[name] += 1
        if progress is not None:
            progress.enter_links()
        links, rejected_links, dropped_links = self._find_links(reading, record_links)
        if context.explains_links:
            explain_links(self._link_extractor.finders, Scope(page), reading)
        if self._sources:
            for code, text in dict(chain.from_iterable(source.problems(page) for source in self._sources)).items():
                reading.warn("", code, f"{self.name}: {text}")
        if self._watch.open:
            self._watch_parts(reading, rows, rejected, filtered, missing, links_only=links_only)
        if links_only:
            rows, rejected, filtered, missing = [], [], 0, {}
        return Extraction(
            data_def=self._data_def.name,
            rows=tuple(rows),
            links=links,
            rejected=(*rejected, *rejected_links),
            dropped_links=dropped_links,
            counts=RecordCounts(len(rows) + len(rejected), len(rejected), tuple(missing.items()), filtered),
        )

    def _watch_parts(
        self, reading: PageReading, rows: Sequence[Mapping[str, Any]], rejected: Sequence[Rejection], filtered: int,
        missing: Mapping[str, int], *, links_only: bool,
    ) -> None:  # fmt: skip
        """Note for the end of the run which parts gave something on this page. A doubt must not cost its rows."""
        watch, page = self._watch, reading.page
        spare = PageReading(page, reading.context, reading.time_budget.patience_left, self.name)
        with suppress(ValueError, PatternTimeout):
            watch.note_links(spare, reading.link_counts)
            if not links_only and not self._compile_error:
                counts = len(rows) + len(rejected), filtered, missing
                watch.note_records(spare, self._scopes(spare), rows, rejected, counts)

    def _read_row(self, unread: Iterable[tuple[str, _Read]], scope: Scope, reading: PageReading) -> dict[str, Any]:
        """The values of a record. Raises `RecordRejected`."""
        if not self._reads_values:
            return {name: read(scope, reading) for name, read in unread}
        row: dict[str, Any] = {}
        reading.row = row
        for name, read in unread:
            row[name] = read(scope, reading)
        return row

    def _read_key(self, scope: Scope, reading: PageReading) -> dict[str, Any]:
        """The fields of the key that a rejected record has."""
        values: dict[str, Any] = {}
        for name, read in self._reads:
            if name in self._data_def.key:
                with suppress(RecordRejected):
                    values[name] = read(scope, reading)
        return values

    def _find_links(
        self, reading: PageReading, record_links: PageRecordLinks | None
    ) -> tuple[tuple[ExtractedLink, ...], tuple[Rejection, ...], int]:
        """Links, rejections, and the number of dropped links. Of two links to one page, the record's stays."""
        links, rejected, dropped = self._link_extractor.extract(reading)
        if record_links is None:
            return links, rejected, dropped
        self._record_links.add_page_links(record_links, reading)
        by_key = {link.key: link for link in (*links, *record_links.links)}
        kept, more = limit_links([by_key.values()], self._max_links)
        return tuple(kept), (*record_links.rejected, *rejected), dropped + record_links.dropped + more

    def find_next(
        self, page: Page, context: Context, blocks: PageBlocks | None, time_budget: TimeBudget
    ) -> ExtractedLink | None:
        """The page that follows by `next`; None: this is the last. `blocks`: of this page. Raises OutOfTime."""
        if self.next_page is None:
            return None
        link = self.next_page.find(page, context, blocks, time_budget)
        if self._watch.open and (blocks is None or blocks.present):
            with suppress(ValueError):
                reading = PageReading(page, context, time_budget.patience_left, self.name)
                self._watch.note_next(reading, found=link is not None)
        return link

    def extract_links(self, page: Page, context: Context) -> Extraction:
        """The links alone, if other code makes the rows. Raises `PageTooCostly`."""
        return self.extract(page, context, links_only=True)

    def _read_table(self, reading: PageReading, *, links_only: bool) -> Extraction:
        """The rows and links of a table; empty if the page lacks it."""
        assert self._table is not None
        read = TableRows([], [], 0, ())
        rejected: list[Rejection] = []
        failure = ""
        try:
            read = self._table.read(reading)
        except TableInvalid as error:
            failure = f"{error} ({error.place or self._data_def.place})"
        except (PatternTimeout, ValueError) as error:
            rejected.append(self._rejection("", str(error), str(self._data_def.place)))
        kept = () if links_only or not self.has_fields else tuple(read.rows)
        return Extraction(
            data_def=self._data_def.name,
            rows=kept,
            links=tuple(read.links),
            rejected=tuple(rejected),
            counts=RecordCounts(
                len(kept) + len(rejected),
                len(rejected),
                read.missing if kept else (),
                0 if links_only else read.filtered,
            ),
            failure=failure,
        )

    def _scopes(self, reading: PageReading) -> Iterator[Scope]:
        """The page, or its blocks one at a time: a scope keeps the trees of its block."""
        if self._compile_error or not (self._readers or self._record_links):
            return iter(())
        if isinstance(self.block, EmbeddedSelector) and self._data_def.sources:
            inner = None if self._data_def.block is None else self.block.inner
            documents = [*self.block.documents(reading.page)]
            for document in documents:
                if document.kind == "csv":
                    self._read_csv(document, reading)
            return chain.from_iterable(_blocks_of(document, inner, reading) for document in documents)
        return _blocks_of(reading.page, self.block, reading)

    def _rejection(self, field: str, reason: str, place: str, code: RejectCode = "invalid") -> Rejection:
        return Rejection(data_def=self._data_def.name, field=field, reason=reason, place=place, code=code)


def _table_reader(
    data_def: DataDef, priorities: Mapping[str, int], query_stripper: QueryStripper | None
) -> "AxisTableReader | None":
    """The reader of the dataDef's table, or None; most dataDefs have no table and load nothing."""
    if data_def.axis is None:
        return None
    from crawl_engine.extract.tables.axis_table import AxisTableReader

    return AxisTableReader(data_def.axis, priorities, query_stripper)


def _blocks_of(page: Page, block: Selector | None, reading: PageReading) -> Iterator[Scope]:
    """The blocks of the page, or of a document inside it; without a selector all of it."""
    if block is None:
        yield Scope(page)
        return
    if isinstance(block, TableRowSelector):
        yield from block.scopes(Scope(page), reading)
        return
    blocks = block.all(Scope(page))
    are_rows = bool(blocks) and getattr(blocks[0], "tag", None) == "tr"
    if are_rows and any(map(page.markup.mentions, SPANS)) and meets_span(blocks, reading):
        reading.warn(
            "",
            "spanned-row",
            f"{reading.data_def}: a block `tr` meets a cell that spans rows or columns: its cells do not stand in"
            " their columns; `query.table` lays them out",
        )
    for node in blocks:
        yield Scope(page, node)
