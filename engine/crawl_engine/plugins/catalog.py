"""Lists the classes that defs may name: built-in, of the project's plugins, and installed ones."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from msgspec import Struct, field

from crawl_engine.model.step import PluginFile
from crawl_engine.plugins.plugin_class import ENTRY_POINT_GROUPS, ClassKind, PluginClass
from crawl_engine.plugins.source_scan import ScannedClass, ScannedModule, scan_source

_SUFFIX = ".py"


class Catalog(Struct, frozen=True, dict=True):
    """The classes of one set of plugin files, and of the installed packages."""

    files: tuple[PluginFile, ...] = ()
    modules: Mapping[str, ScannedModule] = field(default_factory=dict)
    """The Python files of `files` by module name, without those that cannot be parsed."""

    def find(self, name: str) -> PluginClass | None:
        """The class that defs mean by a name."""
        module, _, class_name = name.partition(".")
        if class_name and module in self.modules:
            scanned = self.modules[module].classes.get(class_name)
            if scanned is None:
                return None
            return PluginClass(name=name, origin=f"plugins/{module}{_SUFFIX}", line=scanned.line, scanned=scanned)
        return self._installed.get(name)

    def all(self) -> Iterator[PluginClass]:
        """All classes with the method of a kind."""
        for module, scanned in sorted(self.modules.items()):
            for class_name in scanned.classes:
                plugin_class = self.find(f"{module}.{class_name}")
                if plugin_class is not None and plugin_class.kinds:
                    yield plugin_class
        yield from self._installed.values()

    def names(self, kind: ClassKind) -> list[str]:
        """The names of the classes that may be used as a kind."""
        return [plugin_class.name for plugin_class in self.all() if kind in plugin_class.kinds]

    def code_hash(self, names: Iterable[str], files: Iterable[str] = (), packages: Iterable[str] = ()) -> str:
        """A hash of the code behind these classes, of these files, and of packages with their versions.

        It counts by content, not by time. For a project's class: its file, those it imports, and all files that are not
        Python. For an installed one: the name and version of its package. Empty without any of them.
        """
        parts = {("", package) for package in packages}
        texts = {file.path: file.text for file in self.files}
        for path in files:
            parts.add((path, texts.get(path, "")))
        for name in names:
            module = name.partition(".")[0]
            if module in self.modules:
                parts.update((path, texts[path]) for path in self._closure(module))
            elif (installed := self._installed.get(name)) is not None:
                parts.add((name, installed.origin))
        if not parts:
            return ""
        digest = hashlib.blake2b(digest_size=16)
        for part in sorted(parts):
            for text in part:
                digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
        return digest.hexdigest()

    def _closure(self, module: str) -> set[str]:
        """The files that a module may read: itself, its imports, and data files."""
        todo, modules = [module], {module}
        while todo:
            imported = self.modules[todo.pop()].imports
            for name in self.modules.keys() - modules:
                if any(_may_mean(written, name) for written in imported):
                    modules.add(name)
                    todo.append(name)
        return {
            file.path for file in self.files if not file.path.endswith(_SUFFIX) or module_name(file.path) in modules
        }

    @cached_property
    def _installed(self) -> Mapping[str, PluginClass]:
        return {plugin_class.name: plugin_class for plugin_class in _list_installed()}


def _may_mean(written: str, module: str) -> bool:
    """Whether an imported name may mean this module, a part of it, or a package around it; relative names count."""
    return f".{module}." in f".{written}." or f".{module}".endswith(f".{written}") or written.startswith(f"{module}.")


def module_name(path: str) -> str:
    """The module of a plugin file: `shop.py` → shop, `tools/dates.py` → tools.dates."""
    stem = path.removesuffix(_SUFFIX).removesuffix("/__init__")
    return stem.replace("/", ".")


def build_catalog(files: tuple[PluginFile, ...]) -> Catalog:
    """The catalog of plugin files whose Python parses; others are left out."""
    modules = {}
    for file in files:
        if file.path.endswith(_SUFFIX) and not file.is_base64:
            try:
                modules[module_name(file.path)] = scan_source(file.text)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue  # reported by crawl_engine.defs.builders.plugin_files
    return Catalog(files, modules)


def _list_installed() -> Iterator[PluginClass]:
    """The classes that packages register by entry points, by group; no package is imported."""
    from importlib.metadata import entry_points  # slow: only where a name is not the project's own

    for group in ENTRY_POINT_GROUPS:
        for entry_point in entry_points(group=group):
            scanned, origin, package = None, entry_point.value, entry_point.dist
            if package is not None:
                scanned = _scan_class(package.locate_file, entry_point.module, entry_point.attr)
                origin = f"{package.name} {package.version}"
            yield PluginClass(
                name=entry_point.name, origin=origin, line=scanned.line if scanned else 0, scanned=scanned, group=group
            )


def _scan_class(locate: Callable[[str], object], module: str, name: str) -> ScannedClass | None:
    """The class as its source says; None if the source is not where `locate` finds the package's files."""
    parts = module.split(".")
    for path in ("/".join(parts) + ".py", "/".join([*parts, "__init__.py"])):
        try:
            with open(str(locate(path)), encoding="utf-8") as file:  # noqa: PTH123
                return scan_source(file.read()).classes.get(name)
        except (OSError, SyntaxError, ValueError):
            continue
    return None
