"""Converts definitions with tables to definitions with records, as far as the values stay the same."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct, field

from engine.defs import references
from engine.defs.conversion.links import convert_links, find_origin
from engine.defs.conversion.notes import ConversionNote, NotConvertible
from engine.defs.conversion.obstacles import Obstacle, find_obstacles
from engine.defs.conversion.records import Records, convert_rows
from engine.defs.conversion.yaml_parts import Part, tree, without
from engine.defs.problems import Problems
from engine.defs.references import iter_tasks
from engine.defs.steps import DEFAULT_TABLE_STEPS, RECORD_DEFAULT
from engine.defs.yaml_node import Entry, YamlNode
from engine.defs.yaml_writer import write
from engine.model.axis import AxisTable
from engine.model.definition import AppenderDef, DataDef, Definitions
from engine.model.stored_form import SourcePosition

_SECTIONS = ("baseUrl", "locatorGroups", "taskGroups", "dataDefs", "steps", "hosts", "appenders")
_KEPT_KEYS = ("key", "expect")
_HEAD = "Converted from definitions of Scoopi. What is not converted, and in what a record differs, is said above it."
_SEEDED = "nothing leads to this group; with `steps` written out it is accepted, for `seed` to fill"
_WORDS: Mapping[str, str] = {"kept": "not converted", "differs": "differs"}


class Conversion(Struct, frozen=True, kw_only=True):
    """Converted definitions, and what is to be said of them."""

    root: YamlNode
    converted: tuple[str, ...]
    kept: tuple[str, ...]
    """The dataDefs that are still tables."""
    notes: tuple[ConversionNote, ...]

    def text(self, file: str | None = None) -> str:
        """The YAML text; of what was written in one file, or of all of it."""
        comments = defaultdict(list)
        for note in self.notes:
            section = "taskGroups" if note.text == _SEEDED else "dataDefs"
            comments[section, note.name].append(f"{_WORDS[note.kind]}: {note.text}")
        root = self.root if file is None else _part_of(self.root, file)
        return write(root, _SECTIONS, [_HEAD], comments)


class _Attempt(Struct):
    """A table as records, or why it is none."""

    place: SourcePosition
    records: Records | None = None
    obstacles: list[Obstacle] = field(default_factory=list)


class _Converter(Struct):
    """Converts the dataDefs of one set of definitions."""

    root: YamlNode
    definitions: Definitions
    data_defs: dict[str, YamlNode] = field(default_factory=dict)
    """The converted ones."""
    kept: list[str] = field(default_factory=list)
    notes: list[ConversionNote] = field(default_factory=list)

    def convert_all(self) -> None:
        """Convert the tables."""
        attempts = {
            name: self._attempt(name, entry.place, data_def, data_def.axis)
            for name, entry in self.root.entries_of("dataDefs")
            if (data_def := self.definitions.data_def(name)) is not None and data_def.axis is not None
        }
        self._keep_neighbours(attempts)
        for name, attempt in attempts.items():
            data_def = self.definitions.data_def(name)
            entry = self.root.entries["dataDefs"].node.entries[name]
            assert data_def is not None
            for place, text in dict.fromkeys(attempt.obstacles):
                self.notes.append(ConversionNote(place=place, kind="kept", name=name, text=text))
            if attempt.records is None:
                self.kept.append(name)
                continue
            parts = dict(attempt.records.parts)
            for text in (*attempt.records.differences, *self._add_keys(data_def, entry.node, parts)):
                self.notes.append(ConversionNote(place=entry.place, kind="differs", name=name, text=text))
            self.data_defs[name] = tree(parts)

    def _attempt(self, name: str, place: SourcePosition, data_def: DataDef, table: AxisTable) -> _Attempt:
        obstacles = [*self._step_obstacles(name, place), *find_obstacles(table)]
        if not obstacles:
            try:
                return _Attempt(place, records=self._records(data_def, table))
            except NotConvertible as error:
                obstacles = [Obstacle(place, str(error))]
        return _Attempt(place, obstacles=obstacles)

    def _keep_neighbours(self, attempts: Mapping[str, _Attempt]) -> None:
        """Keep tables of links into a group that a kept one leads to: a page that both link to would be read twice."""
        groups = {
            name: {link.group for link in data_def.links}
            for name in attempts
            if (data_def := self.definitions.data_def(name)) is not None
        }
        todo = [name for name, attempt in attempts.items() if attempt.records is None]
        while todo:
            kept = todo.pop()
            for name, attempt in attempts.items():
                if attempt.records is not None and groups[name] & groups[kept]:
                    attempt.records = None
                    text = f"'{kept}' is kept, and leads into the same group: a page of both would be read twice"
                    attempt.obstacles.append(Obstacle(attempt.place, text))
                    todo.append(name)

    def _records(self, data_def: DataDef, table: AxisTable) -> Records:
        if table.makes_links:
            return convert_links(table, find_origin(data_def.name, self.definitions))
        return convert_rows(table)

    def _step_obstacles(self, name: str, place: SourcePosition) -> Iterable[Obstacle]:
        """Steps of users' code get the rows of the table, one for each item."""
        for group in self.definitions.task_groups:
            for task in group.tasks:
                if task.data_def == name and task.chain:
                    yield Obstacle(place, f"steps of your own in '{group.name}/{task.name}' read its rows")

    def _add_keys(self, data_def: DataDef, node: YamlNode, parts: dict[str, Part]) -> Iterable[str]:
        """Add `key` and `expect` where they mean the same; says which do not."""
        fields = parts.get("fields")
        names = set(fields) if isinstance(fields, Mapping) else set()
        table = data_def.axis
        for key in _KEPT_KEYS:
            part = node.get(key)
            if part is None:
                continue
            used = {item.text for item in part.items} | {name for name, _ in part.entries_of("filled")}
            if used <= names and table is not None and (key == "key" or len(table.items) == 1):
                parts[key] = part
            else:
                yield f"`{key}` is left out: it counts or names what the records do not have"


def convert(root: YamlNode, definitions: Definitions, default_steps: str = DEFAULT_TABLE_STEPS) -> Conversion:
    """The converted definitions. `definitions`: with their settings, see `complete_tables`; `root`: as written.

    `default_steps`: the setting. Where it is not the default, kept tables name their steps.
    """
    converter = _Converter(root, definitions)
    converter.convert_all()
    new_root = _replaced(root, converter.data_defs, definitions)
    if default_steps != DEFAULT_TABLE_STEPS:
        new_root = _with_steps_of(new_root, converter.kept, default_steps)
    for place, group in _unreachable(new_root):
        converter.notes.append(ConversionNote(place=place, kind="differs", name=group, text=_SEEDED))
        new_root = _with_steps(new_root, group)
    return Conversion(
        root=new_root,
        converted=tuple(converter.data_defs),
        kept=tuple(converter.kept),
        notes=tuple(converter.notes),
    )


def _unreachable(root: YamlNode) -> list[tuple[SourcePosition, str]]:
    """The groups that nothing leads to. Tables may have them, since steps may lead anywhere."""
    problems = Problems()
    references.check(root, problems)
    places = [(p.file, p.line, p.column) for p in problems.in_file_order(()) if p.code == "unreachable-group"]
    groups = [(entry.place, name) for name, entry in root.entries_of("taskGroups")]
    return [(place, name) for place, name in groups if (place.file, place.line, place.column) in places]


def _with_steps_of(root: YamlNode, data_defs: Collection[str], steps: str) -> YamlNode:
    """The tree with a step set named in the tasks of these dataDefs that name none."""
    sections = dict(root.entries)
    groups = {}
    for name, group in root.entries_of("taskGroups"):
        tasks = dict(group.node.entries)
        for task, entry in iter_tasks(group.node):
            if entry.node.text_of("dataDef") in data_defs and "steps" not in entry.node.entries:
                tasks[task] = _with_entries(entry, {**entry.node.entries, "steps": Entry(entry.place, tree(steps))})
        groups[name] = _with_entries(group, tasks)
    sections["taskGroups"] = _with_entries(sections["taskGroups"], groups)
    return YamlNode("mapping", root.place, entries=sections)


def _with_steps(root: YamlNode, group: str) -> YamlNode:
    """The tree with the default steps written out in the tasks of a group."""
    sections = dict(root.entries)
    groups = dict(root.entries_of("taskGroups"))
    tasks = dict(groups[group].node.entries)
    for task, entry in iter_tasks(groups[group].node):
        named = {**entry.node.entries, "steps": Entry(entry.place, tree(RECORD_DEFAULT))}
        tasks[task] = _with_entries(entry, named)
    groups[group] = _with_entries(groups[group], tasks)
    sections["taskGroups"] = _with_entries(sections["taskGroups"], groups)
    return YamlNode("mapping", root.place, entries=sections)


def _replaced(root: YamlNode, data_defs: Mapping[str, YamlNode], definitions: Definitions) -> YamlNode:
    """The tree with the converted dataDefs, and without the steps that nothing needs now."""
    sections = dict(root.entries)
    sections["dataDefs"] = _with_entries(
        sections["dataDefs"],
        {name: Entry(e.place, data_defs.get(name, e.node)) for name, e in root.entries_of("dataDefs")},
    )
    groups: dict[str, Entry] = {}
    for name, entry in root.entries_of("taskGroups"):
        tasks = dict(entry.node.entries)
        for task, task_entry in iter_tasks(entry.node):
            if task_entry.node.text_of("dataDef") in data_defs:
                tasks[task] = Entry(task_entry.place, without(task_entry.node, "steps"))
        groups[name] = _with_entries(entry, tasks)
    if groups:
        sections["taskGroups"] = _with_entries(sections["taskGroups"], groups)
    used = _used_sets(root, groups)
    sets = {name: entry for name, entry in root.entries_of("steps") if name in used}
    if sets:
        sections["steps"] = _with_entries(sections["steps"], sets)
    else:
        sections.pop("steps", None)
    outputs = [each for each in definitions.appenders if set(each.data_defs) & set(data_defs)]
    written = dict(root.entries_of("appenders"))
    added = {each.name: Entry(each.place, _appender(each)) for each in outputs if each.name not in written}
    if added:
        place = next(iter(added.values())).place
        first = written or {"rows": Entry(place, tree({"type": "csv"}))}  # the default, which others replace
        sections["appenders"] = Entry(place, YamlNode("mapping", place, entries={**first, **added}))
    return YamlNode("mapping", root.place, entries=sections)


def _appender(output: AppenderDef) -> YamlNode:
    """An output that a step adds, as an appender of its own."""
    parts: dict[str, Part] = {"type": output.type, "dataDefs": list(output.data_defs), "delimiter": output.delimiter}
    return tree({**parts, "path": output.path or ""})


def _used_sets(root: YamlNode, groups: Mapping[str, Entry]) -> set[str]:
    """The step sets that tasks name, and those that these are made of."""
    sets = dict(root.entries_of("steps"))
    todo: list[str] = []
    for entry in groups.values():
        for _, task in iter_tasks(entry.node):
            steps = task.node.get("steps")
            todo += [] if steps is None else [steps.text, *steps.entries]
    used: set[str] = set()
    while todo:
        name = todo.pop()
        if name in sets and name not in used:
            used.add(name)
            todo += sets[name].node.entries
    return used


def _with_entries(entry: Entry, entries: Mapping[str, Entry]) -> Entry:
    return Entry(entry.place, YamlNode("mapping", entry.node.place, entries=dict(entries)))


def _part_of(root: YamlNode, file: str) -> YamlNode:
    """What was written in one file."""
    sections: dict[str, Entry] = {}
    for key, entry in root.entries.items():
        if entry.node.kind != "mapping":
            if entry.place.file == file:
                sections[key] = entry
            continue
        entries = {name: part for name, part in entry.node.entries.items() if part.place.file == file}
        if entries:
            sections[key] = _with_entries(entry, entries)
    return YamlNode("mapping", root.place, entries=sections)
