"""`run -o -`: the rows of a run to stdout as CSV, once it has ended."""

import sys
from typing import TYPE_CHECKING

from console.cli.output import open_stdout, redirect_to_devnull, write_stderr
from engine.errors import UsageError

if TYPE_CHECKING:
    from engine.model.definition import DataDef, Definitions
    from engine.store.db.connector import Database


def only_data_def(definitions: "Definitions") -> "DataDef":
    """The one dataDef with fields: a stream has one header. Raises UsageError where there are none or several."""
    with_fields = [data_def for data_def in definitions.data_defs if data_def.fields]
    if len(with_fields) != 1:
        listed = ", ".join(data_def.name for data_def in with_fields) or "none"
        raise UsageError(f"-o - writes one dataDef, and the defs have {listed}", "Use `export DATADEF` after the run.")
    return with_fields[0]


def write_rows(db: "Database", run: int) -> None:
    """Write all rows that the run has by now. What prevents that is said on stderr: the run has ended as it has."""
    try:
        _write(db, run)
    except BrokenPipeError:  # the reader has what it wanted
        redirect_to_devnull(sys.stdout)
    except UsageError as error:
        write_stderr(str(error))


def _write(db: "Database", run: int) -> None:
    from engine.append.export import export
    from engine.store.tables.run import versions
    from engine.supervise.outputs import output_settings

    data_def = only_data_def(versions.read(db, versions.current(db, run)))
    settings = output_settings(data_def)
    export(db, run, data_def.name, settings["columns"], settings["joins"], "csv", open_stdout())
    sys.stdout.flush()
