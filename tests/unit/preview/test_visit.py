"""One page is fetched as in a crawl, and the hosts that locators name are those that a crawl would seed."""

from pathlib import Path

import pytest

from engine.errors import PageUnavailable
from engine.model.definition import Definitions, Locator, LocatorGroup
from engine.preview.visit import fetch_page, locator_hosts
from engine.settings import Settings
from tests.unit.http.server import Exchange, serving


def _defs(base_url: str | None = None, **locator: object) -> Definitions:
    made = Locator(name="l", **locator)  # type: ignore[arg-type]
    return Definitions(locator_groups=(LocatorGroup(name="g", locators=(made,)),), base_url=base_url)


@pytest.mark.parametrize(
    ("defs", "base", "hosts"),
    [
        (_defs(urls=("http://{a,b}.x/{1..3}", "HTTPS://C.x")), None, "a.x:80 b.x:80 c.x:443"),
        (_defs(urls=("http://127.1:8081/",)), None, "127.0.0.1:8081"),
        (_defs(sitemap="http://s.example/map.xml"), None, "s.example:80"),
        (_defs(urls=("/x", "//d.example/"), base_url="https://base.example"), None, "base.example:443 d.example:443"),
        (_defs(urls=("/x",), base_url="https://base.example"), "http://flag.example:8080", "flag.example:8080"),
        (_defs(urls=("/relative", "not a url")), None, ""),
        (_defs(from_file="-"), None, ""),
        (_defs(from_file="/nowhere/seeds.txt"), None, ""),
    ],
)  # fmt: skip
def test_hosts_of_locators(defs: Definitions, base: str | None, hosts: str) -> None:
    assert locator_hosts(defs, base) == frozenset(hosts.split())


def test_hosts_of_a_file_of_urls(tmp_path: Path) -> None:
    seeds = tmp_path / "seeds.txt"
    seeds.write_text("# comment\nhttp://a.example/\n\nhttp://b.example:81/x\n")
    assert locator_hosts(_defs(from_file=str(seeds)), None) == {"a.example:80", "b.example:81"}


def test_a_cookie_wall_and_a_refresh_are_passed() -> None:
    def wall(exchange: Exchange) -> None:
        if "ok=1" in exchange.headers.get("cookie", ""):
            exchange.respond(b"<meta http-equiv=refresh content='1;url=/end'>", "Content-Type: text/html")
        else:
            exchange.respond(b"", "Location: /wall", "Set-Cookie: ok=1; Path=/", status="302 Found")

    with serving() as site:
        site.pages["/wall"] = wall
        site.pages["/end"] = lambda x: x.respond(b"<h1>end", "Content-Type: text/html")
        page = fetch_page(site.url("/wall"), Definitions(), Settings(robots=False))
        assert (page.url, page.body) == (site.url("/end"), b"<h1>end")
        kept = fetch_page(site.url("/wall"), Definitions(), Settings(meta_refresh=False, robots=False))
        assert kept.url == site.url("/wall")
        site.pages["/wall"] = lambda x: x.respond(
            b"", "Location: /wall", "Set-Cookie: ok=1; Path=/other", status="302 Found"
        )
        with pytest.raises(PageUnavailable, match="redirect loop"):
            fetch_page(site.url("/wall"), Definitions(), Settings(robots=False))


def test_a_variable_that_is_not_set_is_named_in_the_url_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNSET", raising=False)
    with pytest.raises(PageUnavailable) as caught:
        fetch_page("http://127.0.0.1:1/%{env.UNSET}", Definitions(), Settings(robots=False))
    assert caught.value.message == "http://127.0.0.1:1/%{env.UNSET}: environment variable UNSET is not set"
