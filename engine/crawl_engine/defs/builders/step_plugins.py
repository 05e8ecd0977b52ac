"""Reads the plugins of steps, as Scoopi has them: converters of dates, and appenders that add outputs."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from msgspec.structs import replace

from crawl_engine.defs.builders.chains import Chains
from crawl_engine.defs.builders.steps import DATA_APPENDER
from crawl_engine.defs.language.keys import data_def_of, iter_all_tasks
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import YamlNode
from crawl_engine.errors import suggest
from crawl_engine.late_regex import late_regex
from crawl_engine.model.axis import DateConverter
from crawl_engine.model.output_type import SCOOPI, AppenderDef
from crawl_engine.model.step import ChainStep
from crawl_engine.runtime.java_date import DateInvalid, check_pattern

_JAVA_PREFIX = late_regex(r"org\.codetab\.scoopi\.plugin\.(?:converter|appender|encoder)\.")
_LIST_APPENDER = "ListAppender"
_CONVERTERS: Mapping[str, tuple[str, ...]] = {
    "DateRoller": ("name", "class", "item", "inPattern", "outPattern", "roll"),
    "DateFormater": ("name", "class", "item", "inPattern", "outPattern"),
}
_APPENDERS = dict.fromkeys(("FileAppender", _LIST_APPENDER), ("name", "class", "file", "plugins"))
_ENCODERS: Mapping[str, tuple[str, ...]] = {"CsvEncoder": ("name", "class", "delimiter", "includeTags")}
"""The classes of plugins, with their keys."""
_ROLL = late_regex(r"DAY_OF_MONTH=(ceil|floor|round|\d+)")


def read_converters(step: ChainStep, problems: Problems) -> Iterator[DateConverter]:
    """The converters of a step, in their order."""
    plugins = step.options.get("plugins")
    if not isinstance(plugins, list) or not plugins:
        message = f"the step '{step.name}' needs `plugins`, such as a DateRoller"
        problems.add(step.place, "missing-key", message)
        return
    for name, plugin in _read_plugins(plugins, _CONVERTERS, step, problems):
        missing = [key for key in ("item", "inPattern", "outPattern") if not isinstance(plugin.get(key), str)]
        for key in missing:
            _add(problems, step, "missing-key", f"{name} needs `{key}`")
        if not missing:
            yield from _read_converter(plugin, step, problems)


def _read_converter(plugin: Mapping[str, Any], step: ChainStep, problems: Problems) -> Iterator[DateConverter]:
    in_patterns = tuple(text.strip() for text in plugin["inPattern"].split("|"))
    roll = _ROLL.fullmatch(str(plugin["roll"])) if plugin.get("roll") is not None else None
    try:
        for pattern in (*in_patterns, plugin["outPattern"]):
            check_pattern(pattern)
    except DateInvalid as error:
        _add(problems, step, "bad-format", str(error))
        return
    if roll is None and plugin.get("roll") is not None:
        _add(problems, step, "out-of-range", "`roll` must be DAY_OF_MONTH=ceil, floor, round or a number")
        return
    yield DateConverter(
        column=plugin["item"], in_patterns=in_patterns, out_pattern=plugin["outPattern"], roll=roll and roll[1]
    )


def read_outputs(root: YamlNode, whole_chains: Chains, problems: Problems) -> tuple[AppenderDef, ...]:
    """The outputs that steps add, by their task; those that name one file get one each."""
    outputs: dict[tuple[str, str], AppenderDef] = {}
    for group, task, entry in iter_all_tasks(root):
        data_def = data_def_of(entry)
        for step in whole_chains.get((group, task)) or ():
            if step.class_name == DATA_APPENDER and "plugins" in step.options:
                for output in _read_appenders(step, problems):
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


def _read_appenders(step: ChainStep, problems: Problems) -> Iterator[AppenderDef]:
    for name, plugin in _read_plugins(step.options["plugins"], _APPENDERS, step, problems):
        if name == _LIST_APPENDER:
            message = "a ListAppender has no meaning here: rows are kept in any case"
            problems.warn(step.place, "unused", f"{step.name}: {message}")
            continue
        file = plugin.get("file")
        path = PurePosixPath(file).name if isinstance(file, str) else ""
        if not path or path in (".", ".."):
            _add(problems, step, "missing-key", "a FileAppender needs `file`")
            continue
        shown = str(plugin.get("name") or PurePosixPath(path).stem)
        output = AppenderDef(name=shown, type=SCOOPI, path=path, delimiter="|", place=step.place)
        yield _encode(output, plugin.get("plugins") or [], step, problems)


def _encode(output: AppenderDef, plugins: Any, step: ChainStep, problems: Problems) -> AppenderDef:
    """The output with what its encoder sets."""
    for _, plugin in _read_plugins(plugins, _ENCODERS, step, problems):
        tags = str(plugin.get("includeTags", "false")).lower() == "true"
        if tags:
            message = "`includeTags`: page, index and item are always 1, as pages are not numbered here"
            problems.warn(step.place, "no-effect", f"{step.name}: {message}")
        delimiter = str(plugin.get("delimiter", output.delimiter))
        if len(delimiter) != 1 or delimiter in "\r\n":
            _add(problems, step, "out-of-range", "`delimiter` must be one character")
        output = replace(output, delimiter=delimiter, include_tags=tags)
    return output


def _read_plugins(
    plugins: Any, classes: Mapping[str, tuple[str, ...]], step: ChainStep, problems: Problems
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The plugins that have a known class and only its keys, each with that class."""
    for part in plugins if isinstance(plugins, list) else [plugins]:
        plugin = part.get("plugin") if isinstance(part, dict) else None
        if not isinstance(plugin, dict):
            _add(problems, step, "wrong-type", "an entry of `plugins` must be `plugin: {class: …}`")
            continue
        written = str(plugin.get("class", ""))
        name = _JAVA_PREFIX.sub("", written)
        keys = classes.get(name)
        if keys is None:
            message = f"unknown plugin '{written}'{suggest(name, list(classes))}"
            _add(problems, step, "unknown-step-class", message)
            continue
        unknown = [key for key in plugin if key not in keys]
        for key in unknown:
            _add(problems, step, "unknown-key", f"unknown key '{key}' in {name}{suggest(key, list(keys))}")
        if not unknown:
            yield name, plugin


def _add(problems: Problems, step: ChainStep, code: str, message: str) -> None:
    """The plugins have no places of their own: a problem stands at the step."""
    problems.add(step.place, code, f"{step.name}: {message}")
