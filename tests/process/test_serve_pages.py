"""The pages of `serve` in a real browser: by keyboard alone, moving, and with orders that are given and taken back."""

import re
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from .library import Library
from .project import Project, until
from .site import Site, html
from .web_server import WebServer

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is missing")
_CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(180),
    pytest.mark.skipif(_CHROMIUM is None, reason="no Chromium is installed"),
]
WIDER = """most => [...document.querySelectorAll("*")].filter(one => one.getBoundingClientRect().right > most)
    .map(one => one.outerHTML.slice(0, 200)).slice(0, 5)"""
EVIL = "<script>window.broken=1</script><img src=x onerror='window.broken=1'>"


@pytest.fixture
def library(project: Project, site: Site) -> Library:
    library = Library(site, shelves=6, books=6, delay=0.4)
    project.write(library.defs(concurrency=2))
    return library


@pytest.fixture
def serve(project: Project) -> Iterator[WebServer]:
    server = WebServer(project, "--control")
    yield server
    server.stop()


@pytest.fixture
def page(serve: WebServer) -> Iterator[Any]:
    """A page of a browser that has logged in by the keyboard."""
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(20_000)
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda line: problems.append(line.text) if line.type == "error" else None)
        page.goto(serve.url)
        page.keyboard.type(serve.token)
        page.keyboard.press("Enter")
        page.wait_for_selector("h1:has-text('Crawls')")
        yield page
        assert problems == [], "neither the script nor the policy complains"
        browser.close()


def press_until(page: Any, selector: str, most: int = 80) -> None:
    """Press tab until the focus is there."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"tab does not reach {selector}")


def test_the_keyboard_alone_watches_pauses_and_resumes(
    project: Project, site: Site, library: Library, serve: WebServer, page: Any
) -> None:
    running = project.start(nodes=1)
    assert until(lambda: len(site.paths) >= 3 or running.exited), running.err
    press_until(page, "tbody th a")
    page.keyboard.press("Enter")
    page.wait_for_selector("#run:has-text('RUNNING')")
    page.wait_for_selector("#link:has-text('live')")
    page.evaluate("window.same = document.querySelector('#progress'); window.stays = 1")
    before = page.inner_text("#progress")
    page.wait_for_function("text => document.querySelector('#progress').innerText !== text", arg=before)
    assert page.evaluate("window.stays === 1 && window.same === document.querySelector('#progress')"), (
        "it moves in place"
    )
    press_until(page, "form[action^='/orders/pause'] button")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=status]:has-text('intake paused: jobs in flight finish')")
    library.set_delay(4.0)  # it must go on until it is cancelled
    assert project.status()["paused"] == "operator"
    press_until(page, "form[action^='/orders/resume'] button")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=status]:has-text('intake resumed')")
    assert project.status()["paused"] is None
    assert page.evaluate("window.stays === 1"), "the page stays"
    page.reload()
    page.wait_for_selector("[role=status]:has-text('intake resumed')")
    page.wait_for_selector("section.control")
    for name in ("Jobs", "Hosts", "Failed", "Log", "Plots", "Runs"):
        press_until(page, f".tabs a[href^='/crawl/{name.lower()}']")
        page.keyboard.press("Enter")
        page.wait_for_selector(f".tabs a[aria-current=page]:has-text('{name}')")
    page.goto(f"{serve.url}/crawl")
    press_until(page, "form[action='/ask/cancel'] button")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('Cancel the run')")
    assert project.status()["state"] == "READY", "asked, and not done"
    press_until(page, ".dialog button.grave")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=status]:has-text('cancelling')")
    assert running.wait().code == 143
    givers = project.query("SELECT name, given_by FROM commands ORDER BY id")
    assert givers == [(name, "web 127.0.0.1") for name in ("pause", "resume", "cancel")]


def test_what_went_wrong_with_an_order_stands_until_the_next_one(
    project: Project, site: Site, library: Library, serve: WebServer, page: Any
) -> None:
    running = project.start(nodes=1)
    assert until(lambda: len(site.paths) >= 3 or running.exited), running.err
    page.goto(f"{serve.url}/crawl")
    answer = {"status": 200, "content_type": "application/json", "body": '{"error": "nobody listens"}'}
    page.route("**/orders/pause*", lambda route: route.fulfill(**answer))
    page.click("form[action^='/orders/pause'] button")
    page.wait_for_selector("[role=alert]:has-text('✗ nobody listens')")
    for _ in range(3):  # the page moves on
        before = page.inner_text("#run")
        page.wait_for_function("text => document.querySelector('#run').innerText !== text", arg=before)
    assert page.is_visible("[role=alert]:has-text('✗ nobody listens')")
    page.unroute("**/orders/pause*")
    page.click("form[action^='/orders/pause'] button")
    page.wait_for_selector("[role=status]:has-text('intake paused: jobs in flight finish')")
    assert not page.is_visible("#refused")


def test_no_script_of_a_crawled_page_runs(
    project: Project, site: Site, library: Library, serve: WebServer, page: Any
) -> None:
    library.set_delay(0)
    site["/shelf/0"] = html(EVIL)
    project.crawl(nodes=1)
    for path in ("/crawl", "/crawl/jobs", "/crawl/failed", "/crawl/log", "/crawl/job?id=1", "/crawl/hosts"):
        page.goto(f"{serve.url}{path}")
        page.wait_for_selector("main")
        assert page.evaluate("window.broken") is None, path
    page.goto(f"{serve.url}/crawl/job?id=1")
    assert "window.broken=1" in page.inner_text("pre.body")


def test_it_reads_the_same_without_script(project: Project, library: Library, serve: WebServer, page: Any) -> None:
    library.set_delay(0)
    project.crawl(nodes=1)
    assert until(
        lambda: "DONE" in serve.client.get("/crawl").text and "Reload defs" not in serve.client.get("/crawl").text
    )
    page.goto(f"{serve.url}/crawl")
    plain = page.context.browser.new_context(java_script_enabled=False, storage_state=page.context.storage_state())
    other = plain.new_page()
    other.goto(f"{serve.url}/crawl")
    ages = re.compile(r"\b\d+[smh]\b")
    assert ages.sub("", other.inner_text("main")) == ages.sub("", page.inner_text("main"))


@pytest.mark.parametrize("size", [(390, 844), (1440, 900)], ids=["phone", "desktop"])
def test_no_page_is_wider_than_the_window(
    project: Project, library: Library, serve: WebServer, page: Any, size: tuple[int, int]
) -> None:
    library.set_delay(0)
    project.crawl(nodes=1)
    page.set_viewport_size({"width": size[0], "height": size[1]})
    for path in ("", "/jobs", "/hosts", "/failed", "/log", "/plots", "/runs", "/job?id=1"):
        page.goto(f"{serve.url}/crawl{path}")
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0], (path, page.evaluate(WIDER, size[0]))


def test_orders_and_the_stream_work_below_a_path_of_a_proxy(project: Project, library: Library) -> None:
    """A browser that knows the path alone; a proxy that leaves it in its requests is not needed for that."""
    running = project.start(nodes=1)
    assert until(lambda: library.site.paths or running.exited)
    server = WebServer(project, "--control", "--root-path", "/crawls")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(20_000)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url.removeprefix(server.url)))
        page.goto(f"{server.url}/crawls/crawl?data=data")
        page.keyboard.type(server.token)
        page.keyboard.press("Enter")
        page.wait_for_selector("#link:has-text('live')")
        page.click("button:has-text('Pause')")
        page.wait_for_selector("text=resume")
        assert page.url.startswith(f"{server.url}/crawls/crawl?")
        assert [url for url in asked if not url.startswith("/crawls/")] == []
        assert any(url.startswith("/crawls/events") for url in asked)
        assert any(url.startswith("/crawls/orders/") for url in asked)
        browser.close()
    server.stop()
    running.process.terminate()
    running.wait()
