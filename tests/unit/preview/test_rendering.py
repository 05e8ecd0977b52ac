"""Which pages a preview renders and how that is told, without a browser."""

import os
import tempfile
from pathlib import Path

import pytest

from crawl_console.cli.main import main
from crawl_engine.errors import PageUnavailable, UsageError
from crawl_engine.model.definition import DataDef, Definitions, Field, Task, TaskGroup
from crawl_engine.model.step import BrowserAction, BrowserRule, GroupLoading, RenderWhen
from crawl_engine.preview.extraction_client import TrialDocument
from crawl_engine.preview.rendering import ProfileFolder, Rendering, Window, describe_rule, find_lack
from crawl_engine.preview.visit import fetch_page
from crawl_engine.settings import Settings
from tests.unit.http.server import serving


def group_with(rule: BrowserRule | None) -> TaskGroup:
    loader = None if rule is None else GroupLoading(browser=rule)
    return TaskGroup(name="shop", loader=loader, tasks=(Task(name="items", data_def="item"),))


def defs_with(group: TaskGroup) -> Definitions:
    fields = (Field(name="name", selector="b", required=True),)
    return Definitions(task_groups=(group,), data_defs=(DataDef(name="item", block=".item", fields=fields),))


def test_the_flag_lends_the_actions_of_the_group_without_its_condition() -> None:
    rule = BrowserRule(when=RenderWhen(missing=".item"), wait=".item", actions=(BrowserAction(click="a"),))
    group = group_with(rule)
    assert Rendering().rule_for(group) is group
    asked = Rendering(always=True).rule_for(group).loader
    assert asked is not None
    assert (asked.browser.when, asked.browser.wait, asked.browser.actions) == (None, ".item", rule.actions)
    plain = Rendering(always=True).rule_for(group_with(None)).loader
    assert plain is not None
    assert plain.browser.actions == (BrowserAction(wait="idle", optional=True),)


def test_the_reason_names_the_flag_and_the_group() -> None:
    assert describe_rule(None, always=True) == ("--browser", "")
    assert describe_rule(group_with(BrowserRule()), always=True) == ("--browser, by `loader` of shop", "")
    assert describe_rule(group_with(BrowserRule()), always=False) == ("`loader: browser` of shop", "")
    reason, advice = describe_rule(group_with(None), always=True)
    assert reason == "--browser"
    assert "a crawl would not render shop; write `loader: {browser: {wait: idle}}`" in advice


@pytest.mark.parametrize(
    ("missing", "body", "lacks", "reason"),
    [
        (".item", b"<p>", True, "the plain page lacks .item"),
        (".item", b"<p class=item>", False, "the plain page has .item"),
        ("required", b"<p>", True, "the plain page gives no row"),
        ("required", b"<p class=item>", True, "the plain page lacks item.name"),
        ("required", b"<p class=item><b>x", False, "the plain page has all required fields"),
    ],
)
def test_what_a_plain_page_lacks_is_named(missing: str, body: bytes, lacks: bool, reason: str) -> None:
    group = group_with(BrowserRule(when=RenderWhen(missing=missing)))
    document = TrialDocument(
        body=body, content_type="text/html", url="http://shop.example/", fetched_at=0.0, origin="fetched"
    )
    assert find_lack(document, group, defs_with(group), Settings()) == (lacks, reason)


def test_a_browser_is_looked_for_only_where_a_page_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(robots=False, browser="/nowhere/chromium")
    with serving() as site:
        site.pages["/full"] = lambda x: x.respond(b"<p class=item><b>x", "Content-Type: text/html")
        site.pages["/empty"] = lambda x: x.respond(b"<p>", "Content-Type: text/html")
        defs = defs_with(group_with(BrowserRule(when=RenderWhen(missing=".item"))))
        page = fetch_page(site.url("/full"), defs, settings, "shop")
        assert page.origin.endswith("(the plain page has .item)")
        assert not page.is_rendered
        monkeypatch.setattr("crawl_engine.browser.find.require_extra", lambda *_: None)
        with pytest.raises(UsageError, match="/nowhere/chromium: no such program"):
            fetch_page(site.url("/empty"), defs, settings, "shop")
        asked = len(site.requests)
        with pytest.raises(UsageError, match="/nowhere/chromium: no such program"):
            fetch_page(site.url("/empty"), Definitions(), settings, rendering=Rendering(always=True))
        assert len(site.requests) == asked


def test_without_playwright_the_flag_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawl_engine.runtime.extras.find_spec", lambda _: None)
    with pytest.raises(UsageError) as caught:
        fetch_page("http://127.0.0.1:1/", Definitions(), Settings(), rendering=Rendering(always=True))
    assert caught.value.message == "--browser needs playwright"
    assert "pip install 'crawl-console[browser]'" in caught.value.remedy


def test_a_window_needs_a_display(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(UsageError, match="neither DISPLAY nor WAYLAND_DISPLAY is set"):
        Window()
    monkeypatch.setenv("WAYLAND_DISPLAY", "wayland-0")
    ended: list[str] = []
    window = Window()
    window.keep(lambda: ended.append("first"))
    window.keep(lambda: ended.append("second"))
    assert ended == ["first"]
    window.close()
    window.close()
    assert ended == ["first", "second"]


def test_folders_of_killed_previews_are_deleted_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    used = ProfileFolder()
    (tmp_path / "crawl-browser-dead" / "browsers").mkdir(parents=True)
    (tmp_path / "crawl-browser-young").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "crawl-browser-link").symlink_to(tmp_path / "other")
    for name in ("crawl-browser-dead", "other", used.path.name):
        os.utime(tmp_path / name, (1, 1))
    new = ProfileFolder()
    kept = {"crawl-browser-young", "crawl-browser-link", "other", used.path.name, new.path.name}
    assert {path.name for path in tmp_path.iterdir()} == kept
    used.close()
    new.close()
    assert {path.name for path in tmp_path.iterdir()} == {"crawl-browser-young", "crawl-browser-link", "other"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["try", "item", "page.html", "--browser"], "--browser loads a URL"),
        (["try", "item", "--job", "1", "--browser"], "--browser loads a URL"),
        (["test", "--record", "page.html", "--browser"], "--browser loads a URL"),
        (["test", "--job", "1", "--browser"], "--browser loads a URL"),
        (["test", "--browser"], "go with --record"),
        (["shell", "page.html", "--browser"], "--browser loads a URL"),
        (["shell", "http://127.0.0.1:1/", "--show"], "--show goes with --browser"),
    ],
)
def test_flags_that_do_not_fit_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "page.html").write_text("<p>")
    (tmp_path / "defs").mkdir()
    (tmp_path / "defs" / "crawl.yml").write_text(
        'locatorGroups: {shop: {locators: [{url: "http://127.0.0.1:1/"}]}}\n'
        "taskGroups: {shop: {items: {dataDef: item}}}\n"
        "dataDefs: {item: {query: {block: .item}, fields: {name: {selector: b}}}}\n"
    )
    with pytest.raises(SystemExit) as exit_info:
        main(words)
    _, err = capfd.readouterr()
    assert exit_info.value.code == 2
    assert told in err


def test_a_page_that_is_no_page_is_not_rendered() -> None:
    group = group_with(BrowserRule(when=RenderWhen(missing=".item")))
    with serving() as site:
        site.pages["/"] = lambda x: x.respond(b"gone", "Content-Type: text/html", status="404 Not Found")
        page = fetch_page(site.url("/"), defs_with(group), Settings(robots=False, browser="/nowhere"), "shop")
        assert page.status == 404
        with pytest.raises(PageUnavailable):
            fetch_page("http://127.0.0.1:1/", defs_with(group), Settings(robots=False), "shop")
