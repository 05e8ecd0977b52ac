"""What holds for every request holds for plugin loaders: delays, robots.txt, redirects, blocks, limits, new defs."""

import contextlib
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.sample import sampled

from .gaps import assert_spaced
from .loaded_shop import LoadedShop
from .project import Project, until
from .site import Page, Site, html, redirect
from .test_loaders import loaders_of, results

pytestmark = pytest.mark.timeout(180)
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


@pytest.fixture
def shop(project: Project, site: Site) -> LoadedShop:
    project.nodes = 1
    return LoadedShop(project, site, size=12)


@pytest.mark.sweep
@pytest.mark.parametrize("workers", sampled([1, 3], 1))
def test_the_delay_of_a_host_holds_between_loads(shop: LoadedShop, project: Project, site: Site, workers: int) -> None:
    project.nodes = 2
    site["/i/5"] = page(5, 1.0)  # the others wait for its process
    shop.write(workers=workers, host="{delay: 0.2}")
    project.crawl()
    assert project.count_rows("item") == shop.rows()
    starts = site.start_times()
    assert len(starts) == shop.size
    assert_spaced(starts, 0.2)


def test_robots_txt_is_asked_and_obeyed(shop: LoadedShop, project: Project, site: Site) -> None:
    site["/robots.txt"] = "User-agent: *\nDisallow: /i/4"
    shop.write()
    project.crawl()
    assert "/i/4" not in site.paths
    assert project.job(site.url("/i/4"))["state"] == "SKIPPED"
    asked = next(e for e in site.exchanges if e.path == "/robots.txt")
    assert "x-loader" not in asked.request.headers, "the built-in client asks for it"


def test_a_loader_that_was_redirected_obeys_robots_txt(shop: LoadedShop, project: Project, site: Site) -> None:
    site["/robots.txt"] = "User-agent: *\nDisallow: /secret"
    site["/i/4"], site["/secret"] = redirect("/secret"), html("<h1>Item 99</h1><i>1.00</i>")
    site["/i/5"], site["/moved"] = redirect("/moved"), html("<h1>Item 5</h1><i>5.50</i>")
    shop.write()
    project.crawl()
    assert project.job(site.url("/i/4"))["state"] == "SKIPPED"
    assert project.count_rows("item") == shop.rows(without=4)
    [(url, target)] = project.query(
        f"SELECT d.url, j.target FROM jobs j JOIN documents d ON d.id = j.document WHERE j.url = '{site.url('/i/5')}'"
    )
    assert url == target == site.url("/moved")


@pytest.mark.sweep
def test_a_loader_that_was_led_to_another_host_loads_the_page_again_under_its_rules(
    shop: LoadedShop, project: Project, site: Site, second_site: Site
) -> None:
    second_site["/robots.txt"] = "User-agent: *\nDisallow: /closed"
    second_site["/open"] = html("<h1>Item 4</h1><i>4.50</i>")
    second_site["/closed"] = html("<h1>Item 99</h1><i>4.50</i>")
    site["/i/4"], site["/i/5"] = redirect(second_site.url("/open")), redirect(second_site.url("/closed"))
    shop.write(host="{private: true}")
    project.crawl()
    assert second_site.count("/robots.txt") == 1
    assert second_site.count("/open") == 2, "once as a redirect, once under the host's own clock"
    assert project.job(site.url("/i/5"))["state"] == "SKIPPED"
    assert project.count_rows("item") == shop.rows(without=5)
    assert results(project) == {("ok", ""): shop.size - 1}, "only the last attempt at a job counts"


def test_a_redirect_that_a_loader_returns_is_followed(shop: LoadedShop, project: Project, site: Site) -> None:
    site["/i/4"] = html("<h1>Item 4</h1><i>4.50</i>")
    shop.write()
    plugin = shop.plugins / "shop.py"
    text = plugin.read_text().replace(
        "    def load(self, request, context):\n        number",
        "    def load(self, request, context):\n"
        "        if request.url.endswith('/i/6'):\n"
        "            return PageResponse(body=b'', status=301, headers={'Location': '/i/moved/6'})\n"
        "        number",
    )
    plugin.write_text(text)
    site["/i/moved/6"] = html("<h1>Item 6</h1><i>6.50</i>")
    project.crawl()
    assert project.count_rows("item") == shop.rows()
    assert project.job(site.url("/i/6"))["state"] == "DONE"


def test_a_guarded_address_is_never_given_to_a_loader(shop: LoadedShop, project: Project, site: Site) -> None:
    site["/"] = html("<h1>Item 0</h1><i>0.50</i><a href='http://10.1.2.3/'>x</a>")
    shop.size = 1
    shop.write()
    text = (project.defs / "crawl.yml").read_text().replace("{selector: a}", "{selector: a, sameHost: false}")
    project.write(text)
    project.crawl()
    job = project.job("http://10.1.2.3/")
    assert job["state"] == "SKIPPED"
    assert job["reason"].startswith("address 10.1.2.3 is private")
    assert project.count_rows("item") == shop.rows()


@pytest.mark.sweep
def test_statuses_and_signs_of_a_block_count_as_always(shop: LoadedShop, project: Project, site: Site) -> None:
    site["/i/2"] = lambda r: Page("later", 503, {"Retry-After": "1"}) if r.attempt == 1 else page(2)
    site["/i/4"] = Page("gone", 404)
    site["/i/6"] = lambda r: Page(html("please prove it")) if r.attempt == 1 else page(6)
    shop.write(host='{blocked: [{match: "prove it"}]}')
    project.crawl()
    assert site.count("/i/2") == site.count("/i/6") == 2
    assert project.job(site.url("/i/4"))["reason"] == "HTTP 404 (gone)"
    assert project.count_rows("item") == shop.rows(without=4)
    [(waited,)] = project.query("SELECT count(*) FROM events WHERE text LIKE 'blocked: HTTP 503%'")
    assert waited == 1


def page(number: int, delay: float = 0.0) -> Page:
    return Page(html(f"<h1>Item {number}</h1><i>{number}.50</i>"), delay=delay)


def test_a_page_limit_counts_loads(shop: LoadedShop, project: Project, site: Site) -> None:
    shop.write()
    project.crawl("--set", "max_pages=5")
    assert len(site.paths) == 5


def test_headers_of_the_defs_and_the_attempt_reach_the_loader(shop: LoadedShop, project: Project, site: Site) -> None:
    shop.write(host='{headers: {X-Api: "k1"}, cookies: {session: s1}}')
    plugin = shop.plugins / "shop.py"
    text = plugin.read_text().replace('"x-loader": str(os.getpid())', SEEN)
    text = text.replace("def fetch(request)", "def fetch(request, c)").replace(
        "fetch(request)", "fetch(request, context)"
    )
    plugin.write_text(text.replace("def fetch(request, context)", "def fetch(request, c)"))
    project.crawl()
    sent = next(e for e in site.exchanges if e.path == "/i/1").request.headers
    assert (sent["x-api"], sent["cookie"]) == ("k1", "session=s1")
    assert sent["x-seen"] == "items,own,items,1,1"


SEEN = '"x-loader": "1", "x-seen": f"{c.group},{c.task},{c.locator},{c.depth},{c.attempt}"'


@pytest.mark.sweep
@linux
def test_a_new_version_of_the_defs_gets_new_processes(shop: LoadedShop, project: Project, site: Site) -> None:
    for number in range(1, shop.size):
        site[f"/i/{number}"] = page(number, 0.4)
    shop.write()
    running = project.start("--set", "batch=1", "--set", "concurrency=1")
    assert until(lambda: len(site.paths) >= 3)
    before = shop.loader_pids()
    plugin = shop.plugins / "shop.py"
    plugin.write_text(plugin.read_text().replace('"x-loader": str', '"x-new": "1", "x-loader": str'))
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert project.count_rows("item") == shop.rows()
    renewed = {e.request.headers["x-loader"] for e in site.exchanges if "x-new" in e.request.headers}
    assert len(renewed) == 1
    assert renewed.isdisjoint(before)
    assert site.count("/i/1") == 1, "a changed loader makes no stored page stale"


@pytest.mark.sweep
@linux
def test_helpers_end_with_their_process_and_with_their_node(shop: LoadedShop, project: Project, site: Site) -> None:
    """A helper that ignores the end of its pipe, as a browser may."""
    shop.write()
    plugin = shop.plugins / "shop.py"
    start = 'import subprocess\nsubprocess.Popen(["sleep", "1234"])\n\n\nclass Fetch:'
    plugin.write_text(plugin.read_text().replace("class Fetch:", start))
    site["/i/5"] = page(5, 30.0)
    running = project.start()
    assert until(lambda: "/i/5" in site.paths)
    [loader] = loaders_of(running.pid)
    helpers = helpers_of(loader)
    assert len(helpers) == 1
    [node] = project.children("node")
    os.kill(node, signal.SIGKILL)
    assert until(lambda: not any(map(is_alive, [loader, *helpers])))
    assert until(lambda: loaders_of(running.pid) not in ([], [loader])), "a new node has taken its place"
    later = [*(new := loaders_of(running.pid)), *(helper for pid in new for helper in helpers_of(pid))]
    running.send(signal.SIGKILL)
    running.wait()
    assert until(lambda: not any(map(is_alive, later)))


def helpers_of(pid: int) -> list[int]:
    """Pids of the children of a process."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
