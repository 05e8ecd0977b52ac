"""Changes of the defs and their descriptions."""

from pathlib import Path

import pytest

from crawl_engine.defs.loader import load
from crawl_engine.model.fingerprint import PreparedDefs
from crawl_engine.runtime.extras import has_extra
from crawl_engine.supervise.reload.diff import changed_data_defs, describe_changes, relinked_groups, stale_groups

NEEDS_PLAYWRIGHT = pytest.mark.skipif(not has_extra("browser"), reason="needs playwright")
DEFS = """\
locatorGroups: {g: {locators: [{url: "http://a.example/"}]}}
taskGroups: {g: {list: {dataDef: entry}}, d: {page: {dataDef: book}}}
dataDefs:
  entry:
    fields: {title: {selector: a}}
    links: [{selector: a, linkGroup: d}]
  book:
    fields: {isbn: {selector: b}, price: {selector: i}}
"""


def prepared(folder: Path, text: str = DEFS) -> PreparedDefs:
    (folder / "defs.yml").write_text(text)
    return PreparedDefs.from_definitions(load(folder / "defs.yml").definitions)


@pytest.mark.parametrize(
    ("old", "new", "expected", "stale"),
    [
        ("selector: b}", "selector: p}", "book: 1 field changed, 1,204 pages to re-extract", ["d"]),
        (", price: {selector: i}", "", "book: 1 field removed, 1,204 pages to re-extract", ["d"]),
        ("isbn: {selector: b}, price: {selector: i}", "price: {selector: i}, isbn: {selector: b}",
         "book: fields in another order, 1,204 pages to re-extract", ["d"]),
        ("[{selector: a,", "[{selector: p,", "entry: links changed, 1,204 pages to re-extract", ["g"]),
        ("d: {page:", "d: {maxDepth: 3, page:", "tasks or limits changed", ["g"]),
        pytest.param(
            "d: {page:", "d: {loader: browser, page:",
            "loader of d changed (stored pages stay; `retry --state done` loads them again)", [],
            marks=NEEDS_PLAYWRIGHT,
        ),
        ("taskGroups:", "hosts: {a.example: {delay: 1}}\ntaskGroups:", "hosts changed", []),
        ("taskGroups:", "hosts: {a.example: {nofollow: false}}\ntaskGroups:", "hosts changed", ["g"]),
        ("a.example/\"}]", 'a.example/"}, {url: "http://b.example/"}]', "1 locator added", []),
    ],
)  # fmt: skip
def test_a_change_is_described_and_makes_pages_stale(
    tmp_path: Path, old: str, new: str, expected: str, stale: list[str]
) -> None:
    before, after = prepared(tmp_path), prepared(tmp_path, DEFS.replace(old, new))
    groups = [{p.group: p.hash for p in each.groups} for each in (before, after)]
    assert stale_groups(*groups) == stale
    assert expected in describe_changes(before, after, 1204 if stale else 0)


def test_formatting_and_comments_change_nothing(tmp_path: Path) -> None:
    before = prepared(tmp_path)
    after = prepared(tmp_path, "# a word\n\n" + DEFS.replace("selector: b", "selector:   'b'"))
    assert before.hash == after.hash
    assert changed_data_defs(before, after) == []
    assert before.groups == after.groups


@NEEDS_PLAYWRIGHT
def test_a_changed_loader_is_not_called_a_change_of_tasks(tmp_path: Path) -> None:
    before = prepared(tmp_path)
    text = DEFS.replace("d: {page:", "d: {loader: browser, page:")
    described = "loader of d changed (stored pages stay; `retry --state done` loads them again)"
    assert describe_changes(before, prepared(tmp_path, text), 0) == described
    limited = prepared(tmp_path, text.replace("loader: browser", "maxDepth: 3, loader: browser"))
    assert describe_changes(before, limited, 0) == f"{described}, tasks or limits changed"


def test_several_changes_are_described_in_one_line(tmp_path: Path) -> None:
    before = prepared(tmp_path)
    text = DEFS.replace("selector: b}", "selector: p}").replace("selector: i}", "selector: u}")
    text = text.replace('a.example/"}]', 'a.example/"}, {url: "http://b.example/{1..2}"}, {url: "http://c.example/"}]')
    after = prepared(tmp_path, text)
    assert (
        describe_changes(before, after, 1204) == "book: 2 fields changed, 1,204 pages to re-extract, 2 locators added"
    )


@pytest.mark.parametrize(
    ("old", "new", "stale", "expected"),
    [
        ("[{selector: a,", "[{selector: p,", ["g"], ["d"]),
        ("selector: b}", "selector: p}", ["d"], []),
        ("fields: {isbn", "links: [{selector: u, linkGroup: d}]\n    fields: {isbn", ["d"], []),
        ("fields: {isbn", "links: [{selector: u, linkGroup: d}]\n    fields: {isbn", ["d", "g"], ["d"]),
        ("dataDefs:", "hosts: {a.example: {drop: [sid]}}\ndataDefs:", ["g"], ["d"]),
        ("dataDefs:", "hosts: {a.example: {delay: 1}}\ndataDefs:", ["g"], []),
    ],
)
def test_groups_that_may_have_lost_links_are_found(
    tmp_path: Path, old: str, new: str, stale: list[str], expected: list[str]
) -> None:
    before, after = prepared(tmp_path), prepared(tmp_path, DEFS.replace(old, new))
    assert relinked_groups(before.definitions, after.definitions, stale) == expected
