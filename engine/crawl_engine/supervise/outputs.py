"""Declares the outputs of a run: one per appender and dataDef with fields, or the file of `-o`."""

import errno
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from crawl_engine.append.formats.column_types import column_types
from crawl_engine.errors import CrawlError, UsageError
from crawl_engine.model.definition import DataDef, Definitions, Field
from crawl_engine.model.field_type import find_field_type
from crawl_engine.model.output_type import (
    DATA_DEF,
    OUTPUT_TYPES,
    POSTGRESQL,
    AppenderDef,
    compression_of,
    default_delimiter,
    describe_suffixes,
    expand_path,
    file_of_data_def,
    has_column_types,
    is_object,
    local_path_of,
    output_type_of,
)
from crawl_engine.runtime.extras import require_extra_of
from crawl_engine.store.db.connector import Database
from crawl_engine.store.tables.output import deliveries, outputs
from crawl_engine.store.tables.output.outputs import Output
from crawl_engine.store.tables.row import rows
from crawl_engine.store.tables.run import runs, supervisors
from crawl_engine.store.tables.run.runs import Run

_BATCHES: Mapping[str, int] = MappingProxyType({POSTGRESQL: 5_000})
"""The most changes that a sender of this type sends at once, if the defs set no `batch`."""


def declare_outputs(
    db: Database,
    run: int,
    folder: Path,
    definitions: Definitions,
    output_file: Path | None,
    *,
    only_new: bool = False,
    merge_columns: bool = False,
) -> list[tuple[str, str]]:
    """Record the outputs of a run; their files are in `folder`. `output_file`: the file of `-o`, which replaces them.

    `only_new`: the files get only rows that no earlier run has; a run that started this way keeps it. `merge_columns`:
    the files hold rows of several versions of a dataDef, and get the columns of all of them. Returns the appender and
    the dataDef of each output.
    """
    created = runs.get(db, run)
    recorded = {(o.appender, o.data_def): o for o in outputs.list_outputs(db, run)}
    only_new = only_new or any("only_new" in output.settings for output in recorded.values())
    appenders = [appender_for_file(output_file)] if output_file else definitions.appenders
    with_fields = [d for d in definitions.data_defs if d.fields]
    declared = []
    for appender in appenders:
        data_defs = [d for d in with_fields if not appender.data_defs or d.name in appender.data_defs]
        for data_def in data_defs:
            declared.append((appender.name, data_def.name))
            settings = _merge_settings(
                recorded.get((appender.name, data_def.name)) if merge_columns else None,
                output_settings(data_def, appender) | ({"only_new": list(data_def.key)} if only_new else {}),
            )
            if appender.kind in ("appender", "sender"):
                deliveries.ensure(db, run, appender.name, data_def.name)
                outputs.ensure_delivering(
                    db, run, appender=appender.name, type_=appender.type, data_def=data_def.name, settings=settings
                )
                continue
            path = _output_path(appender, data_def, folder, output_file, created, alone=len(data_defs) == 1)
            if appender.kind == "built-in" and (method := compression_of(path)):
                settings["compression"] = method
            outputs.ensure(
                db,
                run,
                appender=appender.name,
                type_=appender.output_type,
                data_def=data_def.name,
                path=path,
                settings=settings,
            )
    return declared


def prepare_databases(db: Database, folder: Path, definitions: Definitions, *, limit: float) -> list[str]:
    """Create the tables and columns of databases that are missing; returns a warning for each out of reach.

    `limit`: seconds for one step. Raises UsageError if a table cannot take the rows of its dataDef.
    """
    appenders = [appender for appender in definitions.appenders if appender.type == POSTGRESQL]
    if not appenders:
        return []
    from crawl_engine.append.send.postgres import prepare_tables  # psycopg is an extra
    from crawl_engine.append.send.postgres_table import PostgresTable
    from crawl_engine.append.send.sent_rows import DataDir

    with db.transaction():
        data_dir = DataDir(supervisors.ensure_identity(db), str(folder))
    warnings = []
    for appender in appenders:
        data_defs = [d for d in definitions.data_defs if d.fields and appender in definitions.appenders_of(d.name)]
        tables = [PostgresTable(data_def.name, output_settings(data_def, appender)) for data_def in data_defs]
        try:
            problem = prepare_tables(appender.url, tables, data_dir, rows.last_given_id(db), limit=limit)
        except CrawlError as error:
            raise UsageError(f"appender {appender.name}: {error.message}", error.remedy) from None
        if problem:
            warnings.append(f"appender {appender.name}: {problem}; its rows wait, and are sent when it answers")
    return warnings


def check_writable(declared: Iterable[Output]) -> None:
    """Raise UsageError if a file of the outputs cannot be written. A full disk passes: it may have room later."""
    paths = [local_path_of(o.path) if is_object(o.path) else Path(o.path) for o in declared if o.path]
    for path in dict.fromkeys(filter(None, paths)):
        problem = _write_problem(path)
        if problem is not None:
            raise UsageError(f"{path}: cannot be written: {problem}", "Choose another file, or fix its folder.")


def _write_problem(path: Path) -> str | None:
    if path.is_dir():
        return "it is a folder"
    folder = path.parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent  # the appender makes missing folders
    try:
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return None if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE) else error.strerror


def _merge_settings(recorded: Output | None, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with the earlier columns of the output first, then the new ones."""
    if recorded is None:
        return settings
    earlier = recorded.settings
    joined: dict[str, Any] = {
        name: {**earlier.get(name, {}), **settings.get(name, {})}
        for name in ("joins", "types", "item_types", "column_types", "paths")
        if name in settings or name in earlier
    }
    return {**settings, **joined, "columns": list(dict.fromkeys([*earlier["columns"], *settings["columns"]]))}


def output_settings(data_def: DataDef, appender: AppenderDef | None = None) -> dict[str, Any]:
    """The settings of an encoder for a dataDef: columns in order, list separators, field types, the appender's options.

    Tags, paths of columns and options of CSV are in it only if they are set.
    """
    appender = appender or AppenderDef(name="")
    columns = data_def.output_columns(appender)
    named = {appender.column_name(path): field for path, field in columns.items()}
    paths = {appender.column_name(path): list(path) for path in columns if len(path) > 1}
    return (
        {
            "columns": list(named),
            "joins": {name: field.join for name, field in named.items() if field.is_list},
            "types": {
                name: find_field_type(field.type).column
                for name, field in named.items()
                if not field.is_list and not field.fields
            },
            "delimiter": appender.delimiter,
        }
        | ({"paths": paths} if paths else {})
        | ({"escape_formulas": True} if appender.escape_formulas else {})
        | ({"bom": True} if appender.bom else {})
        | ({"decimal": appender.decimal} if appender.decimal != "." else {})
        | ({"quoting": appender.quoting} if appender.quoting != "minimal" else {})
        | ({"file_name": appender.file_name} if appender.file_name is not None else {})
        | ({"include_tags": True} if appender.include_tags else {})
        | ({"column_types": column_types(named)} if has_column_types(appender.type) else {})
        | _class_settings(data_def, appender)
    )


def _class_settings(data_def: DataDef, appender: AppenderDef) -> dict[str, Any]:
    """Arguments that create a sender or a plugin appender; empty for built-in types of files."""
    if appender.kind == "built-in":
        return {}
    if appender.kind == "sender":
        return {
            "kind": appender.kind,
            "url": appender.url,
            "headers": dict(appender.headers),
            "run": list(appender.run),
            "batch": appender.batch or _BATCHES.get(appender.type),
            "limit": appender.limit,
            "code": appender.code,
        } | ({"key": list(data_def.key)} if appender.type == POSTGRESQL else {})
    return {
        "kind": appender.kind,
        "options": dict(appender.options or {}),
        "limit": appender.limit,
        "code": appender.code,
        "item_types": {field.name: _item_type(field) for field in data_def.fields if field.is_list or field.fields},
    }


def _item_type(field: Field) -> Any:
    """The type of its items; of nested fields, their types by name."""
    if field.fields:
        return {inner.name: _item_type(inner) for inner in field.fields}
    return find_field_type(field.type).column


def appender_for_file(output_file: Path) -> AppenderDef:
    """The appender for `-o FILE`. Raises UsageError if no output type has this ending."""
    type_ = output_type_of(output_file)
    if type_ is None:
        raise UsageError(f"-o {output_file}: unknown suffix '{output_file.suffix}'", f"Use {describe_suffixes()}.")
    require_extra_of(type_.name, f"-o {output_file}")
    if compression_of(output_file) and not type_.compressible:
        raise UsageError(f"-o {output_file}: {type_.name} files are not compressed", f"Omit '{output_file.suffix}'.")
    return AppenderDef(name="flag", type=type_.name, delimiter=default_delimiter(type_.name))


def _output_path(
    appender: AppenderDef, data_def: DataDef, folder: Path, output_file: Path | None, run: Run, *, alone: bool
) -> str:
    """The path of the file of a dataDef, or the URL of its object."""
    if output_file is not None:
        file = output_file.absolute()
        is_own = alone or OUTPUT_TYPES[appender.type].shared_file
        return str(file if is_own else file_of_data_def(file, data_def.name))
    suffix = appender.suffix or OUTPUT_TYPES[appender.output_type].suffixes[0] if appender.path is None else ""
    path = appender.path or f"{DATA_DEF}.{suffix}"
    expanded = expand_path(path, data_def=data_def.name, run=run.id, created_at=run.created_at)
    return expanded if is_object(expanded) else str(folder / expanded)
