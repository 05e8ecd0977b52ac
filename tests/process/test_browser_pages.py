"""Pages that do what they can to a browser: each gives its document, or fails alone, and says why."""

import contextlib
import os
import signal
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawl_engine.http.errors import FetchFailed
from crawl_engine.http.response import FetchResponse
from crawl_engine.model.step import BrowserAction

from .certificates import Authority
from .loaded_pages import PageLoads, page_loads
from .project import until
from .raw_server import RawServer
from .shop_front import NEEDS_BROWSER
from .site import Page, Request, Site, html, serve_site

pytestmark = NEEDS_BROWSER
GOOD = "<p class=item>there</p>"
ODD = {
    "natives": """<script>for (const [owner, name] of [[Document.prototype, 'querySelectorAll'], [window, 'JSON'],
        [Element.prototype, 'getHTML'], [Node.prototype, 'cloneNode'], [window, 'Map'], [Array.prototype, 'push']])
        owner[name] = () => { throw 'mine' };
        Object.defineProperty(Element.prototype, 'outerHTML', {get: () => 'a ' + 'lie'});</script>""",
    "alerts": "<script>setInterval(() => alert('again'), 1)</script>",
    "unload": "<script>onbeforeunload = event => { event.preventDefault(); return 'stay' }</script>",
    "print": "<script>print()</script>",
    "back": "<script>setInterval(() => { history.pushState(0, '', '#a'); history.back() }, 20)</script>",
    "states": "<script>for (let i = 0; i < 150; i++) history.pushState(0, '', '#' + i)</script>",
    "downloads": "<script>for (let i = 0; i < 5; i++) { const a = document.createElement('a'); a.download = 'x';"
    " a.href = 'data:application/octet-stream,x'; a.click() }</script>",
    "cookies": "<script>for (let i = 0; i < 10000; i++) document.cookie = 'c' + i + '=' + 'x'.repeat(50)</script>",
    "timers": "<script>setInterval(() => document.body.append('.'), 1)</script>",
    "schemes": "<iframe src='file:///etc/passwd'></iframe><iframe src='chrome://version'></iframe>"
    "<iframe src='view-source:http://a/'></iframe><img src='chrome-extension://a/b'><script>try { location = "
    "'file:///etc/passwd' } catch (e) {}; location = 'chrome://crash'</script>",
    "permissions": "<script>navigator.geolocation.getCurrentPosition(() => 0); Notification.requestPermission();"
    " navigator.mediaDevices && navigator.mediaDevices.getUserMedia({video: true}).catch(() => 0)</script>",
    "title": f"<script>document.title = 'x'.repeat(5e5)</script><title>{'t' * 100_000}</title>",
    "fullscreen": "<script>document.body.requestFullscreen().catch(() => 0)</script>",
    "storage": "<script>try { localStorage.a = 'x'.repeat(1e8) } catch (e) {}; indexedDB.open('a')</script>",
}
"""Pages that have a row all the same."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageLoads]:
    with page_loads(tmp_path_factory.mktemp("pages"), max_body=1_000_000) as loads:
        yield loads


@pytest.fixture(scope="module")
def shop() -> Iterator[Site]:
    with serve_site() as site:
        site["/good"] = html(GOOD)
        yield site


def body_of(answer: FetchResponse | FetchFailed) -> str:
    assert isinstance(answer, FetchResponse), answer.reason
    return answer.body.decode()


def reason_of(answer: FetchResponse | FetchFailed) -> str:
    assert isinstance(answer, FetchFailed), answer
    return answer.reason


@pytest.mark.extended
@pytest.mark.parametrize("page", ODD)
def test_odd_pages_become_documents(pages: PageLoads, shop: Site, page: str) -> None:
    shop["/odd"] = html(f"{ODD[page]}{GOOD}")
    [answer] = pages.load(shop.url("/odd"), wait=".item")
    body = body_of(answer)
    assert GOOD in body.replace('"', "")
    assert "root:" not in body
    assert "a lie" not in body


@pytest.mark.parametrize(
    ("page", "reason"),
    {
        "loop": ("<script>setTimeout(() => { while (1); }, 50)</script>", "timeout after"),
        "closed": ("<script>setTimeout(() => window.close(), 50)</script>", "the page closed itself|timeout after"),
        "blank": ("<script>location = 'about:blank'</script>", "it became about:blank"),
        "blob": (
            "<script>location = URL.createObjectURL(new Blob(['x'], {type: 'text/html'}))</script>",
            "it became blob:|shows no document",
        ),
        "nothing": ("<p>nothing</p>", "timeout after 8 s: .item did not come"),
        "large": ("<script>document.body.append('x'.repeat(2e6))</script><p class=item>", "max_body"),
        "long": ("<script>history.pushState(0, '', '/' + 'x'.repeat(1e5))</script><p class=item>", "it became"),
    }.values(),
    ids=["loop", "closed", "blank", "blob", "nothing", "large", "long"],
)
def test_pages_without_a_document_fail_alone(tmp_path: Path, shop: Site, page: str, reason: str) -> None:
    shop["/bad"] = html(page)
    with page_loads(tmp_path, max_body=1_000_000, deadline=8.0) as pages:
        bad, good = pages.load(shop.url("/bad"), shop.url("/good"), wait=".item")
        assert any(part in reason_of(bad) for part in reason.split("|")), bad
        body_of(good)
        body_of(pages.load(shop.url("/good"))[0])
        [pid] = pages.pool.pids
        assert pid


@pytest.mark.extended
def test_a_page_that_needs_too_much_memory_costs_itself(tmp_path: Path, shop: Site) -> None:
    bomb = "<script>const kept = []; setInterval(() => kept.push(new Uint8Array(4e7).fill(1)), 20)</script>"
    shop["/bomb"] = html(bomb)
    with page_loads(tmp_path, browser_memory=700_000_000, deadline=60.0) as pages:
        bad, good = pages.load(shop.url("/bomb"), shop.url("/good"), wait=".item")
        assert "browser_memory" in reason_of(bad)
        body_of(good)


def test_more_traffic_than_a_page_may_have_ends_it(pages: PageLoads, shop: Site) -> None:
    shop["/big"] = Page("x" * 900_000, headers={"Content-Type": "text/plain", "Cache-Control": "no-store"})
    ask = "for (let i = 0; i < 8; i++) await fetch('/big', {cache: 'no-store'}).then(a => a.text()).catch(() => 0);"
    shop["/greedy"] = html(
        f"<script>(async () => {{ {ask} document.body.insertAdjacentHTML('beforeend', '{GOOD}') }})()</script>"
    )
    [answer] = pages.load(shop.url("/greedy"), wait=".item")
    assert "the page brought more than 5,000,000 bytes (5 x max_body)" in reason_of(answer)


@pytest.mark.extended
def test_answers_of_all_sorts(pages: PageLoads, shop: Site) -> None:
    def ask_password(request: Request) -> Page:
        return Page("no", 401, headers={"WWW-Authenticate": 'Basic realm="a"'})

    shop["/auth"] = ask_password
    shop["/bytes"] = Page(
        b"<!doctype html><p class=item>\xff\xfe there \x00\xe4</p>", headers={"Content-Type": "text/html"}
    )
    shop["/many"] = Page(html(GOOD), headers={f"X-{n}": "x" * 1_000 for n in range(150)})
    shop["/file"] = Page("x", headers={"Content-Disposition": "attachment; filename=x", "Content-Type": "a/b"})
    shop["/empty"] = Page("", 204)
    shop["/script"] = html("<script>document.open(); document.open()</script>")
    auth, odd, many, file, empty, opened = pages.load(
        *[shop.url(path) for path in ("/auth", "/bytes", "/many", "/file", "/empty", "/script")]
    )
    assert "HTTP 401" in reason_of(auth)
    assert "there" in body_of(odd)
    assert reason_of(many) == "invalid HTTP response: more than 131,072 bytes of headers"
    assert "the browser shows no document of this URL" in reason_of(file)
    assert "the browser shows no document of this URL" in reason_of(empty)
    body_of(opened)
    assert len(pages.pool.pids) == 1


@pytest.mark.parametrize(
    "location", ["javascript:alert(1)", "view-source:http://a/", "ftp://a/b", "file:///etc/passwd"]
)
def test_a_redirect_to_no_page_of_the_web_says_so(pages: PageLoads, shop: Site, location: str) -> None:
    shop["/away"] = Page("", 302, headers={"Location": location})
    [answer] = pages.load(shop.url("/away"))
    assert isinstance(answer, FetchResponse), answer.reason
    assert answer.location_problem == f"redirect to a URL that is not http or https: {location}"


FLOODS = {
    "sockets": ("for (let i = 0; i < 3000; i++) new WebSocket('ws://' + location.host + '/' + i)", "100 sockets"),
    "bodies": (
        "setInterval(() => fetch('/', {method: 'POST', body: 'x'.repeat(3e5)}).catch(() => 0), 1)",
        "it sent more than 1,000,000 bytes (max_body)",
    ),
}


def test_a_body_that_is_too_long_is_not_sent(pages: PageLoads, shop: Site) -> None:
    ways = [
        "fetch('/up', {method: 'POST', body: new Uint8Array(5e7)}).catch(end)",
        "const ask = new XMLHttpRequest(); ask.open('POST', '/up'); try { ask.send('x'.repeat(3e6)) } catch { end() }",
        "navigator.sendBeacon('/up', new Blob(['x'.repeat(3e6)])) || end()",
        "fetch('/small', {method: 'POST', body: 'x'}).then(end)",
    ]
    end = f"let n = 0; const end = () => {{ if (++n === 4) document.body.insertAdjacentHTML('beforeend', '{GOOD}') }}"
    shop["/small"] = "ok"
    shop["/upload"] = html(f"<script>{end};{';'.join(ways)}</script>")
    body_of(pages.load(shop.url("/upload"), wait=".item")[0])
    assert shop.count("/up") == 0
    assert shop.count("/small") == 1


@pytest.mark.parametrize("flood", FLOODS)
def test_a_page_that_floods_ends_alone(pages: PageLoads, shop: Site, flood: str) -> None:
    script, reason = FLOODS[flood]
    shop["/flood"] = html(f"<script>{script}</script>")
    body_of(pages.load(shop.url("/good"))[0])
    [pid] = pages.pool.pids
    bad, *good = pages.load(*[shop.url(path) for path in ("/flood", "/good", "/good")], wait=".item")
    assert reason in reason_of(bad)
    assert isinstance(bad, FetchFailed)
    assert not bad.retryable
    for answer in good:
        body_of(answer)
    assert pages.pool.pids == [pid], "the browser stays"


SLOW = f"<script>setTimeout(() => document.body.insertAdjacentHTML('beforeend', '{GOOD}'), 3000)</script>"


def test_pages_that_lose_their_browser_are_loaded_again_alone(tmp_path: Path, shop: Site) -> None:
    shop["/slow"] = html(SLOW)
    with page_loads(tmp_path) as pages:
        shop.clear_log()
        threading.Thread(target=lambda: until(lambda: shop.count("/slow") == 2, 60) and kill_all(tmp_path)).start()
        for answer in pages.load(shop.url("/slow"), shop.url("/slow"), wait=".item"):
            body_of(answer)
        assert shop.count("/slow") == 4
        shop.clear_log()
        threading.Thread(target=lambda: until(lambda: shop.count("/slow") == 1, 60) and kill_all(tmp_path)).start()
        [answer] = pages.load(shop.url("/slow"), wait=".item")
        reason_of(answer)
        assert shop.count("/slow") == 1, "what was alone has ended it"


def kill_all(folder: Path) -> None:
    for pid in children_of(folder, "--type=zygote", "run-driver"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.extended
def test_a_page_that_is_given_up_costs_no_other_page(tmp_path: Path, shop: Site) -> None:
    shop["/slow"] = html(SLOW)
    shop["/never"] = html("<p>never</p>")
    shop.clear_log()
    with page_loads(tmp_path) as pages:
        body_of(pages.load_beside_one_given_up(shop.url("/slow"), shop.url("/never"), wait=".item"))
        assert shop.count("/slow") == 1
        [pid] = pages.pool.pids
        body_of(pages.load(shop.url("/good"))[0])
        assert pages.pool.pids == [pid]


@pytest.mark.extended
def test_a_page_that_is_late_beside_one_at_fault_is_loaded_again_alone(tmp_path: Path, shop: Site) -> None:
    sockets = "for (let i = 0; i < 200; i++) new WebSocket('ws://' + location.host + '/' + i)"
    shop["/flood"] = html(f"<script>setTimeout(() => {{ {sockets} }}, 500)</script>")
    shop["/late"] = lambda _: Page(html("<h1>late</h1>" if shop.count("/late") > 1 else "<p>not yet</p>"))
    with page_loads(tmp_path, deadline=8.0) as pages:
        flood, late = pages.load(shop.url("/flood"), shop.url("/late"), wait="h1")
    assert isinstance(flood, FetchFailed)
    assert "more than 100 sockets" in flood.reason
    assert "<h1>late</h1>" in body_of(late)


@pytest.mark.extended
def test_a_stopped_browser_ends_with_its_process(tmp_path: Path, shop: Site) -> None:
    with page_loads(tmp_path) as pages:
        body_of(pages.load(shop.url("/good"))[0])
        stopped = children_of(tmp_path, "--remote-debugging-pipe", "--type=")
        assert stopped
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        for pid in pages.pool.pids:
            os.kill(pid, signal.SIGKILL)
        assert until(lambda: not children_of(tmp_path, ""), 10), children_of(tmp_path, "")


def test_answers_without_an_end(tmp_path: Path) -> None:
    def respond(path: str, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            if path == "/silent":
                time.sleep(30)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p class=item>there")
            while path == "/drip":
                connection.sendall(b".")
                time.sleep(0.2)
            while path == "/interim":
                connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)

    server = RawServer(respond)
    try:
        with page_loads(tmp_path, deadline=8.0) as pages:
            silent, drip = pages.load(server.url("/silent"), server.url("/drip"))
            assert "timeout after 8 s: no answer came" in reason_of(silent)
            assert "timeout after 8 s: its load event did not come" in reason_of(drip)
            body_of(pages.load(server.url("/drip"), wait=".item")[0])
    finally:
        server.close()


@pytest.mark.extended
def test_certificates_are_judged_as_for_plain_pages(pages: PageLoads, tmp_path: Path) -> None:
    with serve_site(Authority(tmp_path).server_context()) as site:
        site["/"] = html(GOOD)
        [refused] = pages.load(site.url("/"))
        assert "TLS: invalid certificate" in reason_of(refused)
        assert isinstance(refused, FetchFailed)
        assert not refused.retryable
        assert refused.kind == "tls"
        body_of(pages.load(site.url("/"), verify=False)[0])
        site.errors.clear()


def test_actions_on_nothing_name_themselves(tmp_path: Path, shop: Site) -> None:
    with page_loads(tmp_path, deadline=6.0) as pages:
        [answer] = pages.load(shop.url("/good"), actions=(BrowserAction(click="#nothing"),))
        assert "action 1 (click #nothing)" in reason_of(answer)


REFUSING = """\
#!/usr/bin/env python3
import json, os
data = b""
while piece := os.read(3, 65536):
    *whole, data = (data + piece).split(b"\\0")
    for one in whole:
        if json.loads(one)["method"] == "Browser.close":
            os._exit(0)
        error = {"code": -32601, "message": "'X' wasn't found"}
        os.write(4, json.dumps({"id": json.loads(one)["id"], "error": error}).encode() + b"\\0")
"""
FAKES = {
    "true": ("#!/bin/sh\nexit 0", "it ended with exit code 0"),
    "garbage": ("#!/bin/sh\necho garbage; echo nonsense >&2; exit 3", "nonsense"),
    "sandbox": ("#!/bin/sh\necho 'Running as root without --no-sandbox' >&2; exit 1", "browser_sandbox"),
    "full": ("#!/bin/sh\necho 'Failed to write: No space left on device' >&2; exit 1", "No space left on device"),
    "protocol": (REFUSING, "does not understand the installed playwright"),
}


@pytest.mark.extended
@pytest.mark.parametrize("fake", FAKES)
def test_programs_that_are_no_browser_are_told(tmp_path: Path, shop: Site, fake: str) -> None:
    program = tmp_path / "browser"
    program.write_text(FAKES[fake][0] + "\n")
    program.chmod(stat.S_IRWXU)
    with page_loads(tmp_path, browser=str(program)) as pages:
        first, second, third = (answer for _ in range(3) for answer in pages.load(shop.url("/good")))
        assert FAKES[fake][1] in reason_of(first), first
        assert isinstance(first, FetchFailed)
        assert first.retryable
        assert "the next browser is started in" in reason_of(second)
        assert "the next browser is started in" in reason_of(third)


def children_of(folder: Path, *kinds: str) -> dict[int, str]:
    """The processes of a browser, by pid, whose command lines have one of these texts."""
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if str(folder) in str((entry / "cwd").readlink()) and any(kind in line for kind in kinds):
                found[int(entry.name)] = line
    return found


@pytest.mark.parametrize(
    "kind", ["--type=renderer", "--type=zygote", "--type=gpu-process", "NetworkService", "run-driver"]
)
def test_a_part_of_the_browser_that_dies_costs_no_more_than_its_pages(tmp_path: Path, shop: Site, kind: str) -> None:
    shop["/slow"] = html(
        f"<script>setTimeout(() => document.body.insertAdjacentHTML('beforeend', '{GOOD}'), 1500)</script>"
    )
    with page_loads(tmp_path, deadline=15.0) as pages:
        body_of(pages.load(shop.url("/good"))[0])
        for pid in children_of(tmp_path, kind):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for _ in range(4):
            answers = pages.load(shop.url("/good"), shop.url("/slow"), wait=".item")
            if all(isinstance(answer, FetchResponse) for answer in answers):
                break
        else:
            raise AssertionError(answers)
    deadline = time.monotonic() + 5
    while children_of(tmp_path, "") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert children_of(tmp_path, "") == {}
