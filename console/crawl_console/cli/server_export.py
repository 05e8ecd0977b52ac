"""`export -o postgresql://…`: replaces the rows of a run in the tables of a server."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from crawl_engine.errors import StorageError, UsageError
from crawl_engine.model.output_type import POSTGRESQL, AppenderDef
from crawl_engine.runtime.extras import require_extra

if TYPE_CHECKING:
    from crawl_engine.model.definition import DataDef, Definitions


def export_to_server(
    data: Path, run_id: str | None, output: Path | str | None, format_: str | None,
    select: "Callable[[Definitions], Sequence[DataDef]]", **others: object,
) -> int:  # fmt: skip
    """Write the rows. `others`: options that have no effect here. Raises UsageError, StorageError."""
    if not isinstance(output, str):
        raise UsageError(f"{POSTGRESQL} needs a server", "Give -o postgresql://USER:%{env.PGPASSWORD}@HOST/DATABASE.")
    if format_ not in (None, POSTGRESQL):
        raise UsageError(f"-o is a URL of {POSTGRESQL}, and --format says {format_}", "Leave out --format.")
    for name, value in others.items():
        if value:
            raise UsageError(f"{name} has no effect with {POSTGRESQL}", "Leave it out.")
    require_extra(POSTGRESQL, f"the format {POSTGRESQL}")
    from crawl_console.client import open_latest_run
    from crawl_engine.append.export import read_batches
    from crawl_engine.append.send.postgres import ExportedTable, export_tables
    from crawl_engine.append.send.postgres_table import PostgresTable
    from crawl_engine.append.send.sent_rows import DataDir
    from crawl_engine.errors import CrawlError
    from crawl_engine.store.read.job_range import find_ids
    from crawl_engine.store.tables.row import rows
    from crawl_engine.store.tables.run import supervisors, versions
    from crawl_engine.supervise.outputs import output_settings

    with open_latest_run(data, run_id=run_id, write=True) as (db, run):
        if run.defs_version is None:
            raise UsageError(f"{data}: no run yet", "Run `crawl-console run` first.")
        with db.transaction():
            data_dir = DataDir(supervisors.ensure_identity(db), str(data.absolute()))
        with db.snapshot():
            form = AppenderDef(name="", type=POSTGRESQL, kind="sender")
            tables = [
                ExportedTable(PostgresTable(d.name, output_settings(d, form)), read_batches(db, run.seq, d.name))
                for d in select(versions.read(db, run.defs_version))
            ]
            ids = find_ids(db, run.seq, "rows")
            try:
                export_tables(output, tables, data_dir, rows.last_given_id(db), run=run.id, ids=ids)
            except UsageError:
                raise
            except CrawlError as error:
                raise StorageError(error.message, error.remedy) from None
    return 0
