"""Names the right form of parts in the form of other crawlers, and puts them in it for other checks.

So one mistake has one problem: what else is wrong is found in the part as it was meant.
"""

from typing import Literal

from msgspec import Struct

from crawl_engine.defs.language.keys import keys_of
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import Entry, YamlNode
from crawl_engine.errors import find_similar
from crawl_engine.model.definition import DataDef, Field, TaskGroup
from crawl_engine.model.link import RequestTemplate
from crawl_engine.model.locator import Locator

_SECTIONS = {
    "locatorGroups": "{NAME: {locators: [{url: …}]}}",
    "taskGroups": "{NAME: {page: {dataDef: …}}}",
    "dataDefs": "{NAME: {fields: {title: {selector: h1}}}}",
    "hosts": "{shop.example: {delay: 1}}",
    "appenders": "{rows: {type: csv}}",
    "steps": "{NAME: {jsoupDefault: {STEP: {class: …}}}}",
}
"""By section, what is written under it."""
_FIELD_KEYS = frozenset(keys_of(Field))
_EMPTY_FORMS = {"locatorGroups": "{locators: [{url: …}]}", "taskGroups": "{page: {dataDef: …}}"}
"""What to write for a group that has nothing."""
_REQUEST_KEYS = frozenset(keys_of(RequestTemplate))


def mend(root: YamlNode, problems: Problems) -> bool:
    """Mend the sections of a file. Returns whether one cannot be read, so that its names are unknown."""
    if root.kind != "mapping":
        return False
    shapes = _Shapes(problems)
    unreadable = False
    for section, form in _SECTIONS.items():
        shapes.is_quiet = False
        node = root.get(section)
        if node is None:
            continue
        if node.kind != "mapping":
            shapes.say(node, f"`{section}` must be a mapping of names, not {_kind(node)}; write `{section}: {form}`")
        unreadable |= not shapes.mend_section(section, node)
    return unreadable


class _Shapes(Struct):
    problems: Problems
    is_quiet: bool = False
    """Whether the part has a problem that shows the right form of all of it."""

    def say(self, node: YamlNode, message: str, code: str = "wrong-type") -> None:
        if not self.is_quiet:
            self.problems.add(node.place, code, message)

    def mend_section(self, section: str, node: YamlNode) -> bool:
        is_quiet = node.kind != "mapping"
        if is_quiet and not _name_items(node, default="rows" if section == "appenders" else None):
            _become(node, "mapping")
            return False
        for name, entry in node.entries.items():
            self.is_quiet = is_quiet
            if entry.node.is_null and section in _EMPTY_FORMS:
                form = _EMPTY_FORMS[section]
                self.problems.add(entry.place, "wrong-type", f"`{name}` is empty; write `{name}: {form}`")
                self.problems.close(entry.place)
            match section:
                case "locatorGroups":
                    self._mend_locators(name, entry.node)
                case "taskGroups":
                    self._mend_tasks(name, entry.node)
                case "dataDefs":
                    self._mend_data_def(name, entry.node)
        return True

    def _mend_locators(self, name: str, group: YamlNode) -> None:
        form = f"`{name}: {{locators: [{{url: …}}]}}`"
        if group.kind != "mapping" and not group.is_null:
            self.say(group, f"`{name}` must be a mapping, not {_kind(group)}; write {form}")
            _wrap(group, "locators")
            self.is_quiet = True
        own = [key for key in group.entries if key in keys_of(Locator)]
        if own and "locators" not in group.entries:
            self.say(_place_of(group, own[0]), f"`{own[0]}` is a key of a locator; write {form}", "unknown-key")
            locator = YamlNode("mapping", group.place, entries={key: group.entries.pop(key) for key in own})
            group.entries["locators"] = Entry(group.place, YamlNode("list", group.place, items=[locator]))
        for key in own if "locators" in group.entries else ():
            if key in group.entries:
                message = f"`{key}` is a key of a locator; write it in each of `locators`"
                self.say(_place_of(group, key), message, "unknown-key")
                del group.entries[key]
        self._mend_items(group, "locators", "url", "url: …")

    def _mend_tasks(self, name: str, group: YamlNode) -> None:
        if group.kind == "scalar" and not group.is_null:
            self.say(group, f"`{name}` must be a mapping, not {_kind(group)}; write {_task_form(name, group.text)}")
            self.problems.close(group.place)
            _wrap(group, "dataDef")
            self.is_quiet = True
        elif group.kind == "list":
            first = next((text for item in group.items if (text := item.text_of("dataDef") or item.text)), "…")
            self.say(group, f"`{name}` must be a mapping, not a list; write {_task_form(name, first)}")
            tasks = {f"page{number}": item for number, item in enumerate(group.items, 1)}
            _become(group, "mapping", {task: Entry(item.place, item) for task, item in tasks.items()})
            self.is_quiet = True
        if "dataDef" in group.entries and group.entries["dataDef"].node.kind == "scalar":
            text = group.entries["dataDef"].node.text
            self.say(
                _place_of(group, "dataDef"), f"a task needs a name: write `page: {{dataDef: {text}}}`", "unnamed-task"
            )
            keys = [key for key in ("dataDef", "steps", "persist") if key in group.entries]
            task = YamlNode("mapping", group.place, entries={key: group.entries.pop(key) for key in keys})
            group.entries["page"] = Entry(group.place, task)
        reserved = list(keys_of(TaskGroup))
        for key, entry in group.entries.items():
            node = entry.node
            is_name = node.kind == "scalar" and isinstance(node.value(), str) and node.text.strip()
            if is_name and key not in reserved and find_similar(key, reserved) is None:
                self.say(node, f"the task `{key}` must be a mapping; write `{key}: {{dataDef: {node.text}}}`")
                self.problems.close(node.place)
                _wrap(node, "dataDef")

    def _mend_data_def(self, name: str, node: YamlNode) -> None:
        if node.kind != "mapping":
            return
        fields, query = node.get("fields"), node.get("query")
        if fields is not None and fields.kind == "list":
            first = next(iter(fields.items), fields)
            form = f"`fields: {{{_field_name(first) or 'title'}: {{selector: …}}}}`"
            self.say(fields, f"`fields` must be a mapping of names, not a list; write {form}")
            self._mend_field_list(fields)
        if query is not None and query.kind == "scalar":
            self.say(
                query, f"`query` must be a mapping, not {query.describe()}; write `query: {{block: {query.text}}}`"
            )
            _wrap(query, "block")
        block = node.entries.get("block")
        if block is not None and query is None and block.node.kind == "scalar":
            message = f"`block` is a key of `query`; write `query: {{block: {block.node.text}}}`"
            self.say(_place_of(node, "block"), message, "unknown-key")
            del node.entries["block"]
            node.entries["query"] = Entry(block.place, YamlNode("mapping", block.place, entries={"block": block}))
        self._mend_loose_fields(name, node)
        self._mend_next(node)
        self._mend_items(node, "links", "selector", "selector: {}")
        filters = node.get("filters")
        if filters is not None and filters.kind == "mapping":
            self.say(filters, "`filters` must be a list, not a mapping; write `filters: [{field: …, pattern: …}]`")
            pairs = filters.entries.items()
            items = (
                [_filter(key, entry) for key, entry in pairs] if "field" not in filters.entries else [_copy(filters)]
            )
            _become(filters, "list", items=items)

    def _mend_field_list(self, fields: YamlNode) -> None:
        """Name the items of a list of fields; one without a name is called by its number."""
        entries: dict[str, Entry] = {}
        for number, item in enumerate(fields.items, 1):
            name, field = _field_name(item), item
            if name and "name" not in item.entries:
                field = item.entries[name].node
            item.entries.pop("name", None)
            if field.kind == "scalar":
                self.problems.close(field.place)
                _wrap(field, "selector")
            entries.setdefault(name or f"field{number}", Entry(item.place, field))
        _become(fields, "mapping", entries)

    def _mend_loose_fields(self, name: str, node: YamlNode) -> None:
        """Move fields that stand in a dataDef without `fields` into it."""
        keys = list(keys_of(DataDef))
        loose = [
            key for key, entry in node.entries.items()
            if key not in keys and entry.node.kind == "mapping" and _FIELD_KEYS & entry.node.entries.keys()
        ]  # fmt: skip
        if loose and "fields" not in node.entries:
            message = f"`{loose[0]}` is a field; write `{name}: {{fields: {{{loose[0]}: …}}}}`"
            self.say(_place_of(node, loose[0]), message, "unknown-key")
            moved = {key: node.entries.pop(key) for key in loose}
            node.entries["fields"] = Entry(node.place, YamlNode("mapping", node.place, entries=moved))

    def _mend_next(self, node: YamlNode) -> None:
        """A selector under `next` is a link."""
        following = node.get("next")
        if following is None or _REQUEST_KEYS & following.entries.keys():
            return
        selector = following if following.kind == "scalar" else following.get("selector")
        if selector is None or selector.kind != "scalar":
            return
        message = "`next` must be a mapping with the request for the next page; a link to it is"
        self.say(following, f"{message} `links: [{{selector: {selector.text}}}]`")
        del node.entries["next"]
        if "links" not in node.entries:
            link = YamlNode("mapping", selector.place, entries={"selector": Entry(selector.place, selector)})
            node.entries["links"] = Entry(selector.place, YamlNode("list", selector.place, items=[link]))

    def _mend_items(self, node: YamlNode, key: str, text_key: str, form: str) -> None:
        """A list of mappings, which may be written as its only item, or with texts in place of mappings."""
        part = node.get(key)
        if part is None:
            return
        items = part.items if part.kind == "list" else [_copy(part)]
        text = next((item.text or item.text_of(text_key) for item in items if item.kind != "list"), "") or "…"
        shown = f"`{key}: [{{{form.format(text)}}}]`"
        if part.kind != "list":
            self.say(part, f"`{key}` must be a list, not {_kind(part)}; write {shown}")
            _become(part, "list", items=items)
        elif texts := [item for item in items if item.kind == "scalar" and not item.is_null]:
            self.say(texts[0], f"each of `{key}` must be a mapping, not {_kind(texts[0])}; write {shown}")
        for item in items:
            if item.kind == "scalar" and not item.is_null:
                self.problems.close(item.place)
                _wrap(item, text_key)


def _task_form(name: str, data_def: str) -> str:
    return f"`{name}: {{page: {{dataDef: {data_def}}}}}`"


def _kind(node: YamlNode) -> str:
    """The kind of a node, without its text: that may be a secret."""
    return "a text" if node.kind == "scalar" else f"a {node.kind}"


def _place_of(node: YamlNode, key: str) -> YamlNode:
    """A node at the place of a key."""
    return YamlNode("scalar", node.key_place(key))


def _copy(node: YamlNode) -> YamlNode:
    return YamlNode(
        node.kind, node.place, text=node.text, plain=node.plain, entries=dict(node.entries), items=[*node.items]
    )


def _become(
    node: YamlNode, kind: Literal["mapping", "list"], entries: dict[str, Entry] | None = None,
    items: list[YamlNode] | None = None,
) -> None:  # fmt: skip
    """Change a node in place: aliases of it have the same form."""
    node.kind, node.text, node.plain, node.entries, node.items = kind, "", False, entries or {}, items or []


def _wrap(node: YamlNode, key: str) -> None:
    """Put a node under a key of a mapping, which takes its place."""
    _become(node, "mapping", {key: Entry(node.place, _copy(node))})


def _name_items(node: YamlNode, default: str | None) -> bool:
    """Make a mapping of a list whose items are `{name: …, …}` or `{NAME: {…}}`. Returns whether each has a name."""
    entries: dict[str, Entry] = {}
    for item in node.items:
        name = item.text_of("name") or default
        if name is not None:
            item.entries.pop("name", None)
            entries.setdefault(name, Entry(item.place, item))
        elif len(item.entries) == 1:
            entries |= item.entries
        else:
            return False
    _become(node, "mapping", entries)
    return bool(entries)


def _field_name(item: YamlNode) -> str:
    """The name of a field in a list: `{name: title, …}` or `{title: …}`; empty without one."""
    if name := item.text_of("name"):
        return name
    [key, *others] = item.entries or [""]
    return "" if others or key in _FIELD_KEYS else key


def _filter(name: str, entry: Entry) -> YamlNode:
    field = Entry(entry.place, YamlNode("scalar", entry.place, text=name))
    return YamlNode("mapping", entry.place, entries={"field": field, "pattern": entry})
