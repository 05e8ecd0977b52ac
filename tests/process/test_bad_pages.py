"""Hostile and broken pages: each affects only its own job, which ends with a reason."""

import contextlib
import random
import socket
import threading
import time
from itertools import cycle

import pytest

from .library import ok
from .project import Project
from .shared_crawl import Part, shared
from .site import Page, Site, html
from .test_politeness import defs

pytestmark = pytest.mark.timeout(60)
ATTEMPTS = ("--set", "max_attempts=2")

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40


def defs_with_field(*urls: str) -> str:
    return defs(*urls).replace("{url: {", "{b: {selector: b}, url: {")


@shared(*ATTEMPTS)
def test_a_binary_response_is_skipped_on_a_link_and_failed_on_a_locator(site: Site) -> Part:
    site["/"] = html('<a href="/a.png">x</a><a href="/b.pdf">x</a><a href="/c">x</a>')
    site["/a.png"] = site["/d.png"] = Page(PNG, headers={"Content-Type": "image/png"})
    site["/b.pdf"] = Page(b"%PDF-1.7" + PNG, headers={"Content-Type": "application/pdf"})
    site["/c"] = Page(PNG, headers={"Content-Type": "text/html"})
    crawl = yield defs_with_field(site.url("/"), site.url("/d.png"))
    assert crawl.job(site.url("/d.png"))["state"] == "FAILED"
    for path in ("/a.png", "/b.pdf"):
        job = crawl.job(site.url(path))
        assert job["state"] == "SKIPPED"
        assert "not a page" in job["reason"]
    assert crawl.jobs["failed"] == 1
    assert len(crawl.rows("page")) == crawl.jobs["done"]


@shared(*ATTEMPTS)
def test_empty_pages_and_selectors_that_match_nothing_give_a_record(site: Site) -> Part:
    site["/empty"] = ""
    site["/blank"] = "   \n\t"
    site["/none"] = html("<i>x</i>")
    site["/untold"] = Page(html("<b>x</b>"), headers={"Content-Type": ""})
    crawl = yield defs_with_field(*(site.url(path) for path in ("/empty", "/blank", "/none", "/untold")))
    assert crawl.jobs == {"done": 4}
    assert sorted(row["b"] for row in crawl.rows("page")) == ["", "", "", "x"]
    assert len(crawl.events("empty page")) == 1


def test_a_missing_required_field_rejects_the_record_with_its_position(project: Project, site: Site) -> None:
    site["/a"], site["/b"] = html("<b>12</b>"), html("<i>x</i>")
    text = defs_with_field(site.url("/a"), site.url("/b")).replace(
        "{selector: b}", "{selector: b, required: true, type: int}"
    )
    project.write(text)
    done = project.crawl()
    assert done.jobs == {"done": 2}
    assert [row["b"] for row in project.rows("page")] == ["12"]
    [(event,)] = project.query("SELECT text FROM events WHERE kind = 'row'")
    assert "defs/crawl.yml:" in event
    assert "1 record" in done.err


@shared(*ATTEMPTS)
def test_invalid_utf8_is_read_with_replacements(site: Site) -> Part:
    site["/a"] = b"<!doctype html><meta charset=utf-8><b>caf\xe9 \xff\xfe\xc3\x28</b>"
    site["/latin"] = Page("<b>café</b>".encode("latin-1"), headers={"Content-Type": "text/html; charset=iso-8859-1"})
    site["/utf16"] = Page("<b>café</b>".encode("utf-16"), headers={"Content-Type": "text/html"})
    site["/lies"] = Page("<b>café</b>".encode(), headers={"Content-Type": "text/html; charset=klingon"})
    site["/zero"] = Page("<b>ca\0fé\x1b]52;c;x\x07</b>".encode(), headers={"Content-Type": "text/html"})
    crawl = yield defs_with_field(*(site.url(path) for path in ("/a", "/latin", "/utf16", "/lies", "/zero")))
    rows = {row["url"].rpartition("/")[2]: row["b"] for row in crawl.rows("page")}
    assert rows["a"].startswith("caf\ufffd")
    assert rows["latin"] == rows["utf16"] == rows["lies"] == "café"


@shared(*ATTEMPTS)
def test_a_page_of_50_megabytes_is_refused_and_one_of_8_is_read(site: Site) -> Part:
    site["/huge"] = b"<b>x</b>" + b"<p>some text of a page</p>" * 2_000_000
    site["/endless"] = Page(b"x" * 40_000_000, headers={"Content-Length": "999999999999"}, drop="halfway")
    site["/large"] = b"<b>large</b>" + b"<p>some text of a page</p>" * 320_000
    for number in range(10):
        site[f"/{number}"] = html("<b>small</b>")
    paths = ["/huge", "/endless", "/large", *(f"/{number}" for number in range(10))]
    crawl = yield defs_with_field(*map(site.url, paths))
    assert crawl.jobs == {"done": 11, "failed": 2}
    assert "max_body" in crawl.job(site.url("/huge"))["reason"]
    assert "max_body" in crawl.job(site.url("/endless"))["reason"]
    assert sorted({row["b"] for row in crawl.rows("page")}) == ["large", "small"]


@shared(*ATTEMPTS)
def test_a_deeply_nested_page_fails_alone(site: Site) -> Part:
    site["/deep"] = "<div>" * 100_000 + "<b>deep</b>"
    site["/less"] = "<div>" * 5_000 + "<b>less</b>"
    site["/a"] = html("<b>a</b>")
    crawl = yield defs_with_field(site.url("/deep"), site.url("/less"), site.url("/a"))
    assert crawl.jobs == {"done": 2, "failed": 1}
    assert "parse_limit" in crawl.job(site.url("/deep"))["reason"]
    assert sorted(row["b"] for row in crawl.rows("page")) == ["a", "less"]


def test_a_regex_that_explodes_rejects_its_record_alone(project: Project, site: Site) -> None:
    site["/bomb"] = html(f"<b>{'a' * 60}!</b>")
    site["/a"] = html("<b>aaa</b>")
    pattern = "{selector: b, match: '^(a+)+$'}"
    project.write(defs_with_field(site.url("/bomb"), site.url("/a")).replace("{selector: b}", pattern))
    started_at = time.monotonic()
    done = project.start().wait(30)
    project.assert_clean(done)
    assert time.monotonic() - started_at < 20
    assert done.jobs in ({"done": 2}, {"done": 1, "failed": 1})
    assert "aaa" in {row["b"] for row in project.rows("page")}
    assert all(node["state"] == "TERMINATED" for node in done.summary["nodes"])


@pytest.mark.sweep
def test_many_large_pages_do_not_make_a_node_look_dead(project: Project, site: Site) -> None:
    """Over 64 KB a page is parsed off the loop, so that heartbeats and small pages continue."""
    body = html("<b>x</b>" + "<div><a href='/nowhere?q=1'>some words of text</a><p>more</p></div>" * 20_000)
    count = 24
    for number in range(count):
        site[f"/{number}"] = body
    project.write(
        defs_with_field(*(site.url(f"/{n}") for n in range(count))).replace(
            "links: [{selector: a,", "links: [{selector: u,"
        )
    )
    running = project.start()
    worst = 0.0
    while not running.exited:
        if (project.data / "crawl.db").exists():
            for (lag,) in project.query("SELECT lag FROM nodes") if project.children("node") else []:
                worst = max(worst, lag)
        time.sleep(0.1)
    done = running.wait()
    project.assert_clean(done)
    assert done.jobs == {"done": count}
    assert worst < 1.0
    assert "ARRHYTHMIA" not in str(project.query("SELECT text FROM events"))
    assert len(project.rows("page")) == count


@shared(*ATTEMPTS)
def test_hostile_text_reaches_files_whole_and_the_terminal_clean(site: Site) -> Part:
    text = "=cmd|' /C calc'!A0 \x1b[31m [/b] \u202e ,;\"\r\n"
    site["/a"] = Page(f"<title>t</title><b>{text}</b>", headers={"X-Evil": "\x1b]0;x\x07"})
    crawl = yield defs_with_field(site.url("/a"))
    [row] = crawl.rows("page")
    assert row["b"].startswith("=cmd|")
    assert "\x1b" not in crawl.done.err
    assert "\x1b" not in crawl.project.run_with_data("status").out


@shared(*ATTEMPTS)
def test_links_of_every_odd_kind(site: Site) -> Part:
    odd = [
        *("", "#x", "javascript:void(0)", "mailto:a@b", "http://", "//", "http://[::1", "data:text/html,x", "tel:1"),
        *("/ok?a=1&b=2", "  /trimmed  ", "/sp ace", "/%zz", "?q", "/é", "/a" * 1000, "http://user:pw@127.0.0.1:1/x"),
    ]
    site["/"] = html("".join(f'<a href="{href}">x</a>' for href in odd))
    site.fallback = ok
    crawl = yield defs_with_field(site.url("/"))
    assert crawl.jobs["done"] >= 6
    assert {"/ok?a=1&b=2", "/trimmed", "/sp%20ace", "/?q", "/%C3%A9"} <= set(site.paths)
    assert "pw" not in crawl.done.err


def test_an_invalid_host_name_fails_its_job(project: Project) -> None:
    url = "http://" + "a" * 70 + ".invalid/"  # a label over 63 characters: refused without a DNS query
    project.write(defs(url))
    done = project.start("--set", "max_attempts=1").wait()
    assert done.code in (1, 2), done.err
    assert "Traceback" not in done.err
    project.assert_no_process_left(2)


@shared(*ATTEMPTS)
def test_connection_refused_is_retried_then_reported(site: Site) -> Part:
    site["/"] = html("<b>x</b>")
    crawl = yield defs_with_field("http://127.0.0.1:1/", site.url("/"))
    assert crawl.jobs == {"done": 1, "failed": 1}
    assert crawl.job("http://127.0.0.1:1/") == {
        "state": "FAILED",
        "reason": "connection refused (2 attempts)",
        "attempts": 2,
    }


def test_responses_that_are_not_http(project: Project, site: Site) -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            for reply in cycle((b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 99\r\n\r\n", b"\x00" * 5000, b"")):
                with listener.accept()[0] as connection:
                    connection.settimeout(5)
                    connection.recv(65536)
                    connection.sendall(reply)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    project.write(defs(*(f"{url}/{n}" for n in range(4))).replace("robots: false", "robots: false, concurrency: 1"))
    done = project.start("--set", "max_attempts=1", "--set", "deadline=5").wait()
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    assert done.code == 1, done.err
    project.assert_clean(done)
    assert done.jobs == {"failed": 4}


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(40))
def test_random_bytes_sweep(project: Project, site: Site, seed: int) -> None:
    random_pages(project, site, seed)


def test_random_bytes(project: Project, site: Site) -> None:
    random_pages(project, site, 0)


def random_pages(project: Project, site: Site, seed: int) -> None:
    """Pages truncated, mixed and damaged at random: no internal error, no hung crawl."""
    rng = random.Random(seed)
    pieces = [
        *(b"<b>", b"</b>", b"<a href='/x", b"'>", b"<!--", b"<svg>", b"<table>", b"<script>", b"\xff", b"\0", b"<?"),
        *(b"<base href='http://[", b"&#x110000;", b"<template>", b"<frameset>", b"\xe2\x82", b"]]>", b"{", b"="),
    ]
    kinds = ["text/html", "text/html; charset=utf-16", "application/xml", "application/json", "text/plain", "", "x/y"]
    for number in range(60):
        body = b"".join(rng.choice(pieces) for _ in range(rng.randint(0, 200))) + rng.randbytes(rng.randint(0, 9))
        site[f"/{number}"] = Page(body, headers={"Content-Type": rng.choice(kinds)})
    project.write(defs_with_field(*(site.url(f"/{n}") for n in range(60))))
    done = project.start("--set", "max_attempts=1").wait()
    assert done.code in (0, 1), done.err
    project.assert_clean(done)
    project.assert_no_process_left(2)
    assert "internal error" not in str(project.query("SELECT reason FROM jobs WHERE reason IS NOT NULL"))


def test_a_json_selector_on_html_is_said_once(project: Project, site: Site) -> None:
    defs = """
    locatorGroups: {{g: {{locators: [{{name: l, url: "{url}/p/{{1..6}}"}}]}}}}
    taskGroups: {{g: {{t: {{dataDef: d}}, u: {{dataDef: e}}}}}}
    dataDefs:
      d: {{fields: {{title: {{selector: h1}}, price: {{selector: "jmespath: price"}}}}}}
      e: {{fields: {{title: {{selector: h1}}}}}}
    hosts: {{"127.0.0.1": {{robots: false}}}}
    """
    for number in range(1, 7):
        # the larger ones are extracted in a process of their own
        site[f"/p/{number}"] = html(f"<h1>{number}</h1>" + "<p>x</p>" * (20_000 if number % 2 else 1))
    project.write(defs.format(url=site.url("")))
    project.crawl(nodes=1)
    query = "SELECT text FROM events WHERE text LIKE '%jmespath:` reads JSON%'"
    ((text,),) = project.query(query)
    assert text.startswith("d.price: `jmespath:` reads JSON, and this page is HTML: http://127.0.0.1")
    assert project.count_rows("d").total() == 6
