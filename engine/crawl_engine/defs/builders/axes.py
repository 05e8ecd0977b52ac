"""Reads dataDefs in axis mode: tables of items, dims and facts, and what their steps do to them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import get_args

from crawl_engine.defs.builders.chains import Chains
from crawl_engine.defs.builders.step_plugins import read_converters
from crawl_engine.defs.builders.steps import DATA_CONVERTER, HTML_UNIT_PARSER, JSOUP_PARSER, LOCATOR_CREATOR
from crawl_engine.defs.language.keys import AXES, WrittenAxis, data_def_of, is_table, iter_all_tasks, keys_of
from crawl_engine.defs.language.reader import INVALID, DefPart, Reader
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import Entry, YamlNode
from crawl_engine.errors import suggest
from crawl_engine.extract.select.selector_syntax import pattern_problem
from crawl_engine.model.axis import (
    FACT,
    FROM_DATE_SCRIPT,
    ITEM,
    LEADING_COLUMNS,
    Axis,
    AxisTable,
    DateConverter,
    SelectorFlavour,
)
from crawl_engine.model.declaration import strip_hint
from crawl_engine.model.definition import DataDef
from crawl_engine.model.stored_form import NO_POSITION, SourcePosition
from crawl_engine.model.variables import render, variable_names

_TABLE_KEYS = ("query", *AXES, "key", "unique", "expect")
_FLAVOURS: Mapping[str, SelectorFlavour] = {JSOUP_PARSER: "css", HTML_UNIT_PARSER: "xpath"}


@dataclass(slots=True)
class _Use:
    """What the tasks of a dataDef do to it."""

    flavour: SelectorFlavour | None = None
    makes_links: bool = False
    converters: tuple[DateConverter, ...] = ()
    is_used: bool = True
    converter_place: SourcePosition = field(default=NO_POSITION, compare=False)


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
            tables[name] = _TableReader(name, entry, problems, use, default_flavour).read()
    return tables


def columns(table: AxisTable) -> tuple[str, ...]:
    """The columns of its rows; empty if its rows are links."""
    return () if table.makes_links else (*LEADING_COLUMNS, *(dim.name for dim in table.dims), FACT)


def _find_uses(root: YamlNode, whole_chains: Chains, problems: Problems) -> dict[str, _Use]:
    uses: dict[str, _Use] = {}
    tables = {name for name, entry in root.entries_of("dataDefs") if is_table(entry.node)}
    for group, task, task_entry in iter_all_tasks(root):
        name = data_def_of(task_entry)
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
        converters = tuple(converter for step in converting for converter in read_converters(step, problems))
        makes_links = any(step.class_name == LOCATOR_CREATOR for step in chain)
        place = converting[0].place if converting else task_entry.place
        new = _Use(flavour, makes_links, converters, converter_place=place)
        if uses.setdefault(name, new) != new:
            message = f"the tasks of '{name}' differ in their steps: give each a dataDef of its own"
            problems.add(task_entry.place, "conflict", message)
    return uses


class _TableReader:
    def __init__(
        self, name: str, entry: Entry, problems: Problems, use: _Use, default_flavour: SelectorFlavour
    ) -> None:
        self._name = name
        self._entry = entry
        self._node = entry.node
        self._problems = problems
        self._reader = Reader(problems, {})
        self._use = use
        self._flavour = (use.flavour or default_flavour) if use.is_used else None
        query = self._node.get("query")
        for key in ("from", "match", "as", "query"):
            if query is not None and key in query.entries:
                message = f"`{key}` has no effect beside `items`, whose tables are read from the page; write `fields`"
                self._problems.add(query.key_place(key), "conflict", message)
        self._block = (query.text_of("block") if query is not None else None) or "html"
        self._selector = query.text_of("selector") if query is not None else None

    def read(self) -> AxisTable:
        """The table; problems are added."""
        entry = self._entry
        for key, part in self._node.entries.items():
            if key not in _TABLE_KEYS:
                message = f"`{key}` has no effect beside items, dims and facts"
                self._problems.add(part.place, "conflict", message)
        query = self._node.get("query")
        for key in ("table", "header"):
            if query is not None and key in query.entries:
                message = f"`{key}` of a query has no effect beside items, dims and facts"
                self._problems.add(query.key_place(key), "conflict", message)
        axes = {key: list(self._axes(key)) for key in AXES}
        if not self._node.list_of("items"):
            self._problems.add(entry.place, "missing-key", "a table needs `items`: at least one item")
        names = [axis.name for axis in axes["dims"]]
        for name in (*LEADING_COLUMNS, FACT):
            if name in names:
                self._problems.add(entry.place, "bad-name", f"a dim cannot be named `{name}`: that is a column already")
        facts = axes["facts"] or [Axis(name=FACT, selector=self._selector, place=entry.place)]
        everything = [*axes["items"], *axes["dims"], *facts]
        only_links = not self._use.is_used and all(axis.link_group for axis in axes["items"])
        if not self._node.list_of("facts") and self._selector is None and not self._use.makes_links and not only_links:
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
        entry = self._node.entries.get(key)
        if entry is None:
            return
        hint = keys_of(DataDef)[key].hint
        for part in self._reader.list_items(hint, DefPart(("dataDefs", self._name, key), entry.node, entry.place)):
            written = self._reader.read(strip_hint(get_args(hint.base)[0]), part)
            if written is not INVALID:
                self._check_axis(written, part.node)
                yield written.to_axis()

    def _check_axis(self, axis: WrittenAxis, node: YamlNode) -> None:
        if axis.script is not None and axis.script.replace(" ", "") != FROM_DATE_SCRIPT:
            message = (
                f"JavaScript is not run; of scripts only `{FROM_DATE_SCRIPT}` has a meaning here. "
                "Write a Python step for the task: docs/extending.md"
            )
            self._problems.add(node.key_place("script"), "not-built", message)
        if axis.break_after and axis.indexes.last is not None:
            message = "`breakAfter` needs `index: N`, from which it is open, or `indexRange: N-`"
            self._problems.add(node.key_place("breakAfter"), "conflict", message)
        for rule, written in zip(axis.filters, node.list_of("filters"), strict=False):
            problem = pattern_problem(rule.pattern) if rule.type == "match" else None
            pattern = written.entries["filter"].node.entries["pattern"]
            if problem is not None:
                self._problems.add(pattern.node.place, "bad-pattern", problem)

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
        from crawl_engine.extract.tables.axis_finder import (
            check_selector,  # with the parsers, which other defs do not need
        )

        plain = render(text, lambda variable: "1" if variable.endswith("index") else "x")
        try:
            check_selector(plain, self._flavour)
        except ValueError as error:
            steps, other = ("jsoupDefault", "XPath") if self._flavour == "css" else ("htmlUnitDefault", "CSS")
            message = f"{name}: {error}; its steps are {steps}, and for {other} the task needs the other `steps`"
            self._problems.add(place, "bad-selector", message)

    def _check_ends(self, axes: list[Axis]) -> None:
        """Check that the table selects something: open ranges of constants end with it."""
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
