"""`try` and `shell` fetch a page as a crawl would: through the plugin loader of its group."""

import pytest

from .loaded_shop import LoadedShop
from .project import Completed, Project
from .site import Site, html, redirect


@pytest.fixture
def shop(project: Project, site: Site) -> LoadedShop:
    return LoadedShop(project, site, size=5)


def try_item(project: Project, url: str, *arguments: str) -> Completed:
    done = project.run_command("try", "item", url, "--defs", str(project.defs), "--json", *arguments)
    project.assert_no_process_left(2.0)
    assert "Traceback" not in done.err
    return done


@pytest.mark.sweep
def test_try_uses_the_loader(shop: LoadedShop, project: Project, site: Site) -> None:
    shop.write()
    site["/i/4"], site["/moved"] = redirect("/moved"), html("<h1>Item 4</h1><i>4.50</i>")
    assert try_item(project, site.url("/i/1")).summary["rows"] == [{"title": "Item 1", "price": 1.50}]
    moved = try_item(project, site.url("/i/4")).summary
    assert moved["rows"] == [{"title": "Item 4", "price": 4.50}]
    assert moved["document"]["url"] == site.url("/moved")
    assert all("x-loader" in e.request.headers for e in site.exchanges if e.path != "/robots.txt")


def test_try_shows_why_the_loader_failed(shop: LoadedShop, project: Project, site: Site) -> None:
    for trouble, text in (
        ("error", "own/loader: three is bad"),
        ("sleep", "own/loader: takes longer than its limit of 1 s"),
        ("exit", "own/loader: its process ended (exit 7)"),
    ):
        shop.write(trouble, limit="1")
        done = try_item(project, site.url("/i/3"))
        assert done.code != 0
        assert text in done.err


def test_try_obeys_robots_txt_and_fetches_what_a_loader_declines(
    shop: LoadedShop, project: Project, site: Site
) -> None:
    site["/robots.txt"] = "User-agent: *\nDisallow: /i/2"
    shop.write("not applicable")
    assert "robots.txt" in try_item(project, site.url("/i/2")).err
    assert try_item(project, site.url("/i/3")).summary["rows"] == [{"title": "Item 3", "price": 3.50}]
    assert site.paths == ["/i/3"]
    assert "x-loader" not in site.exchanges[-1].request.headers


@pytest.mark.sweep
def test_the_shell_uses_the_loader_of_a_locator(shop: LoadedShop, project: Project, site: Site) -> None:
    shop.write()
    for url, by_loader in ((shop.url, True), (site.url("/i/1"), False)):
        site.clear_log()
        done = project.start_command("shell", url, "--defs", str(project.defs), stdin=b"h1\n").wait()
        assert "Item" in done.out
        assert ("x-loader" in site.exchanges[-1].request.headers) == by_loader
