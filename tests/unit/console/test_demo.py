"""The demo shop: its defs extract the expected results, and its server is fast and ends with its parent."""

import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections import Counter, deque
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from crawl_console.cli.commands.work.demo import demo_defs
from crawl_console.demo.front import CLICKS, PER_CLICK, PLAIN_WINDOW, Front, front_urls
from crawl_console.demo.server import serve_shop
from crawl_console.demo.site import CATEGORIES, MOVED, UNPRICED, Shop, expected_results, product
from crawl_engine import urls
from crawl_engine.defs.loader import load
from crawl_engine.extract.page.context import Context
from crawl_engine.extract.page.page import Page
from crawl_engine.extract.records import RecordExtractor
from crawl_engine.http.decode import decode
from crawl_engine.robots.rules import RobotsRules
from tests.process.stopwatch import Stopwatch

ORIGIN = "http://127.0.0.1:8080"


@pytest.fixture(scope="module")
def definitions():
    loaded = load(demo_defs())
    assert loaded.warnings == ()
    return loaded.definitions


def crawl(definitions, pages):
    """Crawl a shop in memory: the results that a run should have, and the rows."""
    shop = Shop(pages, ORIGIN)
    robots = RobotsRules(shop.reply("/robots.txt").body.decode(), "anyone")
    extractors = {d.name: RecordExtractor(d) for d in definitions.data_defs}
    todo = deque(
        (group.name, urls.join(ORIGIN, url), 0)
        for group in definitions.locator_groups
        for locator in group.locators
        for url in locator.urls
    )
    seen = {(group, url) for group, url, _ in todo}
    skipped, rejected, rows, done = Counter(), Counter(), {}, 0
    while todo:
        group, job_url, depth = todo.popleft()
        url, reply = job_url, None
        while reply is None or reply.location is not None:
            url = url if reply is None else urls.join(url, reply.location)
            if robots.disallowing_rule(url) is not None:
                reply = None
                break
            assert urls.origin(url) == ORIGIN
            reply = shop.reply(url.removeprefix(ORIGIN))
        if reply is None:
            skipped["robots.txt disallows it"] += 1
            continue
        if reply.status != 200:
            skipped[f"HTTP {reply.status} (gone)"] += 1
            continue
        document = decode(reply.body, reply.content_type)
        assert not document.damaged
        if document.kind == "binary":
            skipped[f"not a page: {reply.content_type}"] += 1
            continue
        done += 1
        page = Page(url=url, text=document.text, kind=document.kind, status=200, fetched_at=0.0)
        context = Context(
            group=group, locator="home", locator_url=ORIGIN, depth=depth, run="r", run_time="2024-01-01T00:00:00Z"
        )
        tasks = definitions.task_group(group)
        for task in tasks.tasks:
            found = extractors[task.data_def].extract(page, context)
            rows.setdefault(task.data_def, []).extend(found.rows)
            for rejection in found.rejected:
                rejected[rejection.data_def] += 1
            for link in found.links:
                limit = definitions.task_group(link.group).max_depth
                if (link.group, link.url) not in seen and (limit is None or depth < limit):
                    seen.add((link.group, link.url))
                    todo.append((link.group, link.url, depth + 1))
    found = {
        "jobs": {
            "done": done, "failed": 0, "skipped": skipped.total(), "incomplete": 0, "ready": 0, "taken": 0,
        },
        "skipped": dict(skipped),
        "rows": {name: len(made) for name, made in rows.items() if made},
        "rejected": dict(rejected),
    }  # fmt: skip
    return found, rows


@pytest.mark.parametrize("pages", [1, 2, 4, 5, 12, 39, 40, 160, 161, 500])
def test_the_defs_extract_the_expected_results(definitions, pages):
    found, _ = crawl(definitions, pages)
    assert found == expected_results(pages)


def test_rows_hold_the_products_of_the_shop(definitions):
    pages = 90
    _, rows = crawl(definitions, pages)
    offers = {row["sku"]: row for row in rows["offer"]}
    details = {row["sku"]: row for row in rows["product"]}
    assert len(offers) == len(rows["offer"]), "an offer twice"
    assert len(details) == len(rows["product"]), "a product twice"
    for number in range(1, pages + 1):
        thing = product(number)
        assert (thing.sku in offers) == (number % 40 != 0)
        if thing.sku in offers:
            offer = offers[thing.sku]
            assert offer["name"] == thing.name
            assert offer["url"].partition("#")[0] == ORIGIN + quote(thing.link_path)
            assert offer["stock"] is (thing.pieces > 0)
            assert (offer["price"] is None) == (number == UNPRICED)
        assert (thing.sku in details) == (number != UNPRICED)
        if thing.sku in details:
            detail = details[thing.sku]
            assert (detail["name"], detail["pieces"]) == (thing.name, thing.pieces)
            assert f"£{detail['price']}" == thing.price
            assert len(detail["since"]) == 10
    assert {len(detail["reviews"]) for detail in details.values()} == {0, 1, 2, 3}
    assert {row["title"] for row in rows["article"]} >= {"Příběh hrnku", "茶の時間"}
    assert all(row["celsius"] and row["minutes"] for row in rows["steeping"])


def test_the_same_number_makes_the_same_shop():
    one, two = Shop(50, ORIGIN), Shop(50, ORIGIN)
    paths = ["/", "/catalogue/teapots/", *(quote(product(n).path) for n in range(1, 51))]
    assert [one.reply(p) for p in paths] == [two.reply(p) for p in paths]


@pytest.mark.parametrize(
    "target",
    [
        "/product/blue-teapot-0.html", "/product/-1.html", "/product/1.html", "/product/none-teapot-1.html",
        "/product/x-51.html", "/p/1", "/p/", "/p/x", "/catalogue/", "/catalogue/teapots/page-1.html", "", "*", "/%ff",
        "/catalogue/none/page-2.html", "/catalogue/teapots/page-9.html", "/../etc/passwd", "/product/x-9999999999.html",
    ],
)  # fmt: skip
def test_unknown_paths_are_not_found(target):
    assert Shop(50, ORIGIN).reply(target).status == 404


def test_a_sitemap_names_pages_that_exist():
    shop = Shop(30, ORIGIN)
    text = shop.reply("/sitemap.xml").body.decode()
    found = [part.partition("<")[0] for part in text.split("<loc>")[1:]]
    assert len(found) == 2 + 6 + len(CATEGORIES) + 30
    assert {shop.reply(url.removeprefix(ORIGIN)).status for url in found} == {200}


def test_a_window_of_the_front_has_the_goods_of_its_parts():
    front = Front()
    (path,) = [line.removeprefix(ORIGIN) for line in front_urls(ORIGIN).splitlines() if f"/{PLAIN_WINDOW}." in line]
    parts = [json.loads(front.reply(f"/goods/{PLAIN_WINDOW}.json?part={part}").body) for part in range(1, CLICKS + 2)]
    assert [part["last"] for part in parts] == [False] * CLICKS + [True]
    goods = [good for part in parts for good in part["goods"]]
    assert len({good["name"] for good in goods}) == PER_CLICK * (CLICKS + 1)
    text = front.reply(path).body.decode()
    assert all(f"<b>{good['name']}</b> <i>{good['price']}</i>" in text for good in goods)
    scripted = front.reply(f"/window/{PLAIN_WINDOW + 1}.html").body.decode()
    assert 'class="good"' not in scripted
    for target in ("/", "/window/0.html", "/window/9.html", "/goods/1.json", "/goods/1.json?part=9"):
        assert front.reply(target).status == 404


def test_a_page_costs_little():
    shop = Shop(1000, ORIGIN)
    paths = [quote(product(n).path) for n in range(1, 1001)]
    best = min(_seconds(shop, paths) for _ in range(5))
    assert best / len(paths) < 0.0002


def _seconds(shop, paths):
    started = time.process_time()
    for path in paths:
        shop.reply(path)
    return time.process_time() - started


def _get(connection, path, method="GET"):
    connection.request(method, path)
    response = connection.getresponse()
    return response, response.read()


def _connected(address):
    return http.client.HTTPConnection(urlsplit(address).netloc, timeout=10)


def test_the_server_keeps_connections_open_and_serves_the_shop():
    with serve_shop(pages=20) as address:
        connection = _connected(address)
        response, body = _get(connection, "/")
        assert (response.status, body) == (200, Shop(20, address).reply("/").body)
        held = connection.sock
        response, _ = _get(connection, f"/p/{MOVED[0]}")
        assert (response.status, response.headers["Location"]) == (301, quote(product(MOVED[0]).path))
        response, body = _get(connection, "/", "HEAD")
        assert (response.status, body) == (200, b"")
        assert connection.sock is held, "the connection was closed"
        assert _get(connection, "/", "POST")[0].status == 405
    with pytest.raises(OSError):
        _get(_connected(address), "/")


def test_requests_in_one_piece_and_in_many_are_answered_in_order():
    with serve_shop(pages=20, latency=0.01) as address:
        connection = _connected(address)
        connection.connect()
        connection.sock.sendall(b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\nGET /logo.gif HTTP/1.1\r\nHo")
        time.sleep(0.05)
        connection.sock.sendall(b"st: x\r\nConnection: close\r\n\r\n")
        received = b"".join(iter(lambda: connection.sock.recv(65536), b""))
    assert 0 < received.index(b"404 Not Found") < received.index(b"image/gif")


def test_errors_occur_once_and_on_the_same_pages_in_every_process():
    paths = [quote(product(n).path) for n in range(1, 101)]
    failures = []
    for _ in range(2):
        with serve_shop(pages=100, errors=0.3) as address:
            connection = _connected(address)
            first = [_get(connection, path)[0] for path in paths]
            assert {response.status for response in first} == {200, 503}
            assert all(a.headers["Retry-After"] == "0" for a in first if a.status == 503)
            assert {_get(connection, path)[0].status for path in paths} == {200}
            failures.append([response.status for response in first])
    assert failures[0] == failures[1]
    assert 15 <= failures[0].count(503) <= 45


def test_each_response_takes_the_latency_and_clients_do_not_wait_for_each_other():
    with serve_shop(pages=20, latency=0.2) as address:
        _get(_connected(address), "/logo.gif")  # the process is up
        clients = [_connected(address) for _ in range(10)]
        watch, started = Stopwatch(), time.monotonic()
        for client in clients:
            client.request("GET", "/logo.gif")
        assert {client.getresponse().status for client in clients} == {200}
        assert time.monotonic() - started >= 0.2
        assert watch.seconds() < 1.5


def test_a_client_that_disconnects_leaves_no_traceback(capfd):
    with serve_shop(pages=20, latency=0.1) as address:
        _get(_connected(address), "/logo.gif")  # the process is up
        client = _connected(address)
        client.request("GET", "/")
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()  # resets the connection
        time.sleep(0.3)
    assert capfd.readouterr().err == ""


def test_the_server_ends_when_its_parent_is_killed():
    code = (
        "import time\nfrom crawl_console.demo.server import serve_shop\n"
        "with serve_shop(pages=5) as address:\n print(address, flush=True)\n time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=Path.cwd())
    address = parent.stdout.readline().strip()
    assert _get(_connected(address), "/logo.gif")[0].status == 200
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            _get(_connected(address), "/logo.gif")
        except OSError:
            return
        time.sleep(0.02)
    pytest.fail("the server outlived its parent")
