"""Rendered pages are judged, stored, planned and read again as plain ones are."""

import json
import time
from typing import Any

import pytest

from .shop_front import NEEDS_BROWSER, SANDBOX, Front
from .site import Page, Request, html

pytestmark = NEEDS_BROWSER
ROW = "<p class=item id=ready><b>{}</b></p>"


def crawl(front: Front, *arguments: str, code: int = 0) -> dict[str, Any]:
    done = front.project.crawl(*SANDBOX, *arguments, code=code, seconds=200)
    return json.loads(done.out.splitlines()[-1])


def job(front: Front, path: str) -> tuple[str, str]:
    found = front.project.job(front.site.url(path))
    return found["state"], found["reason"] or ""


@pytest.mark.parametrize("body", ["", "<p>sorry</p>"], ids=["empty", "with content"])
def test_statuses_are_judged_as_those_of_plain_pages(front: Front, body: str) -> None:
    front.pages = 4

    def busy(request: Request) -> Page:
        return Page(html(ROW.format("late"))) if request.attempt > 1 else Page(body, 503, headers={"Retry-After": "3"})

    front.site["/p/1"], front.site["/p/2"] = Page(body, 404), Page(body, 500)
    front.site["/p/3"], front.site["/p/4"] = busy, Page(body, 418)
    front.write()
    started = time.monotonic()
    crawl(front, "--set", "max_attempts=2", code=1)
    assert job(front, "/p/1") == ("FAILED", "HTTP 404 (gone)")
    assert job(front, "/p/2") == ("FAILED", "HTTP 500 (2 attempts)")
    assert job(front, "/p/3")[0] == "DONE"
    assert job(front, "/p/4") == ("FAILED", "HTTP 418")
    first, second = [one.started for one in front.site.exchanges if one.path == "/p/3"]
    assert 3.0 <= second - first < 25.0
    assert time.monotonic() - started < 60, "what the page of an error lacks is not waited for"


def test_challenges_and_signs_are_seen_on_the_rendered_page(front: Front) -> None:
    front.pages = 2
    front.site["/p/1"] = html("<p id=ready></p><script>document.body.append('Verify you ' + 'are human')</script>")
    front.write()
    text = (front.project.defs / "crawl.yml").read_text()
    front.project.write(text + 'hosts: {127.0.0.1: {blocked: [{match: "verify you are human"}]}}\n')
    crawl(front, "--set", "max_attempts=1", code=1)
    state, reason = job(front, "/p/1")
    assert state == "FAILED"
    assert reason.startswith("blocked: ")
    assert job(front, "/p/2")[0] == "DONE"


def test_what_scripts_write_into_the_head_counts(front: Front) -> None:
    front.pages = 3
    add = "<p id=ready></p><script>document.head.insertAdjacentHTML('beforeend', `{}`)</script>"
    front.site["/p/1"] = html(add.format("<meta http-equiv=refresh content='1; url=/q/1'>"))
    front.site["/p/2"] = html(add.format("<link rel=canonical href='/q/2'>"))
    front.site["/p/3"] = html(add.format("<meta name=robots content=nofollow>") + "<a href='/q/3'>no</a>")
    for number in (1, 2, 3):
        front.site[f"/q/{number}"] = html(ROW.format(f"q{number}"))
    front.write("{browser: {wait: '#ready'}}\n    canonical: true", more="    links: [{selector: a}]")
    crawl(front)
    assert sorted(row["name"] for row in front.project.rows("item")) == ["q1", "q2"]
    assert "/q/3" not in front.site.paths


def test_a_plain_document_does_not_serve_a_browser(front: Front) -> None:
    front.pages = 1
    change = "<script>document.querySelector('b').textContent = 'made'</script>"
    front.site["/p/1"] = html(f"<p class=item><b>plain</b></p>{change}")
    front.write("browser")
    text = (front.project.defs / "crawl.yml").read_text()
    front.project.write(text.replace("    loader: browser\n", ""))
    crawl(front, "--set", "live=P1D")
    assert [row["name"] for row in front.project.rows("item")] == ["plain"]
    front.project.write(text)
    crawl(front, "--set", "live=P1D")
    assert [row["name"] for row in front.project.rows("item")] == ["made"]
    assert front.site.count("/p/1") == 2
    crawl(front, "--set", "live=P1D")
    assert front.site.count("/p/1") == 2


def test_a_changed_loader_makes_no_page_stale_and_retry_renders_again(front: Front) -> None:
    front.pages = 2
    front.write()
    crawl(front)
    asked = len(front.site.exchanges)
    front.write("{browser: {wait: '#ready', block: [images]}}")
    plan = json.loads(front.project.run_command("plan", "--json").out)
    assert (plan["pages"], plan["compared"]) == (0, 0)
    crawl(front, "--set", "live=P1D")
    assert len(front.site.exchanges) == asked
    assert front.project.run_command("retry", "--state", "done").code == 0
    crawl(front)
    assert front.site.count("/p/1") == 2
    assert sorted(row["name"] for row in front.project.rows("item")) == [row["name"] for row in front.rows[:6]]


def test_an_edit_is_planned_and_extracted_without_a_browser(front: Front) -> None:
    front.pages = 2
    front.write()
    crawl(front)
    asked = len(front.site.exchanges)
    front.write(fields="{name: {selector: i, required: true}}")
    plan = json.loads(front.project.run_command("plan", "--json").out)
    assert (plan["pages"], plan["compared"]) == (2, 2)
    done = front.project.start_command(
        "extract", "--data", str(front.project.data), "--defs", str(front.project.defs)
    ).wait(60)
    assert done.code == 0, done.err
    assert sorted(row["name"] for row in front.project.rows("item")) == ["1.00", "1.10", "1.20", "2.00", "2.10", "2.20"]
    assert len(front.site.exchanges) == asked


def test_changes_between_runs_of_rendered_pages(front: Front) -> None:
    front.pages = 1
    front.write(more="    key: [name]")
    crawl(front)
    items = [
        {"name": "Item 1-0", "price": "9"},
        {"name": "Item 1-1", "price": "1.10"},
        {"name": "Item 1-2", "price": "1.20"},
    ]
    front.site["/api/p/1"] = Page(json.dumps(items), headers={"Content-Type": "application/json"})
    crawl(front)
    changes = front.project.run_command("export", "item", "--changes").out
    assert "Item 1-0" in changes
    assert "Item 1-1" not in changes


@pytest.mark.extended
def test_revalidate_is_refused(front: Front) -> None:
    front.write("browser\n    revalidate: true")
    done = front.project.run_command("check")
    assert done.code == 2
    assert "`revalidate` compares what a server sends" in done.out + done.err


FRAMES = """
<iframe src=/f/outer></iframe><iframe id=doc></iframe><iframe src="about:blank"></iframe>
<div id=host></div><script>
doc.srcdoc = '<p class=item><b>srcdoc</b></p><iframe src=/f/inner></iframe>';
const root = host.attachShadow({mode: 'open'});
root.innerHTML = '<iframe src=/f/shadowed></iframe>';
</script>"""


@pytest.mark.extended
def test_frames_of_the_site_are_parts_of_the_page(front: Front, second_site: Any) -> None:
    front.pages = 1
    second_site.fallback = lambda _: Page(html(ROW.format("foreign")))
    front.site["/p/1"] = html(FRAMES + f"<iframe src='http://localhost:{second_site.port}/'></iframe>")
    front.site["/f/outer"] = html("<p class=item><b>outer</b></p><iframe src=/f/inner></iframe>")
    front.site["/f/inner"] = html(
        "<div id=h></div><script>h.attachShadow({mode: 'open'}).innerHTML = '<p class=item><b>inner</b></p>'</script>"
    )
    front.site["/f/shadowed"] = html("<p class=item><b>shadowed</b></p>")
    front.write("{browser: {wait: idle, frames: true}}")
    crawl(front)
    assert sorted(row["name"] for row in front.project.rows("item")) == [
        "inner", "inner", "outer", "shadowed", "srcdoc",
    ]  # fmt: skip
