"""Tables of names to which installed packages add by entry points, such as output types and commands."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from engine.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

OUTPUTS, DOCUMENTS, COMMANDS, SCREENS = (
    f"crawl_console.{name}" for name in ("outputs", "documents", "commands", "screens")
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

    def __init__(self, group: str, built_in: Mapping[str, Entry], is_entry: Callable[[Any], bool], what: str) -> None:
        """`what`: an entry in words, such as `an OutputType`, for the error if `is_entry` is false."""
        self._group = group
        self._built_in = built_in
        self._is_entry = is_entry
        self._what = what
        self._loaded: dict[str, Entry] = {}

    def __getitem__(self, name: str) -> Entry:
        if name in self._built_in:
            return self._built_in[name]
        if name not in self._loaded:
            self._loaded[name] = self._load(self._entry_points[name])
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._built_in or name in self._entry_points

    def __iter__(self) -> Iterator[str]:
        yield from self._built_in
        yield from self._entry_points

    def __len__(self) -> int:
        return len(self._built_in) + len(self._entry_points)

    def installed(self) -> list[InstalledName]:
        """The names of packages; none is imported."""
        return [InstalledName(name, _origin_of(entry)) for name, entry in self._entry_points.items()]

    @cached_property
    def _entry_points(self) -> "Mapping[str, EntryPoint]":
        return {name: entry for name, entry in _read_group(self._group).items() if name not in self._built_in}

    def _load(self, entry_point: "EntryPoint") -> Entry:
        try:
            entry = entry_point.load()
        except Exception as error:  # code of the package
            self._refuse(entry_point, f"{type(error).__name__}: {error}", error)
        if not self._is_entry(entry):
            self._refuse(entry_point, f"it is not {self._what}")
        return cast(Entry, entry)

    def _refuse(self, entry_point: "EntryPoint", reason: str, cause: Exception | None = None) -> Any:
        place = f"{entry_point.value} of {_origin_of(entry_point)}"
        raise UsageError(
            f"'{entry_point.name}' ({self._group}) cannot be loaded from {place}: {reason}",
            "Mend the package, or uninstall it.",
        ) from cause


def list_installed(group: str) -> list[InstalledName]:
    """The names that packages add to a group; none is imported."""
    return [InstalledName(name, _origin_of(entry)) for name, entry in _read_group(group).items()]


def _read_group(group: str) -> "dict[str, EntryPoint]":
    from importlib.metadata import entry_points  # slow: only where a name is not built in

    return {entry.name: entry for entry in entry_points(group=group)}


def _origin_of(entry_point: "EntryPoint") -> str:
    package = entry_point.dist
    return entry_point.value if package is None else f"{package.name} {package.version}"
