"""A screen of an installed package: the palette offers it, and it is shown like the others."""

import pytest

from crawl_console.tui import screens
from crawl_console.tui.screens import palette
from crawl_console.tui.screens.base import View
from crawl_engine.installed import SCREENS, NameTable
from tests.console.fakes import open_console
from tests.process.plugin_package import install_plugin_package


async def test_the_palette_goes_to_a_screen_of_a_package(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(install_plugin_package(tmp_path / "packages", "seam_package")))
    table = NameTable(SCREENS, {}, lambda entry: issubclass(entry, View), "a View")
    for module in (screens, palette):
        monkeypatch.setattr(module, "INSTALLED_SCREENS", table)
    async with open_console(tmp_path) as console:
        await console.press("colon")
        await console.type("go shop")
        await console.until(lambda: "screen of shop-seams 0.3" in console.screen())
        await console.press("enter")
        await console.until(lambda: console.text()[2].rstrip().endswith("Shop") or "Shop" in console.screen())
        await console.until(lambda: getattr(console.app.navigation.top, "done", 0) > 0)
