"""Which program of the machine is the browser, and what is said without one."""

from pathlib import Path

import pytest

from crawl_engine.browser import find
from crawl_engine.defs.loader import load
from crawl_engine.errors import UsageError
from crawl_engine.runtime.extras import has_extra
from crawl_engine.settings import Settings


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(find, "require_extra", lambda *_: None)
    return tmp_path


def put(folder: Path, name: str) -> str:
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)
    return str(folder / name)


def test_a_browser_without_windows_comes_first(folder: Path) -> None:
    full = put(folder, "chromium")
    assert find.find_browser(Settings()) == full
    shell = put(folder, "chromium-headless-shell")
    assert find.find_browser(Settings()) == shell
    assert find.find_browser(Settings(browser="chromium")) == full


@pytest.mark.parametrize(("browser", "wanted"), [(None, "Install Chromium"), ("/no/such", "Set browser to the path")])
def test_without_a_browser_it_is_said_what_to_do(folder: Path, browser: str | None, wanted: str) -> None:
    with pytest.raises(UsageError) as told:
        find.find_browser(Settings(browser=browser))
    assert wanted in str(told.value.remedy)
    assert str(browser or folder) in told.value.message


@pytest.mark.skipif(not has_extra("browser"), reason="needs playwright")
def test_root_is_told_that_it_has_no_sandbox(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(folder, "chromium")
    (folder / "shop.yml").write_text(
        "locatorGroups: {shop: {locators: [{url: 'https://shop.example/'}]}}\n"
        "taskGroups: {shop: {loader: browser, offers: {dataDef: offer}}}\n"
        "dataDefs: {offer: {fields: {name: {selector: h1}}}}\n"
    )
    definitions = load(folder).definitions
    monkeypatch.setattr(find.os, "geteuid", lambda: 0)
    with pytest.raises(UsageError, match="no sandbox for root") as told:
        find.require_browser(definitions, Settings())
    assert "browser_sandbox = false" in str(told.value.remedy)
    find.require_browser(definitions, Settings(browser_sandbox=False))
    monkeypatch.setattr(find.os, "geteuid", lambda: 1000)
    find.require_browser(definitions, Settings())
