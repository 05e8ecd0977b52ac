"""The site's log proves the rate: page limits, bursts of 429, two data dirs, a killed node, nothing over the limits."""

import os
import signal
import time
from itertools import pairwise

import pytest

from .gaps import assert_spaced
from .library import ok
from .project import Project, parent_of, until
from .site import Page, Request, Site, html, redirect
from .stopwatch import slowness
from .test_politeness import defs

pytestmark = pytest.mark.timeout(90)


def addresses(site: Site, count: int) -> list[str]:
    return [site.url(f"/{n}") for n in range(count)]


def max_concurrent(site: Site) -> int:
    """The most requests that were on the wire at once, by the log."""
    moments = [(v.started, 1) for v in site.exchanges] + [(v.ended or v.started, -1) for v in site.exchanges]
    running = most = 0
    for _, step in sorted(moments):
        running += step
        most = max(most, running)
    return most


def used_share(site: Site, concurrency: int) -> float:
    """The share of the allowed concurrency that was used, between the first page's request and the last one's."""
    pages = [v for v in site.exchanges if v.path != "/robots.txt"]
    first, last = min(v.started for v in pages), max(v.started for v in pages)
    busy = sum(min(v.ended or last, last) - v.started for v in pages)
    return busy / (concurrency * (last - first))


@pytest.mark.quick
@pytest.mark.parametrize("answer", ["404", "500", "redirect"])
def test_max_pages_counts_every_request(project: Project, site: Site, answer: str) -> None:
    pages = {"404": Page("", 404), "500": Page("", 500)}
    site.fallback = lambda request: pages.get(answer) or redirect(f"{request.path}x")
    text = defs(*addresses(site, 40)).replace("pages: {page:", "pages: {maxPages: 7, page:")
    project.write(text)
    project.start().wait()
    assert len(site.paths) == 7
    assert project.query("SELECT count(*) FROM jobs WHERE state IN ('READY', 'TAKEN')") == [(0,)]


def test_max_pages_of_the_run_counts_failures_and_ends_gracefully(project: Project, site: Site) -> None:
    site.fallback = lambda request: Page("", 404)
    project.write(defs(*addresses(site, 40)))
    done = project.crawl("--max-pages", "9")
    assert done.summary["state"] == "CANCELLED"
    assert len(site.paths) == 9


@pytest.mark.sweep
def test_requests_of_a_killed_run_count(project: Project, site: Site) -> None:
    site.fallback = lambda request: Page(html("x"), delay=0.2)
    project.write(defs(*addresses(site, 40), host="robots: false, concurrency: 4"))
    running = project.start("--max-pages", "12")
    assert until(lambda: len(site.paths) >= 6)
    running.process.kill()
    running.wait()
    project.crawl("--max-pages", "12")
    assert 6 <= len(site.paths) <= 12


@pytest.mark.sweep
def test_a_burst_of_429_counts_once_and_nothing_is_sent_before_retry_after(project: Project, site: Site) -> None:
    first: list[float] = []

    def limited(request: Request) -> Page:
        first.append(time.monotonic())
        if first[-1] - first[0] < 0.5:
            return Page("slow down", 429, {"Retry-After": "2"}, delay=0.1)
        return Page(html("x"))

    site.fallback = limited
    project.write(defs(*addresses(site, 60)))
    done = project.crawl()
    assert done.jobs == {"done": 60}
    refused = min(v.ended or 0.0 for v in site.exchanges)
    slow = slowness()
    after = [v.started - refused for v in site.exchanges if v.started > refused + 0.02 * slow]
    assert min(after) >= 1.95
    assert len(site.exchanges) - len(after) <= 8 + 2 * slow
    assert project.query("SELECT throttled > 1 FROM hosts") == [(1,)]


@pytest.mark.quick
def test_after_a_burst_of_429_one_request_goes_before_the_others(project: Project, site: Site) -> None:
    """The site names the end of its limit too early: only the probe finds that out."""
    first: list[float] = []

    def limited(request: Request) -> Page:
        first.append(time.time())
        if first[-1] - first[0] < 3:
            reset = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{first[-1] + 1:.3f}"}
            return Page("slow down", 403, reset, delay=0.2)
        return Page(html("x"), delay=0.1)

    site.fallback = limited
    project.write(defs(*addresses(site, 30), host="robots: false, concurrency: 8"))
    done = project.crawl("--set", "max_attempts=10", nodes=2)
    assert done.jobs == {"done": 30}
    burst = min(v.ended or 0.0 for v in site.exchanges)
    refused = [v for v in site.exchanges if v.started > burst + 0.05 and v.ended and v.ended - v.started > 0.15]
    probes = sorted(v.started for v in refused)
    assert 1 <= len(probes) <= 4, probes
    assert all(later - earlier > 0.6 for earlier, later in pairwise([burst, *probes])), probes
    assert max_concurrent(site) > 1


def test_an_operator_ends_the_rest_that_a_site_asked_for(project: Project, site: Site) -> None:
    site.fallback = lambda request: (
        Page("slow down", 429, {"Retry-After": "3000"}) if request.attempt == 1 else Page(html("x"))
    )
    project.write(defs(site.url("/0"), host="robots: false"))
    for flag in ("--resume", "--reset"):
        site.clear_log()
        running = project.start("--fresh")
        assert until(lambda: len(site.paths) == 1)
        assert until(lambda: (project.status()["hosts"][0]["backoff"] or 0) > 2000)
        answer = project.run_with_data("host", "127.0.0.1", flag)
        assert answer.code == 0
        assert "it is asked again" in answer.out
        assert running.wait().code == 0


@pytest.mark.quick
@pytest.mark.parametrize(
    "host",
    ["concurrency: 3", pytest.param("concurrency: 1", marks=pytest.mark.sweep), "concurrency: 4, delay: 0.1"],
)
def test_two_data_dirs_keep_the_limits_of_a_host_together(project: Project, site: Site, host: str) -> None:
    site.fallback = lambda request: Page(html("x"), delay=0.04)
    project.write(defs(*addresses(site, 20), host=f"robots: false, {host}"))
    runs = [project.start(nodes=1, data=project.folder / name) for name in ("one", "two")]
    for running in runs:
        assert running.wait().code == 0
    assert len(site.paths) == 40
    assert max_concurrent(site) <= int(host[13])
    if "delay" in host:
        times = site.start_times()
        assert_spaced(times, 0.1)


@pytest.mark.sweep
def test_a_host_clock_that_cannot_be_used_is_a_warning(project: Project, site: Site) -> None:
    site.fallback = ok
    (project.folder / "state").write_text("not a folder")
    project.write(defs(*addresses(site, 12), host="robots: false, concurrency: 2"))
    project.crawl()
    warnings = project.query("SELECT text FROM events WHERE level = 'WARNING' AND kind = 'host'")
    assert len(warnings) == 1
    assert "state/crawl-console: Not a directory" in warnings[0][0]
    assert "do not know of each other" in warnings[0][0]
    assert max_concurrent(site) <= 2


@pytest.mark.sweep
def test_a_throttled_host_is_asked_one_request_at_a_time_on_average(project: Project, site: Site) -> None:
    site.fallback = lambda request: Page(html("x"), delay=0.1)
    project.write(defs(*addresses(site, 20), host="robots: false, throttle: auto"))
    project.crawl()
    times = site.start_times()
    assert (times[-1] - times[-8]) / 7 >= 0.095
    assert project.query("SELECT throttle, pace BETWEEN 0.09 AND 2 FROM hosts") == [(1, 1)]


@pytest.mark.sweep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("nodes", [1, 2, 4])
@pytest.mark.parametrize(("concurrency", "delay"), [(1, 0.0), (3, 0.0), (8, 0.0), (1, 0.2), (8, 0.2)])
def test_the_rate_of_one_host(project: Project, site: Site, nodes: int, concurrency: int, delay: float) -> None:
    """Nothing over the limits, and at least 90 % of the allowed rate, by the log of the site (on a free machine)."""
    site["/robots.txt"] = "User-agent: *\nDisallow: /private\n"
    site.fallback = lambda request: Page(html("x"), delay=0.035)
    count = int(8 / max(delay, 0.035 / concurrency))
    project.write(
        defs(*addresses(site, count), site.url("/private"), host=f"concurrency: {concurrency}, delay: {delay}")
    )
    project.crawl(nodes=nodes, seconds=120)
    assert "/private" not in site.paths
    assert max_concurrent(site) <= concurrency
    times = site.start_times()
    if delay:
        assert_spaced(times, delay)
        assert (count - 1) * delay / (times[-1] - times[0]) >= 0.9
    else:
        assert used_share(site, concurrency) >= 0.9


@pytest.mark.sweep
def test_the_limits_hold_through_a_restart_and_a_takeover(project: Project, site: Site) -> None:
    site.fallback = lambda request: Page(html("x"), delay=0.05)
    project.write(defs(*addresses(site, 60), host="robots: false, concurrency: 2, delay: 0.1"))
    running = project.start(nodes=2)
    assert until(lambda: len(site.paths) >= 15)
    os.kill(project.children("node")[0], signal.SIGKILL)
    assert until(lambda: len(site.paths) >= 30)
    running.process.kill()
    running.wait()
    project.crawl(nodes=4)
    assert_spaced(site.start_times(), 0.1)
    assert max_concurrent(site) <= 2


@pytest.mark.sweep
def test_two_data_dirs_keep_the_limits_through_a_takeover(project: Project, site: Site) -> None:
    site.fallback = lambda request: Page(html("x"), delay=0.05)
    project.write(defs(*addresses(site, 40), host="robots: false, concurrency: 2, delay: 0.1"))
    runs = [project.start(nodes=2, data=project.folder / name) for name in ("one", "two")]
    assert until(lambda: len(site.paths) >= 20)
    nodes = project.children("node")
    for running in runs:
        os.kill(next(pid for pid in nodes if parent_of(pid) == running.process.pid), signal.SIGKILL)
    for running in runs:
        assert running.wait(60).code == 0
    assert len(set(site.paths)) == 40
    assert_spaced(site.start_times(), 0.1)
    assert max_concurrent(site) <= 2
