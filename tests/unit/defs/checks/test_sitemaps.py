"""Sitemaps with rules: what they are read as, and each mistake with its place."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import load
from crawl_engine.errors import DefsError
from crawl_engine.model.definition import Definitions, definition_hash
from crawl_engine.model.locator import Locator, SitemapLink, SitemapRules

DEFS = """\
locatorGroups: {map: {locators: [%s]}}
taskGroups: {map: {page: {dataDef: page}}, detail: {page: {dataDef: page}}}
dataDefs: {page: {fields: {title: {selector: h1}}, links: [{selector: a, linkGroup: detail}]}}
"""


def load_locator(folder: Path, written: str) -> Locator:
    (folder / "shop.yml").write_text(DEFS % written, "utf-8")
    return load(folder / "shop.yml").definitions.locator_groups[0].locators[0]


def test_a_sitemap_is_a_text_or_a_mapping(tmp_path: Path) -> None:
    plain = load_locator(tmp_path, "{sitemap: /s.xml}")
    assert (plain.sitemap, plain.sitemap_rules) == ("/s.xml", None)
    same = load_locator(tmp_path, "{sitemap: {url: /s.xml}}")
    assert (same.sitemap, same.sitemap_rules) == ("/s.xml", None)
    written = (
        "{sitemap: {url: /s.xml, allow: [/p/, /q/], deny: [/old/],"
        " links: [{allow: [/p/], linkGroup: detail, priority: 3}, {deny: [x]}]}}"
    )
    ruled = load_locator(tmp_path, written)
    assert ruled.sitemap_rules == SitemapRules(
        allow=("/p/", "/q/"),
        deny=("/old/",),
        links=(SitemapLink(allow=("/p/",), group="detail", priority=3), SitemapLink(deny=("x",))),
    )
    text = load(tmp_path / "shop.yml").definitions.to_json()
    assert Definitions.from_json(text).locator_groups[0].locators[0] == ruled
    since = load_locator(tmp_path, "{sitemap: {url: /s.xml, since: lastRun}}")
    assert since.sitemap_rules == SitemapRules(since="lastRun")
    text = load(tmp_path / "shop.yml").definitions.to_json()
    assert Definitions.from_json(text).locator_groups[0].locators[0] == since


def test_since_changes_the_key_of_a_sitemap() -> None:
    assert definition_hash(SitemapRules()) != definition_hash(SitemapRules(since="lastRun"))


def test_a_group_that_entries_lead_to_is_reachable(tmp_path: Path) -> None:
    defs = DEFS.replace(", links: [{selector: a, linkGroup: detail}]", "")
    (tmp_path / "shop.yml").write_text(defs % "{sitemap: {url: /s.xml, links: [{linkGroup: detail}]}}", "utf-8")
    assert load(tmp_path / "shop.yml").warnings == ()


PROBLEMS = [
    ("{sitemap: §[a]}", "wrong-type", "must be a mapping"),
    ("{§sitemap: ~}", "wrong-type", "must be a mapping"),
    ("{sitemap: §true}", "wrong-type", "must be a text"),
    ("{sitemap: §ftp://a/}", "bad-url", "not supported"),
    ("{§sitemap: {}}", "missing-key", "`url` is missing"),
    ("{sitemap: {url: §ftp://a/}}", "bad-url", "not supported"),
    ("{sitemap: {url: §[a]}}", "wrong-type", "must be a text"),
    ("{sitemap: {url: /s, allow: §/p/}}", "wrong-type", "must be a list"),
    ("{sitemap: {url: /s, allow: [§'[']}}", "bad-pattern", "character set"),
    ("{sitemap: {url: /s, deny: §{a: b}}}", "wrong-type", "must be a list"),
    ("{sitemap: {url: /s, deny: [x, §'(']}}", "bad-pattern", "missing )"),
    ("{sitemap: {url: /s, since: §yesterday}}", "unknown-value", "lastRun"),
    ("{sitemap: {url: /s, since: §[lastRun]}}", "unknown-value", "lastRun"),
    ("{sitemap: {url: /s, §alow: [x]}}", "unknown-key", "allow"),
    ("{sitemap: {url: /s, links: §{allow: [x]}}}", "wrong-type", "must be a list"),
    ("{sitemap: {url: /s, §links: []}}", "no-links", "no entry would be followed"),
    ("{sitemap: {url: /s, links: [§x]}}", "wrong-type", "must be a mapping"),
    ("{sitemap: {url: /s, links: [{linkGroup: §detial}]}}", "unknown-group", "detail"),
    ("{sitemap: {url: /s, links: [{linkGroup: §[detail]}]}}", "wrong-type", "must be a text"),
    ("{sitemap: {url: /s, links: [{priority: §high}]}}", "wrong-type", "must be a whole number"),
    ("{sitemap: {url: /s, links: [{allow: [§'(']}]}}", "bad-pattern", "missing )"),
    ("{sitemap: {url: /s, links: [{§selector: a}]}}", "unknown-key", "selector"),
    ("{sitemap: {url: /s, links: [{linkGroup: detail}, §{allow: [x]}]}}", "conflict", "put that one last"),
]


@pytest.mark.parametrize(("written", "code", "text"), PROBLEMS)
def test_each_mistake_has_its_place(tmp_path: Path, written: str, code: str, text: str) -> None:
    marked = (DEFS % written).splitlines()[0]
    (tmp_path / "shop.yml").write_text(DEFS % written.replace("§", ""), "utf-8")
    with pytest.raises(DefsError) as raised:
        load(tmp_path / "shop.yml")
    (problem,) = raised.value.problems
    assert (problem.code, problem.line, problem.column) == (code, 1, marked.index("§") + 1), problem
    assert text in problem.message
