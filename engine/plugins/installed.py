"""Lists the classes that installed packages register by entry points, without importing them."""

from collections.abc import Iterator
from importlib.metadata import EntryPoint, entry_points

from engine.plugins.plugin_class import ENTRY_POINT_GROUPS, PluginClass
from engine.plugins.source_scan import ScannedClass, scan_source


def list_installed() -> Iterator[PluginClass]:
    """The classes of all packages, by group."""
    for group in ENTRY_POINT_GROUPS:
        for entry_point in entry_points(group=group):
            scanned = _scan(entry_point)
            origin = entry_point.value
            if entry_point.dist is not None:
                origin = f"{entry_point.dist.name} {entry_point.dist.version}"
            yield PluginClass(
                name=entry_point.name, origin=origin, line=scanned.line if scanned else 0, scanned=scanned, group=group
            )


def _scan(entry_point: EntryPoint) -> ScannedClass | None:
    """The class as its source says; None if the source is not where the package's files are."""
    if entry_point.dist is None:
        return None
    parts = entry_point.module.split(".")
    for path in ("/".join(parts) + ".py", "/".join([*parts, "__init__.py"])):
        try:
            with open(str(entry_point.dist.locate_file(path)), encoding="utf-8") as file:  # noqa: PTH123
                return scan_source(file.read()).classes.get(entry_point.attr)
        except (OSError, SyntaxError, ValueError):
            continue
    return None
