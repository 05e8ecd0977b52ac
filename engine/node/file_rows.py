"""Takes the rows of a page that name files out of its other rows: they wait until these files are downloaded."""

from collections.abc import Mapping

from msgspec import Struct

from engine import urls
from engine.extract.page_urls import resolve_url
from engine.model.file_values import FieldPath, find_urls, list_file_fields
from engine.model.job import JobKind, LeasedJob
from engine.model.job_key import file_key
from engine.model.stored_file import FileReference, HeldRow
from engine.node.def_cache import DefCache
from engine.node.page_extraction import PageExtraction
from engine.query_stripper import QueryStripper
from engine.store.transactions.outcome import ChildJob, ExtractedRows, HeldRows

_MAX_VERSIONS = 8


class _PageFiles(Struct):
    """The jobs for the files of one page."""

    job: LeasedJob
    base: str
    limit: int
    query_stripper: QueryStripper | None
    children: dict[bytes, ChildJob]
    dropped: int = 0
    """Files beyond the limit."""
    unusable: int = 0
    """URLs that nothing can be downloaded from, such as `data:`."""

    def refer(self, url: str) -> bytes | None:
        """The identity of the job for a file; None: there is none."""
        target = resolve_url(self.base, url, self.query_stripper)
        if target is None:
            self.unusable += 1
            return None
        key = file_key(target)
        if key not in self.children:
            if len(self.children) >= self.limit:
                self.dropped += 1
                return None
            # as a link with `sameHost: false`: downloads lead to hosts that the defs cannot name
            self.children[key] = ChildJob(
                self.job.group, urls.host_key(target), urls.origin(target), target, self.job.depth, 0, key,
                JobKind.FILE, may_leave_host=True,
            )  # fmt: skip
        return key


class FileRows:
    """One for each node."""

    def __init__(self, def_cache: DefCache) -> None:
        self._def_cache = def_cache
        self._fields: dict[int, Mapping[str, tuple[FieldPath, ...]]] = {}

    def hold(self, job: LeasedJob, extraction: PageExtraction, url: str) -> None:
        """Move the rows with files to `held`, and add the jobs of the files. Other pages cost a look into a table.

        `url`: of the page, for relative URLs that users' steps fill in.
        """
        fields = self._file_fields(job.defs_version)
        if not fields or not any(made.data_def in fields for made in extraction.rows):
            return
        stripper = self._def_cache.query_stripper(job.defs_version)
        files = _PageFiles(job, url, self._def_cache.max_links, stripper, {})
        rows, held = [], []
        for made in extraction.rows:
            paths = fields.get(made.data_def, ())
            texts = [text if isinstance(text, str) else str(text, "utf-8") for text in made.texts] if paths else []
            split = [_to_held_row(text, paths, files) for text in texts]
            waiting = [row for row in split if row.files]
            if not waiting:
                rows.append(made)
                continue
            plain = [row.text for row in split if not row.files]
            held.append(HeldRows(made.data_def, made.data_def_id, tuple(waiting)))
            if plain:
                rows.append(ExtractedRows(made.data_def, made.data_def_id, plain))
        extraction.rows, extraction.held = tuple(rows), tuple(held)
        extraction.children = (*extraction.children, *files.children.values())
        extraction.warnings = (*extraction.warnings, *_describe(files))

    def _file_fields(self, version: int) -> Mapping[str, tuple[FieldPath, ...]]:
        """By dataDef: its fields of the type `file`, as far as it has some."""
        fields = self._fields.get(version)
        if fields is None:
            if len(self._fields) >= _MAX_VERSIONS:
                self._fields.clear()
            data_defs = self._def_cache.definitions(version).data_defs
            fields = {one.name: paths for one in data_defs if (paths := list_file_fields(one))}
            self._fields[version] = fields
        return fields


def _to_held_row(text: str, paths: tuple[FieldPath, ...], files: _PageFiles) -> HeldRow:
    return HeldRow(text, tuple([FileReference(place, files.refer(url)) for place, url in find_urls(text, paths)]))


def _describe(files: _PageFiles) -> list[str]:
    notes = []
    if files.dropped:
        notes.append(f"files not downloaded, because the page has more than max_links: {files.dropped:,}")
    if files.unusable:
        notes.append(f"files not downloaded, because their URL is not http or https: {files.unusable:,}")
    return notes
