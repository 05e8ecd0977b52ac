"""The command `logs`: shows the log files of the processes; with -f until the run ends."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import click

from crawl_console.cli.options import Number, common_options, complete_names, lines_option
from crawl_console.cli.output import write_json, write_lines, write_stderr
from crawl_engine.errors import StorageError, UsageError, suggest

_POLL_SECONDS = 0.2
_TAIL_LINES = 10
"""Lines of each file shown before the followed ones."""
_BLOCK = 1 << 16
_MAX_LINE_BYTES = 1 << 20
"""Longer lines are split."""


@click.command()
@click.argument("node", required=False, shell_complete=complete_names("node"))
@click.option("-f", "follow", is_flag=True, help="Follow new lines until the run ends.")
@click.option("--limit", type=Number(), metavar="N", help="The last N lines of each; default: all, with -f 10.")
@lines_option
@common_options("data")
def logs(node: str | None, follow: bool, limit: int | None, as_json: bool, data: Path) -> int:
    """Show the log files of all processes, or of one NODE (such as n2, or appender)."""
    from crawl_engine.store.db.file_header import check_data_dir

    check_data_dir(data)
    tail = limit or (_TAIL_LINES if follow else None)
    folder = data / "logs"
    names = [path.stem for path in _log_files(folder)]
    waits = follow and _has_supervisor(data)
    if node is not None and node not in names and not waits:
        raise UsageError(f"{folder}: no log of '{node}'{suggest(node, names)}", "`crawl-console status` lists nodes.")
    if not names and not waits:
        write_stderr(f"{data}: no logs yet: start a run with `crawl-console run`")
        return 0
    files: dict[str, LogFile] = {}
    try:
        first = True
        while True:
            alive = follow and _has_supervisor(data)
            for path in _log_files(folder):
                if node in (None, path.stem) and path.stem not in files:
                    files[path.stem] = LogFile(path)
                    if first and tail is not None:
                        files[path.stem].seek_last_lines(tail)
            for stem in sorted(files, key=_natural_key):
                for line in files[stem].read(include_partial=not alive):
                    if as_json:
                        write_json({"process": stem, "line": line})
                    else:
                        write_lines(line if node else f"{stem}: {line}")
            first = False
            if not alive:
                return 0
            time.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        return 130
    finally:
        for file in files.values():
            file.close()


def _log_files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob("*.log"), key=lambda path: _natural_key(path.stem))
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror}", "Fix its permissions.") from error


def _natural_key(name: str) -> tuple[int, str]:
    """Sorts `n10` after `n9`, and other names first."""
    return (int(name[1:]) if name[:1] == "n" and name[1:].isdigit() else -1, name)


def _has_supervisor(data: Path) -> bool:
    from crawl_console.client import has_supervisor, open_latest_run
    from crawl_engine.store.db.connector import DatabaseBusy

    try:
        with open_latest_run(data) as (db, _):
            return has_supervisor(db)
    except UsageError:
        return False
    except DatabaseBusy:
        return True


class LogFile:
    """Follows a log file; after a truncation, rotation or deletion it is read from the start."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._partial = b""

    def seek_last_lines(self, lines: int) -> None:
        """Seek to the last `lines` lines, read block by block from the end."""
        self._open()
        if self._file is None:
            return
        start, missing = self._file.seek(0, os.SEEK_END), lines + 1
        while start and missing:
            size = min(_BLOCK, start)
            start = self._file.seek(start - size)
            block = self._file.read(size)
            ends = [at for at, byte in enumerate(block) if byte == 10][-missing:]
            missing -= len(ends)
            if not missing:
                start += ends[0] + 1
        self._file.seek(start)

    def read(self, *, include_partial: bool) -> Iterator[str]:
        """Lines written since the last call; a last line without newline if `include_partial`. Raises StorageError."""
        try:
            self._open()
            yield from self._read_new()
            if self._replaced():
                yield from self._flush_partial()
                self.close()
                self._open()
                yield from self._read_new()
        except OSError as error:
            raise StorageError(f"{self._path}: {error.strerror}", "Fix its permissions.") from error
        if include_partial:
            yield from self._flush_partial()

    def close(self) -> None:
        """Close the file; the next read starts at its beginning."""
        if self._file is not None:
            self._file.close()
        self._file, self._partial = None, b""

    def _open(self) -> None:
        if self._file is None:
            with contextlib.suppress(FileNotFoundError):
                self._file = self._path.open("rb")

    def _read_new(self) -> Iterator[str]:
        while self._file is not None and (block := self._file.read(_BLOCK)):
            *lines, self._partial = (self._partial + block).split(b"\n")
            for line in lines:
                yield _decode_line(line)
            if len(self._partial) > _MAX_LINE_BYTES:
                yield from self._flush_partial()

    def _replaced(self) -> bool:
        if self._file is None:
            return False
        opened = os.fstat(self._file.fileno())
        try:
            current = self._path.stat()
        except FileNotFoundError:
            return False
        replaced = (opened.st_dev, opened.st_ino) != (current.st_dev, current.st_ino)
        return replaced or current.st_size < self._file.tell()

    def _flush_partial(self) -> Iterator[str]:
        if self._partial:
            rest, self._partial = self._partial, b""
            yield _decode_line(rest)


def _decode_line(line: bytes) -> str:
    return line.decode("utf-8", "replace").rstrip("\r").expandtabs()
