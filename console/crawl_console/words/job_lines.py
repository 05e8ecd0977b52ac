"""One job, as lines: its request, page, errors, attempts, links, rows, and results of steps."""

from collections.abc import Iterable, Iterator

import orjson

from crawl_console.format import Span, format_age, format_size, format_time, mask_header, plural, short_url
from crawl_engine.append.formats.row_json import split_fields
from crawl_engine.model.link import Carried
from crawl_engine.store.read.browse import DocumentDetail, JobDetail
from crawl_engine.urls import without_credentials

LEVEL_ROLES = {"INFO": "text", "WARNING": "warn", "ERROR": "bad"}
OUTCOME_ROLES = {"ok": "text", "warning": "warn", "error": "bad", "not_applicable": "text"}
_MAX_BYTES, _MAX_LINES = 200_000, 1_500
_KEPT_OF_FAILED = 64 * 1024


def page_lines(page: DocumentDetail | None, body: bytes | None) -> Iterator[Span]:
    """A stored page: status, headers and body."""
    if page is None:
        yield "no page: not fetched, or no longer stored", "dim"
        return
    yield f"{page.status}  {page.content_type or 'no content type'}  {format_size(page.size)}B", "strong"
    yield f"fetched {format_time(page.fetched_at)}  {without_credentials(page.url)}", "text"
    for name, value in page.headers:
        yield f"{name}: {value}", "dim"
    yield "", ""
    if body is None:
        yield "its body is not in pages.db: deleted (documents: false, pages prune), or lost", "bad"
        return
    for line in body[:_MAX_BYTES].decode("utf-8", "replace").splitlines()[:_MAX_LINES]:
        yield line.replace("\t", "  "), "text"
    if page.status not in range(200, 300) and page.size == _KEPT_OF_FAILED:
        yield "… a failed answer is kept up to its first 64 kB", "dim"
    if len(body) > _MAX_BYTES:
        yield f"… first {format_size(_MAX_BYTES)}B only", "dim"


def payload_lines(detail: JobDetail) -> Iterator[Span]:
    line, request = detail.line, detail.request
    yield f"{request.method} {without_credentials(line.url)}", "strong"
    if line.target:
        yield f"redirected to {without_credentials(line.target)}", "text"
    properties = {
        "state": line.state, "group": line.group, "host": line.host, "node": line.node or "-", "kind": line.kind,
        "origin": line.origin, "locator": detail.locator or "-", "found from": detail.root_url or "-",
        "depth": str(line.depth), "priority": str(line.priority), "attempts": str(line.attempts),
        "crashes": str(line.crashes), "defs": f"v{detail.defs}" if detail.defs else "-",
        "changed": format_time(line.changed_at) if line.changed_at else "-",
        "again in": format_age(line.wait) if line.wait is not None else "-",
    } | ({"waits": detail.why} if detail.why else {})  # fmt: skip
    for name, value in properties.items():
        yield f"{name:<11}{value}", "text"
    for name, value in request.headers:
        yield f"header     {name}: {mask_header(name, value)}", "dim"
    if request.userinfo:
        yield "login      ·····", "dim"
    for name, _ in request.cookies:
        yield f"cookie     {name}: ·····", "dim"
    if request.body:
        yield f"body       {request.body}", "dim"
    for name, value in Carried.from_json(detail.carried).values.items():
        yield f"carried    {name}: {value}", "dim"


def error_lines(detail: JobDetail) -> Iterator[Span]:
    if detail.line.reason:
        yield detail.line.reason, "bad" if detail.line.state == "FAILED" else "warn"
    problems = [(f"{format_time(e.at)} {e.source}: {e.text}", e.level) for _, e in detail.events if e.level != "INFO"]
    for text, level in reversed(problems):
        yield text, LEVEL_ROLES[level]
    if not detail.line.reason and not problems:
        yield "✓ no error", "good"


def attempt_lines(detail: JobDetail) -> Iterable[Span]:
    yield f"{plural(detail.line.attempts, 'attempt')}, {plural(detail.line.crashes, 'crash')}", "strong"
    for _, event in detail.events:
        yield f"{format_time(event.at)} {event.source:<5} {event.text}", LEVEL_ROLES[event.level]


def link_lines(detail: JobDetail) -> Iterator[Span]:
    """How the job was found, and what was found on its page."""
    line, lineage = detail.line, detail.lineage
    if line.origin == "locator":
        yield f"a locator of the defs: {detail.locator or '-'}", "strong"
    for number, ancestor in enumerate(lineage.ancestors):
        verb = "found on" if not number else "   which was found on"
        yield f"{verb} job {ancestor.id}, depth {ancestor.depth}: {short_url(ancestor.url)}", "text"
    if line.origin != "locator" and not lineage.ancestors:
        yield (
            f"found from {short_url(detail.root_url)}" if detail.root_url else "how it was found is not recorded",
            "text",
        )
    elif lineage.ancestors and detail.locator:
        yield f"   a locator of the defs: {detail.locator}", "dim"
    yield "", ""
    total = sum(count for _, count in lineage.child_counts)
    counts = ", ".join(f"{count:,} {state.lower()}" for state, count in lineage.child_counts)
    yield f"{plural(total, 'job')} found first on its page" + (f": {counts}" if counts else ""), "strong"
    for child in lineage.children:
        yield (
            f"{child.id:>9} {child.state.lower():<11}{short_url(child.url)}",
            "bad" if child.state == "FAILED" else "text",
        )
    if total > len(lineage.children):
        yield f"… {total - len(lineage.children):,} more", "dim"


def row_lines(detail: JobDetail) -> Iterator[Span]:
    if not detail.rows:
        yield "no rows", "dim"
    for id_, data_def, text in detail.rows:
        yield f"{data_def}  row {id_}", "accent"
        for name, written in split_fields(text).items():
            shown = orjson.loads(written) if written[0] == '"' else written
            yield f"  {name:<16} {shown}", "text"


def result_lines(detail: JobDetail) -> Iterator[Span]:
    """The results of a job's page, oldest first; then those that are counted only."""
    if not detail.results and not detail.unlisted_results:
        yield "no results", "dim"
    for result in detail.results:
        code = f" {result.code}" if result.code else ""
        head = f"{result.task}/{result.step}  {result.outcome}{code}  {result.ms:.2f} ms"
        yield f"{head}  {result.text}".rstrip(), OUTCOME_ROLES[result.outcome]
    for count in detail.unlisted_results:
        yield f"{count.task}/{count.step}  {count.outcome}  {count.results:,} counted", OUTCOME_ROLES[count.outcome]
