"""What the rules of hosts do for pages that a browser loads: proxies, credentials, cookies, bad answers."""

from pathlib import Path

import pytest

from .certificates import Authority
from .project import Project
from .proxy import serve_proxy
from .shop_front import NEEDS_BROWSER, Front, assert_nothing_left
from .site import Page, Request, html, serve_site
from .socks_proxy import serve_socks

pytestmark = NEEDS_BROWSER
SECRET = "canary4711"
VARIABLE = "%{env.A_PASSWORD}"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_PASSWORD", SECRET)


def write(front: Front, rule: str, *, host: str = "shop.test", loader: str = "{browser: {wait: '#ready'}}") -> None:
    """The shop under a name, with a rule for it."""
    front.write(loader)
    text = (front.project.defs / "crawl.yml").read_text().replace("127.0.0.1:", f"{host}:")
    front.project.write(f"{text}hosts: {{{host}: {rule}}}\n")


@pytest.mark.parametrize("kind", ["http", "socks5h"])
def test_traffic_of_a_host_goes_through_its_proxy(front: Front, kind: str) -> None:
    """The name is known to the proxy alone: nothing goes around it."""
    front.pages = 2
    opened = serve_proxy(f"us:{SECRET}") if kind == "http" else serve_socks(f"us:{SECRET}")
    with opened as proxy:
        proxy.names["shop.test"] = "127.0.0.1"
        write(front, f'{{proxy: "{kind}://us:{VARIABLE}@127.0.0.1:{proxy.port}"}}')
        assert front.crawl() == front.rows
        asked = [one.replace("http://", "").partition(" ")[2] or one for one in proxy.asked]
        assert len([one for one in asked if "shop.test" in one]) >= 4
        assert not any("127.0.0.1" in one for one in asked)
    assert SECRET not in front.project.logs()
    assert_nothing_left(front.project)


@pytest.mark.parametrize("kind", ["http", "socks5h"])
def test_https_goes_through_a_tunnel_of_the_proxy(project: Project, tmp_path: Path, kind: str) -> None:
    opened = serve_proxy(f"us:{SECRET}") if kind == "http" else serve_socks(f"us:{SECRET}")
    with serve_site(Authority(tmp_path).server_context("shop.test")) as site, opened as proxy:
        front = Front(project, site)
        front.pages = 1
        proxy.names["shop.test"] = "127.0.0.1"
        url = f"{kind}://us:{VARIABLE}@127.0.0.1:{proxy.port}"
        write(front, f'{{proxy: "{url}", tls: {{verify: false}}}}')
        assert front.crawl() == front.rows
        prefix = "CONNECT " if kind == "http" else ""
        assert set(proxy.asked) == {f"{prefix}shop.test:{site.port}"}
        write(front, f'{{proxy: "{url}", robots: false}}')
        front.crawl("--fresh", code=1)
        reason = project.job(f"https://shop.test:{site.port}/p/1")["reason"]
        assert "TLS: invalid certificate" in reason


def test_a_proxy_that_refuses_fails_the_page_and_is_named(front: Front) -> None:
    front.pages = 1
    with serve_proxy("other:word") as proxy:
        write(front, f'{{proxy: "http://us:{VARIABLE}@127.0.0.1:{proxy.port}", robots: false}}')
        front.crawl("--set", "max_attempts=1", code=1)
        reason = front.project.job(f"http://shop.test:{front.site.port}/p/1")["reason"]
        assert f"proxy http://127.0.0.1:{proxy.port}: HTTP 407, it refuses the credentials" in reason
        assert SECRET not in reason
    assert front.site.paths == []


def test_a_proxy_that_rests_is_replaced_by_the_next(front: Front) -> None:
    front.pages = 2
    with serve_proxy() as bad, serve_proxy() as good:
        good.names["shop.test"] = "127.0.0.1"
        bad.credentials = "some:thing"
        write(front, f'{{proxy: ["http://127.0.0.1:1", "http://127.0.0.1:{good.port}"]}}')
        assert front.crawl() == front.rows


@pytest.mark.extended
def test_names_behind_a_proxy_that_no_locator_has_are_refused(front: Front) -> None:
    """A page may not ask for any name through a proxy, which would resolve it beyond our guard."""
    front.pages = 1
    port = front.site.port
    script = f"fetch('http://inner.test:{port}/secret', {{mode: 'no-cors'}}).catch(() => 0)"
    front.site["/p/1"] = html(f"<script>{script}.finally(() => document.body.insertAdjacentHTML('beforeend',"
                              " '<p id=ready class=item><b>done</b>'))</script>")  # fmt: skip
    with serve_proxy() as proxy:
        proxy.names.update({"shop.test": "127.0.0.1", "inner.test": "127.0.0.1"})
        url = f'"http://127.0.0.1:{proxy.port}"'
        write(front, f"{{proxy: {url}}}")
        text = (front.project.defs / "crawl.yml").read_text()
        front.project.write(text.replace("hosts: {", f"hosts: {{inner.test: {{proxy: {url}}}, "))
        assert [row["name"] for row in front.crawl()] == ["done"]
        assert not any("inner.test" in one for one in proxy.asked)
    assert "/secret" not in front.site.paths


def test_a_host_that_cannot_be_reached_is_told_as_for_plain_pages(front: Front) -> None:
    front.pages = 1
    write(front, "{robots: false}", host="nowhere.invalid")
    front.crawl("--set", "max_attempts=1", code=1)
    assert "cannot resolve host nowhere.invalid" in front.project.job(
        f"http://nowhere.invalid:{front.site.port}/p/1"
    )["reason"]  # fmt: skip


def echo(request: Request) -> Page:
    """A page with the headers of its request, and with those of a further one that its script sends."""
    names = ("authorization", "cookie", "x-key", "user-agent", "accept-language")
    shown = " | ".join(f"{name}={request.headers.get(name, '')}" for name in names)
    if request.path == "/api":
        return Page(shown)
    added = "`<li class=item id=ready><b>api</b><i>${text}</i>`"
    script = f"fetch('/api').then(a => a.text()).then(text => document.body.insertAdjacentHTML('beforeend', {added}))"
    return Page(html(f"<li class=item><b>page</b><i>{shown}</i></li><script>{script}</script>"))


def write_echo(front: Front, rule: str) -> dict[str, str]:
    front.pages = 1
    front.site.fallback = echo
    front.write()
    text = (front.project.defs / "crawl.yml").read_text()
    front.project.write(f"{text}hosts: {{127.0.0.1: {rule}}}\n")
    return {row["name"]: row["price"] for row in front.crawl()}


@pytest.mark.extended
def test_headers_cookies_and_credentials_go_to_the_host(front: Front) -> None:
    headers = f'{{X-Key: "{VARIABLE}", Accept-Language: de}}'
    found = write_echo(front, f'{{headers: {headers}, cookies: {{consent: "yes"}}, auth: {{basic: "a:b"}}}}')
    for name in ("page", "api"):
        assert f"authorization=Basic YTpi | cookie=consent=yes | x-key={SECRET} | " in found[name], found
        assert found[name].endswith("accept-language=de")


def test_a_user_agent_of_the_defs_replaces_that_of_the_browser(front: Front) -> None:
    found = write_echo(front, "{headers: {User-Agent: mine/1}}")
    assert "user-agent=mine/1 |" in found["page"]
    assert "user-agent=mine/1 |" in found["api"]


def test_bearer(front: Front) -> None:
    assert f"authorization=Bearer {SECRET} |" in write_echo(front, f'{{auth: {{bearer: "{VARIABLE}"}}}}')["page"]


def sessions(request: Request) -> Page:
    """Its pages show the cookies that come; the first one sets some, by header and by script."""
    if request.path == "/robots.txt":
        return Page("", 404)
    shown = f"<li class=item id=ready><b>{request.path}</b><i>{request.headers.get('cookie', '')}</i></li>"
    script = "<script>document.cookie = 'script=2; path=/'; document.cookie = 'old=; Max-Age=0'</script>"
    cookies = {"Set-Cookie": "header=1; Path=/; Domain=shop.test"} if request.path == "/p/1" else {}
    return Page(html(shown + (script if request.path == "/p/1" else "")), headers=cookies)


@pytest.mark.parametrize(("mode", "expected"), [("shared", "header=1; script=2"), ("off", "")])
def test_cookies_of_the_site_serve_its_next_pages(front: Front, mode: str, expected: str) -> None:
    front.pages = 1
    with serve_proxy() as proxy:
        proxy.names["shop.test"] = "127.0.0.1"
        front.site.fallback = sessions
        write(front, f'{{proxy: "http://127.0.0.1:{proxy.port}", cookieJar: {mode}}}')
        path = front.project.defs / "crawl.yml"
        links = "    links: [{url: '/p/2'}]\nhosts:"
        path.write_text(path.read_text().replace("hosts:", links))
        rows = {row["name"]: row["price"] for row in front.crawl()}
    assert rows == {"/p/1": "", "/p/2": expected}
    stored = front.project.query("SELECT count(*) FROM cookie_jars")
    assert stored == [(1 if mode == "shared" else 0,)]


def test_a_login_serves_pages_and_their_requests_to_other_hosts_of_the_site(front: Front) -> None:
    front.pages = 2
    port = front.site.port

    def answer(request: Request) -> Page:
        cookie = request.headers.get("cookie", "")
        if request.path == "/login":
            if request.method == "POST":
                ok = b"password=" + SECRET.encode() in request.body
                cookies = {"Set-Cookie": "session=s1; Domain=shop.test; Path=/; HttpOnly"} if ok else {}
                return Page(html("<a class=logout>out</a>" if ok else "no"), headers=cookies)
            return Page(html("<form method=post><input name=user><input name=password type=password></form>"))
        if request.path.startswith("/api"):
            allowed = {
                "Access-Control-Allow-Origin": f"http://shop.test:{port}",
                "Access-Control-Allow-Credentials": "true",
            }
            return Page("in" if "session=s1" in cookie else "out", headers=allowed)
        if request.path.startswith("/p/"):
            ask = f"fetch('http://api.shop.test:{port}/api', {{credentials: 'include'}}).then(a => a.text())"
            body = f"<a class=logout>out</a><script>{ask}.then(text => document.body.insertAdjacentHTML('beforeend',"
            body += f"`<li class=item id=ready><b>{request.path}</b><i>${{text}}</i>`))</script>"
            return Page(html(body if "session=s1" in cookie else "log in"))
        return Page("", 404)

    front.site.fallback = answer
    with serve_proxy() as proxy:
        proxy.names.update({"shop.test": "127.0.0.1", "api.shop.test": "127.0.0.1"})
        form = f'{{user: u, password: "{VARIABLE}"}}'
        url = f"http://127.0.0.1:{proxy.port}"
        write(front, f'{{proxy: "{url}", login: {{url: /login, form: {form}, check: .logout}}}}')
        path = front.project.defs / "crawl.yml"
        path.write_text(path.read_text().replace(
            "hosts: {", f'hosts: {{api.shop.test: {{proxy: "{url}", private: true}}, '))  # fmt: skip
        rows = front.crawl()
    assert rows == [{"name": "/p/1", "price": "in"}, {"name": "/p/2", "price": "in"}]
    assert front.site.count("/login") == 2


@pytest.mark.extended
def test_digest_and_middleware_are_refused(front: Front) -> None:
    write(front, '{auth: {digest: "a:b"}}')
    done = front.project.run_command("check")
    assert done.code == 2
    assert "`auth: digest` does not apply to pages of `loader: browser`" in done.out + done.err
