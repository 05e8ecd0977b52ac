"""What is stored of a page that a browser loads: captured answers, frames, and what reads them again."""

import json

import pytest

from .shop_front import JSON, NEEDS_BROWSER, Front, assert_nothing_left
from .site import Page, html, redirect

pytestmark = NEEDS_BROWSER

CAPTURE = "{browser: {wait: '#ready', capture: {items: {url: '*/api/*'}}}}"
QUERY = '{from: "capture: items", as: json, block: "jmespath: [*]"}'
FIELDS = "{name: {selector: 'jmespath: name', required: true}, price: {selector: 'jmespath: price'}}"
READY = "document.body.insertAdjacentHTML('beforeend', '<p id=ready>')"


def ask(*paths: str) -> str:
    """A page that asks for these one after the other."""
    asked = "".join(f"await fetch('{path}').then(a => a.text()).catch(() => 0);" for path in paths)
    return html(f"<script>(async () => {{ {asked} {READY} }})()</script>")


def item(name: str) -> str:
    return json.dumps([{"name": name, "price": "1.10"}], ensure_ascii=False)


def names(rows: list[dict[str, str]]) -> list[str]:
    return [row["name"] for row in rows]


def test_captured_answers_are_documents_of_their_page(front: Front) -> None:
    front.write(CAPTURE, query=QUERY, fields=FIELDS)
    assert front.crawl() == front.rows
    asked = len(front.site.exchanges)
    front.write(CAPTURE, query=QUERY, fields=FIELDS.replace("}}", "}, at: {value: '%{document.url}'}}"))
    again = front.crawl("--set", "live=P1D")
    assert {row["at"] for row in again} == {front.site.url(f"/p/{n}") for n in range(1, 7)}
    assert len(front.site.exchanges) == asked
    assert_nothing_left(front.project)


def test_all_answers_of_a_name_are_read_and_missing_ones_are_told(front: Front) -> None:
    front.pages = 1
    hostile = "</script><!-- <script> é"
    front.site["/api/a"] = Page(item("a"), headers=JSON)
    front.site["/api/b"] = Page(f")]}}',\n{item('b')}", headers={"Content-Type": "text/plain"})
    front.site["/api/c"] = redirect("/other/c")
    front.site["/other/c"] = Page(item(hostile), headers=JSON)
    front.site["/api/d"] = Page("<li>no JSON</li>", headers={"Content-Type": "text/html"})
    front.site["/api/e"] = Page(item("never"), 500, headers=JSON)
    front.site["/api/f"] = Page(item("ü").encode("utf-16"), headers={"Content-Type": "application/json"})
    front.site["/p/1"] = ask(*[f"/api/{name}" for name in "abcdef"])
    front.write(CAPTURE, query=QUERY, fields=FIELDS)
    assert names(front.crawl()) == [hostile, "a", "b", "ü"]
    [warning] = front.done.summary["warnings"]
    assert warning["code"] == "lost-answer"
    assert "`from: capture: items`: 2 answers are missing: " in warning["text"]
    assert "/api/d: it is not JSON, but text/html" in warning["text"]


@pytest.mark.extended
def test_captured_answers_count_as_the_document(front: Front) -> None:
    front.pages = 1
    front.site["/api/a"] = Page(item("x" * 300_000), headers=JSON)
    front.site["/p/1"] = ask("/api/a")
    front.write(CAPTURE, query=QUERY, fields=FIELDS)
    front.crawl("--set", "max_body=200000", code=1)
    reason = front.project.job(front.site.url("/p/1"))["reason"]
    assert "with its captured answers has more than 200,000 bytes (max_body)" in reason


@pytest.mark.extended
def test_a_name_that_no_browser_captures_is_refused(front: Front) -> None:
    front.write(CAPTURE.replace("items:", "item:"), query=QUERY, fields=FIELDS)
    done = front.project.run_command("check")
    assert done.code == 2
    assert "unknown-capture the loader of 'shop' captures no 'items' (did you mean 'item'?)" in done.err + done.out


def test_golden_tests_keep_what_was_rendered(front: Front) -> None:
    front.pages = 1
    front.write(CAPTURE, query=QUERY, fields=FIELDS)
    front.crawl()
    asked = len(front.site.exchanges)
    ((job,),) = front.project.query("SELECT id FROM jobs WHERE origin = 'locator'")
    where = ("--defs", str(front.project.defs), "--data", str(front.project.data))
    done = front.project.start_command("test", "--job", str(job), "--name", "first", *where).wait(30)
    assert done.code == 0, done.err
    tested = front.project.start_command("test", *where).wait(30)
    assert tested.out == "1 passed\n", tested.err
    rows = (front.project.defs / "tests" / "first" / "rows.jsonl").read_text().splitlines()
    assert [json.loads(row)["name"] for row in rows] == ["Item 1-0", "Item 1-1", "Item 1-2"]
    assert len(front.site.exchanges) == asked
