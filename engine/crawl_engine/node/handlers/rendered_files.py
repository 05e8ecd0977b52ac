"""Keeps the files that a browser makes of a page, and fills them into the rows of the page."""

import asyncio
from collections.abc import Mapping

from crawl_engine.browser.loader import FILE_HEADER, RenderedResponse
from crawl_engine.errors import StorageError
from crawl_engine.files.file_part import PartInUse
from crawl_engine.http.errors import NoRoom
from crawl_engine.model.file import FILES_FOLDER, AnswerNote, Place, StoredFile, file_extension, fill_row
from crawl_engine.model.job import HostPlan, LeasedJob, file_key
from crawl_engine.model.record import Texts, as_text
from crawl_engine.model.step import RENDERED_FILES
from crawl_engine.node.db_access import DbAccess
from crawl_engine.node.handlers.file_job import disk_failed
from crawl_engine.node.handlers.visited_page import PageStage, VisitedPage
from crawl_engine.node.lines import LineWriter, PackedTexts
from crawl_engine.node.outcomes import OutcomeBuilder
from crawl_engine.node.requests.file_parts import FileParts
from crawl_engine.store.tables.outcome import JobOutcome
from crawl_engine.store.tables.row.files import DownloadedFile

_ROWS_PER_STEP = 200


class KeepRendered(PageStage, frozen=True):
    """A page that is read from the store has the files of the time at which it was rendered."""

    parts: FileParts
    db_access: DbAccess
    outcomes: OutcomeBuilder

    def applies(self, plan: HostPlan) -> bool:
        return bool(plan.rendered_fields)

    async def run(self, job: LeasedJob, page: VisitedPage) -> VisitedPage | JobOutcome:
        """Raises NoRoom."""
        extraction, fields = page.extraction, job.plan.rendered_fields
        assert extraction is not None
        values = dict[str, object]()
        for name in sorted({name for unit in extraction.units for name in fields.get(unit.data_def, ())}):
            try:
                stored, problem = await self._keep(job, page, name)
            except PartInUse:
                raise NoRoom from None  # an interrupted attempt is still ending
            except (OSError, StorageError) as error:
                return disk_failed(self.outcomes, job, error)
            values[name] = None if stored is None else stored.to_value(page.url)
            if problem:
                extraction.notes = (*extraction.notes, f"the page has no {name}: {problem}")
        if values:
            extraction.result.rows = tuple(
                [
                    (index, await _fill(made, {(name,): values[name] for name in fields[unit.data_def]}))
                    if (unit := extraction.units[index]).data_def in fields
                    else (index, made)
                    for index, made in extraction.result.rows
                ]
            )
        return page

    async def _keep(self, job: LeasedJob, page: VisitedPage, name: str) -> tuple[StoredFile | None, str]:
        """The file, or why there is none; empty: none was to be made. Raises PartInUse, OSError, StorageError."""
        assert page.content is not None
        note = next((value for key, value in page.content.headers if key == FILE_HEADER + name), "")
        hash_, _, size = note.partition(" ")
        if not size.isdigit():
            return None, note
        known, kind = self.db_access.file_path(job.run, hash_), RENDERED_FILES[name]
        extension = file_extension(kind, "")
        path = known or f"{FILES_FOLDER}/{hash_}.{extension}"
        stored = StoredFile(path, int(size), hash_, kind, f"page.{extension}")
        content = page.response.files.pop(name, None) if isinstance(page.response, RenderedResponse) else None
        if content is None and known:
            return stored, ""
        source = content if content is not None else self.db_access.equal_file(job.run, hash_)
        part = file_key(f"{name}:{job.url}").hex()
        if source is None or not await self.parts.keep(part, stored, source):
            return None, "the file of the time at which it was rendered is no longer there"
        page.add(DownloadedFile(stored, page.fetched_at, AnswerNote(name=stored.name), made_of=name))
        return stored, ""


async def _fill(rows: Texts, values: Mapping[Place, object]) -> PackedTexts:
    writer = LineWriter()
    for count, text in enumerate(rows, 1):
        writer.add(fill_row(as_text(text), values))
        if count % _ROWS_PER_STEP == 0:
            await asyncio.sleep(0)
    return writer.finish()
