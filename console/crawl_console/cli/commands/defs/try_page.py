"""The command `try`: prints the rows and links of one page, extracted by the code of a crawl.

Rows go to stdout, the rest to stderr. It queues nothing and leaves the data directory unchanged.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from crawl_console.cli.options import (
    Number,
    arguments_option,
    base_url_option,
    browser_option,
    common_options,
    complete_names,
    defs_option,
    load_defs,
)
from crawl_console.cli.output import write_json, write_stderr
from crawl_console.format import plural
from crawl_engine.errors import UsageError

if TYPE_CHECKING:
    from crawl_engine.model.definition import TaskGroup
    from crawl_engine.model.record import ExtractedLink
    from crawl_engine.preview.extraction_client import TrialDocument
    from crawl_engine.preview.page_trial import TrialResult


@click.command("try")
@click.argument("data_def", shell_complete=complete_names("data_def"))
@click.argument("source", metavar="URL|FILE", required=False)
@click.option("--job", type=Number(), metavar="ID", help="Use the stored page of this job.")
@click.option("--url", metavar="U", help="The address of FILE: its links resolve against it.")
@browser_option
@defs_option
@arguments_option
@base_url_option
@click.option("--json", "as_json", is_flag=True, help="Print rows, links and rejections as one JSON object.")
@common_options("data", "assigned")
def try_(
    data_def: str, source: str | None, job: int | None, url: str | None, browser: bool, defs: Path,
    base_url: str | None, as_json: bool, data: Path, assigned: dict[str, str], arguments: dict[str, str],
) -> int:  # fmt: skip
    """Show the rows and links of one page; nothing is queued or stored."""
    from crawl_console.cli.page_source import find_page, find_stored_page, row_lines
    from crawl_engine.defs.builders.table_settings import complete_tables
    from crawl_engine.preview.extraction_client import ExtractionClient
    from crawl_engine.preview.page_trial import PageTrial, find_data_def

    if source is None and job is None and "://" in data_def:
        raise UsageError("which dataDef?", f"It comes first: `crawl-console try DATADEF {data_def}`.")
    if (source is None) == (job is None):
        raise UsageError("which page?", "Give exactly one of URL, FILE and --job ID.")
    if browser and job is not None:
        raise UsageError("--browser loads a URL", "A stored page is used as it is: give its URL to load it again.")
    stored = None if job is None else find_stored_page(data, job)
    run_id = None if stored is None else stored.origin.run
    definitions, settings = load_defs(defs, assigned, arguments, data, run_id, base_url=base_url)
    definitions = complete_tables(definitions, settings)
    target = find_data_def(definitions, data_def, str(source or ""))
    page = stored or find_page(str(source), url, data_def, definitions, settings, browser=browser)
    document = page.document
    with ExtractionClient(settings) as client:
        result = page.extract(PageTrial(definitions, target, client, explains_links=True), definitions, client)
    code = int(bool(result.failed_steps))  # a crawl would fail the page
    if as_json:
        write_json(_trial_as_dict(document, result))
        return code
    for row in row_lines(result.rows, terminal=sys.stdout.isatty()):
        sys.stdout.buffer.write(row.encode("utf-8", "replace") + b"\n")
    sys.stdout.flush()
    write_stderr(*_summary_lines(document, result))
    if document.url.startswith("file:") and target.links and not result.links:
        write_stderr("relative links of a file need its address: give --url")
    group = definitions.task_group(page.origin.group)
    if target.columns and not result.rows and _may_lack_scripts(document, group, result.page.page_kind):
        how = "add --browser" if job is None else "give its URL with --browser"
        write_stderr(f"the page has scripts, which may write its rows: {how}")
    return code


def _may_lack_scripts(document: "TrialDocument", group: "TaskGroup | None", kind: str) -> bool:
    """Whether a browser might find more on a page that none has rendered."""
    has_browser = document.is_rendered or (group is not None and group.loader is not None)
    is_html = kind == "html" and document.url.startswith("http")
    return is_html and not has_browser and b"<script" in document.body.lower()


def _trial_as_dict(document: "TrialDocument", result: "TrialResult") -> dict[str, Any]:
    import orjson

    from crawl_engine.extract.page.context import format_utc
    from crawl_engine.preview.page_trial import link_as_dict

    return {
        "rows": [orjson.Fragment(row) for row in result.rows],
        "links": [{**link_as_dict(link), "priority": link.priority} for link in result.links],
        "not_followed": list(result.unfollowed),
        "rejected": [
            {"data_def": r.data_def, "field": r.field, "reason": r.reason, "place": r.place}
            for r in result.page.rejected
        ],
        "filtered": result.page.filtered,
        "warnings": list(result.warnings),
        "results": [
            {"task": r.task, "step": r.step, "outcome": r.outcome, "code": r.code, "ms": r.milliseconds, "text": r.text}
            for _, r in result.page.results
        ],
        "document": {
            "url": document.url, "status": document.status, "content_type": document.content_type,
            "kind": result.page.page_kind, "bytes": len(document.body),
            "fetched_at": format_utc(document.fetched_at), "origin": document.origin, "rendered": document.is_rendered,
        },
    }  # fmt: skip


def _describe_link(link: "ExtractedLink") -> str:
    """How a crawl would treat a link."""
    from crawl_engine.preview.page_trial import USUAL_LINK, link_as_dict

    shown = {**USUAL_LINK, **link_as_dict(link)}
    noun = "link" if shown["relation"] == "link" else f"{shown['relation']} page"
    text = f"{noun} to {link.group}: {'' if shown['method'] == 'GET' else shown['method'] + ' '}{link.url}"
    if shown["body"] is not None:
        text += f" {shown['body'][:200]}"
    if shown["headers"]:
        text += f" with {', '.join(f'{name}: {value}' for name, value in shown['headers'].items())[:200]}"
    if shown["carried"]:
        text += f" carrying {', '.join(f'{name}={value!r}' for name, value in shown['carried'].items())[:200]}"
    return f"{text} (priority {link.priority})" if link.priority else text


def _summary_lines(document: "TrialDocument", result: "TrialResult") -> Iterator[str]:
    from crawl_engine.extract.links.link_explanations import NO_LINK
    from crawl_engine.preview.page_trial import describe_rejections

    for link in result.links:
        yield _describe_link(link)
    for text in result.unfollowed:
        yield text if text.startswith(NO_LINK) else f"not followed: {text}"
    yield from describe_rejections(result)
    for fault in result.faults:
        yield f"{document.url}: {fault}"
    yield from (f"warning: {text}" for text in result.warnings)
    for _, step in result.page.results:
        if step.outcome != "ok":
            yield f"{step.task}/{step.step}: {step.outcome.replace('_', ' ')}: {step.text}"
    yield (
        f"{document.url}: {document.status} {result.page.page_kind}, {len(document.body):,} bytes, {document.origin}:"
        f" {plural(len(result.rows), 'row')}, {plural(len(result.links), 'link')},"
        f" {len(result.page.rejected)} rejected, {result.page.filtered} filtered"
    )
