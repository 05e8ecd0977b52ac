"""The stage that keeps pictures and PDFs: what rows get, what is recorded, and what is told."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import orjson
import pytest

from crawl_engine.browser.loader import FILE_HEADER, RenderedResponse
from crawl_engine.model.definition import DataDef, Definitions, Field, Task, TaskGroup
from crawl_engine.model.file import StoredFile, add_rendered_fields
from crawl_engine.model.job import HostPlan, JobState
from crawl_engine.model.step import BrowserRule, GroupLoading
from crawl_engine.node.def_cache import DefsVersion
from crawl_engine.node.extraction.extractor import PageExtraction
from crawl_engine.node.extraction.result import PageResult
from crawl_engine.node.handlers.rendered_files import KeepRendered
from crawl_engine.node.handlers.visited_page import VisitedPage
from crawl_engine.node.outcomes import OutcomeBuilder
from crawl_engine.node.requests.file_parts import FileParts
from crawl_engine.runtime.file_folder import FileFolder
from crawl_engine.settings import Settings
from crawl_engine.store.pages.body import Body
from crawl_engine.store.pages.page_store import StoredBody
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.row.files import DownloadedFile, EarlierFile
from tests.unit.node.leased_jobs import leased, visited

pytestmark = pytest.mark.asyncio
LOADING = GroupLoading(browser=BrowserRule(screenshot=True))
GROUP = TaskGroup(name="g", loader=LOADING, tasks=(Task(name="t", data_def="d"), Task(name="l", data_def="links")))
WRITTEN = (DataDef(name="d", fields=(Field(name="n"), Field(name="pdf", type="file"))), DataDef(name="links"))
DEFS = Definitions(task_groups=(GROUP,), data_defs=add_rendered_fields(WRITTEN, (GROUP,)))
VERSION = DefsVersion(DEFS)
PLAN = HostPlan(file_fields=VERSION.file_fields, rendered_fields=VERSION.rendered_fields, group=GROUP)
JOB = leased(1)._replace(plan=PLAN)
HASH = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
"""Of `x`."""
ROW = '{"n":1.50,"screenshot":"screenshot:"}'


def page_of(note: str | None, content: bytes | None = None) -> VisitedPage:
    headers = () if note is None else ((f"{FILE_HEADER}screenshot", note),)
    result = PageResult(page_kind="html", rows=((0, (ROW, ROW)),))
    page = visited(
        content=StoredBody(Body(b""), headers), extraction=PageExtraction(result, [Mock(data_def="d")]),
        url="http://a/1", fetched_at=9.0,
    )  # fmt: skip
    if content is not None:
        page.response = RenderedResponse(
            url="http://a/1", status=200, headers=headers, body=b"", received=0, elapsed=0.0, content_type="",
            location=None, location_problem=None, retry_after=None, files={"screenshot": content},
        )  # fmt: skip
    return page


def stage(data: Path, *, known: str | None = None, earlier: EarlierFile | None = None) -> KeepRendered:
    access: Any = Mock(**{"file_path.return_value": known, "equal_file.return_value": earlier})
    parts = FileParts(FileFolder(data, "run"), Settings())
    return KeepRendered(parts, access, OutcomeBuilder(source="n1", max_attempts=3))


def values(page: VisitedPage | JobOutcome) -> list[Any]:
    assert isinstance(page, VisitedPage)
    assert page.extraction is not None
    rows = [str(text) for _, texts in page.extraction.result.rows for text in texts]
    assert all('"n":1.50' in row for row in rows)
    return [orjson.loads(row)["screenshot"] for row in rows]


async def test_definitions_of_rows_get_fields() -> None:
    assert [one.columns for one in DEFS.data_defs] == [("n", "pdf", "screenshot"), ()]
    assert VERSION.rendered_fields == {"d": ("screenshot",)}
    assert VERSION.file_fields == {"d": (("pdf",),)}, "a field of the user that has a name of ours"
    assert add_rendered_fields(WRITTEN, ()) == WRITTEN


async def test_a_new_file_is_written_and_recorded(tmp_path: Path) -> None:
    page = await stage(tmp_path).run(JOB, page_of(f"{HASH} 1", b"x"))
    path = f"files/{HASH}.png"
    value = {
        "path": path, "size": 1, "hash": HASH, "type": "image/png", "name": "page.png", "url": "http://a/1",
    }  # fmt: skip
    assert values(page) == [value, value]
    assert (tmp_path / "output" / "run" / path).read_bytes() == b"x"
    assert isinstance(page, VisitedPage)
    [effect] = page.effects
    assert isinstance(effect, DownloadedFile)
    assert (effect.made_of, effect.at, effect.file.path) == ("screenshot", 9.0, path)
    assert effect.key_for("http://a/1") != DownloadedFile(effect.file).key_for("http://a/1")
    assert not list((tmp_path / "output" / "run" / "files" / ".part").iterdir())


async def test_a_stored_page_of_this_run_needs_no_further_record(tmp_path: Path) -> None:
    page = await stage(tmp_path, known="files/y.png").run(JOB, page_of(f"{HASH} 1"))
    assert [value["path"] for value in values(page)] == ["files/y.png"] * 2
    assert isinstance(page, VisitedPage)
    assert page.effects == ()


async def test_a_stored_page_of_an_earlier_run_has_its_file_again(tmp_path: Path) -> None:
    old = tmp_path / "output" / "old" / "files"
    old.mkdir(parents=True)
    (old / "x.png").write_bytes(b"x")
    earlier = EarlierFile("old", 1.0, "", StoredFile("files/x.png", 1, HASH, "image/png"))
    page = await stage(tmp_path, earlier=earlier).run(JOB, page_of(f"{HASH} 1"))
    [path, _] = [value["path"] for value in values(page)]
    assert (tmp_path / "output" / "run" / path).samefile(old / "x.png")
    (old / "x.png").unlink()
    (tmp_path / "output" / "run" / path).unlink()
    gone = await stage(tmp_path, earlier=earlier).run(JOB, page_of(f"{HASH} 1"))
    assert values(gone) == [None, None]
    assert isinstance(gone, VisitedPage)
    assert gone.extraction is not None
    assert gone.extraction.notes[0].endswith("is no longer there")
    assert gone.effects == ()


@pytest.mark.parametrize(
    ("note", "told"),
    [(None, ()), ("it is too large", ("the page has no screenshot: it is too large",))],
    ids=["not rendered", "not made"],
)
async def test_a_page_without_a_file_has_none_in_its_rows(tmp_path: Path, note: str | None, told: Any) -> None:
    page = await stage(tmp_path).run(JOB, page_of(note))
    assert values(page) == [None, None]
    assert isinstance(page, VisitedPage)
    assert page.extraction is not None
    assert page.extraction.notes == told


async def test_a_disk_that_cannot_be_written_puts_the_page_off(tmp_path: Path) -> None:
    (tmp_path / "output").write_text("a file in place of the folder")
    outcome = await stage(tmp_path).run(JOB, page_of(f"{HASH} 1", b"x"))
    assert isinstance(outcome, JobOutcome)
    assert outcome.state is JobState.READY
