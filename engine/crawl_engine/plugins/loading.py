"""Loads plugin classes: a project's modules from their texts, installed ones by entry point."""

import asyncio
import base64
import gc
import importlib
import inspect
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from crawl_engine.model.step import PluginFile
from crawl_engine.plugins.plugin_class import ENTRY_POINT_GROUPS
from crawl_engine.plugins.plugin_errors import PACKAGE, PluginUnavailable, describe_error


class PluginLoader:
    """Loads classes of one set of plugin files. One at a time in a process: modules are global."""

    def __init__(self, files: Sequence[PluginFile]) -> None:
        self._files = {file.path: file for file in files}
        self._finder = _PluginFinder(self._files)
        gc.enable()  # a process of the template has none, and what plugin code leaves may be cycles
        sys.meta_path.append(self._finder)

    def close(self) -> None:
        """Forget the modules, so that another loader can import the next version of the files."""
        sys.meta_path.remove(self._finder)
        for name, module in list(sys.modules.items()):
            if getattr(getattr(module, "__spec__", None), "loader", None) is self._finder:
                del sys.modules[name]

    def create(self, name: str, options: Mapping[str, Any]) -> Any:
        """A new instance of a class. Raises PluginUnavailable."""
        try:
            return self.load(name)(**options)
        except PluginUnavailable:
            raise
        except (Exception, SystemExit) as error:
            raise PluginUnavailable(f"{name} cannot be created: {describe_error(error)}") from error

    def load(self, name: str) -> Any:
        """The class. Raises PluginUnavailable."""
        module, _, attribute = name.partition(".")
        if attribute and f"{module}.py" in self._files:
            try:
                return getattr(importlib.import_module(f"{PACKAGE}.{module}"), attribute)
            except (Exception, SystemExit) as error:
                raise PluginUnavailable(f"plugins/{module}.py cannot be loaded: {describe_error(error)}") from error
        from importlib.metadata import entry_points  # slow: the project's own code does not need it

        for group in ENTRY_POINT_GROUPS:
            for entry_point in entry_points(group=group, name=name):
                try:
                    return entry_point.load()
                except (Exception, SystemExit) as error:
                    text = f"{entry_point.value} cannot be loaded: {describe_error(error)}"
                    raise PluginUnavailable(text) from error
        raise PluginUnavailable(f"no class '{name}' is installed")


class _PluginFinder(MetaPathFinder, Loader):
    """Imports the texts of plugin files."""

    def __init__(self, files: Mapping[str, PluginFile]) -> None:
        self._files = files

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        """The spec of `plugins`, of a module below it, or of a plugin by its bare name."""
        if fullname == PACKAGE:
            return ModuleSpec(fullname, self, is_package=True, origin=PACKAGE)
        name = fullname.removeprefix(f"{PACKAGE}.").replace(".", "/")
        if f"{name}.py" in self._files:
            return self._spec(fullname, f"{name}.py", is_package=False)
        if f"{name}/__init__.py" in self._files:
            return self._spec(fullname, f"{name}/__init__.py", is_package=True)
        if any(path.startswith(f"{name}/") for path in self._files):
            return ModuleSpec(fullname, self, is_package=True, origin=f"{PACKAGE}/{name}")
        return None

    def _spec(self, fullname: str, path: str, *, is_package: bool) -> ModuleSpec:
        spec = ModuleSpec(fullname, self, origin=f"{PACKAGE}/{path}", is_package=is_package)
        spec.has_location = False
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Run the text of the module."""
        spec = module.__spec__
        assert spec is not None
        assert spec.origin is not None
        file = self._files.get(spec.origin.removeprefix(f"{PACKAGE}/"))
        module.__file__ = spec.origin
        if file is not None and spec.origin.endswith(".py"):
            exec(compile(file.text, spec.origin, "exec"), module.__dict__)

    def get_data(self, path: str) -> bytes:
        """The bytes of a file below `plugins`: what `pkgutil.get_data` reads. Raises FileNotFoundError."""
        file = self._files.get(path.removeprefix(f"{PACKAGE}/"))
        if file is None:
            raise FileNotFoundError(2, "no such file among the published plugins", path)
        return base64.b64decode(file.text) if file.is_base64 else file.text.encode()


class Awaiter:
    """One event loop for all calls of a process, so that clients and connections of plugins stay usable."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None

    def finish(self, value: Any) -> Any:
        """The value, awaited if it is awaitable."""
        if not inspect.isawaitable(value):
            return value
        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(_awaited(value))


async def _awaited(value: Any) -> Any:
    return await value
