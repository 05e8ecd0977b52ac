"""A plugin class: its place, and the kinds it can be used as."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from crawl_engine.errors import plural

if TYPE_CHECKING:
    from crawl_engine.plugins.source_scan import ScannedClass

ClassKind = Literal["loader", "parser", "step", "converter", "encoder", "appender", "middleware"]

METHODS: Mapping[ClassKind, tuple[str, int]] = {
    "loader": ("load", 2), "parser": ("parse", 2), "step": ("run", 2), "converter": ("convert", 2),
    "encoder": ("encode", 1), "appender": ("append", 1), "middleware": ("handle", 2),
}  # fmt: skip
"""The method of each kind of class, and its number of arguments."""
ENTRY_POINT_GROUPS: Mapping[str, tuple[ClassKind, ...]] = {
    "crawl_console.steps": ("step", "parser", "loader"),
    "crawl_console.converters": ("converter",),
    "crawl_console.encoders": ("encoder",),
    "crawl_console.appenders": ("appender",),
    "crawl_console.middleware": ("middleware",),
}
"""The groups in which packages register classes, and the kinds that each may hold."""


class PluginClass(Struct, frozen=True, kw_only=True):
    """A class of a plugin, or of an installed package."""

    name: str
    """As defs write it."""
    origin: str
    """The file, such as `plugins/shop.py`, or the distribution with its version."""
    line: int = 0
    scanned: "ScannedClass | None" = None
    """None: its source cannot be read."""
    group: str = ""
    """The entry point group of an installed class."""

    @property
    def kinds(self) -> tuple[ClassKind, ...]:
        """The kinds it can be used as: by its methods, or by its entry point group."""
        allowed = ENTRY_POINT_GROUPS.get(self.group, tuple(METHODS))
        if self.scanned is None:
            return allowed
        defined = tuple(kind for kind in allowed if METHODS[kind][0] in self.scanned.methods)
        return defined or (allowed if self.scanned.has_bases else ())

    def problem_of_options(self, options: Iterable[str]) -> str | None:
        """Why it cannot be created with these keyword arguments; None if it can, as far as its source says."""
        if self.scanned is None:
            return None
        given = {name for name in options if name.isidentifier()}  # other problems are reported elsewhere
        created = self.scanned.methods.get("__init__")
        if created is None:
            names: set[str] = set()
            if self.scanned.has_bases:
                return None
            required: set[str] = set()
        else:
            names, required = set(created.names), set(created.required_names)
            if created.takes_any_name:
                names |= given
        if given - names:
            allowed = f"it takes {', '.join(sorted(names))}" if names else "it takes none"
            return f"it has no option '{min(given - names)}'; {allowed}"
        if required - given:
            return f"it needs the option '{min(required - given)}'"
        return None

    def describe(self, problem: str) -> str:
        """A problem with the class's name and place, for messages."""
        return f"'{self.name}' ({self.origin}:{self.line}): {problem}"

    def problem_as(self, kind: ClassKind) -> str | None:
        """Why it cannot be used as this kind; None if it can, as far as its source says."""
        method, count = METHODS[kind]
        article = "an" if kind in ("encoder", "appender") else "a"
        if self.group and kind not in ENTRY_POINT_GROUPS[self.group]:
            return f"it is registered in {self.group}, not as {article} {kind}"
        if self.scanned is None:
            return None
        defined = self.scanned.methods.get(method)
        if defined is None:
            return None if self.scanned.has_bases else f"it has no method `{method}`, which {article} {kind} needs"
        if not defined.takes(count):
            return f"its method `{method}` must take {plural(count, 'argument')} besides `self`"
        return None
