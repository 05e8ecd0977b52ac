"""Reads the plugins of a `DataConverter` step, which rewrite the dates of a table's column."""

from collections.abc import Iterator, Mapping
from typing import Any

from engine.defs.problems import Problems
from engine.errors import suggest
from engine.model.axis import DateConverter
from engine.model.java_date import DateInvalid, check_pattern
from engine.model.step import ChainStep
from engine.model.stored_form import SourcePosition

_JAVA_PREFIX = "org.codetab.scoopi.plugin.converter."
_KEYS: Mapping[str, tuple[str, ...]] = {
    "DateRoller": ("name", "class", "item", "inPattern", "outPattern", "roll"),
    "DateFormater": ("name", "class", "item", "inPattern", "outPattern"),
}
_ROLLS = ("ceil", "floor", "round")


def read_converters(step: ChainStep, place: SourcePosition, problems: Problems) -> Iterator[DateConverter]:
    """The converters of a step, in their order. `place`: of its task."""
    plugins = step.options.get("plugins")
    if not isinstance(plugins, list) or not plugins:
        problems.add(place, "missing-key", f"the step '{step.name}' needs `plugins`, such as a DateRoller")
        return
    for part in plugins:
        plugin = part.get("plugin") if isinstance(part, dict) else None
        if not isinstance(plugin, dict):
            problems.add(place, "wrong-type", f"{step.name}: an entry of `plugins` must be `plugin: {{class: …}}`")
            continue
        converter = _read(step.name, plugin, place, problems)
        if converter is not None:
            yield converter


def _read(step: str, plugin: Mapping[str, Any], place: SourcePosition, problems: Problems) -> DateConverter | None:
    written = str(plugin.get("class", ""))
    name = written.removeprefix(_JAVA_PREFIX)
    if name not in _KEYS:
        message = f"{step}: unknown converter '{written}'{suggest(name, sorted(_KEYS))}"
        problems.add(place, "unknown-step-class", message)
        return None
    usable = True
    for key in plugin:
        if key not in _KEYS[name]:
            problems.add(
                place, "unknown-key", f"{step}: unknown key '{key}' in {name}{suggest(key, list(_KEYS[name]))}"
            )
            usable = False
    for key in ("item", "inPattern", "outPattern"):
        if not isinstance(plugin.get(key), str):
            problems.add(place, "missing-key", f"{step}: {name} needs `{key}`")
            usable = False
    if not usable:
        return None
    in_patterns = tuple(text.strip() for text in plugin["inPattern"].split("|"))
    for pattern in (*in_patterns, plugin["outPattern"]):
        try:
            check_pattern(pattern)
        except DateInvalid as error:
            problems.add(place, "bad-format", f"{step}: {error}")
            return None
    roll = plugin.get("roll")
    day = str(roll).removeprefix("DAY_OF_MONTH=") if roll is not None else None
    if day is not None and (not str(roll).startswith("DAY_OF_MONTH=") or not (day in _ROLLS or day.isdecimal())):
        problems.add(place, "out-of-range", f"{step}: `roll` must be DAY_OF_MONTH=ceil, floor, round or a number")
        return None
    return DateConverter(column=plugin["item"], in_patterns=in_patterns, out_pattern=plugin["outPattern"], roll=day)
