"""Sets aside rows that name files: they wait until these files are downloaded."""

import asyncio
from collections.abc import Iterator

import orjson

from crawl_engine import urls
from crawl_engine.extract.page.page import resolve_url
from crawl_engine.model.file import MAX_FILES, FieldPath, number_urls
from crawl_engine.model.job import KEY_BYTES, JobKind, LeasedJob, file_key
from crawl_engine.model.record import Texts, as_text
from crawl_engine.node.def_cache import CompiledDataDef, DefCache
from crawl_engine.node.extraction.child_jobs import CHILDREN_PER_PIECE
from crawl_engine.node.extraction.extractor import PageExtraction
from crawl_engine.node.lines import LineWriter, PackedTexts, cut_in_pieces
from crawl_engine.store.tables.job.linked_jobs import ChildJob
from crawl_engine.store.tables.row.held_rows import HeldRows
from crawl_engine.urls import QueryStripper

_ROWS_PER_STEP = 200
"""Rows worked at once; meanwhile the fetch loop does nothing else."""
_NO_URL, _TOO_MANY = -1, -2
_MAX_KNOWN = 1_000


class _PageFiles:
    """Numbers the files of one page, without an object for each besides a text."""

    def __init__(self, base: str, limit: int, query_stripper: QueryStripper | None) -> None:
        self._base = base
        self._limit = limit
        self._query_stripper = query_stripper
        self._numbers: dict[str, int] = {}
        """The numbers of the first URLs as written: most pages repeat a few pictures."""
        self._keys: dict[bytes, int] = {}
        self._urls = LineWriter()
        self.dropped = 0
        """Files beyond the limit."""
        self.unusable = 0
        """URLs that cannot be downloaded, such as `data:`."""

    def number_of(self, url: str) -> int | None:
        """The number of a file; None: it is not downloaded."""
        number = self._numbers.get(url)
        if number is None:
            number = self._add(url)
            if len(self._numbers) < _MAX_KNOWN:
                self._numbers[url] = number
        self.unusable += number == _NO_URL
        self.dropped += number == _TOO_MANY
        return None if number < 0 else number

    def _add(self, url: str) -> int:
        target = resolve_url(self._base, url, self._query_stripper)
        if target is None:
            return _NO_URL
        key = file_key(target)
        number = self._keys.get(key)
        if number is None:
            number = len(self._keys)
            if number >= self._limit:
                return _TOO_MANY
            self._keys[key] = number
            self._urls.add(target)
        return number

    def finish(self) -> tuple[Texts, bytes]:
        """The URLs of the files and their identities, by number."""
        return self._urls.finish(), b"".join(self._keys)

    def describe(self) -> list[str]:
        """Warnings about files that are not downloaded."""
        notes = []
        if self.dropped:
            notes.append(f"files not downloaded, because the page names more than {self._limit:,}: {self.dropped:,}")
        if self.unusable:
            notes.append(f"files not downloaded, because their URL is not http or https: {self.unusable:,}")
        return notes


class FileRows:
    """One for each node."""

    def __init__(self, def_cache: DefCache) -> None:
        self._def_cache = def_cache

    async def hold(self, job: LeasedJob, extraction: PageExtraction, url: str) -> None:
        """Move the rows with files to `held`, and add the jobs of the files. Others cost a look-up for each dataDef.

        `url`: of the page, for relative URLs that plugin steps fill in.
        """
        fields, units = job.plan.file_fields, extraction.units
        if not any(units[index].data_def in fields for index, _ in extraction.result.rows):
            return
        limit = min(self._def_cache.max_links, MAX_FILES)
        files = _PageFiles(url, limit, self._def_cache.query_stripper(job.defs_version))
        rows = list[tuple[int, PackedTexts]]()
        waiting = list[tuple[CompiledDataDef, Texts, Texts]]()
        for index, made in extraction.result.rows:
            unit = units[index]
            if unit.data_def not in fields:
                rows.append((index, made))
                continue
            others, texts, places = await _split(made, fields[unit.data_def], files)
            rows.append((index, others))
            if len(texts):
                waiting.append((unit, texts, places))
        file_urls, keys = files.finish()
        extraction.result.rows = tuple(rows)
        extraction.held = tuple(
            [
                HeldRows(unit.data_def, unit.id, texts, places, keys, unique=unit.unique_key)
                for unit, texts, places in waiting
            ]
        )
        extraction.add_children(_make_jobs(job, file_urls, keys))
        extraction.notes = (*extraction.notes, *files.describe())


async def _split(rows: Texts, paths: tuple[FieldPath, ...], files: _PageFiles) -> tuple[PackedTexts, Texts, Texts]:
    """Split into rows without files, rows with files, and the places and file numbers of the latter."""
    others, waiting, places = LineWriter(), LineWriter(), LineWriter()
    for count, text in enumerate(rows, 1):
        row, numbers = number_urls(as_text(text), paths, files.number_of)
        if numbers:
            waiting.add(row)
            places.add(orjson.dumps(numbers).decode())
        else:
            others.add(row)
        if count % _ROWS_PER_STEP == 0:
            await asyncio.sleep(0)
    return others.finish(), waiting.finish(), places.finish()


def _make_jobs(job: LeasedJob, file_urls: Texts, keys: bytes) -> Iterator[tuple[ChildJob, ...]]:
    """The jobs of the files, in pieces. They count as links with `sameHost: false`: downloads lead to any host."""
    jobs = (
        ChildJob(
            job.group, urls.host_key(url), urls.origin(url), url, job.lineage.depth, 0,
            keys[number * KEY_BYTES : (number + 1) * KEY_BYTES], JobKind.FILE, may_leave_host=True,
        )
        for number, url in enumerate(map(as_text, file_urls))
    )  # fmt: skip
    return map(tuple, cut_in_pieces(jobs, lambda child: len(child.url), CHILDREN_PER_PIECE))
