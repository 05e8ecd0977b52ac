"""robots.txt over real connections: unreadable ones close their host, long ones are cut, each is kept for a day."""

import contextlib
import gzip
import socket
import sqlite3
import time

import pytest

from tests.sample import sampled

from .gaps import assert_spaced
from .project import Project, until
from .raw_server import serve_raw
from .shared_crawl import Part, shared
from .site import Page, Request, Site, html, redirect, serve_site
from .stopwatch import slowness
from .test_politeness import defs

pytestmark = pytest.mark.timeout(60)
LIMITS = ("--set", "max_attempts=2", "--set", "deadline=1.5")

OPEN = "concurrency: 8"
LONG = "User-agent: *\nDisallow: /a\n" + "# filler\n" * 70_000 + "Disallow: /b\n"
"""630 kB, whose last rule lies beyond 500 KiB."""
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
PAGE = HEAD + b"Content-Length: 2\r\nConnection: close\r\n\r\nok"


def ok(request: Request) -> Page:
    return Page(html("x"))


def warnings(project: Project) -> list[str]:
    return [text for (text,) in project.query("SELECT text FROM events WHERE level = 'WARNING' ORDER BY id")]


@shared(*LIMITS)
def test_a_long_crawl_delay_is_said_at_once(site: Site) -> Part:
    site["/robots.txt"] = "User-agent: *\nCrawl-delay: 40\nContent-Signal: ai-train=no, search=yes\n"
    site["/"] = html("x")
    crawl = yield defs(site.url("/"), host=OPEN)
    recorded = crawl.project.query(f"SELECT content_signal FROM hosts WHERE key LIKE '%:{site.port}'")
    assert recorded == [('{"ai-train":"no","search":"yes"}',)]
    assert f"{site.url('/robots.txt')} asks for 40 s between two requests" in crawl.done.err


# A robots.txt that cannot be read.


@pytest.mark.quick
@shared(*LIMITS)
def test_an_unreachable_robots_txt_closes_its_host_with_the_reason() -> Part:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    urls = [f"http://127.0.0.1:{port}/{n}" for n in range(3)]
    crawl = yield defs(*urls, host=OPEN)
    assert crawl.jobs == {"failed": 3}
    for url in urls:
        reason = "robots.txt cannot be read: connection refused (2 attempts)"
        assert crawl.job(url) == {"state": "FAILED", "reason": reason, "attempts": 0}
    [retried, closed] = [text for text in warnings(crawl.project) if f":{port}/robots.txt" in text]
    assert "attempt 2 in" in retried
    assert "no page of this host is fetched" in closed
    assert closed in crawl.done.err, "it is said while the run waits"


UNREADABLE = (
    (Page("x", 500), "robots.txt answered 500 (2 attempts)"),
    (Page("x", 429, {"Retry-After": "0"}), "robots.txt answered 429 (2 attempts)"),
    (Page("User-agent: *\nAllow: /\n", drop="halfway"), "robots.txt cannot be read: connection lost"),
    (Page("", drop="unanswered"), "robots.txt cannot be read: connection closed"),
    (
        Page("User-agent: *", 200, {"Content-Encoding": "gzip"}),
        "robots.txt cannot be read: bad encoding gzip (2 attempts)",
    ),
    (Page("", delay=20), "robots.txt cannot be read: timeout after 1.5 s (2 attempts)"),
)


@pytest.mark.quick
@shared(*LIMITS)
def test_an_unreadable_robots_txt_closes_its_host() -> Part:
    with contextlib.ExitStack() as stack:
        sites = [stack.enter_context(serve_site()) for _ in UNREADABLE]
        for site, (robots, _) in zip(sites, UNREADABLE, strict=True):
            site["/robots.txt"] = robots
            site.fallback = ok
        crawl = yield defs(*(site.url("/a") for site in sites), host=OPEN)
        assert crawl.jobs == {"failed": len(sites)}
        for site, (_, reason) in zip(sites, UNREADABLE, strict=True):
            assert (site.paths, site.count("/robots.txt")) == ([], 2), reason
            assert crawl.job(site.url("/a"))["reason"].startswith(reason)


@pytest.mark.parametrize("body", sampled(["chunked", "drip"], 1))
def test_a_body_that_never_ends_well_closes_its_host(project: Project, body: str) -> None:
    def respond(path: str, connection: socket.socket) -> None:
        if path != "/robots.txt":
            connection.sendall(PAGE)
        elif body == "chunked":
            connection.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n400\r\nUser-agent: *\n")
        else:
            connection.sendall(HEAD + b"Content-Length: 1000\r\n\r\n")
            for _ in range(100):
                connection.sendall(b"#")
                time.sleep(0.1)

    with serve_raw(respond) as server:
        project.write(defs(server.url("/a"), host=OPEN))
        project.crawl("--set", "max_attempts=1", "--set", "deadline=1", code=1)
        assert server.paths == ["/robots.txt"]
    assert project.job(server.url("/a"))["reason"].startswith("robots.txt cannot be read: ")


@pytest.mark.quick
@shared(*LIMITS)
def test_a_garbled_answer_for_robots_txt_is_asked_for_again() -> Part:
    asked = 0

    def respond(path: str, connection: socket.socket) -> None:
        nonlocal asked
        asked += path == "/robots.txt"
        garbled = path == "/robots.txt" and asked == 1
        connection.sendall(b"\0garbled\r\n\r\n" if garbled else PAGE)

    with serve_raw(respond) as server:
        crawl = yield defs(server.url("/a"), host=OPEN)
        assert crawl.jobs == {"done": 1}
        assert server.paths == ["/robots.txt", "/robots.txt", "/a"]


@shared(*LIMITS)
def test_a_robots_txt_that_is_readable_at_the_second_attempt_opens_its_host(site: Site) -> Part:
    rules = "User-agent: *\nDisallow: /b\n"
    site["/robots.txt"] = lambda request: Page(rules, drop="halfway" if request.attempt == 1 else "")
    site.fallback = ok
    crawl = yield defs(site.url("/a"), site.url("/b"), host=OPEN)
    assert crawl.jobs == {"done": 1, "skipped": 1}
    assert site.paths == ["/a"]


@pytest.mark.sweep
def test_a_closed_host_with_a_delay_ends_at_once(project: Project, site: Site) -> None:
    site["/robots.txt"] = Page("x", 503)
    project.write(defs(*(site.url(f"/{n}") for n in range(40)), host="delay: 5"))
    done = project.crawl("--set", "max_attempts=1", code=1)
    assert done.jobs == {"failed": 40}
    assert done.summary["seconds"] < 20 * slowness(), "no send time is kept for requests that are not sent"


@pytest.mark.sweep
def test_a_retry_asks_for_an_unreadable_robots_txt_again(project: Project, site: Site) -> None:
    site["/robots.txt"] = Page("x", 500)
    site.fallback = ok
    project.write(defs(site.url("/a"), site.url("/b"), host=OPEN))
    project.crawl("--set", "max_attempts=1", code=1)
    assert "2 jobs" in project.run_with_data("retry").out
    project.crawl("--set", "max_attempts=1", code=1)
    assert (site.count("/robots.txt"), site.paths) == (2, [])
    site["/robots.txt"] = "User-agent: *\nDisallow: /b\n"
    assert project.run_with_data("retry").code == 0
    assert project.crawl().jobs == {"done": 1, "skipped": 1}
    assert (site.count("/robots.txt"), site.paths) == (3, ["/a"])


# Its size, and its redirects.


def long_robots(site: Site, encoding: str) -> Part:
    body = gzip.compress(LONG.encode()) if encoding else LONG.encode()
    site["/robots.txt"] = Page(body, headers={"Content-Encoding": encoding} if encoding else {})
    site.fallback = ok
    crawl = yield defs(site.url("/a"), site.url("/b"), host=OPEN)
    assert site.paths == ["/b"]
    assert crawl.job(site.url("/a"))["reason"] == "robots.txt disallows it (line 2: Disallow: /a)"


@shared("--set", "max_body=1000")
def test_a_robots_txt_counts_in_its_first_500_kib(site: Site) -> Part:
    yield from long_robots(site, "")


@shared("--set", "max_body=1000")
def test_a_compressed_robots_txt_counts_in_its_first_500_kib(site: Site) -> Part:
    yield from long_robots(site, "gzip")


@pytest.mark.sweep
def test_an_endless_robots_txt_is_read_no_further(project: Project) -> None:
    sent: list[int] = []

    def respond(path: str, connection: socket.socket) -> None:
        if path != "/robots.txt":
            return connection.sendall(PAGE)
        connection.sendall(HEAD + b"\r\nUser-agent: *\nDisallow: /a\n")
        with contextlib.suppress(OSError):
            while len(sent) < 10_000:
                connection.sendall(b"# more\n" * 1000)
                sent.append(7000)
        return None

    with serve_raw(respond) as server:
        project.write(defs(server.url("/a"), server.url("/b"), host=OPEN))
        assert project.crawl().jobs == {"done": 1, "skipped": 1}
        assert server.paths == ["/robots.txt", "/b"]
    assert sum(sent) < 20_000_000, "what the sockets hold at most"


@pytest.mark.sweep
@pytest.mark.parametrize("hops", [5, 6])
def test_five_redirects_of_a_robots_txt_are_followed(
    project: Project, site: Site, second_site: Site, hops: int
) -> None:
    """Between two hosts with a delay; after more, the file counts as missing."""
    hosts = [site, second_site]
    site["/robots.txt"] = redirect(second_site.url("/r1"))
    for hop in range(1, hops):
        hosts[hop % 2][f"/r{hop}"] = redirect(hosts[(hop + 1) % 2].url(f"/r{hop + 1}"))
    hosts[hops % 2][f"/r{hops}"] = "User-agent: *\nDisallow: /a\n"
    second_site["/robots.txt"] = "User-agent: *\nDisallow: /\n"
    site["/a"] = html("x")
    project.write(defs(site.url("/a"), host="delay: 0.2"))
    project.crawl()
    assert ("/a" in site.paths) is (hops == 6)
    assert second_site.count("/robots.txt") == 0, "no page of that host is asked for"
    for host in hosts:
        times = sorted(exchange.started for exchange in host.exchanges)
        assert_spaced(times, 0.2)


# Its rules.


@pytest.mark.sweep
def test_groups_match_the_name_of_the_setting_user_agent(project: Project, site: Site) -> None:
    site["/robots.txt"] = "User-agent: acme\nDisallow: /b\n\nUser-agent: Acme-Prices\nDisallow: /a\n"
    site.fallback = ok
    project.write(defs(site.url("/a"), site.url("/b"), host=OPEN))
    project.crawl("--set", "user_agent=acme-prices/1.0 (+https://acme.example/bot)")
    assert site.paths == ["/b"]


def test_a_crawl_delay_of_minutes_is_obeyed_and_reported(project: Project, site: Site) -> None:
    site["/robots.txt"] = "User-agent: *\nCrawl-delay: 120\n"
    site.fallback = ok
    project.write(defs(site.url("/a"), site.url("/b"), host=OPEN))
    running = project.start()
    assert until(lambda: site.paths)
    assert project.query("SELECT crawl_delay FROM hosts") == [(120.0,)]
    assert project.run_with_data("cancel").code == 0
    running.wait()
    assert len(site.paths) == 1
    assert any("asks for 120 s between two requests" in text for text in warnings(project))


# Sitemaps.

SITEMAP = """\
locatorGroups: {{pages: {{locators: [{{name: n, sitemap: "{url}"}}]}}}}
taskGroups: {{pages: {{page: {{dataDef: page}}}}}}
dataDefs: {{page: {{fields: {{url: {{value: "%{{document.url}}"}}}}}}}}
hosts: {{"127.0.0.1": {{{host}}}}}
"""


def urlset(*urls: str) -> str:
    return "<urlset>" + "".join(f"<url><loc>{url}</loc></url>" for url in urls) + "</urlset>"


def sitemap_jobs(project: Project) -> list[tuple[str, str | None]]:
    return project.query(
        "SELECT j.state, j.reason FROM jobs j JOIN sequences s ON s.id = j.sequence WHERE s.kind = 'sitemap'"
    )


def test_a_disallowed_sitemap_is_not_requested(project: Project, site: Site) -> None:
    site["/robots.txt"] = "User-agent: *\nDisallow: /map.xml\n"
    site["/map.xml"] = urlset(site.url("/a"))
    project.write(SITEMAP.format(url=site.url("/map.xml"), host=OPEN))
    done = project.crawl(code=1)
    assert site.paths == []
    assert sitemap_jobs(project) == [("SKIPPED", "robots.txt disallows it (line 2: Disallow: /map.xml)")]
    assert f"no page was fetched: {site.url('/map.xml')}: robots.txt disallows it" in done.err


def test_redirects_of_a_sitemap_obey_the_target_s_rules_and_clock(
    project: Project, site: Site, second_site: Site
) -> None:
    site["/map.xml"] = redirect("/moved.xml")
    site["/moved.xml"] = redirect(second_site.url("/r1"))
    second_site["/r1"] = redirect("/r2")
    second_site["/r2"] = urlset("/a", "/no")
    second_site["/robots.txt"] = "User-agent: *\nDisallow: /no\n"
    second_site.fallback = ok
    project.write(SITEMAP.format(url=site.url("/map.xml"), host="delay: 0.2, private: true"))
    assert project.crawl().jobs == {"done": 1, "skipped": 1}
    assert second_site.paths == ["/r1", "/r2", "/a"]
    assert second_site.exchanges[0].path == "/robots.txt"
    for host in (site, second_site):
        times = sorted(exchange.started for exchange in host.exchanges)
        assert_spaced(times, 0.2)


def test_a_sitemap_redirected_to_a_disallowed_url_is_skipped(project: Project, site: Site, second_site: Site) -> None:
    site["/map.xml"] = redirect(second_site.url("/private"))
    second_site["/robots.txt"] = "User-agent: *\nDisallow: /private\n"
    project.write(SITEMAP.format(url=site.url("/map.xml"), host=f"{OPEN}, private: true"))
    project.crawl(code=1)
    assert second_site.paths == []
    assert sitemap_jobs(project) == [("SKIPPED", "robots.txt disallows it (line 2: Disallow: /private)")]


# How long it is kept.


def age_robots(project: Project, hours: float) -> None:
    with contextlib.closing(sqlite3.connect(project.data / "crawl.db")) as db, db:
        db.execute("UPDATE hosts SET robots_fetched_at = robots_fetched_at - ?", (hours * 3600,))


@pytest.mark.sweep
def test_a_robots_txt_is_kept_for_a_day_across_runs(project: Project, site: Site) -> None:
    signal = "Content-Signal: search=yes, ai-train=no"
    site["/robots.txt"] = f"User-agent: *\n{signal}\nDisallow: /b\nCrawl-delay: 0.1\n"
    site.fallback = ok
    project.write(defs(site.url("/a"), site.url("/b"), host=OPEN))
    for hours in (22, 0):
        assert project.crawl().jobs == {"done": 1, "skipped": 1}
        assert site.count("/robots.txt") == 1
        assert f"  {signal.replace(':', '')}: 127.0.0.1:{site.port}\n" in project.run_with_data("status").out
        age_robots(project, hours)
    assert project.query("SELECT DISTINCT crawl_delay FROM hosts") == [(0.1,)]
    age_robots(project, 2)
    project.crawl()
    assert site.count("/robots.txt") == 2
    project.crawl("--set", "user_agent=other/1")
    assert site.count("/robots.txt") == 3, "other rules may hold for another crawler"
    assert site.paths == ["/a"] * 4


@pytest.mark.sweep
def test_an_unreadable_robots_txt_is_not_kept(project: Project, site: Site) -> None:
    site["/robots.txt"] = Page("x", 500)
    site.fallback = ok
    project.write(defs(site.url("/a"), host=OPEN))
    project.crawl("--set", "max_attempts=1", code=1)
    site["/robots.txt"] = Page("", 404)
    assert project.crawl().jobs == {"done": 1}
    assert site.count("/robots.txt") == 2
