"""What a page in a browser may ask for: robots.txt of other hosts, windows, workers, further documents."""

import time
from itertools import pairwise

import pytest

from .shop_front import NEEDS_BROWSER, Front
from .site import Page, Site, html

pytestmark = NEEDS_BROWSER

SCRIPT = {"Content-Type": "text/javascript"}
DONE = """<script>
setTimeout(() => document.body.insertAdjacentHTML('beforeend', '<p class=item><b>done</b>'), 1000)
</script>"""
WAIT = "{browser: {wait: .item}}"


def warnings(front: Front) -> list[str]:
    return [text for (text,) in front.project.query("SELECT text FROM events WHERE level = 'WARNING' ORDER BY id")]


@pytest.mark.extended
def test_parts_that_robots_txt_disallows_are_not_asked_for_and_are_told(front: Front) -> None:
    front.pages = 3
    front.site["/robots.txt"] = "User-agent: *\nDisallow: /api/\nDisallow: /closed/"
    ask = "fetch('/api/p/1').catch(() => 0); fetch('/open/a')"
    worker = "fetch('/closed/worker').catch(() => 0); fetch('/open/worker')"
    front.site["/worker.js"] = Page(worker, headers=SCRIPT)
    front.site["/frame"] = html("<script>fetch('/closed/frame').catch(() => 0); fetch('/open/frame')</script>")
    page = f"<script>{ask}; new Worker('/worker.js')</script><img src=/closed/img><iframe src=/frame></iframe>{DONE}"
    for number in (1, 2, 3):
        front.site[f"/p/{number}"] = html(page)
    front.write(WAIT)
    assert [row["name"] for row in front.crawl()] == ["done"] * 3
    assert {path for path in front.site.paths if path.startswith(("/api/", "/closed/"))} == set()
    assert {"/open/a", "/open/worker", "/open/frame"} <= set(front.site.paths)
    told = [text for text in warnings(front) if "robots.txt" in text]
    assert len(told) == 2, "once for each rule"
    assert any("/api/" in text and front.site.url("/api/p/1") in text for text in told), told


def test_an_empty_page_says_that_its_data_are_disallowed(front: Front) -> None:
    front.pages = 1
    front.site["/robots.txt"] = "User-agent: *\nDisallow: /api/"
    front.write()
    front.crawl("--set", "deadline=4", "--set", "max_attempts=1", code=1)
    reason = front.project.job(front.site.url("/p/1"))["reason"]
    assert "timeout after 4 s: #ready did not come; " in reason
    assert "robots.txt" in reason
    assert front.site.url("/api/p/1") in reason


def test_the_rules_of_another_host_hold_where_they_are_known(front: Front, second_site: Site) -> None:
    front.pages = 1
    second_site["/robots.txt"] = "User-agent: *\nDisallow: /closed"
    second_site["/q"] = html("<p class=item><b>other</b>")
    second_site["/closed"] = second_site["/open"] = Page("x", headers={"Access-Control-Allow-Origin": "*"})
    parts = f"fetch('{second_site.url('/closed')}').catch(() => 0); fetch('{second_site.url('/open')}')"
    front.site["/p/1"] = Page(html(f"<script>{parts}</script>{DONE}"), delay=2.0)
    front.write(WAIT)
    text = (front.project.defs / "crawl.yml").read_text()
    front.project.write(text.replace("{locators: [", f'{{locators: [{{url: "{second_site.url("/q")}"}}, '))
    assert [row["name"] for row in front.crawl()] == ["done", "other"]
    assert "/open" in second_site.paths
    assert "/closed" not in second_site.paths


def test_windows_and_shared_workers_ask_for_nothing(front: Front) -> None:
    front.pages = 6
    front.site["/shared.js"] = Page("fetch('/closed/shared')", headers=SCRIPT)
    buttons = {
        "a": "<a id=a target=_blank href=/closed/a>a</a>",
        "b": "<a id=b target=_blank rel=noopener href=/closed/b>b</a>",
        "c": "<button id=c onclick=\"window.open('/closed/c')\">c</button>",
        "d": "<form action=/closed/d target=_blank><button id=d>d</button></form>",
        "e": "<button id=e onclick=\"Object.assign(document.createElement('a'),"
        " {href: '/closed/e', target: '_blank', rel: 'opener'}).click()\">e</button>",
        "f": "<a id=f target=_blank rel=opener href=\"javascript:fetch('/closed/f')\">f</a>",
    }  # fmt: skip
    script = "try { new SharedWorker('/shared.js') } catch (e) {}; open('/closed/open')"
    page = html(f"{''.join(buttons.values())}<script>{script}</script>{DONE}")
    for number in range(1, 7):
        front.site[f"/p/{number}"] = page
    clicks = ", ".join(f"{{click: '#{name}'}}" for name in buttons)
    front.write(f"{{browser: {{wait: .item, actions: [{clicks}, {{wait: 1}}]}}}}")
    assert [row["name"] for row in front.crawl()] == ["done"] * 6
    assert [path for path in front.site.paths if path.startswith("/closed/")] == []


def test_documents_that_actions_lead_to_wait_for_their_turn(front: Front) -> None:
    front.pages = 1
    front.site["/p/1"] = html("<a id=next href=/p/2>next</a>")
    front.site["/p/2"] = html("<a id=next href=/p/3>next</a>")
    front.site["/p/3"] = html("<p class=item><b>third</b>")
    clicks = "{click: '#next'}, {wait: \"[href='/p/3']\"}, {click: '#next'}, {wait: .item}"
    front.write(f"{{browser: {{actions: [{clicks}]}}}}")
    text = (front.project.defs / "crawl.yml").read_text()
    front.project.write(f"{text}\nhosts: {{127.0.0.1: {{delay: 3}}}}\n")
    assert [row["name"] for row in front.crawl("--set", "deadline=5")] == ["third"]
    first, second, third = (front.site.start_times(f"/p/{number}")[0] for number in (1, 2, 3))
    assert min(second - first, third - second) > 2.5, "but for what a connection takes"


def test_a_document_that_robots_txt_disallows_ends_its_page(front: Front) -> None:
    front.pages = 1
    front.site["/robots.txt"] = "User-agent: *\nDisallow: /closed"
    front.site["/p/1"] = html("<a id=next href=/closed>next</a>")
    front.write("{browser: {actions: [{click: '#next'}, {wait: .item}]}}")
    began = time.monotonic()
    front.crawl(code=1)
    assert time.monotonic() - began < 25
    assert front.project.job(front.site.url("/p/1"))["state"] == "SKIPPED"
    assert "/closed" not in front.site.paths


def test_a_delay_beyond_the_deadline_costs_no_page_and_no_attempt(front: Front) -> None:
    front.pages = 3
    for number in (1, 2, 3):
        front.site[f"/p/{number}"] = html(f"<a id=next href=/q/{number}>next</a>")
        front.site[f"/q/{number}"] = html(f"<p class=item><b>{number}</b>")
    actions = "[{click: .missing, optional: true}, {click: '#next', optional: true}, {wait: .item}]"
    hosts = f"hosts: {{'127.0.0.1:{front.site.port}': {{delay: 7, robots: false}}}}"
    front.write(f"{{browser: {{actions: {actions}}}}}", more=hosts)
    assert [row["name"] for row in front.crawl("--set", "deadline=6")] == ["1", "2", "3"]
    assert front.project.query("SELECT DISTINCT attempts FROM jobs WHERE url LIKE '%/p/%'") == [(1,)]
    times = front.site.start_times(*[f"/{kind}/{number}" for kind in "pq" for number in (1, 2, 3)])
    assert min(after - before for before, after in pairwise(sorted(times))) > 6.5
