"""The output type `files`: downloaded files under names of fields, and a list of them."""

import csv
import io
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from crawl_engine.append.formats.file_writer import FileWriter, fsync_dir
from crawl_engine.append.formats.row_json import decode_values
from crawl_engine.append.formats.writer import RowEncoder
from crawl_engine.late_regex import late_regex
from crawl_engine.model.file import safe_name
from crawl_engine.model.record import to_text
from crawl_engine.model.variables import FIELD, FILE, render
from crawl_engine.store.tables.output.outputs import Output

_COLUMNS = ("name", "path", "url")
_PATH = late_regex(r"files/([0-9a-f]{64})\.([a-z0-9]{1,10})")
"""Of a file as it is stored; a plugin may put another text in its place."""
_MAX_STEM_BYTES = 180
_SHORT_HASH = 8


class _NamedFile(NamedTuple):
    stem: str
    """The name that its fields give, safe and without ending."""
    path: str
    url: str

    @property
    def digest(self) -> str:
        return self.path[len("files/") :].partition(".")[0]

    @property
    def ending(self) -> str:
        return self.path.rpartition(".")[2]


class FilesEncoder(RowEncoder):
    """The list of the files of a dataDef: the name of each in the folder, where it is stored, and its URL.

    Equal rows give equal names, in whatever order they come.
    """

    has_footer = True

    def __init__(self, template: str, joins: Mapping[str, str]) -> None:
        """`template`: of the names, with `%{field.NAME}`, `%{download.name}`, `%{download.number}`.

        `joins`: what stands between the values of list fields.
        """
        self._template = template
        self._joins = joins
        self._files: set[_NamedFile] = set()

    def header(self) -> bytes:
        self._files = set()
        return b""

    def rows(self, rows: Iterable[str]) -> bytes:
        """Nothing: what a file is called depends on all others."""
        for row in rows:
            fields = decode_values(row)
            for number, file in enumerate(_list_files(fields), 1):
                stem = self._fill(fields, file, number)
                self._files.add(_NamedFile(stem, str(file["path"]), str(file.get("url") or "")))
        return b""

    def footer(self) -> bytes:
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\r\n")
        writer.writerow(_COLUMNS)
        writer.writerows((name, file.path, file.url) for name, file in sorted(name_files(self._files).items()))
        return lines.getvalue().encode("utf-8", "replace")

    def _fill(self, fields: Mapping[str, Any], file: Mapping[str, Any], number: int) -> str:
        def look_up(name: str) -> str | None:
            if name == f"{FILE}number":
                return str(number)
            if name == f"{FILE}name":
                return str(file.get("name") or "").rpartition(".")[0] or str(file.get("name") or "")
            if not name.startswith(FIELD):
                return None
            value: Any = fields
            for part in name.removeprefix(FIELD).split("."):
                value = value.get(part) if isinstance(value, Mapping) else None
            return to_text(value, self._joins.get(name.removeprefix(FIELD), "-"))

        text = re.sub(r"[/\\]", "_", render(self._template, look_up)).strip(" .")
        return text.encode("utf-8", "ignore")[:_MAX_STEM_BYTES].decode("utf-8", "ignore")


def name_files(files: Iterable[_NamedFile]) -> dict[str, _NamedFile]:
    """The name of each file: what its fields give, and a part of its hash where others would have the same.

    Names are the same where a system that ignores capitals would take them for one.
    """
    by_name: dict[str, dict[str, _NamedFile]] = {}
    for file in sorted(files):
        written = safe_name(f"{file.stem}.{file.ending}") if file.stem.strip(" .") else ""
        by_name.setdefault(_fold(written or file.digest), {}).setdefault(file.digest, file)
    named: dict[str, _NamedFile] = {}
    taken: set[str] = set()
    for equal in by_name.values():
        for file in equal.values():
            stem = f"{file.stem}-{file.digest[:_SHORT_HASH]}" if len(equal) > 1 else file.stem
            name = safe_name(f"{stem}.{file.ending}") if file.stem.strip(" .") else f"{file.digest}.{file.ending}"
            if _fold(name) in taken:
                name = f"{file.digest}.{file.ending}"
            taken.add(_fold(name))
            named[name] = file
    return named


def _fold(name: str) -> str:
    return unicodedata.normalize("NFC", name).casefold()


def _list_files(value: Any) -> Iterator[Mapping[str, Any]]:
    """The values of files in a row, in their order."""
    if isinstance(value, dict):
        path = value.get("path")
        if isinstance(path, str) and "hash" in value and _PATH.fullmatch(path):
            yield value
        else:
            for part in value.values():
                yield from _list_files(part)
    elif isinstance(value, list):
        for part in value:
            yield from _list_files(part)


class FilesWriter(FileWriter):
    """Writes the list, and then a folder of hard links by it, beside the list."""

    def __init__(self, path: Path, encoder: RowEncoder, *, mode: int) -> None:
        super().__init__(path, encoder, mode=mode)
        self._list_path = path
        self._folder = path.with_name(path.stem if path.suffix else f"{path.name}-files")
        self._is_linked = False

    def restore(self, output: Output) -> bool:
        """As of any file; a crash may have come between the list and its links, so they are made again."""
        restored = super().restore(output)
        if restored and not self._is_linked:
            self._link(frozenset())
        return restored

    def swap_in(self) -> None:
        """Replace the list, then the links."""
        before = self._read_list()
        super().swap_in()
        self._link(before.keys())

    def _read_list(self) -> dict[str, str]:
        """The path of each name of the list; empty without a list."""
        try:
            with self._list_path.open(newline="", encoding="utf-8") as lines:
                return {row[0]: row[1] for row in list(csv.reader(lines))[1:] if len(row) == len(_COLUMNS)}
        except OSError:
            return {}

    def _link(self, before: Iterable[str]) -> None:
        """Make the links of the list, and remove those that only the list before had. What is there stays."""
        listed = self._read_list()
        self._is_linked = True
        if not self._list_path.with_name("files").is_dir():  # the list alone was exported
            return
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for name in set(before) - listed.keys():
            self._folder.joinpath(name).unlink(missing_ok=True)
        for name, path in listed.items():
            stored, link = self._list_path.parent / path, self._folder / name
            with suppress(FileNotFoundError):  # it was deleted, as by max_data
                if link.exists() and link.samefile(stored):
                    continue
                draft = self._folder / ".link.draft"
                draft.unlink(missing_ok=True)
                os.link(stored, draft)
                draft.replace(link)
        fsync_dir(self._folder)


class FilesFormat:
    """The format of the type."""

    def create_writer(self, output: Output, *, run: str, mode: int) -> FilesWriter:  # noqa: ARG002 - of databases
        return FilesWriter(Path(output.path), self.create_encoder(output.settings), mode=mode)

    def create_encoder(self, settings: Mapping[str, Any]) -> FilesEncoder:
        return FilesEncoder(settings.get("file_name", f"%{{{FILE}name}}"), settings.get("joins", {}))


FORMAT = FilesFormat()
