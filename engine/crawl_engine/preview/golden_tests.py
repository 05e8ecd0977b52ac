"""Golden tests: saved pages, and the rows and links that the defs must extract from them.

A test is a folder `tests/NAME` below the defs directory with `page.*`, `meta.yml`, `rows.jsonl`, and `links.jsonl` if
links are compared.
"""

import json
import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from difflib import SequenceMatcher
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from crawl_engine.append.formats.row_json import join_fields, to_one_line
from crawl_engine.append.replaced_file import open_replacement
from crawl_engine.defs.page_meta import PageMeta, read_meta, write_meta
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.sources import format_display_path, tests_folder
from crawl_engine.errors import DefsError, PageUnavailable, StorageError, UsageError, reason_of, suggest
from crawl_engine.extract.documents.document_types import find_document_type
from crawl_engine.extract.links.link_explanations import NO_LINK
from crawl_engine.extract.page.context import Context, format_utc
from crawl_engine.extract.page.page import ROBOTS_TAG, header_values
from crawl_engine.http.decode import is_binary
from crawl_engine.model.definition import DataDef, Definitions
from crawl_engine.model.record import to_json
from crawl_engine.model.stored_form import SourcePosition
from crawl_engine.preview.extraction_client import ExtractionClient, TrialDocument
from crawl_engine.preview.page_trial import (
    USUAL_LINK,
    PageTrial,
    TrialResult,
    describe_rejections,
    groups_using,
    link_as_dict,
)

META, ROWS, LINKS = "meta.yml", "rows.jsonl", "links.jsonl"
CONTENT_TYPES: Mapping[str, str] = {
    ".json": "application/json", ".xml": "application/xml", ".html": "text/html", ".htm": "text/html",
    ".jsonl": "application/x-ndjson", ".ndjson": "application/x-ndjson",
    ".csv": "text/csv", ".tsv": "text/tab-separated-values",
}  # fmt: skip
"""Of a saved page, by the ending of its name."""

_NOT_RECORDED = frozenset({ROBOTS_TAG, "set-cookie", "set-cookie2"})
"""Headers that have a key of their own, or whose values are secret."""

Fields = Mapping[str, str]
"""The values of a row by field, each as JSON text."""


class GoldenTest(Struct, frozen=True, kw_only=True):
    """A saved page, and the rows and links that a dataDef must give."""

    name: str
    folder: Path
    page: Path
    meta: PageMeta
    data_def: DataDef
    rows: tuple[Fields, ...]
    links: tuple[Fields, ...] | None = None
    """None: they are not compared."""


class Difference(Struct, frozen=True, kw_only=True):
    """A field that differs; a missing or extra row or link, if `field` is None. Values are JSON text."""

    row: int | None
    """Its number from 1 among the golden rows; of an extra row among those of the page. None: a link."""
    field: str | None
    expected: str | None
    got: str | None


class GoldenResult(Struct, frozen=True, kw_only=True):
    """What became of a test. It has passed without differences and problem."""

    test: GoldenTest
    rows: tuple[str, ...] = ()
    """The rows as they are now, as JSON."""
    links: tuple[str, ...] = ()
    """The links as they are now, as JSON."""
    differences: tuple[Difference, ...] = ()
    reasons: tuple[str, ...] = ()
    """What may be behind the differences: rejected records, a selector that matches nothing, doubts about values."""
    problem: str | None = None
    """Why a crawl would fail the page."""

    @property
    def passed(self) -> bool:
        return not self.differences and self.problem is None


def read_tests(defs: Path, definitions: Definitions, names: Sequence[str] = ()) -> list[GoldenTest]:
    """The tests of these names, else all, in the order of their names.

    Raises UsageError if there are none of that name; DefsError with all problems of their files.
    """
    folder = tests_folder(defs)
    found = _list_names(folder)
    if not found:
        raise UsageError(
            f"{folder}: no golden tests", "Record one: `crawl-console test --record URL --data-def DATADEF`."
        )
    for name in names:
        if name not in found:
            raise UsageError(f"{folder}: no test '{name}'{suggest(name, found)}", "Give the name of its folder.")
    problems = Problems()
    tests = [_read_test(defs, folder / name, definitions, problems) for name in found if not names or name in names]
    if problems.has_errors:
        raise DefsError(sorted(problems.in_file_order(()), key=lambda problem: problem.file), command="test")
    return [test for test in tests if test is not None]


def run_test(test: GoldenTest, definitions: Definitions, client: ExtractionClient) -> GoldenResult:
    """Extract the page as `try` does, and compare rows and links. `client` must have no `run_time` of its own."""
    trial = PageTrial(definitions, test.data_def, client)
    try:
        document = _document_of(test)
        result = trial.run(document, _origin_of(test.meta))
    except PageUnavailable as error:
        return GoldenResult(test=test, problem=error.message)
    links = links_of(result)
    differences = [*_compare(test.rows, [_to_fields(row) for row in result.rows], test.data_def.key)]
    differences += _compare_links(test.links, [_to_fields(link) for link in links])
    reasons = [*find_reasons(trial, document, result)] if differences else []
    if any(difference.row is None and difference.got is None for difference in differences):
        explaining = PageTrial(definitions, test.data_def, client, explains_links=True)
        unfollowed = explaining.run(document, _origin_of(test.meta)).unfollowed
        reasons += [text for text in unfollowed if text.startswith(NO_LINK)]
    return GoldenResult(
        test=test, rows=result.rows, links=links, differences=tuple(differences), reasons=tuple(reasons),
        problem=find_failure(result),
    )  # fmt: skip


def links_of(result: TrialResult) -> tuple[str, ...]:
    """The links of a page as JSON: URL, group, and what they send or carry."""
    return tuple(
        to_json({name: value for name, value in link_as_dict(link).items() if value != USUAL_LINK.get(name)})
        for link in result.links
    )


def find_failure(result: TrialResult) -> str | None:
    """The first step that reported an error, for which a crawl would fail the page; None: no step did."""
    return next((f"{step.task}/{step.step}: {step.text}" for step in result.failed_steps), None)


def find_reasons(trial: PageTrial, document: TrialDocument, result: TrialResult) -> Iterator[str]:
    """Why the page may give fewer rows or values than it should."""
    for text, count in Counter(describe_rejections(result)).items():
        yield text if count == 1 else f"{text} ({count:,} records)"
    unmatched = trial.describe_unmatched(document, result.page)
    yield from (f"warning: {text}" for text in (*result.warnings, unmatched) if text)


def update_test(result: GoldenResult) -> None:
    """Make the rows, and the links that are compared, as they are now the golden ones. Raises StorageError."""
    lines = {ROWS: result.rows} if result.test.links is None else {ROWS: result.rows, LINKS: result.links}
    for name, texts in lines.items():
        path = result.test.folder / name
        try:
            with open_replacement(path) as stream:
                stream.write(_lines_of(texts).encode())
        except OSError as error:
            raise StorageError(f"{path}: {reason_of(error)}", "Check permissions and disk space.") from error


def record_test(
    folder: Path, data_def: str, document: TrialDocument, origin: Context, result: TrialResult,
    links: Sequence[str] | None,
) -> None:  # fmt: skip
    """Write a new test into a new folder, whole or not at all. Raises UsageError if it exists, StorageError.

    `links`: None leaves them out.
    """
    meta = PageMeta(
        url=document.url,
        data_def=data_def,
        group=origin.group or None,
        status=document.status,
        content_type=document.content_type,
        fetched_at=document.fetched_at,
        locator=origin.locator or None,
        locator_url=None if origin.locator_url == document.url else origin.locator_url,
        depth=origin.depth,
        run=origin.run or "test",
        run_time=origin.run_time,
        carried=dict(origin.carried),
        robots_tags=tuple(header_values(document.headers, ROBOTS_TAG)),
        headers={
            name: ", ".join(header_values(document.headers, name))
            for name in sorted({name for name, _ in document.headers} - _NOT_RECORDED)
        },
    )
    body, content_type = document.body, document.content_type
    type_ = find_document_type(body, content_type) if is_binary(body, content_type) else None
    suffix = type_.suffix if type_ is not None else result.page.page_kind or "bin"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
            new = Path(temporary) / folder.name
            new.mkdir()
            (new / f"page.{suffix}").write_bytes(document.body)
            (new / META).write_text(write_meta(meta), "utf-8")
            (new / ROWS).write_text(_lines_of(result.rows), "utf-8")
            if links is not None:
                (new / LINKS).write_text(_lines_of(links), "utf-8")
            new.rename(folder)
    except FileExistsError as error:
        raise UsageError(f"{folder} exists", "Give another --name, or delete the folder.") from error
    except OSError as error:
        raise StorageError(f"{folder}: {reason_of(error)}", "Check permissions and disk space.") from error


def freeze_document(document: TrialDocument) -> TrialDocument:
    """The document, fetched at a whole second, as `meta.yml` says it."""
    return replace(document, fetched_at=float(int(document.fetched_at)))


def _list_names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and entry.name[0] not in "._")
    except (FileNotFoundError, NotADirectoryError):
        return []


def _read_test(defs: Path, folder: Path, definitions: Definitions, problems: Problems) -> GoldenTest | None:
    root = defs if defs.is_dir() else defs.parent
    meta_text = _read_text(root, folder / META, problems)
    rows_text = _read_text(root, folder / ROWS, problems)
    has_links = (folder / LINKS).exists()
    links_text = _read_text(root, folder / LINKS, problems) if has_links else None
    pages = sorted(folder.glob("page.*"))
    if len(pages) != 1:
        message = "has more than one `page.*`" if pages else "has no saved page; save it as `page.html` or the like"
        problems.add(SourcePosition(format_display_path(root, folder), 1, 1), "bad-page", f"this test {message}")
    rows, links = (
        _read_lines(text or "", format_display_path(root, folder / name), problems)
        for text, name in ((rows_text, ROWS), (links_text, LINKS))
    )
    read = None if meta_text is None else read_meta(meta_text, format_display_path(root, folder / META), problems)
    if read is None:
        return None
    meta, keys = read
    data_def = definitions.data_def(meta.data_def)
    if data_def is None:
        names = [known.name for known in definitions.data_defs]
        message = f"the defs have no dataDef '{meta.data_def}'{suggest(meta.data_def, names)}"
        remedy = "write its new name, or delete this test"
        problems.add(keys.entries["dataDef"].node.place, "unknown-data-def", f"{message}; {remedy}")
        return None
    if meta.group is not None:
        groups = [group.name for group in groups_using(definitions, data_def.name)]
        if meta.group not in groups:
            message = f"no task of the group '{meta.group}' has the dataDef '{data_def.name}'"
            problems.add(keys.entries["group"].node.place, "unknown-group", f"{message}{suggest(meta.group, groups)}")
            return None
    if len(pages) != 1 or rows_text is None:
        return None
    if not data_def.columns and not has_links:
        message = f"'{data_def.name}' has no fields, so that a test without {LINKS} compares nothing; record it again"
        problems.add(keys.entries["dataDef"].node.place, "missing-file", message)
        return None
    return GoldenTest(
        name=folder.name, folder=folder, page=pages[0], meta=meta, data_def=data_def, rows=tuple(rows),
        links=tuple(links) if has_links else None,
    )  # fmt: skip


def _read_text(root: Path, path: Path, problems: Problems) -> str | None:
    place = SourcePosition(format_display_path(root, path), 1, 1)
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        problems.add(place, "missing-file", "this file of a golden test is missing; record the test again")
    except OSError as error:
        problems.add(place, "unreadable", f"cannot read this file: {reason_of(error).lower()}")
    except UnicodeDecodeError as error:
        problems.add(place, "not-utf8", f"the byte 0x{error.object[error.start]:02X} is not UTF-8; save it as UTF-8")
    return None


def _read_lines(text: str, shown: str, problems: Problems) -> list[Fields]:
    rows: list[Fields] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            rows.append(_to_fields(line))
        except (ValueError, AttributeError) as error:
            column = error.colno if isinstance(error, json.JSONDecodeError) else 1
            reason = error.msg if isinstance(error, json.JSONDecodeError) else "it must be an object"
            problems.add(SourcePosition(shown, number, column), "bad-row", f"this line is not JSON: {reason}")
    return rows


def _to_fields(row: str) -> Fields:
    """Each value in one form, so that spaces make no difference; numbers keep their digits."""
    fields = json.loads(row, parse_float=Decimal, parse_int=Decimal, strict=False)
    return {name: to_json(value) for name, value in fields.items()}


def _document_of(test: GoldenTest) -> TrialDocument:
    meta = test.meta
    try:
        body = test.page.read_bytes()
    except OSError as error:
        raise PageUnavailable(f"{test.page}: {reason_of(error)}") from error
    return TrialDocument(
        body=body,
        content_type=meta.content_type or CONTENT_TYPES.get(test.page.suffix.lower(), ""),
        url=meta.url,
        status=meta.status,
        fetched_at=meta.fetched_at,
        origin="golden test",
        headers=(*meta.headers.items(), *[(ROBOTS_TAG, value) for value in meta.robots_tags]),
    )


def _origin_of(meta: PageMeta) -> Context:
    return Context(
        group=meta.group or "",
        locator=meta.locator or meta.group or "",
        locator_url=meta.locator_url or meta.url,
        depth=meta.depth,
        run=meta.run,
        run_time=meta.run_time or format_utc(meta.fetched_at),
        carried=meta.carried,
    )


def _lines_of(rows: Sequence[str]) -> str:
    return "".join(f"{to_one_line(row)}\n" for row in rows)


def _compare_links(expected: Sequence[Fields] | None, got: Sequence[Fields]) -> Iterator[Difference]:
    """The missing and the extra links, if links are compared. Their order means nothing."""
    if expected is None:
        return
    old, new = (Counter(join_fields(dict(sorted(link.items()))) for link in links) for links in (expected, got))
    yield from (Difference(row=None, field=None, expected=link, got=None) for link in (old - new).elements())
    yield from (Difference(row=None, field=None, expected=None, got=link) for link in (new - old).elements())


def _compare(expected: Sequence[Fields], got: Sequence[Fields], key: Sequence[str]) -> Iterator[Difference]:
    """Pair rows by the key of their dataDef, else whole, in order; what is left between such pairs by position."""
    if list(expected) == list(got):
        return
    marks, got_marks = ([tuple(row.get(name) for name in key or row) for row in rows] for rows in (expected, got))
    for _, first, last, got_first, got_last in SequenceMatcher(None, marks, got_marks, autojunk=False).get_opcodes():
        both = min(last - first, got_last - got_first)
        for index in range(both):
            yield from _compare_row(first + index + 1, expected[first + index], got[got_first + index])
        for number in range(first + both, last):
            yield Difference(row=number + 1, field=None, expected=join_fields(expected[number]), got=None)
        for number in range(got_first + both, got_last):
            yield Difference(row=number + 1, field=None, expected=None, got=join_fields(got[number]))


def _compare_row(number: int, expected: Fields, got: Fields) -> Iterator[Difference]:
    for name in dict.fromkeys((*expected, *got)):
        if expected.get(name) != got.get(name):
            yield Difference(row=number, field=name, expected=expected.get(name), got=got.get(name))
