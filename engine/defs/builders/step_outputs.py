"""Reads the plugins of `DataAppender` steps, as Scoopi has them: each FileAppender adds an output."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from msgspec.structs import replace

from engine.defs.builders.chains import Chains
from engine.defs.builders.steps import DATA_APPENDER
from engine.defs.language.keys import iter_tasks
from engine.defs.problems import Problems
from engine.defs.yaml.node import YamlNode
from engine.errors import suggest
from engine.model.definition import AppenderDef
from engine.model.output_type import SCOOPI
from engine.model.stored_form import SourcePosition

_APPENDER_PREFIX, _ENCODER_PREFIX = "org.codetab.scoopi.plugin.appender.", "org.codetab.scoopi.plugin.encoder."
_FILE_APPENDER, _LIST_APPENDER, _CSV_ENCODER = "FileAppender", "ListAppender", "CsvEncoder"
_APPENDER_KEYS = ("name", "class", "file", "plugins")
_ENCODER_KEYS = ("name", "class", "delimiter", "includeTags")


def read(root: YamlNode, whole_chains: Chains, problems: Problems) -> tuple[AppenderDef, ...]:
    """The outputs that steps add, by their task; those that name one file get one each."""
    outputs: dict[tuple[str, str], AppenderDef] = {}
    for group, entry in root.entries_of("taskGroups"):
        for task, task_entry in iter_tasks(entry.node):
            data_def = task_entry.node.text_of("dataDef") or ""
            for step in whole_chains.get((group, task)) or ():
                if step.class_name == DATA_APPENDER and "plugins" in step.options:
                    for output in _read_plugins(step.options["plugins"], step.name, step.place, problems):
                        outputs.setdefault((data_def, str(output.path)), replace(output, data_defs=(data_def,)))
    files = Counter(path for _, path in outputs)
    return tuple(
        replace(
            output,
            name=f"{output.name}-{data_def}",
            path=path if files[path] == 1 else _beside(path, data_def),
        )
        for (data_def, path), output in sorted(outputs.items())
    )


def _beside(path: str, data_def: str) -> str:
    name = PurePosixPath(path)
    return f"{name.stem}-{data_def}{name.suffix}"


def _read_plugins(plugins: Any, step: str, place: SourcePosition, problems: Problems) -> Iterator[AppenderDef]:
    for plugin in _plugins_of(plugins, step, place, problems):
        name = _class_of(plugin, _APPENDER_PREFIX, (_FILE_APPENDER, _LIST_APPENDER), step, place, problems)
        if name is None or not _check_keys(plugin, _APPENDER_KEYS, name, step, place, problems):
            continue
        if name == _LIST_APPENDER:
            problems.warn(place, "unused", f"{step}: a ListAppender has no meaning here: rows are kept in any case")
            continue
        file = plugin.get("file")
        path = PurePosixPath(str(file)).name if isinstance(file, str) else ""
        if not path or path in (".", ".."):
            problems.add(place, "missing-key", f"{step}: a FileAppender needs `file`")
            continue
        encoder = _read_encoder(plugin.get("plugins"), step, place, problems)
        if encoder is not None:
            shown = str(plugin.get("name") or PurePosixPath(path).stem)
            delimiter, tags = encoder
            yield AppenderDef(name=shown, type=SCOOPI, path=path, delimiter=delimiter, include_tags=tags, place=place)


def _read_encoder(plugins: Any, step: str, place: SourcePosition, problems: Problems) -> tuple[str, bool] | None:
    """The delimiter of the encoder, `|` without one, and whether it writes tags; None: it has a problem."""
    delimiter, tags = "|", False
    for plugin in _plugins_of(plugins, step, place, problems) if plugins is not None else ():
        name = _class_of(plugin, _ENCODER_PREFIX, (_CSV_ENCODER,), step, place, problems)
        if name is None or not _check_keys(plugin, _ENCODER_KEYS, name, step, place, problems):
            return None
        tags = str(plugin.get("includeTags", "false")).lower() == "true"
        if tags:
            message = f"{step}: `includeTags`: page, index and item are always 1, as pages are not numbered here"
            problems.warn(place, "no-effect", message)
        delimiter = str(plugin.get("delimiter", delimiter))
        if len(delimiter) != 1 or delimiter in "\r\n":
            problems.add(place, "out-of-range", f"{step}: `delimiter` must be one character")
            return None
    return delimiter, tags


def _plugins_of(plugins: Any, step: str, place: SourcePosition, problems: Problems) -> Iterator[Mapping[str, Any]]:
    for part in plugins if isinstance(plugins, list) else [plugins]:
        plugin = part.get("plugin") if isinstance(part, dict) else None
        if isinstance(plugin, dict):
            yield plugin
        else:
            problems.add(place, "wrong-type", f"{step}: an entry of `plugins` must be `plugin: {{class: …}}`")


def _class_of(
    plugin: Mapping[str, Any], prefix: str, names: tuple[str, ...], step: str, place: SourcePosition, problems: Problems
) -> str | None:
    written = str(plugin.get("class", ""))
    name = written.removeprefix(prefix)
    if name in names:
        return name
    problems.add(place, "unknown-step-class", f"{step}: unknown plugin '{written}'{suggest(name, list(names))}")
    return None


def _check_keys(
    plugin: Mapping[str, Any], keys: tuple[str, ...], name: str, step: str, place: SourcePosition, problems: Problems
) -> bool:
    unknown = [key for key in plugin if key not in keys]
    for key in unknown:
        problems.add(place, "unknown-key", f"{step}: unknown key '{key}' in {name}{suggest(key, list(keys))}")
    return not unknown
