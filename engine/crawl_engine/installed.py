"""Tables of names to which installed packages add by entry points, such as output types and commands."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from crawl_engine.errors import UsageError, one_line, tell_new_name

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OUTPUTS, DOCUMENTS, FIELD_TYPES, COMMANDS, SCREENS = (
    f"crawl_console.{name}" for name in ("outputs", "documents", "field_types", "commands", "screens")
)
"""The groups of entry points."""
Entry = TypeVar("Entry")


class InstalledName(NamedTuple):
    """A name that a package adds. `origin`: the package and its version."""

    name: str
    origin: str


class NameTable(Mapping[str, Entry]):
    """The built-in names, then those of installed packages; a built-in name keeps its meaning.

    The packages are searched once, and only for a name that is not built in, or for all names. An entry of a package is
    imported when it is read: that raises UsageError if the package cannot give it.
    """

    def __init__(
        self,
        group: str,
        built_in: Mapping[str, Entry],
        is_entry: Callable[[Any], bool],
        what: str,
        is_taken: Callable[[str], bool] = lambda _: False,
        unlisted: Mapping[str, Entry] = MappingProxyType({}),
    ) -> None:
        """`what`: an entry in words, such as `an OutputType`, for the error if `is_entry` is false.

        `is_taken`: whether a name means something else, so that no package is searched for it. `unlisted`: built-in
        entries whose names no user writes.
        """
        self._is_taken = is_taken
        self._group = group
        self._built_in = built_in
        self._unlisted = unlisted
        self._is_entry = is_entry
        self._what = what
        self._loaded: dict[str, Entry] = {}

    def __getitem__(self, name: str) -> Entry:
        if name in self._built_in:
            return self._built_in[name]
        if name in self._unlisted:
            return self._unlisted[name]
        if name not in self._loaded:
            if name not in self:
                raise KeyError(name)
            self._loaded[name] = self._load(self._entry_points[name])
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return (
            name in self._built_in
            or name in self._unlisted
            or (not self._is_taken(str(name)) and name in self._entry_points)
        )

    def __iter__(self) -> Iterator[str]:
        yield from self._built_in
        yield from self._entry_points

    def __len__(self) -> int:
        return len(self._built_in) + len(self._entry_points)

    def installed(self) -> list[InstalledName]:
        """The names of packages; none is imported."""
        return [InstalledName(name, _origins_of(entries)) for name, entries in self._entry_points.items()]

    def origin_of(self, name: str) -> str:
        """The package and its version that add a name; empty if it is built in, or nothing adds it."""
        return "" if name in self._built_in else _origins_of(self._entry_points.get(name, []))

    def conflicts(self) -> list[str]:
        """Why names of packages have no effect: they are taken, or two packages add them."""
        taken = [
            f"{_origins_of(entries)}: the name '{name}' ({self._group}) is taken; it has no effect"
            for name, entries in _read_group(self._group).items()
            if name not in self._entry_points
        ]
        doubled = [_describe_doubled(entries) for entries in self._entry_points.values() if len(entries) > 1]
        return [*taken, *doubled]

    @cached_property
    def _entry_points(self) -> "Mapping[str, list[EntryPoint]]":
        found = _read_group(self._group).items()
        return {name: entries for name, entries in found if name not in self._built_in and not self._is_taken(name)}

    def _load(self, entry_points: "list[EntryPoint]") -> Entry:
        if len(entry_points) > 1:
            raise UsageError(_describe_doubled(entry_points), "Uninstall all but one of them.")
        (entry_point,) = entry_points
        try:
            entry = entry_point.load()
        except (Exception, SystemExit) as error:  # code of the package
            self._refuse(entry_point, one_line(f"{type(error).__name__}: {error}{tell_new_name(error)}"), error)
        if not self._is_entry(entry):
            self._refuse(entry_point, f"it is not {self._what}")
        return cast(Entry, entry)

    def _refuse(self, entry_point: "EntryPoint", reason: str, cause: BaseException | None = None) -> Any:
        place = f"{entry_point.value} of {_origin_of(entry_point)}"
        raise UsageError(
            f"'{entry_point.name}' ({self._group}) cannot be loaded from {place}: {reason}",
            "Mend the package, or uninstall it.",
        ) from cause


def _read_group(group: str) -> "dict[str, list[EntryPoint]]":
    from importlib.metadata import entry_points  # slow: only where a name is not built in

    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=group):
        found.setdefault(entry.name, []).append(entry)
    return found


def list_installed(group: str) -> list[InstalledName]:
    """The names that packages add to a group; none is imported."""
    return [InstalledName(name, _origins_of(entries)) for name, entries in _read_group(group).items()]


def _describe_doubled(entries: "list[EntryPoint]") -> str:
    return f"{_origins_of(entries)}: each adds the name '{entries[0].name}' ({entries[0].group})"


def _origins_of(entries: "list[EntryPoint]") -> str:
    return ", ".join(sorted(map(_origin_of, entries)))


def _origin_of(entry_point: "EntryPoint") -> str:
    package = entry_point.dist
    return entry_point.value if package is None else f"{package.name} {package.version}"
