"""`export --format warc`: writes the stored pages of a run as a WARC file."""

import contextlib
import sys
from pathlib import Path

from crawl_console.cli.output import show_count, write_stderr
from crawl_console.format import plural
from crawl_engine.errors import StorageError, UsageError
from crawl_engine.runtime.extras import require_extra

WARC = "warc"


def is_warc(output: Path | None, format_: str | None) -> bool:
    """Whether pages are to be written, not rows: by the format, or by the ending of the file. Raises UsageError."""
    is_named = output is not None and _is_named(output)
    if is_named and format_ not in (None, WARC):
        raise UsageError(f"-o {output}: its ending means warc, --format says {format_}", "Leave out --format.")
    return is_named or format_ == WARC


def export_warc(data: Path, run_id: str | None, output: Path | None, **others: object) -> int:
    """Write the pages. `others`: options that say something of rows. Raises UsageError, StorageError."""
    from crawl_console.client import open_latest_run
    from crawl_engine.store.pages.page_store import PageStore

    for name, value in others.items():
        if value:
            raise UsageError(f"{name} has no effect with warc", "It holds pages, not rows; leave it out.")
    if output is not None and not _is_named(output):
        raise UsageError(f"-o {output}: not the name of a WARC file", "Give -o FILE.warc.gz.")
    if output is None and sys.stdout.isatty():
        raise UsageError("a WARC file cannot go to a terminal", "Give -o FILE.warc.gz, or redirect it.")
    require_extra("warc", "the format warc")
    from crawl_engine.append.replaced_file import open_replacement
    from crawl_engine.append.warc import WarcExport

    with contextlib.ExitStack() as stack:
        db, run = stack.enter_context(open_latest_run(data, run_id=run_id))
        stack.enter_context(db.snapshot())
        pages = stack.enter_context(contextlib.closing(PageStore.open_read_only(data)))
        add = stack.enter_context(show_count("pages written"))
        try:
            with contextlib.nullcontext(sys.stdout.buffer) if output is None else open_replacement(output) as stream:
                export = WarcExport(db, pages, run, stream, gzip=output is None or output.name.lower().endswith(".gz"))
                export.write(add)
                stream.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise StorageError(f"{output or 'stdout'}: {error.strerror}", "Choose another place with -o.") from error
    if export.missing:
        write_stderr(f"left out, as their bodies are missing: {plural(export.missing, 'page')}")
    return 0


def _is_named(output: Path) -> bool:
    return output.name.lower().endswith((".warc", ".warc.gz"))
