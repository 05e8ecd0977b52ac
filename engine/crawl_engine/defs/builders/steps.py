"""The built-in step sets and classes, and the reading of one step of the defs."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from crawl_engine.defs.language.keys import WrittenStep, keys_of
from crawl_engine.defs.language.reader import DefPart, Reader
from crawl_engine.defs.problems import Problems
from crawl_engine.defs.yaml.node import Entry, YamlNode
from crawl_engine.defs.yaml.redaction import shown_key
from crawl_engine.errors import suggest
from crawl_engine.model.axis import SelectorFlavour
from crawl_engine.model.declaration import TypeHint
from crawl_engine.model.step import ChainStep, StepKind, is_plugin_path
from crawl_engine.plugins.catalog import Catalog

RECORD_DEFAULT = "recordDefault"
_DEFAULT_STEPS = ("seeder", "loader", "parser", "filter", "appender")
STEP_SETS: Mapping[str, tuple[str, ...]] = {
    RECORD_DEFAULT: _DEFAULT_STEPS,
    "jsoupDefault": _DEFAULT_STEPS,
    "htmlUnitDefault": _DEFAULT_STEPS,
}
"""The built-in step sets: name → steps in order."""
DEFAULT_TABLE_STEPS = "jsoupDefault"
"""The default of the setting `default_steps`."""

LOCATOR_SEEDER, PAGE_LOADER, DATA_FILTER, DATA_APPENDER = "LocatorSeeder", "PageLoader", "DataFilter", "DataAppender"
DATA_CONVERTER, LOCATOR_CREATOR, COMMAND = "DataConverter", "LocatorCreator", "command"
JSOUP_PARSER, HTML_UNIT_PARSER = "JsoupParser", "HtmlUnitParser"
PARSERS = {"jsoupDefault": JSOUP_PARSER, "htmlUnitDefault": HTML_UNIT_PARSER, RECORD_DEFAULT: "RecordParser"}
_JAVA_PREFIX = "org.codetab.scoopi.step."
_CLASS_ALIASES = {
    _JAVA_PREFIX + "extract.LocatorSeeder": LOCATOR_SEEDER,
    _JAVA_PREFIX + "extract.PageLoader": PAGE_LOADER,
    _JAVA_PREFIX + "extract.DomLoader": PAGE_LOADER,
    "DomLoader": PAGE_LOADER,
    _JAVA_PREFIX + "parse.jsoup.Parser": "JsoupParser",
    _JAVA_PREFIX + "parse.htmlunit.Parser": "HtmlUnitParser",
    _JAVA_PREFIX + "process.DataFilter": DATA_FILTER,
    _JAVA_PREFIX + "process.DataConverter": DATA_CONVERTER,
    _JAVA_PREFIX + "process.LocatorCreator": LOCATOR_CREATOR,
    _JAVA_PREFIX + "load.DataAppender": DATA_APPENDER,
}
STEP_CLASSES = frozenset({*_CLASS_ALIASES.values(), "RecordParser"})
"""The short names of all built-in step classes."""
RANKS: Mapping[str, int] = {
    LOCATOR_SEEDER: 0, PAGE_LOADER: 1, **dict.fromkeys(PARSERS.values(), 2), DATA_FILTER: 3, DATA_CONVERTER: 3,
    LOCATOR_CREATOR: 3, DATA_APPENDER: 4,
}  # fmt: skip
"""The order in which built-in classes stand in a chain."""
KIND_RANKS: Mapping[StepKind, int] = {"loader": 1, "parser": 2, "step": 3, "command": 3}
"""The same for plugin code."""
SUMMARIES: Mapping[str, str] = {
    LOCATOR_SEEDER: "Makes the jobs of the locators.",
    PAGE_LOADER: "Takes the stored page while it is live, else fetches it.",
    "RecordParser": "Makes rows by the fields of the dataDef.",
    "JsoupParser": "Makes rows by the fields of the dataDef; CSS selectors.",
    "HtmlUnitParser": "Makes rows by the fields of the dataDef; XPath.",
    DATA_FILTER: "Drops the rows that match `filters` of the dataDef.",
    DATA_CONVERTER: "Converts dates of a table by the plugins of the step.",
    LOCATOR_CREATOR: "On a side branch: makes a job of each row's URL.",
    DATA_APPENDER: "Commits the rows; the appender process writes them to the outputs.",
    COMMAND: "Runs a program of any language: JSON lines in and out.",
}
"""What each built-in class does, in a sentence."""

_SCRIPTER = "Scripter"
"""Scoopi's step for JavaScript."""
_DOM_LOADER = "DomLoader"
"""Scoopi's loader by a browser."""
_UsersKind = Literal["step", "parser", "loader"]
_USERS_KINDS: Mapping[str, _UsersKind] = {"step": "step", "parser": "parser", "loader": "loader"}
"""What plugin classes may be in a chain; a step of that name must be of that kind."""
_STEP = TypeHint(WrittenStep)


def default_flavour(default_steps: str) -> SelectorFlavour:
    """That of the selectors of tables whose tasks have no `steps`, by the setting."""
    return "xpath" if PARSERS.get(default_steps) == HTML_UNIT_PARSER else "css"


def default_chain(name: str = RECORD_DEFAULT) -> list[ChainStep]:
    """The chain of a built-in set."""
    classes = (LOCATOR_SEEDER, PAGE_LOADER, PARSERS[name], DATA_FILTER, DATA_APPENDER)
    return [ChainStep(name=step, class_name=class_) for step, class_ in zip(STEP_SETS[name], classes, strict=True)]


def read_step(name: str, entry: Entry, catalog: Catalog, problems: Problems, *, replaces: bool) -> ChainStep | None:
    """One step as written; None if it has a problem. `replaces`: a step of its name is in the set it changes."""
    node = entry.node
    if node.kind != "mapping":
        problems.add(entry.place, "wrong-type", f"a step must be a mapping, not {node.describe()}")
        return None
    written = Reader(problems, {}).read(_STEP, DefPart(("steps", name), node, entry.place))
    neighbours = [key for key in ("previous", "next") if key not in node.entries and not replaces]
    for key in neighbours:
        problems.add(entry.place, "missing-key", f"the key `{key}` is missing")
    if neighbours or not isinstance(written, WrittenStep) or not node.entries.keys() <= keys_of(WrittenStep).keys():
        return None
    class_name = short_class_name(written.class_)
    kind = _kind_of(name, class_name, node, catalog, problems)
    if kind is None or not _check_keys(node, class_name, kind, catalog, problems):
        return None
    check_options(node, problems)
    return ChainStep(
        name=name,
        class_name=class_name,
        kind=kind,
        options=MappingProxyType({"plugins": written.plugins} if "plugins" in node.entries else written.options),
        run=written.run,
        limit=written.limit,
        workers=written.workers,
        place=entry.place,
    )


def _is_dom_loader(node: YamlNode) -> bool:
    return (node.text_of("class") or "").rpartition(".")[2] == _DOM_LOADER


def short_class_name(name: str) -> str:
    """The class of a name; Scoopi's Java names are aliases."""
    return _CLASS_ALIASES.get(name, name)


def _kind_of(name: str, class_name: str, node: YamlNode, catalog: Catalog, problems: Problems) -> StepKind | None:
    """What a step is; None, with a problem, if its class does not exist or does not fit."""
    if class_name == COMMAND:
        return "command"
    place = node.entries["class"].node.place
    if class_name in STEP_CLASSES:
        if _is_dom_loader(node):
            message = (
                "DomLoader is PageLoader here, which uses no browser: write PageLoader, and where scripts write the "
                "page, `loader: browser` in its task group, see docs/defs/browser.md"
            )
            problems.warn(place, "no-effect", message)
        return "built-in"
    if class_name.rpartition(".")[2] == _SCRIPTER:
        problems.add(place, "not-built", "JavaScript is not run: write the step in Python, see docs/extending.md")
        return None
    plugin_class = catalog.find(class_name)
    if plugin_class is None:
        names = {*STEP_CLASSES, COMMAND}.union(*(catalog.names(kind) for kind in ("step", "parser", "loader")))
        shown = suggest(
            class_name.rpartition(".")[2] if class_name.startswith(_JAVA_PREFIX) else class_name, sorted(names)
        )
        message = f"unknown step class '{class_name}'{shown}"
        problems.add(place, "unknown-step-class", message)
        return None
    kind = _USERS_KINDS.get(name, "step")
    if name not in _USERS_KINDS:
        kind = next((kind for kind in _USERS_KINDS.values() if kind in plugin_class.kinds), kind)
    options = node.get("options")
    given = options.entries if options is not None else ()
    problem = plugin_class.problem_as(kind) or plugin_class.problem_of_options(given)
    if problem is not None:
        problems.add(place, "bad-step-class", plugin_class.describe(problem))
        return None
    return kind


def _check_keys(node: YamlNode, class_name: str, kind: StepKind, catalog: Catalog, problems: Problems) -> bool:
    """Whether the keys fit the kind of step."""
    allowed = {
        "built-in": {"plugins", "options"} if class_name == LOCATOR_CREATOR else {"plugins"},
        "command": {"run", "limit", "workers"},
    }.get(kind, {"options", "limit", "workers"})
    usable = True
    for key in ("plugins", "options", "run", "limit", "workers"):
        if key in node.entries and key not in allowed:
            message = f"`{key}` has no effect on the class {class_name}; remove it"
            problems.add(node.key_place(key), "conflict", message)
            usable = False
    if "plugins" in node.entries and class_name not in (DATA_CONVERTER, DATA_APPENDER):
        message = f"the plugins of {class_name} are not implemented yet"
        if _is_dom_loader(node):
            message = "JavaScript is not run: load the page by a class of your own, see docs/loaders.md"
        problems.add(node.key_place("plugins"), "not-built", message)
        usable = False
    if kind == "command":
        usable = check_run(node, "a command", catalog, problems) and usable
    return usable


def check_run(node: YamlNode, noun: str, catalog: Catalog, problems: Problems) -> bool:
    """Whether the `run` of a step or appender can be a program and its arguments."""
    arguments = node.list_of("run")
    usable = bool(arguments) and all(part.kind == "scalar" and part.text for part in arguments)
    if not usable:
        message = f"{noun} needs `run`: a list with the program and its arguments, such as [awk, -f, score.awk]"
        problems.add(node.key_place("run"), "missing-key", message)
    paths = [f"plugins/{file.path}" for file in catalog.files]
    for part in arguments:
        if is_plugin_path(part.text) and part.text not in paths:
            problems.add(part.place, "missing-file", f"no file '{part.text}'{suggest(part.text, paths)}")
            usable = False
    return usable


def check_options(node: YamlNode, problems: Problems) -> None:
    """Check the names in the `options` of a step or appender: keyword arguments of its class."""
    for key, entry in node.entries_of("options"):
        if not key.isidentifier():
            message = f"'{shown_key(key)}' cannot be an option: options are keyword arguments of the class"
            problems.add(entry.place, "bad-name", message)
