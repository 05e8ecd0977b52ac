"""Checks the appenders: their types, which may be plugin classes, and the files that they write."""

import posixpath

from msgspec.structs import replace

from crawl_engine.defs.builders.definitions import APPENDER_CLASSES, kind_of, suffix_of
from crawl_engine.defs.builders.steps import check_options, check_run
from crawl_engine.defs.checks.conflicts import check_header_names
from crawl_engine.defs.checks.names import fold_file_name
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import Entry, YamlNode
from crawl_engine.errors import UsageError, suggest
from crawl_engine.model.definition import DataDef, Definitions
from crawl_engine.model.file import list_file_fields, list_rendered_fields
from crawl_engine.model.output_type import (
    CHANGES_OF,
    DATA_DEF,
    DATABASE_URL_STARTS,
    FILES,
    OUTPUT_TYPES,
    POSTGRESQL,
    SCOOPI,
    SENDER_TYPES,
    AppenderDef,
    AppenderKind,
    can_delimit,
    compression_of,
    is_object,
    local_path_of,
    output_type_of,
)
from crawl_engine.model.variables import FIELD, FILE, variable_names
from crawl_engine.plugins.catalog import Catalog
from crawl_engine.plugins.plugin_class import METHODS, PluginClass
from crawl_engine.runtime.extras import find_extra, has_extra, install_hint

_CSV_KEYS, _FILE_KEYS = frozenset({"delimiter", "escapeFormulas", "bom", "quoting", "decimal"}), frozenset({"path"})
_COLUMN_KEYS, _CLASS_KEYS = frozenset({"columns", "flatten", "price"}), frozenset({"options", "limit"})
HTTP_KEYS, COMMAND_KEYS = frozenset({"url", "headers", "batch", "limit"}), frozenset({"run", "batch", "limit"})
DATABASE_KEYS = frozenset({"url", "batch", "limit", *_COLUMN_KEYS})
_NAME_KEYS, _CHANGE_KEYS = frozenset({"fileName"}), frozenset({"changes"})
_FILE_VARIABLES = (f"{FILE}name", f"{FILE}number")
_TYPE_KEYS = _NAME_KEYS | _CHANGE_KEYS | _CSV_KEYS | _FILE_KEYS | _COLUMN_KEYS | _CLASS_KEYS | HTTP_KEYS | COMMAND_KEYS


def check(root: YamlNode, catalog: Catalog, problems: Problems) -> None:
    """Checks types and keys.

    No two appenders write one file, and only SQLite files hold several dataDefs.
    """
    with_rows = [
        name for name, entry in root.entries_of("dataDefs") if any(True for _ in entry.node.entries_of("fields"))
    ]
    writers: dict[str, str] = {}
    for name, entry in root.entries_of("appenders"):
        kind = _check_type(entry.node, catalog, problems)
        if kind is not None:
            _check_keys(entry.node, kind, catalog, problems)
        if kind not in ("appender", "sender"):
            _check_files(name, entry, kind, with_rows, catalog, writers, problems)


def check_columns(root: YamlNode, definitions: Definitions, problems: Problems) -> None:
    """Checks that each of `columns` is a column of every dataDef of its appender, and that their names differ."""
    appenders = {appender.name: appender for appender in definitions.appenders}
    for name, entry in root.entries_of("appenders"):
        for data_def in definitions.data_defs:
            if data_def.fields and appenders[name] in definitions.appenders_of(data_def.name):
                _check_columns(entry.node, appenders[name], data_def, problems)
                _check_file_names(entry.node, appenders[name], data_def, problems)


def _check_columns(node: YamlNode, appender: AppenderDef, data_def: DataDef, problems: Problems) -> None:
    paths = data_def.output_columns(replace(appender, columns=()))
    columns = list(map(appender.column_name, paths))
    dividing = "flatten" if appender.flatten else "price"
    for name in columns:
        if columns.count(name) > 1:
            message = f"`{dividing}`: two columns of '{data_def.name}' would be named '{name}'; rename the field"
            problems.add(node.key_place(dividing), "same-column", message)
    written = data_def.output_columns(appender)
    for name in data_def.key if appender.type == POSTGRESQL else ():
        if (name,) not in written:
            message = f"the table needs the column '{name}', which is in the `key` of '{data_def.name}'"
            place = node.key_place("columns" if (name,) in paths else dividing)
            problems.add(place, "missing-column", f"{message}; add it to `columns`, or omit `{dividing}`")
    names = list(dict.fromkeys([*columns, *(path[0] for path in paths), *map(".".join, paths)]))
    for item in node.list_of("columns"):
        if item.text in names:
            continue
        message = f"'{data_def.name}' has no field '{item.text}'{suggest(item.text, names)}"
        chosen = replace(appender, columns=(item.text,))
        for key, divided in (("flatten: true", replace(chosen, flatten=True)),
                             ("price: columns", replace(chosen, price="columns"))):  # fmt: skip
            if data_def.output_columns(divided):
                message += f"; it is a column with `{key}`"
                break
        problems.add(item.place, "unknown-column", message)


def _check_file_names(node: YamlNode, appender: AppenderDef, data_def: DataDef, problems: Problems) -> None:
    """Check a dataDef of which an output names the files."""
    if appender.type != FILES:
        return
    if not any(True for _ in list_file_fields(data_def)) and not list_rendered_fields(data_def):
        message = f"'{data_def.name}' has no field of `type: file`; name others in `dataDefs`"
        problems.add(node.key_place("dataDefs" if "dataDefs" in node.entries else "type"), "no-effect", message)
    fields = [field.name for field in data_def.fields]
    for name in variable_names(appender.file_name or ""):
        if name in _FILE_VARIABLES or (name.startswith(FIELD) and name.removeprefix(FIELD).split(".")[0] in fields):
            continue
        known = [*_FILE_VARIABLES, *(f"{FIELD}{field}" for field in fields)]
        message = f"unknown variable `%{{{name}}}` for '{data_def.name}'{suggest(name, known)}"
        problems.add(node.key_place("fileName"), "unknown-variable", message)


def _check_type(node: YamlNode, catalog: Catalog, problems: Problems) -> AppenderKind | None:
    """What the type is; None, with a problem, if no such type or class exists."""
    type_ = node.get("type")
    extra = None if type_ is None else find_extra(type_.text)
    if type_ is not None and extra is not None and not has_extra(extra):
        message = f"`type: {extra}` needs a library that is not installed; install it: {install_hint(extra)}"
        problems.add(type_.place, "missing-library", message)
    if type_ is None or type_.kind != "scalar" or not type_.text.strip():
        return "built-in"  # a value that is not a text is reported as such
    if type_.text in OUTPUT_TYPES and type_.text not in CHANGES_OF.values():
        try:
            OUTPUT_TYPES[type_.text]
        except UsageError as error:  # of its package
            problems.add(type_.place, "bad-appender", error.message)
            return None
        return "built-in"
    if type_.text in SENDER_TYPES:
        return "sender"
    plugin_class = catalog.find(type_.text)
    if plugin_class is None:
        names = [*OUTPUT_TYPES, *SENDER_TYPES, *(name for kind in APPENDER_CLASSES for name in catalog.names(kind))]
        message = f"unknown appender '{type_.text}'{suggest(type_.text, names)}"
        problems.add(type_.place, "unknown-appender", message)
        return None
    options = node.get("options")
    given = options.entries if options is not None else ()
    problem = _class_problem(plugin_class, type_.text, catalog) or plugin_class.problem_of_options(given)
    if problem is not None:
        problems.add(type_.place, "bad-appender", plugin_class.describe(problem))
        return None
    return kind_of(type_.text, catalog)


def _class_problem(plugin_class: PluginClass, name: str, catalog: Catalog) -> str | None:
    """Why a class is neither an encoder nor an appender."""
    kinds = [kind for kind in APPENDER_CLASSES if kind in plugin_class.kinds]
    if not kinds:
        if plugin_class.group:
            return plugin_class.problem_as("appender")
        methods = " nor ".join(f"`{METHODS[kind][0]}`" for kind in APPENDER_CLASSES)
        return f"it has neither {methods}: an Encoder needs the first, an Appender the second"
    if len(kinds) > 1:
        methods = " or ".join(f"`{METHODS[kind][0]}`" for kind in APPENDER_CLASSES)
        return f"it must define one of {methods} itself, and not both"
    problem = plugin_class.problem_as(kinds[0])
    if problem is None and kinds == ["encoder"]:
        header = plugin_class.scanned.methods.get("header") if plugin_class.scanned is not None else None
        if plugin_class.scanned is not None and not plugin_class.scanned.has_bases and header is None:
            return "it has no method `header`, which an encoder needs"
        if header is not None and not header.takes(1):
            return "its method `header` must take 1 argument besides `self`"
        footer = plugin_class.scanned.methods.get("footer") if plugin_class.scanned is not None else None
        if footer is not None and not footer.takes(0):
            return "its method `footer` must take no argument besides `self`"
        suffix = suffix_of(name, catalog)
        if "/" in suffix or "\0" in suffix or len(suffix) > 32:
            return f"its `suffix` cannot be '{suffix}': write the end of a file name, such as xml"
    return problem


def _check_keys(node: YamlNode, kind: AppenderKind, catalog: Catalog, problems: Problems) -> None:
    type_ = node.text_of("type") or "csv"
    if node.is_true("changes"):
        for key in node.entries.keys() & _COLUMN_KEYS:
            problems.add(node.key_place(key), "conflict", f"`{key}` has no effect with `changes`: fields are compared")
    for key in node.entries.keys() & _TYPE_KEYS - _keys_of(type_, kind):
        problems.add(node.key_place(key), "conflict", f"`{key}` has no effect with `type: {type_}`")
    if node.has_empty_list("columns"):
        problems.add(node.key_place("columns"), "empty-list", "`columns` names no field; omit it to write all")
    if kind != "built-in":
        check_options(node, problems)
    if type_ == "http":
        check_header_names(node, problems)
        if "url" not in node.entries:
            problems.add(node.key_place("type"), "missing-key", "`type: http` needs `url`: where to post the rows")
    if type_ == POSTGRESQL:
        _check_database(node, problems)
    elif (node.text_of("url") or "").startswith(DATABASE_URL_STARTS):
        problems.add(node.key_place("url"), "bad-url", f"a postgresql:// URL needs `type: {POSTGRESQL}`")
    if type_ == "command":
        check_run(node, "`type: command`", catalog, problems)
    path = node.text_of("path") or ""
    if type_ == FILES and "/" in path:
        message = "`path` of `type: files` is a name: its folder stands beside the stored files, for hard links"
        problems.add(node.key_place("path"), "conflict", message)
    if is_object(path) and local_path_of(path) is None and not has_extra("objectstore"):
        message = f"`path` needs a library that is not installed; install it: {install_hint('objectstore')}"
        problems.add(node.key_place("path"), "missing-library", message)
    by_ending = output_type_of(path)
    if "type" not in node.entries and by_ending is not None and by_ending.name != "csv":
        message = (
            f"`path` ends as a {by_ending.name} file, and without `type` it is csv; write `type: {by_ending.name}`"
        )
        problems.add(node.key_place("path"), "conflict", message)
    output_type = OUTPUT_TYPES.get(type_)
    if output_type is not None and not output_type.compressible and compression_of(path):
        problems.add(
            node.key_place("path"), "conflict", f"`path`: {type_} files are not compressed; omit the last ending"
        )
    if (delimiter := node.text_of("delimiter")) and len(delimiter) == 1 and not can_delimit(delimiter):
        problems.add(node.key_place("delimiter"), "out-of-range", "`delimiter` cannot be a quote or a line break")
    if type_ == "csv" and node.text_of("decimal") == (node.text_of("delimiter") or ",") == ",":
        message = "`decimal` and `delimiter` are both a comma; write another one, such as `delimiter: ';'`"
        problems.add(node.key_place("decimal"), "conflict", message)


def _check_database(node: YamlNode, problems: Problems) -> None:
    url = node.text_of("url") or ""
    if "url" not in node.entries:
        message = f"`type: {POSTGRESQL}` needs `url`, such as postgresql://user:%{{env.PGPASSWORD}}@host/database"
        problems.add(node.key_place("type"), "missing-key", message)
    elif url.startswith("http"):
        problems.add(node.key_place("url"), "bad-url", "must be a postgresql:// URL")


def _keys_of(type_: str, kind: AppenderKind) -> frozenset[str]:
    """The keys that have an effect with a type, besides `type` and `dataDefs`."""
    by_type = {
        "csv": _CSV_KEYS | _FILE_KEYS | _COLUMN_KEYS | _CHANGE_KEYS,
        "jsonl": _FILE_KEYS | _COLUMN_KEYS | _CHANGE_KEYS,
        SCOOPI: _FILE_KEYS | {"delimiter"},
        FILES: _FILE_KEYS | _NAME_KEYS,
        "http": HTTP_KEYS,
        "command": COMMAND_KEYS,
        POSTGRESQL: DATABASE_KEYS,
    }
    by_kind = {"encoder": _CLASS_KEYS | _FILE_KEYS, "appender": _CLASS_KEYS}
    return by_type.get(type_) or by_kind.get(kind, _FILE_KEYS | _COLUMN_KEYS)


def _check_files(
    name: str, entry: Entry, kind: AppenderKind | None, with_rows: list[str], catalog: Catalog,
    writers: dict[str, str], problems: Problems,
) -> None:  # fmt: skip
    node = entry.node
    type_ = node.text_of("type") or "csv"
    if node.is_true("changes"):
        type_ = CHANGES_OF.get(type_, type_)
    chosen = [part.text for part in node.list_of("dataDefs")] or with_rows
    path = node.text_of("path")
    output_type = None if kind is None else OUTPUT_TYPES.get(type_)
    shared_file = output_type is not None and output_type.shared_file and not is_object(path or "")
    if path is not None and DATA_DEF not in path and not shared_file and len(set(chosen) & {*with_rows}) > 1:
        message = (
            f"one {type_} file cannot hold several dataDefs; write {DATA_DEF} in `path`, or name one in `dataDefs`"
        )
        problems.add(node.key_place("path"), "same-file", message)
    suffix = output_type.suffixes[0] if output_type else suffix_of(type_, catalog) if kind else type_
    files = {(path or f"{DATA_DEF}.{suffix}").replace(DATA_DEF, data_def) for data_def in chosen}
    for file in sorted(files):
        other = writers.setdefault(fold_file_name(posixpath.normpath(local_path_of(file) or file)), name)
        if other != name:
            message = f"'{name}' and '{other}' would both write '{file}'; give one of them its own `path` or `dataDefs`"
            problems.add(entry.place, "same-file", message)
            break
