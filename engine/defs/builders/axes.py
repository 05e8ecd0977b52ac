"""Reads dataDefs in axis mode: tables of items, dims and facts, and what their steps do to them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.defs.builders.chains import Chains
from engine.defs.builders.steps import DATA_CONVERTER, HTML_UNIT_PARSER, JSOUP_PARSER, LOCATOR_CREATOR
from engine.defs.language.keys import AXES, iter_tasks
from engine.defs.problems import Problems
from engine.defs.yaml.node import Entry, YamlNode
from engine.errors import suggest
from engine.extract.select.selector_syntax import pattern_problem
from engine.model.axis import (
    FACT,
    FROM_DATE_SCRIPT,
    ITEM,
    LEADING_COLUMNS,
    Axis,
    AxisFilter,
    AxisTable,
    DateConverter,
    SelectorFlavour,
)
from engine.model.java_date import DateInvalid, check_pattern
from engine.model.step import ChainStep
from engine.model.stored_form import NO_POSITION, SourcePosition
from engine.model.variables import render, variable_names

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


_AXIS_KEYS = (
    "name", "value", "match", "script", "selector", "index", "indexRange", "breakAfter", "prefix", "filters",
    "linkGroup", "linkBreakOn",
)  # fmt: skip
_TABLE_KEYS = ("query", *AXES, "key", "expect")
_RANGE = re.compile(r"([0-9]{1,5})(?:\s*(-)\s*([0-9]{1,5})?)?")
_FLAVOURS: Mapping[str, SelectorFlavour] = {JSOUP_PARSER: "css", HTML_UNIT_PARSER: "xpath"}


@dataclass(slots=True)
class _Use:
    """What the tasks of a dataDef do to it."""

    flavour: SelectorFlavour | None = None
    makes_links: bool = False
    converters: tuple[DateConverter, ...] = ()
    is_used: bool = True
    converter_place: SourcePosition = field(default=NO_POSITION, compare=False)


def is_table(data_def: YamlNode) -> bool:
    """Whether a dataDef is in axis mode."""
    return any(key in data_def.entries for key in AXES)


def read(
    root: YamlNode, whole_chains: Chains, problems: Problems, default_flavour: SelectorFlavour
) -> dict[str, AxisTable]:
    """The tables by the name of their dataDef. `whole_chains`: every step of each task.

    `default_flavour`: that of the selectors of tasks that name no steps.
    """
    uses = _find_uses(root, whole_chains, problems)
    tables = {}
    for name, entry in root.entries_of("dataDefs"):
        if is_table(entry.node):
            use = uses.get(name, _Use(is_used=False))
            tables[name] = _Reader(entry.node, problems, use, default_flavour).read(entry)
    return tables


def columns(table: AxisTable) -> tuple[str, ...]:
    """The columns of its rows; none where its rows are links."""
    return () if table.makes_links else (*LEADING_COLUMNS, *(dim.name for dim in table.dims), FACT)


def _find_uses(root: YamlNode, whole_chains: Chains, problems: Problems) -> dict[str, _Use]:
    uses: dict[str, _Use] = {}
    tables = {name for name, entry in root.entries_of("dataDefs") if is_table(entry.node)}
    for group, entry in root.entries_of("taskGroups"):
        for task, task_entry in iter_tasks(entry.node):
            name = task_entry.node.text_of("dataDef") or ""
            chain = whole_chains.get((group, task))
            if chain is None:
                continue
            if name not in tables:
                if any(step.class_name == DATA_CONVERTER for step in chain):
                    message = "a DataConverter works on tables; use `convert` on a field"
                    problems.add(task_entry.place, "conflict", message)
                continue
            flavour = next((_FLAVOURS[step.class_name] for step in chain if step.class_name in _FLAVOURS), None)
            converting = [step for step in chain if step.class_name == DATA_CONVERTER]
            converters = tuple(
                converter for step in converting for converter in read_converters(step, step.place, problems)
            )
            makes_links = any(step.class_name == LOCATOR_CREATOR for step in chain)
            place = converting[0].place if converting else task_entry.place
            new = _Use(flavour, makes_links, converters, converter_place=place)
            if uses.setdefault(name, new) != new:
                message = f"the tasks of '{name}' differ in their steps: give each a dataDef of its own"
                problems.add(task_entry.place, "conflict", message)
    return uses


class _Reader:
    def __init__(self, node: YamlNode, problems: Problems, use: _Use, default_flavour: SelectorFlavour) -> None:
        self._node = node
        self._problems = problems
        self._use = use
        self._flavour = (use.flavour or default_flavour) if use.is_used else None
        query = node.get("query")
        self._block = (query.text_of("block") if query is not None else None) or "html"
        self._selector = query.text_of("selector") if query is not None else None

    def read(self, entry: Entry) -> AxisTable:
        """The table; problems are added."""
        for key, part in self._node.entries.items():
            if key not in _TABLE_KEYS:
                message = f"`{key}` has no effect beside items, dims and facts"
                self._problems.add(part.place, "conflict", message)
        query = self._node.get("query")
        for key, part in query.entries.items() if query is not None else ():
            if key not in ("block", "selector"):
                self._problems.add(part.place, "unknown-key", f"unknown key '{key}' in `query`")
        axes = {key: list(self._axes(key)) for key in AXES}
        if not axes["items"]:
            self._problems.add(entry.place, "missing-key", "a table needs `items`: at least one item")
        names = [axis.name for axis in axes["dims"]]
        for name in (*LEADING_COLUMNS, FACT):
            if name in names:
                self._problems.add(entry.place, "bad-name", f"a dim cannot be named `{name}`: that is a column already")
        facts = axes["facts"] or [Axis(name=FACT, selector=self._selector, place=entry.place)]
        everything = [*axes["items"], *axes["dims"], *facts]
        only_links = not self._use.is_used and all(axis.link_group for axis in axes["items"])
        if not axes["facts"] and self._selector is None and not self._use.makes_links and not only_links:
            self._problems.add(entry.place, "missing-key", "a table needs `query.selector`, or `facts`")
        self._check_selectors(everything, entry)
        self._check_converters([ITEM, *names, FACT])
        self._check_ends(everything)
        return AxisTable(
            block=self._block, items=tuple(axes["items"]), dims=tuple(axes["dims"]), facts=tuple(facts),
            makes_links=self._use.makes_links, converters=self._use.converters, flavour=self._use.flavour,
            place=entry.place,
        )  # fmt: skip

    def _axes(self, key: str) -> Iterator[Axis]:
        section = self._node.get(key)
        if section is not None and section.kind != "list":
            self._problems.add(section.place, "wrong-type", f"`{key}` must be a list, not {section.describe()}")
        for part in self._node.list_of(key):
            item = part.get("item") if part.kind == "mapping" else None
            if item is None or item.kind != "mapping":
                message = f"an entry of `{key}` must be `item: {{name: …}}`, not {part.describe()}"
                self._problems.add(part.place, "wrong-type", message)
                continue
            yield self._axis(item)

    def _axis(self, node: YamlNode) -> Axis:
        for key, part in node.entries.items():
            if key not in _AXIS_KEYS:
                message = f"unknown key '{key}' in an item{suggest(key, list(_AXIS_KEYS))}"
                self._problems.add(part.place, "unknown-key", message)
        name = node.text_of("name")
        if not name:
            self._problems.add(node.place, "missing-key", "the key `name` is missing")
        script = node.text_of("script")
        if script is not None and script.replace(" ", "") != FROM_DATE_SCRIPT:
            message = (
                f"JavaScript is not run; of scripts only `{FROM_DATE_SCRIPT}` has a meaning here. "
                "Write a Python step for the task: docs/extending.md"
            )
            self._problems.add(node.key_place("script"), "not-built", message)
        breaks = self._texts(node, "breakAfter")
        first, last = self._range(node, has_break=bool(breaks))
        if breaks and last is not None:
            message = "`breakAfter` needs `index: N`, from which it is open, or `indexRange: N-`"
            self._problems.add(node.key_place("breakAfter"), "conflict", message)
        return Axis(
            name=name or "", value=node.text_of("value"), match=node.text_of("match"), script=script,
            selector=node.text_of("selector"), first=first, last=last, break_after=breaks,
            prefix=self._texts(node, "prefix"), filters=tuple(self._filters(node)),
            link_group=node.text_of("linkGroup"), link_break_on=self._texts(node, "linkBreakOn"), place=node.place,
        )  # fmt: skip

    def _range(self, node: YamlNode, *, has_break: bool) -> tuple[int, int | None]:
        """The first and the last index; None: open."""
        if "indexRange" in node.entries:
            text = node.text_of("indexRange") or ""
            match = _RANGE.fullmatch(text.strip())
            first = int(match.group(1)) if match is not None else 0
            last = None
            if match is not None and match.group(3) is not None:
                last = int(match.group(3))
            elif match is not None and match.group(2) is None:
                last = first
            if match is None or first < 1 or (last is not None and last < first):
                message = f"`indexRange` must be like 2-6, 5- or 3, from 1 on and upwards, not {text!r}"
                self._problems.add(node.key_place("indexRange"), "out-of-range", message)
                return 1, 1
            return first, last
        text = node.text_of("index") or "1"
        if not text.isdecimal() or not 0 < int(text[:6]) <= 99_999:
            self._problems.add(
                node.key_place("index"), "out-of-range", f"`index` must be a number from 1, not {text!r}"
            )
            return 1, 1
        return int(text), None if has_break else int(text)

    def _filters(self, node: YamlNode) -> Iterator[AxisFilter]:
        for part in node.list_of("filters"):
            rule = part.get("filter") if part.kind == "mapping" else None
            type_ = rule.text_of("type") if rule is not None else None
            entry = rule.entries.get("pattern") if rule is not None else None
            if rule is None or type_ not in ("value", "match") or entry is None or entry.node.kind != "scalar":
                message = "an entry of `filters` must be `filter: {type: value|match, pattern: …}`"
                self._problems.add(part.place, "wrong-type", message)
                continue
            if type_ == "match":
                problem = pattern_problem(entry.node.text)
                if problem is not None:
                    self._problems.add(entry.node.place, "bad-pattern", problem)
            yield AxisFilter(type="match" if type_ == "match" else "value", pattern=entry.node.text)

    def _texts(self, node: YamlNode, key: str) -> tuple[str, ...]:
        """The texts of a list, or one text."""
        part = node.get(key)
        if part is None:
            return ()
        items = [part] if part.kind == "scalar" else part.items
        if part.kind == "mapping" or any(item.kind != "scalar" for item in items):
            self._problems.add(part.place, "wrong-type", f"`{key}` must be a list of texts, not {part.describe()}")
            return ()
        return tuple(item.text for item in items)

    def _check_selectors(self, axes: list[Axis], entry: Entry) -> None:
        """Check each selector with its variables replaced, in the flavour of the tasks, if it is known."""
        known = {"index", *(f"{name}.{key}" for name in self._names() for key in ("index", "value", "match"))}
        texts = [("query.block", self._block, entry.place)]
        texts += [(axis.name, axis.selector, axis.place) for axis in axes if axis.selector is not None]
        for name, text, place in texts:
            unknown = [variable for variable in variable_names(text) if variable not in known]
            for variable in unknown:
                message = f"{name}: unknown variable `%{{{variable}}}`{suggest(variable, sorted(known))}"
                self._problems.add(place, "unknown-variable", message)
            if not unknown:
                self._check_selector(name, text, place)
        for axis in axes:
            sources = (axis.value, axis.match, axis.script, axis.selector)
            if axis.name != FACT and all(source is None for source in sources):
                message = f"'{axis.name}' needs one of `value`, `match`, `script`, `selector`"
                self._problems.add(axis.place, "missing-key", message)

    def _check_selector(self, name: str, text: str, place: SourcePosition) -> None:
        if self._flavour is None:
            return
        from engine.extract.tables.axis_finder import check_selector  # with the parsers, which other defs do not need

        plain = render(text, lambda variable: "1" if variable.endswith("index") else "x")
        try:
            check_selector(plain, self._flavour)
        except ValueError as error:
            steps, other = ("jsoupDefault", "XPath") if self._flavour == "css" else ("htmlUnitDefault", "CSS")
            message = f"{name}: {error}; its steps are {steps}, and for {other} the task needs the other `steps`"
            self._problems.add(place, "bad-selector", message)

    def _check_ends(self, axes: list[Axis]) -> None:
        """An open range of a constant ends where nothing else is selected: something must be."""
        for axis in axes:
            if axis.last is None and axis.selector is None and not any(other.selector for other in axes):
                message = f"'{axis.name}' has no end: nothing is selected; write the last index, such as 1-20"
                self._problems.add(axis.place, "out-of-range", message)

    def _check_converters(self, columns: list[str]) -> None:
        for converter in self._use.converters:
            if converter.column not in columns:
                message = f"no axis '{converter.column}' to convert{suggest(converter.column, columns)}"
                self._problems.add(self._use.converter_place, "unknown-item", message)

    def _names(self) -> Iterator[str]:
        yield from (ITEM, FACT)
        for part in self._node.list_of("dims"):
            item = part.get("item") if part.kind == "mapping" else None
            if item is not None:
                yield f"dim.{item.text_of('name')}"
