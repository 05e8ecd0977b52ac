"""One page is fetched as in a crawl, and the hosts that locators name are those that a crawl would seed."""

from pathlib import Path

import pytest

from crawl_engine.errors import PageUnavailable
from crawl_engine.model.definition import Definitions
from crawl_engine.model.host import HostRule
from crawl_engine.model.locator import Locator, LocatorGroup
from crawl_engine.preview.visit import fetch_page, locator_hosts
from crawl_engine.settings import Settings
from tests.unit.http.server import Exchange, Page, serving


def redirect(target: str) -> Page:
    return lambda exchange: exchange.respond(b"", f"Location: {target}", status="302 Found")


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


def test_each_host_is_asked_as_its_rule_and_its_robots_txt_say() -> None:
    def allow_few(exchange: Exchange) -> None:
        exchange.respond(b"User-agent: *\nDisallow: /private\n", "Content-Type: text/plain")

    with serving() as site:
        there = f"localhost:{site.port}"
        defs = Definitions(
            hosts=(HostRule(name="127.0.0.1", headers={"X-Key": "k"}), HostRule(name=there, private=True))
        )
        site.pages["/robots.txt"] = allow_few
        site.pages["/old"] = redirect(f"http://{there}/new")
        site.pages["/new"] = lambda x: x.respond(
            b"<meta http-equiv=refresh content='0;url=/end'>", "Content-Type: text/html"
        )
        site.pages["/end"] = lambda x: x.respond(b"<h1>end", "Content-Type: text/html")
        page = fetch_page(site.url("/old"), defs, Settings())
        assert (page.url, page.status, page.body) == (f"http://{there}/end", 200, b"<h1>end")
        asked = [(x.headers["host"].partition(":")[0], x.path, x.headers.get("x-key")) for x in site.requests]
        assert asked == [
            ("127.0.0.1", "/robots.txt", None), ("127.0.0.1", "/old", "k"),
            ("localhost", "/robots.txt", None), ("localhost", "/new", None), ("localhost", "/end", None),
        ]  # fmt: skip
        site.pages["/old"] = redirect(f"http://{there}/private")
        with pytest.raises(PageUnavailable) as caught:
            fetch_page(site.url("/old"), defs, Settings())
        assert caught.value.message == f"http://{there}/private: robots.txt disallows it (line 2: Disallow: /private)"
        assert caught.value.remedy.startswith("A crawl would skip it.")
        with pytest.raises(PageUnavailable, match="of localhost is loopback"):
            fetch_page(site.url("/old"), Definitions(), Settings())


def test_what_a_crawl_refuses_is_refused_with_what_to_do() -> None:
    def read(path: str, rule: HostRule | None = None, **locator: object) -> PageUnavailable:
        made = Locator(name="l", urls=(site.url(path),), **locator)  # type: ignore[arg-type]
        hosts = (HostRule(name="localhost", private=True), *((rule,) if rule else ()))
        defs = Definitions(locator_groups=(LocatorGroup(name="g", locators=(made,)),), hosts=hosts)
        with pytest.raises(PageUnavailable) as caught:
            fetch_page(site.url(path), defs, Settings(robots=False, max_redirects=2))
        return caught.value

    with serving() as site:
        site.pages["/loop"] = redirect("/loop")
        assert read("/loop").remedy == "Only the site can fix this."
        for number in range(4):
            site.pages[f"/{number}"] = redirect(f"/{number + 1}")
        assert "max_redirects" in read("/0").remedy
        far = f"Location: http://localhost:{site.port}/end"
        site.pages["/post"] = lambda x: x.respond(b"", far, status="307 Temporary Redirect")
        assert "would repeat the request's body there" in read("/post", method="POST", body="q=1").message
        assert site.requests[-1].path == "/post"
        site.pages["/wall"] = lambda x: x.respond(b"", "Location: /wall", "Set-Cookie: a=1", status="302 Found")
        assert "redirect loop" in read("/wall", HostRule(name="127.0.0.1", cookie_jar="off")).message
        assert "cookie" not in site.requests[-1].headers


def test_the_challenge_of_a_site_is_no_page() -> None:
    with serving() as site:
        site.pages["/"] = lambda x: x.respond(b"<script>window._cf_chl_opt={}</script>", "Content-Type: text/html")
        page = fetch_page(site.url("/"), Definitions(), Settings(robots=False))
        assert (page.status, page.refusal) == (200, "challenge (window._cf_chl_opt)")


def test_a_variable_that_is_not_set_is_named_in_the_url_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNSET", raising=False)
    with pytest.raises(PageUnavailable) as caught:
        fetch_page("http://127.0.0.1:1/%{env.UNSET}", Definitions(), Settings(robots=False))
    assert caught.value.message == "http://127.0.0.1:1/%{env.UNSET}: environment variable UNSET is not set"
