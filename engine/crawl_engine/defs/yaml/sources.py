"""Finds and reads the def files."""

import os
import stat
from pathlib import Path, PurePath

from msgspec import Struct

from crawl_engine.defs.problems import Problems, escape_unprintable
from crawl_engine.errors import reason_of
from crawl_engine.model.stored_form import SourcePosition

SUFFIXES = (".yml", ".yaml")
TESTS_FOLDER = "tests"
"""Directly below the defs directory: it holds golden tests, and none of its files is read as defs."""
MAX_BYTES = 4_000_000


class DefFile(Struct, frozen=True, kw_only=True):
    """One def file. `display_path` is its name in messages and places."""

    path: Path
    display_path: str
    text: str


def format_display_path(root: Path, path: Path) -> str:
    """A file's name in messages: as given, or relative to the parent of an absolute `root`: `defs/shop.yml`."""
    return escape_unprintable((path.relative_to(root.parent) if root.is_absolute() else PurePath(path)).as_posix())


def resolve_beside(file: Path, name: str) -> str:
    """The absolute path of what a def file names relative to itself."""
    return os.path.abspath(file.parent / name)  # noqa: PTH100  resolve() would follow links


def root_place(root: Path) -> SourcePosition:
    """The place of a problem that belongs to no single file."""
    return SourcePosition(format_display_path(root, root), 1, 1)


def read(root: Path, problems: Problems) -> list[DefFile]:
    """All def files in a directory tree, or the one file, in path order. Adds unreadable ones to `problems`."""
    at = root_place(root)
    try:
        is_folder = stat.S_ISDIR(root.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        remedy = (
            "give a directory of .yml files, or one such file;"
            " `crawl-console init DIR` makes a project, `crawl-console demo` shows one"
        )
        where = "" if root.is_absolute() else f" in {Path.cwd()}"
        problems.add(at, "no-defs", f"'{root}' does not exist{where}; {remedy}")
        return []
    except (OSError, ValueError) as error:
        problems.add(at, "unreadable", f"cannot access this path: {reason_of(error).lower()}")
        return []
    paths = list_paths(root, problems) if is_folder else [root]
    if not paths and not problems.has_errors:
        problems.add(at, "no-defs", f"'{root.absolute()}' has no .yml or .yaml file; put your defs there")
    def_files = (_read_file(path, format_display_path(root, path), problems) for path in paths)
    return [source for source in def_files if source is not None]


def tests_folder(root: Path) -> Path:
    """Where the golden tests of a defs directory, or of a single defs file, are."""
    return (root if root.is_dir() else root.parent) / TESTS_FOLDER


def list_paths(root: Path, problems: Problems) -> list[Path]:
    """Def files of a directory in path order. Skips golden tests, and the dotted names of editors and tools."""
    found_paths: list[Path] = []

    def add_problem(error: OSError) -> None:
        place = SourcePosition(format_display_path(root, Path(error.filename)), 1, 1)
        problems.add(
            place, "unreadable", f"cannot list this directory: {reason_of(error).lower()}; check its permissions"
        )

    for at, folders, files in os.walk(root, onerror=add_problem):
        folders[:] = [name for name in folders if not name.startswith(".")]
        if Path(at) == root and TESTS_FOLDER in folders:
            folders.remove(TESTS_FOLDER)
        for name in [name for name in folders if name.endswith(SUFFIXES)]:
            folders.remove(name)
            place = SourcePosition(format_display_path(root, Path(at, name)), 1, 1)
            problems.add(place, "unreadable", "this directory is named like a def file; rename it")
        found_paths += [Path(at, name) for name in files if name.endswith(SUFFIXES) and not name.startswith(".")]
    return sorted(found_paths, key=lambda path: path.as_posix())


def _read_file(path: Path, display_path: str, problems: Problems) -> DefFile | None:
    start = SourcePosition(display_path, 1, 1)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            problems.add(start, "unreadable", "this is not a regular file; defs are text files")
            return None
        if status.st_size > MAX_BYTES:
            problems.add(start, "unreadable", f"this file is larger than {MAX_BYTES:,} bytes; split it")
            return None
        raw = path.read_bytes()
    except (OSError, ValueError) as error:
        problems.add(
            start,
            "unreadable",
            f"cannot read this file: {reason_of(error).lower()}; check the file and its permissions",
        )
        return None
    try:
        return DefFile(path=path, display_path=display_path, text=raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        before = raw[: error.start].decode("utf-8-sig", "replace")
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        message = f"the byte 0x{raw[error.start]:02X} is not UTF-8; save the file as UTF-8"
        problems.add(SourcePosition(display_path, line, column), "not-utf8", message)
        return None
