"""Finds the links of records, with the values they carry and the requests they send."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from crawl_engine import urls
from crawl_engine.extract.fields.fields import FieldReader, RecordRejected
from crawl_engine.extract.links import html_form
from crawl_engine.extract.links.filled_text import Lookup, MissingValue, NoNumber, fill_url
from crawl_engine.extract.links.form_encoding import URL_ENCODED, encode_form, merge_fields
from crawl_engine.extract.links.link_explanations import explain_links
from crawl_engine.extract.links.links import LinkFinder, read_hrefs, reject_link
from crawl_engine.extract.links.request_template import fill_body, fill_headers, sends_secret_elsewhere
from crawl_engine.extract.page.patterns import PatternTimeout
from crawl_engine.extract.page.reading import PageReading
from crawl_engine.extract.select.css import Speed
from crawl_engine.extract.select.page_blocks import read_form_page
from crawl_engine.extract.select.scope import Scope
from crawl_engine.model.definition import DataDef
from crawl_engine.model.job import request_key
from crawl_engine.model.link import (
    MAX_CARRIED_BYTES,
    NOTHING_CARRIED,
    Carried,
    Link,
    LinkDetails,
    LinkRequest,
    RequestTemplate,
)
from crawl_engine.model.record import ExtractedLink, Rejection, to_text
from crawl_engine.model.variables import FIELD, has_secrets
from crawl_engine.urls import QueryStripper

if TYPE_CHECKING:
    from crawl_engine.extract.select.node_value import SelectedNode

_GET = "GET"


class RecordLinks:
    """The links of a dataDef that need its records."""

    def __init__(
        self, data_def: DataDef, readers: Sequence[FieldReader], priorities: Mapping[str, int], max_links: int,
        query_stripper: QueryStripper | None = None,
    ) -> None:  # fmt: skip
        self._data_def = data_def
        self._max_links = max_links
        joins = {field.name: field.join for field in data_def.fields}
        links = [link for link in data_def.links if link.reads_records]
        sources = data_def.sources if data_def.block is not None else ()  # otherwise their documents are the records
        finders = [
            _RecordLinkFinder(link, LinkFinder(link, priorities, query_stripper, sources), joins) for link in links
        ]
        for finder in finders:
            finder.finder.number = data_def.links.index(finder.link)
        self._of_records = [f for f in finders if f.link.in_block or data_def.block is None]
        self._of_page = [f for f in finders if f not in self._of_records]
        needed = {name for finder in self._of_page for name in finder.field_names}
        for reader in reversed(readers):
            if reader.name in needed:
                needed |= {name for one in reader.needs for name in (one, one.partition(".")[0])}
        self._page_readers = [reader for reader in readers if reader.name in needed]
        self.speed = max((finder.speed for finder in finders), default=Speed.QUICK)

    def __bool__(self) -> bool:
        return bool(self._of_records or self._of_page)

    def begin(self, reading: PageReading) -> "PageRecordLinks":
        return PageRecordLinks(self._data_def, self._of_records, reading, self._max_links)

    def add_page_links(self, collected: "PageRecordLinks", reading: PageReading) -> None:
        """Add the links outside of the blocks, with the values that fields have on the page."""
        if not self._of_page:
            return
        scope = Scope(reading.page)
        row: dict[str, Any] = {}
        reading.row = row
        for reader in self._page_readers:
            try:
                row[reader.name] = reader.read_value(scope, reading)
            except RecordRejected:
                row[reader.name] = None
        collected.add(self._of_page, scope, row)


class PageRecordLinks:
    """The links of the records of one page. The first of several links to a page counts."""

    def __init__(
        self, data_def: DataDef, finders: "Sequence[_RecordLinkFinder]", reading: PageReading, max_links: int
    ) -> None:
        self._data_def = data_def
        self._finders = finders
        self._reading = reading
        self.max_links = max_links
        self._by_key: dict[bytes, ExtractedLink] = {}
        self._rejected: dict[Link, Rejection] = {}
        self.dropped = 0
        """Links beyond the limit of a page."""

    @cached_property
    def form_page(self) -> str:
        """The digest of the page that the links of its forms carry."""
        return read_form_page(self._reading.page)

    @property
    def links(self) -> Collection[ExtractedLink]:
        return self._by_key.values()

    @property
    def rejected(self) -> tuple[Rejection, ...]:
        return tuple(self._rejected.values())

    def add_record(self, scope: Scope, row: Mapping[str, Any]) -> None:
        if self._reading.context.explains_links:
            plain = [finder.finder for finder in self._finders if finder.link.request is None]
            explain_links(plain, scope, self._reading)
        self.add(self._finders, scope, row)

    def add(self, finders: "Sequence[_RecordLinkFinder]", scope: Scope, row: Mapping[str, Any]) -> None:
        for finder in finders:
            if finder.link in self._rejected:
                continue
            number, counts = finder.finder.number, self._reading.link_counts
            if not finder.finder.is_barred(self._reading):
                counts.setdefault(number, 0)
            try:
                for link in finder.find(scope, row, self._reading, self):
                    counts[number] = counts.get(number, 0) + 1
                    if link.key in self._by_key:
                        continue
                    if len(self._by_key) < self.max_links:
                        self._by_key[link.key] = link
                    else:
                        self.dropped += 1
            except (ValueError, PatternTimeout) as error:
                self._rejected[finder.link] = reject_link(self._data_def, finder.link, str(error))


class _RecordLinkFinder:
    def __init__(self, link: Link, finder: LinkFinder, joins: Mapping[str, str]) -> None:
        self.link = link
        self.finder = finder
        self._joins = joins
        reads_forms = link.request is not None and link.request.url is None
        self.speed = Speed.SLOW if reads_forms else finder.speed

    @property
    def field_names(self) -> set[str]:
        return set(self.link.carry) if self.link.request is None else set(self._joins)

    def find(
        self, scope: Scope, row: Mapping[str, Any], reading: PageReading, found: PageRecordLinks
    ) -> Iterator[ExtractedLink]:
        """The links in a block. Raises ValueError and PatternTimeout."""
        if self.finder.is_barred(reading):
            return
        carried = self._carry(row) if self.link.carry else NOTHING_CARRIED
        text = carried.to_json() if self.link.carry else None
        if text is not None and len(text.encode()) > MAX_CARRIED_BYTES:
            fault = f"a link of {self.link.group or reading.context.group} is not followed: what it carries"
            reading.page.faults[f"{fault} takes more than {MAX_CARRIED_BYTES:,} bytes"] = None
            return
        template = self.link.request
        if template is None:
            plain, _ = self.finder.find_links(reading, found.max_links, scope)
            for link in plain.values():
                yield link if text is None else replace(link, details=LinkDetails(carried=text))
            return

        def look_up(name: str) -> Any:
            if name.startswith(FIELD):
                field = name.removeprefix(FIELD)
                value = row.get(field)
                return to_text(value, self._joins.get(field, "|")) if isinstance(value, list) else value
            return reading.context.look_up(name, reading.page)

        for link, node in self._find_requests(template, scope, look_up, reading):
            request = (link.details or LinkDetails()).request
            of_link = text
            if not template.only_read and node is not None and html_form.is_form(node):
                of_link = replace(carried, form_page=found.form_page).to_json()
            yield replace(link, details=LinkDetails(request, of_link)) if of_link or not request.is_plain_get else link

    def _carry(self, row: Mapping[str, Any]) -> Carried:
        values = {name: to_text(row.get(name), self._joins.get(name, "|")) for name in self.link.carry}
        return Carried(values={name: text for name, text in values.items() if text})

    def _find_requests(
        self, template: RequestTemplate, scope: Scope, look_up: Lookup, reading: PageReading
    ) -> "Iterator[tuple[ExtractedLink, SelectedNode | None]]":
        """A link for each element, or for the URL of the template, with that element. A missing value gives none."""
        nodes: Iterator[SelectedNode | None] = iter((None,))
        if template.url is None:
            nodes = self.finder.select_followed(scope, reading)
        for node in nodes:
            try:
                link = self._make_link(template, node, look_up, reading)
                if link is not None and template.headers:
                    link = self._add_headers(link, template, look_up, reading)
            except NoNumber as refused:
                reading.page.faults[f"a link is not followed: {refused.text}"] = None
                continue
            except MissingValue:
                continue
            if link is not None:
                yield link, node

    def _make_link(
        self, template: RequestTemplate, node: "SelectedNode | None", look_up: Lookup, reading: PageReading
    ) -> ExtractedLink | None:
        form = None
        if node is not None and html_form.is_form(node):
            form = html_form.read_form(node, reading.page, template.form, self.link.submit)
            if form is None:
                return None
        if template.only_read:
            return None if form is None else self._describe(form, reading)
        if template.url is not None:
            href: str | None = fill_url(template.url, look_up)
        elif form is not None:
            href = form.action or reading.page.url
        else:
            href = next(iter(read_hrefs(node, self.link)), None) if node is not None else None
        if href is None:
            return None
        fields = form.fields if form is not None else ()
        method = template.method or (form.method if form is not None else "POST" if template.has_body else _GET)
        if method == _GET and template.json is None:
            if form is not None or template.has_form:
                if any(has_secrets(text) for _, text in template.form):
                    raise ValueError("the form is sent with GET: its URL would show a secret")
                encoding = URL_ENCODED if form is None else form.query_encoding
                query = encode_form(merge_fields(fields, template.form), look_up, encoding)
                href = html_form.with_query(href, query.text)
            return self.finder.resolve_href(href, reading)
        link = self.finder.resolve_href(href, reading)
        body = fill_body(template, look_up, fields, URL_ENCODED if form is None else form.encoding)
        if link is None:
            return None
        text, content_type = body or (None, None)
        if sends_secret_elsewhere(template, text, link.url, reading.page.url, reading.context.locator_url):
            raise ValueError(f"it would send a secret to {urls.origin(link.url)}; write that site in its `url`")
        request = LinkRequest(method=method, body=text, content_type=content_type)
        key = request_key(link.group, link.url, method, text)
        return replace(link, key=key, details=LinkDetails(request))

    def _add_headers(
        self, link: ExtractedLink, template: RequestTemplate, look_up: Lookup, reading: PageReading
    ) -> ExtractedLink:
        """Raises MissingValue, and ValueError if a secret would go to another site."""
        headers = fill_headers(template, look_up)
        if sends_secret_elsewhere(template, None, link.url, reading.page.url, reading.context.locator_url):
            raise ValueError(f"it would send a secret to {urls.origin(link.url)}; write that site in its `url`")
        request = replace((link.details or LinkDetails()).request, headers=headers)
        key = request_key(link.group, link.url, request.method, request.body, headers)
        return replace(link, key=key, details=LinkDetails(request))

    def _describe(self, form: html_form.HtmlForm, reading: PageReading) -> ExtractedLink | None:
        link = self.finder.resolve_href(form.action or reading.page.url, reading)
        if link is None:
            return None
        text = msgspec.json.encode(replace(form, action=link.url)).decode()
        key = request_key(link.group, link.url, form.method, text)
        return replace(link, key=key, details=LinkDetails(LinkRequest(method=form.method, body=text)))
