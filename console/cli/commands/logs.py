"""The command `logs`: shows the log files of the processes; with -f until the run ends."""

import time
from collections.abc import Sequence
from pathlib import Path

import click

from console.cli.log_reader import LogFile
from console.cli.options import Number, common_options, lines_option, validate_assignments
from console.cli.output import write_lines, write_stderr
from console.sanitize import clean
from engine.errors import StorageError, UsageError, suggest

_POLL_SECONDS = 0.2
_TAIL_LINES = 10
"""Lines of each file shown before the ones that are followed."""


@click.command()
@click.argument("node", required=False)
@click.option("-f", "follow", is_flag=True, help="Follow new lines until the run ends.")
@click.option("--limit", type=Number(), metavar="N", help="The last N lines of each; default: all, with -f 10.")
@lines_option
@common_options
def logs(node: str | None, follow: bool, limit: int | None, as_json: bool, data: Path, assign: Sequence[str]) -> int:
    """Show the log files of all processes, or of one NODE (such as n2, or appender)."""
    validate_assignments(assign)
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
                    write_lines([_json(stem, line) if as_json else clean(line if node else f"{stem}: {line}")])
            first = False
            if not alive:
                return 0
            time.sleep(_POLL_SECONDS)
    except KeyboardInterrupt:
        return 130
    finally:
        for file in files.values():
            file.close()


def _json(process: str, line: str) -> str:
    import orjson

    return orjson.dumps({"process": process, "line": line}).decode()


def _log_files(folder: Path) -> list[Path]:
    try:
        return sorted(folder.glob("*.log"), key=lambda path: _natural_key(path.stem))
    except OSError as error:
        raise StorageError(f"{folder}: {error.strerror}", "Fix its permissions.") from error


def _natural_key(name: str) -> tuple[int, str]:
    """Sorts `n10` after `n9`, and other names first."""
    return (int(name[1:]) if name[:1] == "n" and name[1:].isdigit() else -1, name)


def _has_supervisor(data: Path) -> bool:
    from console.client import has_supervisor, open_latest_run
    from engine.store.db.connector import DatabaseBusy

    try:
        with open_latest_run(data) as (db, _):
            return has_supervisor(db)
    except UsageError:
        return False
    except DatabaseBusy:
        return True
