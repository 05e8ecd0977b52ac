"""Query keys that hosts drop, in real crawls: each page is fetched once, whatever leads to it."""

import itertools
import signal
import threading
from collections import Counter

import pytest

from .gated_crawl import defs_version, events, reextraction_finished
from .project import Project, until
from .site import Page, Request, Site, html, redirect

pytestmark = pytest.mark.timeout(120)

DEFS = """\
locatorGroups: {{shelf: {{locators: [{locators}]}}}}
taskGroups:
  shelf: {{list: {{dataDef: shelf{steps}}}}}
  book: {{page: {{dataDef: book}}}}
dataDefs:
  shelf:
    query: {{block: ul}}
    fields: {{url: {{value: "%{{document.url}}"}}, first: {{selector: a, attribute: href, type: url}}}}
    links: [{{selector: "li a", linkGroup: book, deny: [sid=, utm]}}, {{selector: a.next}}]
  book: {{fields: {{url: {{value: "%{{document.url}}"}}}}}}
hosts: {{"127.0.0.1": {{robots: false, delay: {delay}{drop}}}}}
"""
DROP = ", drop: [utm_*, sid]"
FOLLOW = """
class Follow:
    def run(self, rows, context):
        if rows:
            context.follow("/book/code?sid=1", "book")
            context.follow("/book/code?sid=2&utm_a=1", "book")
        return []
"""
STEPS = ", steps: {recordDefault: {follow: {class: shop.Follow, previous: parser, next: seeder}}}"


def write_defs(
    project: Project,
    site: Site,
    *written: str,
    drop: str = DROP,
    delay: float = 0.0,
    sitemap: str = "",
    steps: str = "",
) -> None:
    locators = [f'{{url: "{site.url(path)}"}}' for path in written]
    locators += (
        [f'{{sitemap: {{url: "{site.url(sitemap)}", links: [{{deny: [sid=], linkGroup: book}}]}}}}'] if sitemap else []
    )
    project.write(DEFS.format(locators=", ".join(locators), drop=drop, delay=delay, steps=steps))


def shelf(*hrefs: str, following: str = "") -> Page:
    items = "".join(f'<li><a href="{href}">b</a></li>' for href in hrefs)
    return Page(html(f'<h1>shelf</h1><ul>{items}</ul><a class="next" href="{following}">on</a>'))


def ask_for_session(site: Site, path: str) -> None:
    """A page that sends each request without a session key to its URL with one."""
    site[path] = redirect(f"{path}?sid=7")
    site[f"{path}?sid=7"] = html("session")


def paths_of(project: Project, site: Site, data_def: str) -> list[str]:
    return sorted(row["url"].removeprefix(site.url("")) for row in project.rows(data_def))


@pytest.mark.parametrize("delay", [0.0, 0.02])
def test_each_page_is_fetched_once_whatever_leads_to_it(project: Project, site: Site, delay: float) -> None:
    (project.defs / "plugins").mkdir()
    (project.defs / "plugins" / "shop.py").write_text(FOLLOW)
    site.fallback = lambda request: Page(html(request.path))
    site["/robots.txt"] = Page("", 404)
    site["/shelf?utm_source=written"] = shelf(
        "/book/1?utm_source=a", "/book/1?utm_source=b&utm_medium=c#top", "/book/1", "/book/2?ref=x&sid=5&v=%7e",
        "/old/4?utm_a=1", "/book/session", "/book/session?sid=3", following="/shelf?page=2&sid=9",
    )  # fmt: skip
    site["/shelf?page=2"] = shelf("/book/1?sid=12", "/book/2?ref=x&v=%7e&sid=6", following="?page=2&sid=10")
    site["/old/4"] = redirect("/book/4?sid=11")
    ask_for_session(site, "/book/session")
    site["/map?sid=1"] = redirect("/maps/all.xml?sid=2&part=1")
    entries = ["/book/1?sid=77", "/book/3?utm_campaign=z", "/book/3", "/old/5"]
    locations = "".join(f"<url><loc>{site.url(path)}</loc></url>" for path in entries)
    site["/maps/all.xml?part=1"] = Page(f"<urlset>{locations}</urlset>", headers={"Content-Type": "application/xml"})
    site["/old/5"] = redirect("/book/3?utm_source=old", 301)
    write_defs(project, site, "/shelf?utm_source=written", sitemap="/map?sid=1", delay=delay, steps=STEPS)
    project.crawl()
    books = ["/book/1", "/book/2?ref=x&v=%7e", "/book/3", "/book/4", "/book/code", "/book/session?sid=7"]
    assert paths_of(project, site, "book") == books, "a redirect to a page of the run gives no row of its own"
    assert paths_of(project, site, "shelf") == ["/shelf?page=2", "/shelf?utm_source=written"]
    assert {row["url"]: row["first"] for row in project.rows("shelf")} == {
        site.url("/shelf?utm_source=written"): site.url("/book/1?utm_source=a"),
        site.url("/shelf?page=2"): site.url("/book/1?sid=12"),
    }
    asked = ["/shelf?utm_source=written", "/shelf?page=2", "/map?sid=1", "/maps/all.xml?part=1", "/old/4", "/old/5"]
    assert Counter(site.paths) == Counter([*asked, *books, "/book/session"])


def test_a_large_page_is_read_by_the_same_rules_in_its_own_process(project: Project, site: Site) -> None:
    site.fallback = lambda request: Page(html(request.path))
    page = shelf(*(f"/book/{number // 3}?utm_a={number}" for number in range(3_000)), following="/shelf?page=2&sid=9")
    site["/shelf"] = Page(page.content + b"<p>" + b"word " * 50_000)
    write_defs(project, site, "/shelf")
    project.crawl()
    assert paths_of(project, site, "book") == sorted(f"/book/{number}" for number in range(1_000))
    assert max(Counter(site.paths).values()) == 1
    assert "/shelf?page=2" in site.paths


@pytest.mark.parametrize("delay", [0.0, 0.02])
def test_a_site_that_adds_a_new_session_key_for_ever_ends_at_the_limit(
    project: Project, site: Site, delay: float
) -> None:
    numbers = itertools.count()

    def respond(request: Request) -> Page:
        return redirect(f"{request.path.partition('?')[0]}?sid={next(numbers)}")

    site.fallback = respond
    site["/shelf"] = shelf("/book/1", "/book/2")
    site["/book/2"] = redirect("/book/2?utm_a=1")
    site["/book/2?utm_a=1"] = redirect("/book/2")
    write_defs(project, site, "/shelf", delay=delay)
    project.crawl("--set", "max_redirects=4", code=1)
    assert project.job(site.url("/book/1"))["reason"] == "more than 4 redirects"
    assert project.job(site.url("/book/2"))["reason"] == "redirect loop"
    assert Counter(site.paths) == Counter(
        ["/shelf", "/book/1", "/book/2", "/book/2?utm_a=1", *(f"/book/1?sid={number}" for number in range(4))]
    )


def test_a_run_that_is_resumed_fetches_no_page_again(project: Project, site: Site) -> None:
    site.fallback = lambda request: Page(html(request.path), delay=0.1)
    site["/shelf"] = shelf(*(f"/book/{number}?utm_a={number}" for number in range(20)), following="/shelf?sid=1")
    ask_for_session(site, "/book/7")
    ask_for_session(site, "/book/17")
    write_defs(project, site, "/shelf", delay=0.05)
    running = project.start()
    assert until(lambda: len(site.paths) >= 9 or running.exited), running.err
    running.send(signal.SIGINT)
    done = running.wait()
    assert done.code == 130, done.err
    assert len(site.paths) < 20
    project.crawl()
    sessions = {"/book/7", "/book/17"}
    books = {f"/book/{number}" for number in range(20)}
    assert Counter(site.paths) == Counter(["/shelf", *books, *(f"{path}?sid=7" for path in sessions)])
    assert paths_of(project, site, "book") == sorted((books - sessions) | {f"{path}?sid=7" for path in sessions})


def test_a_saved_drop_follows_the_links_of_stored_pages_anew(project: Project, site: Site) -> None:
    hold = threading.Event()
    site.fallback = lambda request: Page(html(request.path))
    site["/shelf"] = shelf("/book/1?ref=a", "/book/1?ref=b", "/book/2", following="/gate")
    site["/gate"] = Page(html("<h1>gate</h1>"), hold=hold)
    write_defs(project, site, "/shelf")
    running = project.start()
    assert until(lambda: len(site.paths) == 5), running.err
    planned = DROP.replace("]", ", ref]")
    write_defs(project, site, "/shelf", drop=planned)
    assert until(lambda: site.count("/book/1") == 1 or running.exited), project.describe_state()
    assert until(lambda: defs_version(project) == 2 and reextraction_finished(project))
    hold.set()
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    old = ["/book/1?ref=a", "/book/1?ref=b"]
    assert paths_of(project, site, "book") == ["/book/1", *old, "/book/2"]
    assert Counter(site.paths) == Counter(["/shelf", "/gate", *old, "/book/1", "/book/2"])
    assert any("hosts changed" in text for text in events(project)), events(project)
    assert "2 pages keep their rows: no link leads to them any more" in events(project)


@pytest.mark.sweep
def test_check_plan_and_try_know_the_rules(project: Project, site: Site) -> None:
    site["/shelf"] = shelf("/book/1?ref=a", "/book/1?sid=3")
    site["/old"] = redirect("/shelf?sid=1")
    site.fallback = lambda request: Page(html(request.path))
    write_defs(project, site, "/shelf", drop="")
    project.crawl()
    write_defs(project, site, "/shelf", drop=", drop: [sid, ref]")
    planned = project.run_with_data("plan", "--defs", str(project.defs), "--json").summary
    assert planned["pages"] == 1, "the page with links"
    where = ("--defs", str(project.defs), "--data", str(project.folder / "none"))
    tried = project.run_command("try", "shelf", site.url("/old"), "--json", *where).summary
    assert [link["url"] for link in tried["links"]] == [site.url("/book/1"), site.url("/shelf")]
    assert tried["document"]["url"] == site.url("/shelf")
    written = project.run_command("try", "shelf", site.url("/shelf?sid=1"), "--json", *where).summary
    assert written["document"]["url"] == site.url("/shelf?sid=1"), "as the user writes it"
    write_defs(project, site, "/shelf", drop=", drop: sid")
    checked = project.run_command("check", "--defs", str(project.defs))
    assert checked.code == 2
    assert "crawl.yml:11:56: wrong-type `drop` must be a list" in checked.out + checked.err
