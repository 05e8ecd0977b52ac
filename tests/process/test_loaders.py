"""Plugin loaders in real crawls: what they return is a page, and what they do wrong costs one attempt, never a node."""

import contextlib
import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.sample import sampled

from .loaded_shop import LoadedShop
from .project import Project, until
from .site import Page, Site, html, redirect

pytestmark = pytest.mark.timeout(180)
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")


@pytest.fixture
def shop(project: Project, site: Site) -> LoadedShop:
    project.nodes = 1
    return LoadedShop(project, site)


def results(project: Project) -> dict[tuple[str, str], int]:
    rows = project.query("SELECT outcome, code, sum(results) FROM result_counts GROUP BY outcome, code")
    return {(outcome, code): count for outcome, code, count in rows}


def retried(project: Project) -> list[str]:
    texts = project.query("SELECT text FROM events WHERE text LIKE '%; attempt 2 in %'")
    return [text for (text,) in texts]


@pytest.mark.sweep
def test_the_example_loads_pages_through_a_helper_process(shop: LoadedShop, project: Project, site: Site) -> None:
    shop.write_example()
    site["/robots.txt"] = "User-agent: *\nDisallow: /i/7"
    project.crawl(code=0)
    rows = shop.rows()
    del rows["item", "Item 7", "7.50"]
    assert project.count_rows("item") == rows
    assert "/i/7" not in site.paths
    assert project.job(site.url("/i/7"))["state"] == "SKIPPED"
    assert {e.request.headers["user-agent"][:13] for e in site.exchanges} == {"crawl-console"}
    assert results(project) == {("ok", ""): shop.size - 1}


@pytest.mark.parametrize("name", ["Fetch", "Async"])
def test_one_warm_process_loads_all_pages(shop: LoadedShop, project: Project, name: str) -> None:
    shop.write(name=name)
    project.crawl()
    assert project.count_rows("item") == shop.rows()
    assert len(shop.loader_pids()) == 1
    [(kind, status, url)] = project.query(
        f"SELECT content_type, status, url FROM documents WHERE url = '{shop.site.url('/i/1')}'"
    )
    assert (kind, status, url) == ("text/html; charset=utf-8", 200, shop.site.url("/i/1"))


def test_a_redirect_that_a_loader_followed_is_stored_as_the_site_wrote_it(
    shop: LoadedShop, project: Project, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOP_KEY", "hunter/2x")
    shop.url = site.url("/shop?key=%{env.SHOP_KEY}")
    site["/shop?key=hunter%2F2x"] = redirect("/shop/?key=hunter/2x")
    site["/shop/?key=hunter/2x"] = html("<h1>x</h1><i>1</i>")
    shop.write()
    project.crawl(code=0)
    assert project.query("SELECT url FROM jobs ORDER BY id DESC LIMIT 1") == [(site.url("/shop?key=%{env.SHOP_KEY}"),)]
    assert project.query("SELECT url FROM documents") == [(site.url("/shop/?key=hunter/2x"),)]


TROUBLES = [
    ("exception", "own/loader: ZeroDivisionError: division by zero (plugins/shop.py:"),
    ("quit", "own/loader: SystemExit: 3 (plugins/shop.py:"),
    ("exit", "own/loader: its process ended (exit 7)"),
    ("loop", "own/loader: takes longer than its limit of 1 s"),
    ("sleep", "own/loader: takes longer than its limit of 1 s"),
    ("memory", "own/loader: needs more than 400 MB; the limit is parse_memory"),
    ("garbage", "own/loader: its process sent an invalid answer"),
    ("no response", "own/loader: `load` must return a PageResponse, not dict"),
    ("text", "own/loader: the body of a PageResponse must be bytes, not str"),
    ("bad status", "own/loader: status must be a number from 200 to 599, not 99"),
    ("bad header", "own/loader: header 'a' contains a line feed"),
    ("bad url", "own/loader: the url of its PageResponse is not an http or https URL"),
]
LIKE_OTHERS = ("quit", "exit", "sleep", "memory", "text", "bad status", "bad header", "bad url", "garbage")


@linux
@pytest.mark.parametrize(
    ("trouble", "reason"),
    [pytest.param(*one, marks=pytest.mark.sweep if one[0] in LIKE_OTHERS else ()) for one in TROUBLES],
)
def test_a_fault_costs_one_attempt(shop: LoadedShop, project: Project, trouble: str, reason: str) -> None:
    shop.write(trouble, limit="1" if trouble in ("loop", "sleep") else "20")
    done = project.crawl()
    assert project.count_rows("item") == shop.rows()
    assert len(retried(project)) == 3
    assert all(text.startswith(reason) for text in retried(project)), retried(project)
    assert project.query("SELECT count(*) FROM nodes") == [(1,)]
    assert results(project) == {("ok", ""): shop.size}
    assert project.query("SELECT max(attempts) FROM jobs") == [(2,)]
    assert done.jobs["done"] >= shop.size


@pytest.mark.sweep
def test_the_last_attempt_fails_the_job_with_its_reason(shop: LoadedShop, project: Project) -> None:
    shop.write("exception", always=True)
    done = project.crawl("--set", "max_attempts=2", code=1)
    assert done.jobs["failed"] == 3
    job = project.job(shop.site.url("/i/13"))
    assert job["state"] == "FAILED"
    assert job["attempts"] == 2
    assert job["reason"].startswith("own/loader: ZeroDivisionError: division by zero (plugins/shop.py:")
    assert job["reason"].endswith("(2 attempts)")
    assert project.count_rows("item") == shop.rows(without=3)
    assert results(project) == {("ok", ""): shop.size - 3, ("error", "ZeroDivisionError"): 3}


@pytest.mark.sweep
def test_a_failed_job_is_loaded_again_by_retry(shop: LoadedShop, project: Project) -> None:
    shop.write("error")
    project.crawl(code=1)
    assert project.job(shop.site.url("/i/3"))["reason"] == "own/loader: three is bad"
    assert project.job(shop.site.url("/i/3"))["attempts"] == 1
    assert results(project)["error", "three"] == 3
    shop.write()
    assert project.run_with_data("retry").code == 0
    project.crawl()
    assert project.count_rows("item") == shop.rows()
    assert results(project) == {("ok", ""): shop.size}


@pytest.mark.sweep
def test_a_body_over_the_limit_fails_its_job(shop: LoadedShop, project: Project) -> None:
    shop.write("large")
    done = project.crawl(code=1)
    assert done.jobs["failed"] == 3
    assert project.job(shop.site.url("/i/3"))["reason"] == "body over 10000000 bytes (max_body)"
    assert project.count_rows("item") == shop.rows(without=3)


@pytest.mark.parametrize(
    ("trouble", "outcome"),
    sampled([("warning", ("warning", "odd")), ("not applicable", ("not_applicable", "")), ("print", ("ok", ""))], 1),
)
def test_other_outcomes_keep_the_page(
    shop: LoadedShop, project: Project, trouble: str, outcome: tuple[str, str]
) -> None:
    shop.write(trouble)
    project.crawl()
    assert project.count_rows("item") == shop.rows()
    assert results(project)[outcome] == (3 if trouble != "print" else shop.size)
    by_client = [e.path for e in shop.site.exchanges if "x-loader" not in e.request.headers]
    threes = {f"/i/{n}" for n in (3, 13, 23)} if trouble == "not applicable" else set()
    assert set(by_client) == {"/robots.txt", *threes}


@pytest.mark.sweep
def test_a_leak_costs_a_process_and_no_attempt(shop: LoadedShop, project: Project) -> None:
    shop.write("leak")
    project.crawl()
    assert project.count_rows("item") == shop.rows()
    assert retried(project) == []
    assert len(shop.loader_pids()) == (4 if sys.platform.startswith("linux") else 1)


@pytest.mark.sweep
def test_a_class_that_cannot_be_created_fails_its_jobs_with_the_reason(shop: LoadedShop, project: Project) -> None:
    shop.write()
    (shop.plugins / "shop.py").write_text("import no_such_module\n\nclass Fetch:\n    def load(self, r, c): ...\n")
    project.write((project.defs / "crawl.yml").read_text().replace("options: {trouble: none, always: false}, ", ""))
    project.crawl("--set", "max_attempts=1", code=1)
    reason = project.job(shop.url)["reason"]
    assert reason.startswith("own/loader: plugins/shop.py cannot be loaded: ModuleNotFoundError: No module named")


@pytest.mark.sweep
@linux
def test_killed_at_random_the_rows_stay_exact(project: Project, site: Site) -> None:
    project.nodes = 2
    shop = LoadedShop(project, site, size=150)
    for number in range(1, shop.size):
        site[f"/i/{number}"] = Page(html(f"<h1>Item {number}</h1><i>{number}.50</i>"), delay=0.15)
    shop.write(workers=2, host="{concurrency: 16, robots: false}")
    running = project.start("--set", "max_attempts=9", nodes=2)
    rng, kills = random.Random(7), 0
    assert until(lambda: len(site.paths) > 3)
    while kills < 10 and not running.exited:
        time.sleep(rng.uniform(0.05, 0.3))
        for pid in rng.sample(pids, 1) if (pids := loaders_of(running.pid)) else []:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                kills += 1
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert kills == 10
    assert project.count_rows("item") == shop.rows()
    assert project.query("SELECT count(*) FROM nodes") == [(2,)]


def loaders_of(supervisor: int) -> list[int]:
    """Pids of the live loader processes below a supervisor."""
    children: dict[int, list[int]] = {}
    names = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                text = Path(f"/proc/{name}/stat").read_text("utf-8", "replace")
                children.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(name))
                names[int(name)] = text[text.index("(") + 1 : text.rindex(")")]
    below, todo = [], [supervisor]
    while todo:
        pid = todo.pop()
        below.append(pid)
        todo += children.get(pid, [])
    return sorted(pid for pid in below if names.get(pid) == "loader")
