"""Which files a run writes: one for each dataDef with fields and each appender, or what `-o` asks for."""

from pathlib import Path
from typing import Any

from engine.errors import UsageError
from engine.model.definition import AppenderDef, DataDef, Definitions
from engine.store.db.connector import Database
from engine.store.tables import outputs
from engine.store.tables.outputs import Output

_SUFFIXES = {"csv": "csv", "jsonl": "jsonl", "db": "sqlite", "sqlite": "sqlite"}
_EXTENSIONS = {"csv": "csv", "jsonl": "jsonl", "sqlite": "db"}


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
    """Write down the outputs of a run whose files lie in `folder`. `flag`: the file `-o` named, instead.

    `only_new`: they hold what no earlier run has. A run that was begun so stays so.
    `united`: the files hold rows of several versions of a dataDef, and have the columns of all of them.
    Returns the appender and the dataDef of each.
    """
    known = {(o.appender, o.data_def): o for o in outputs.list_outputs(db, run)}
    only_new = only_new or any("only_new" in output.settings for output in known.values())
    appenders = [appender_for_file(output_file)] if output_file else definitions.appenders
    with_fields = [d for d in definitions.data_defs if d.fields]
    declared = []
    for appender in appenders:
        mine = [d for d in with_fields if not appender.data_defs or d.name in appender.data_defs]
        for data_def in mine:
            declared.append((appender.name, data_def.name))
            outputs.ensure(
                db,
                run,
                appender=appender.name,
                type_=appender.type,
                data_def=data_def.name,
                path=str(_output_path(appender, data_def, folder, output_file, alone=len(mine) == 1)),
                settings=_merge_settings(
                    known.get((appender.name, data_def.name)) if merge_columns else None,
                    output_settings(data_def, appender.delimiter)
                    | ({"only_new": list(data_def.key)} if only_new else {}),
                ),
            )
    return declared


def _merge_settings(known: Output | None, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with the columns the output has had so far: first those, then the new ones."""
    if known is None:
        return settings
    told = known.settings
    joined = {name: {**told.get(name, {}), **settings[name]} for name in ("joins", "types")}
    return {**settings, **joined, "columns": list(dict.fromkeys([*told["columns"], *settings["columns"]]))}


def output_settings(data_def: DataDef, delimiter: str = ",") -> dict[str, Any]:
    """What an encoder must know of a dataDef: columns in order, and what joins their lists."""
    return {
        "columns": list(data_def.columns),
        "joins": {field.name: field.join for field in data_def.fields if field.all},
        "types": {field.name: field.type for field in data_def.fields if not field.all and not field.fields},
        "delimiter": delimiter,
    }


def appender_for_file(output_file: Path) -> AppenderDef:
    """The appender for `-o FILE`. Raises UsageError on an ending that names no format."""
    kind = _SUFFIXES.get(output_file.suffix.lower().lstrip("."))
    if kind is None:
        raise UsageError(f"-o {output_file}: unknown ending '{output_file.suffix}'", "Use .csv, .jsonl or .db.")
    return AppenderDef(name="flag", type=kind)


def _output_path(appender: AppenderDef, data_def: DataDef, folder: Path, flag: Path | None, *, alone: bool) -> Path:
    if flag is not None:
        flag = flag.absolute()
        if alone or appender.type == "sqlite":
            return flag
        return flag.with_name(f"{flag.stem}-{data_def.name}{flag.suffix}")
    if appender.path is not None:
        return folder / appender.path
    return folder / f"{data_def.name}.{_EXTENSIONS.get(appender.type, appender.type)}"
