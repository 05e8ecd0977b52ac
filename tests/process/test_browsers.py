"""Pages that scripts write: rows by Chromium, its deaths, and roads around the crawler's rules."""

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .project import until
from .shop_front import FETCHED, NEEDS_BROWSER, SANDBOX, Front, assert_nothing_left, browsers
from .site import Page, html, redirect
from .trap import Trap, trapping

pytestmark = NEEDS_BROWSER


@pytest.fixture
def trap() -> Iterator[Trap]:
    with trapping("127.0.0.2") as made:
        yield made


def test_rows_that_scripts_write(front: Front) -> None:
    front.write()
    assert front.crawl() == front.rows
    assert_nothing_left(front.project)
    agents = {exchange.request.headers["user-agent"] for exchange in front.site.exchanges}
    assert {"Chrome/" in agent and "crawl-console/" in agent for agent in agents if "Mozilla" in agent} == {True}
    [(stored,)] = front.project.query("SELECT count(*) FROM documents")
    assert stored == front.pages


def test_a_stored_page_is_extracted_again_without_a_browser(front: Front) -> None:
    front.write()
    front.crawl()
    asked = len(front.site.exchanges)
    front.write(fields="{name: {selector: b, required: true}, price: {selector: i}, twice: {selector: b}}")
    rows = front.crawl("--set", "live=P1D")
    assert [row["twice"] for row in rows] == [row["name"] for row in front.rows]
    assert len([e for e in front.site.exchanges[asked:] if e.path.startswith("/p/")]) == 0


def test_only_pages_that_lack_something_are_rendered(front: Front) -> None:
    plain = html("<li class=item><b>Plain</b> <i>1</i></li>")
    front.site["/p/2"] = plain
    front.write("{browser: {when: {missing: .item}, wait: '#ready'}}")
    rows = front.crawl()
    assert {"name": "Plain", "price": "1"} in rows
    assert [row for row in rows if row["name"] != "Plain"] == [
        r for r in front.rows if not r["name"].startswith("Item 2")
    ]
    assert front.site.count("/p/2") == 1
    assert front.site.count("/p/1") == 2
    (group,) = front.project.status()["metrics"]["groups"]
    assert (group["plain"], group["rendered"], group["browser"]) == (1, 5, "1 of 6 pages needed no browser")
    assert "shop: 1 of 6 pages needed no browser" in front.done.err
    front.write("{browser: {when: {missing: .item}, wait: '#ready'}}", fields="{name: {selector: b}}")
    front.crawl("--set", "live=P1D")  # uses its stored pages
    assert front.project.status()["metrics"]["groups"][0]["browser"] is None


def test_required_fields_ask_for_a_browser(front: Front) -> None:
    front.write("{browser: {when: {missing: required}, wait: '#ready'}}")
    assert front.crawl() == front.rows


def test_actions_scroll_click_and_consent(front: Front) -> None:
    front.pages = 1
    front.site["/p/1"] = html(
        """<div id=wall><button id=accept onclick="wall.remove(); start()">ok</button></div><ul id=list></ul>
<button id=more onclick="add(2)">more</button><script>
let count = 0;
function add(n) { for (let i = 0; i < n; i++) list.insertAdjacentHTML('beforeend',
    `<li class=item style="height:400px"><b>Item ${++count}</b> <i>${count}</i></li>`); }
function start() { add(2); addEventListener('scroll', () => setTimeout(() => { if (count < 12) add(2); }, 50)); }
</script>"""
    )
    front.write(
        "{browser: {actions: [{click: '#nothing', optional: true}, {click: '#accept'}, {click: '#more'},"
        " {scroll: {until: end}}, {wait: '.item:nth-child(12)'}]}}"
    )
    assert len(front.crawl()) == 12


def test_a_shadow_root_is_stored_with_its_page(front: Front) -> None:
    front.pages = 1
    front.site["/p/1"] = html(
        "<div id=host></div><script>host.attachShadow({mode: 'open'}).innerHTML = '<b>deep</b>'</script>"
    )
    front.write("browser", block="#host")
    assert [row["name"] for row in front.crawl()] == ["deep"]


@pytest.mark.extended
def test_redirects_and_locations_follow_the_rules(front: Front) -> None:
    front.pages = 3
    front.site["/p/1"] = redirect("/p/11")
    front.site["/p/2"] = html("<script>location = '/p/12'</script>")
    front.site["/p/3"] = redirect("/no/13")
    front.site["/robots.txt"] = "User-agent: *\nDisallow: /no/"
    front.write()
    names = [row["name"] for row in front.crawl()]
    assert names == [f"Item {page}-{n}" for page in (11, 12) for n in range(3)]
    assert not any(path.startswith("/no/") for path in front.site.paths)
    assert front.project.job(front.site.url("/p/3"))["state"] == "SKIPPED"


ROADS = """
<img src="{u}/img"><iframe src="{u}/frame"></iframe><link rel=prefetch href="{u}/prefetch">
<link rel=preload as=script href="{u}/preload"><link rel=stylesheet href="{u}/style"><video src="{u}/video"></video>
<object data="{u}/object"></object><embed src="{u}/embed"><script src="{u}/script"></script>
<link rel=preconnect href="{u}"><link rel=dns-prefetch href="{u}"><iframe src="/to-trap"></iframe>
<form id=form action="{u}/form" target=other method=post><input name=a></form><iframe name=other></iframe>
<style>body {{ background: url({u}/background) }} @import "{u}/import";</style>
<script>
const quietly = work => {{ try {{ const done = work(); done && done.catch && done.catch(() => 0); }} catch (e) {{}} }};
quietly(() => fetch('{u}/fetch', {{mode: 'no-cors'}}));
quietly(() => navigator.sendBeacon('{u}/beacon', 'x'));
quietly(() => new WebSocket('{w}/socket'));
quietly(() => new EventSource('{u}/events'));
quietly(() => form.submit());
quietly(() => open('{u}/window'));
quietly(() => fetch('/to-trap', {{mode: 'no-cors'}}));
quietly(() => new Worker(URL.createObjectURL(new Blob(["fetch('{u}/worker', {{mode: 'no-cors'}})"]))));
quietly(() => {{ const peer = new RTCPeerConnection({{iceServers: [{{urls: 'stun:127.0.0.2:{port}'}},
    {{urls: 'turn:127.0.0.2:{port}?transport=tcp', username: 'a', credential: 'b'}}]}});
    peer.createDataChannel('a'); return peer.createOffer().then(offer => peer.setLocalDescription(offer)); }});
quietly(() => navigator.serviceWorker.register('/worker.js'));
setTimeout(() => document.body.insertAdjacentHTML('beforeend', '<p id=ready><b class=item>done</b>'), 1500);
</script>"""


@pytest.mark.extended
def test_no_road_leads_to_a_guarded_address(front: Front, trap: Trap) -> None:
    front.pages = 1
    address = f"127.0.0.2:{trap.port}"
    front.site["/p/1"] = html(ROADS.format(u=f"http://{address}", w=f"ws://{address}", port=trap.port))
    front.site["/to-trap"] = redirect(f"http://{address}/redirected")
    front.site["/worker.js"] = Page(f"fetch('http://{address}/service')", headers={"Content-Type": "text/javascript"})
    front.write(block="p")
    assert [row["name"] for row in front.crawl()] == ["done"]
    assert trap.connections == []


@pytest.mark.parametrize("road", ["location", "meta", "redirect"])
def test_a_document_at_a_guarded_address_is_not_loaded(front: Front, trap: Trap, road: str) -> None:
    front.pages = 1
    target = f"http://127.0.0.2:{trap.port}/x"
    front.site["/p/1"] = {
        "location": Page(html(f"<script>location = '{target}'</script>")),
        "meta": Page(html(f'<meta http-equiv=refresh content="0; url={target}">')),
        "redirect": redirect(target),
    }[road]
    front.write("browser")
    front.crawl(code=1)
    assert trap.connections == []
    assert front.project.job(front.site.url("/p/1"))["state"] == "SKIPPED"


def test_kills_of_browsers_and_nodes_lose_nothing(front: Front) -> None:
    front.pages = 40
    front.write()
    running = front.project.start(*SANDBOX, "--set", "max_attempts=20", nodes=2)
    chance, killed = random.Random(3), 0
    while not running.exited and killed < 8:
        time.sleep(chance.uniform(0.5, 2.0))
        victims = browsers(front.project) + front.project.children("node")
        if victims and len(front.project.query("SELECT 1 FROM jobs WHERE state = 'DONE'")) > 2:
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(victims), signal.SIGKILL)
                killed += 1
    assert running.wait(200).code == 0
    assert sorted(front.project.rows("item"), key=lambda row: row["name"]) == sorted(
        front.rows, key=lambda r: r["name"]
    )
    assert killed == 8
    (group,) = front.project.status()["metrics"]["groups"]
    assert (group["plain"], group["rendered"], group["browser"]) == (0, 40, "40 pages rendered")
    assert_nothing_left(front.project)


def test_a_page_whose_renderer_dies_before_its_answer_is_tried_again(front: Front) -> None:
    front.pages = 1
    held = threading.Event()
    front.site["/p/1"] = lambda request: Page(html(FETCHED), hold=held if request.attempt == 1 else None)
    front.write()
    running = front.project.start(*SANDBOX)
    assert until(lambda: front.site.count("/p/1") == 1, 60.0)
    for pid in browsers(front.project):
        if b"--type=renderer" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    held.set()
    assert running.wait(100).code == 0
    assert sorted(front.project.rows("item"), key=lambda row: row["name"]) == front.rows


@pytest.mark.parametrize(
    ("loader", "wanted"),
    [
        ("{browser: {wait: 'div['}}", "wait: Unexpected token"),
        ("{browser: {actions: [{press: Entr}]}}", 'action 1 (press Entr): Unknown key: "Entr"'),
    ],
)
def test_a_selector_or_key_that_means_nothing_is_told_and_not_tried_again(
    front: Front, loader: str, wanted: str
) -> None:
    front.pages = 1
    front.write(loader)
    front.crawl(code=1)
    assert wanted in front.project.job(front.site.url("/p/1"))["reason"]
    assert front.site.count("/p/1") == 1


@pytest.mark.parametrize(
    "page",
    [Page(b"x", headers={"Content-Type": "application/octet-stream"}), Page(status=204)],
    ids=["file", "no content"],
)
def test_a_url_without_a_document_fails_at_once(front: Front, page: Page) -> None:
    front.pages = 1
    front.site["/p/1"] = page
    front.write()
    front.crawl(code=1)
    assert "the browser shows no document of this URL" in front.project.job(front.site.url("/p/1"))["reason"]
    assert front.site.count("/p/1") == 1


@pytest.mark.parametrize(
    "page",
    {
        "dialogs": "<script>alert(1); confirm(2); prompt(3); onbeforeunload = () => 'no'</script>",
        "timers": "<script>setInterval(() => fetch('/api/p/1'), 10)</script>",
        "elements": "<script>document.body.insertAdjacentHTML('beforeend', '<s></s>'.repeat(50000))</script>",
        "windows": "<script>for (let i = 0; i < 20; i++) open('/p/9')</script>",
        "download": "<a id=a href='data:application/octet-stream,x' download=x></a><script>a.click()</script>",
        "requests": "<script>for (let i = 0; i < 500; i++) fetch('/api/p/1')</script>",
    }.values(),
    ids=["dialogs", "timers", "elements", "windows", "download", "requests"],
)
def test_odd_pages_give_their_rows(front: Front, page: str) -> None:
    front.pages = 1
    front.site["/p/1"] = html(f"{page}<p class=item><b>there</b></p>")
    front.write("browser")
    assert [row["name"] for row in front.crawl()] == ["there"]
    assert_nothing_left(front.project)


@pytest.mark.extended
def test_what_never_comes_costs_its_page_alone(front: Front) -> None:
    front.pages = 2
    front.site["/p/1"] = html("<p>empty</p>")
    front.write()
    rows = front.crawl("--set", "deadline=4", "--set", "max_attempts=1", code=1)
    assert [row["name"] for row in rows] == [f"Item 2-{n}" for n in range(3)]
    assert "timeout" in front.project.job(front.site.url("/p/1"))["reason"]


@pytest.mark.extended
def test_a_missing_browser_is_told_before_a_page_fails(front: Front) -> None:
    front.write("browser")
    done = front.project.start("--set", "browser=/nowhere/chromium").wait()
    assert done.code == 2
    assert "/nowhere/chromium" in done.err
    assert "Set browser" in done.err
    assert front.site.paths == []


def test_browsers_are_shown_below_their_node_and_a_death_is_told(front: Front) -> None:
    front.pages = 30
    front.write()
    running = front.project.start(*SANDBOX, nodes=1)

    def shown() -> dict[str, Any]:
        [node] = [one for one in front.project.status()["nodes"] if one["id"] == "n1"] or [{}]
        return node.get("browsers") or {"processes": []}

    assert until(lambda: any(one["pages"] > 4 and one["urls"] for one in shown()["processes"]), 100)
    [browser] = shown()["processes"]
    assert browser["rss"] > 50_000_000
    assert 0 < browser["age"] < 100
    assert set(browser["urls"]) <= {front.site.url(f"/p/{page}") for page in range(1, 31)}
    os.kill(browser["pid"], signal.SIGKILL)
    assert until(lambda: shown().get("replaced") == 1, 20)
    assert (shown()["reason"], shown()["is_fault"]) == ("its process ended (signal 9)", True)
    assert running.wait(200).code == 0
    told = front.project.query("SELECT level, text FROM events WHERE text LIKE '%replaced:%'")
    assert told == [("WARNING", "n1: 1 browser replaced: its process ended (signal 9)")]
    assert_nothing_left(front.project)
