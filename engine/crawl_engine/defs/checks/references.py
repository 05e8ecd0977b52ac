"""Checks that referenced names exist and every task group is reachable. Skips invalid parts."""

from collections.abc import Iterable, Iterator

from crawl_engine.defs.builders.steps import STEP_SETS
from crawl_engine.defs.language.keys import data_def_of, is_table, iter_all_tasks, iter_locators, iter_tasks
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import Entry, YamlNode
from crawl_engine.errors import find_similar, suggest
from crawl_engine.model.stored_form import SourcePosition


def check(root: YamlNode, problems: Problems, default_steps: str) -> None:
    """Checks all references between parts of the defs. `default_steps`: the setting."""
    groups = [name for name, _ in root.entries_of("taskGroups")]
    data_defs = [name for name, _ in root.entries_of("dataDefs")]
    mistyped: set[str | None] = set()
    """Groups that another name was probably written for: that nothing leads to them follows from it."""
    for name, entry in root.entries_of("locatorGroups"):
        if name not in groups:
            cure = suggest(name, groups) or f"; write `taskGroups: {{{name}: {{page: {{dataDef: …}}}}}}`"
            message = f"no task group '{name}' defines what to do with these pages{cure}"
            problems.add(entry.place, "unknown-group", message)
            mistyped.add(find_similar(name, groups))
    for name, group in root.entries_of("taskGroups"):
        if not any(True for _ in iter_tasks(group.node)) and group.node.kind == "mapping":
            message = f"'{name}' has no task; add one, such as `page: {{dataDef: NAME}}`"
            problems.add(group.place, "no-tasks", message)
        for _, task in iter_tasks(group.node):
            _check_reference(task.node.get("dataDef"), data_defs, "unknown-data-def", "dataDef", problems)
    for target in _iter_sitemap_groups(root):
        _check_reference(target, groups, "unknown-group", "task group", problems)
        mistyped |= {find_similar(target.text, groups)} if target.text not in groups else set()
    for _, data_def in root.entries_of("dataDefs"):
        _check_data_def(data_def.node, groups, problems)
        links = [link.text_of("linkGroup") for link in data_def.node.list_of("links")]
        mistyped |= {find_similar(name, groups) for name in links if name and name not in groups}
    for _, appender in root.entries_of("appenders"):
        for reference in appender.node.list_of("dataDefs"):
            _check_reference(reference, data_defs, "unknown-data-def", "dataDef", problems)
    _check_reachable(root, problems, mistyped)
    _check_unused(root, data_defs, default_steps, problems)


def _iter_sitemap_groups(root: YamlNode) -> Iterator[YamlNode]:
    """The groups that entries of sitemaps lead to, as written."""
    for _, locator in iter_locators(root):
        sitemap = locator.get("sitemap")
        for link in sitemap.list_of("links") if sitemap is not None else ():
            name = link.get("linkGroup")
            if name is not None:
                yield name


def _check_data_def(node: YamlNode, groups: list[str], problems: Problems) -> None:
    unique = node.get("unique")
    if unique is not None and unique.text.strip() == "true" and not node.list_of("key"):
        problems.add(unique.place, "missing-key", "`unique` needs a `key`: the fields by which rows are the same")
    if is_table(node):
        for item in node.list_of("items"):
            _check_reference(
                (item.get("item") or item).get("linkGroup"), groups, "unknown-group", "task group", problems
            )
        return
    fields = [name for name, _ in node.entries_of("fields")]
    for rule in node.list_of("filters"):
        _check_reference(rule.get("field"), fields, "unknown-field", "field", problems)
    expect = node.get("expect")
    for name, entry in expect.entries_of("filled") if expect is not None else ():
        _check_is_one_of(name, entry.place, fields, "unknown-field", "field", problems)
    for part in node.list_of("key"):
        _check_reference(part, fields, "unknown-field", "field", problems)
    for link in node.list_of("links"):
        _check_reference(link.get("linkGroup"), groups, "unknown-group", "task group", problems)


def _check_reference(node: YamlNode | None, names: list[str], code: str, noun: str, problems: Problems) -> None:
    if node is not None and node.kind == "scalar" and node.text.strip():
        _check_is_one_of(node.text, node.place, names, code, noun, problems)


def _check_is_one_of(
    name: str, place: SourcePosition, names: list[str], code: str, noun: str, problems: Problems
) -> None:
    if name not in names:
        problems.add(place, code, f"unknown {noun} '{name}'{suggest(name, names)}")


def _check_reachable(root: YamlNode, problems: Problems, mistyped: set[str | None]) -> None:
    """A task group is reachable through its own locators, or through a link from a reachable group.

    Plugin code may follow links into any group: with own steps, nothing is reported.
    """
    groups = dict(root.entries_of("taskGroups"))
    if any(task.node.get("steps") for _, _, task in iter_all_tasks(root)):
        return
    reachable = {name for name, _ in root.entries_of("locatorGroups")}
    reachable |= {name.text for name in _iter_sitemap_groups(root)}
    todo = list(reachable)
    while todo:
        new = set(_linked_groups(todo.pop(), groups, root)) - reachable
        reachable |= new
        todo += new
    for name, entry in groups.items():
        if name not in reachable and name not in mistyped:
            message = f"nothing leads to '{name}': add locators for it, or a link with `linkGroup: {name}`"
            problems.add(entry.place, "unreachable-group", message)


def _linked_groups(name: str, groups: dict[str, Entry], root: YamlNode) -> Iterable[str]:
    data_defs = dict(root.entries_of("dataDefs"))
    for _, task in iter_tasks(groups[name].node) if name in groups else ():
        data_def = data_defs.get(data_def_of(task))
        if data_def is None:
            continue
        for link in data_def.node.list_of("links"):
            yield link.text_of("linkGroup") or name
        for item in data_def.node.list_of("items"):
            yield (item.get("item") or item).text_of("linkGroup") or name


def _check_unused(root: YamlNode, data_defs: list[str], default_steps: str, problems: Problems) -> None:
    if not any(section.node.entries for section in root.entries.values()):
        if problems.has_errors:
            return
        problems.add(root.place, "no-defs", "nothing is defined; add locatorGroups, taskGroups and dataDefs")
        return
    used = {data_def_of(task) for _, _, task in iter_all_tasks(root)}
    for name in data_defs:
        if name not in used:
            place = root.entries["dataDefs"].node.key_place(name)
            problems.warn(place, "unused", f"no task uses the dataDef '{name}'")
    named = {default_steps, *STEP_SETS}
    for node in [task.node.get("steps") for _, _, task in iter_all_tasks(root)]:
        named |= set() if node is None else {node.text} if node.kind == "scalar" else node.entries.keys()
    for _, entry in root.entries_of("steps"):
        named |= entry.node.entries.keys()  # the set that it changes, or its own steps
    for name, entry in root.entries_of("steps"):
        if name not in named and not problems.has_errors:
            problems.warn(entry.place, "unused", f"no task uses the steps '{name}'")
    if not any(True for _ in root.entries_of("locatorGroups")):
        problems.warn(root.place, "no-start", "there are no locatorGroups: a run has no start URL")
