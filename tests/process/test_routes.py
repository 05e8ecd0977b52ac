"""Crawls with authentication, proxies, certificates and HTTP/2: every page right, and no secret anywhere."""

import re
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from .certificates import Authority
from .project import Completed, Project
from .proxy import ForwardProxy, serve_proxy
from .shared_crawl import Crawled, Part, shared
from .site import Page, Request, Site, html, redirect, serve_site
from .socks_proxy import serve_socks
from .trap import trapping

pytestmark = pytest.mark.timeout(90)

DEFS = """\
locatorGroups: {{pages: {{locators: [{{url: "{start}"}}]}}}}
taskGroups: {{pages: {{page: {{dataDef: page}}}}}}
dataDefs:
  page:
    fields: {{title: {{selector: b}}, url: {{value: "%{{document.url}}"}}}}
    links: [{{selector: a, sameHost: false}}]
hosts:
{hosts}
"""
SECRET = "canary4711"
VARIABLE = "%{env.A_PASSWORD}"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_PASSWORD", SECRET)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    (tmp_path / "defs").mkdir(exist_ok=True)
    return Authority(tmp_path / "defs")


@pytest.fixture
def modern(authority: Authority) -> Iterator[Site]:
    """A site that speaks HTTP/2."""
    with serve_site(authority.server_context(http2=True)) as site:
        site.fallback = numbered
        yield site


@pytest.fixture
def proxy() -> Iterator[ForwardProxy]:
    with serve_proxy(f"us:{SECRET}") as proxy:
        yield proxy


def numbered(request: Request) -> Page:
    """Pages 0 to 49; each leads to the next five. There is no robots.txt."""
    if request.path == "/robots.txt":
        return Page("nothing", 404)
    number = int(request.path.strip("/") or 0)
    links = "".join(f"<a href=/{n}>x</a>" for n in range(number + 1, min(number + 6, 50)))
    return Page(html(f"<b>{number}</b>{links}"))


def write(project: Project, start: str, *hosts: str) -> None:
    project.write(defs(start, *hosts))


def defs(start: str, *hosts: str) -> str:
    return DEFS.format(start=start, hosts="\n".join(f"  {host}" for host in hosts))


def key(site: Site) -> str:
    return f'"127.0.0.1:{site.port}"'


def titles(project: Project | Crawled) -> list[int]:
    return sorted(int(row["title"]) for row in project.rows("page"))


def assert_no_secret(project: Project, done: Completed) -> None:
    packed = b64encode(f"us:{SECRET}".encode())
    for file in project.data.rglob("*"):
        if file.is_file() and not file.is_symlink():
            content = file.read_bytes()
            assert SECRET.encode() not in content, file
            assert packed not in content, file
    for arguments in (["status", "--json"], ["events"], ["jobs", "--json"], ["logs"]):
        shown = project.run_with_data(*arguments)
        assert SECRET not in shown.out + shown.err, arguments
    assert SECRET not in done.out + done.err


def test_fifty_pages_by_http2(project: Project, authority: Authority, modern: Site) -> None:
    write(project, modern.url("/"), f"{key(modern)}: {{robots: true, http2: true, tls: {{ca: ca.pem}}}}")
    done = project.crawl()
    assert done.jobs == {"done": 50}
    assert titles(project) == list(range(50))
    assert modern.http2_requests == len(modern.exchanges) == 51, "robots.txt, too"
    assert modern.connections <= 2 * 8, "two nodes, host_concurrency"


def authenticated(site: Site, second_site: Site, kind: str) -> Part:
    challenges = {"basic": "Basic realm=r", "bearer": "Bearer", "digest": 'Digest realm="r", nonce="n", qop="auth"'}
    expected = {
        "basic": f"Basic {b64encode(f'us:{SECRET}'.encode()).decode()}", "bearer": f"Bearer us:{SECRET}",
        "digest": 'Digest username="us"',
    }  # fmt: skip

    def respond(request: Request) -> Page:
        given = request.headers.get("authorization", "")
        if request.path == "/robots.txt":
            return Page("nothing" if not given else "leaked", 404 if not given else 500)
        if not given.startswith(expected[kind]):
            return Page("who?", 401, {"WWW-Authenticate": challenges[kind]})
        if request.path == "/49":
            return redirect(second_site.url("/elsewhere"))
        return numbered(request)

    site.fallback = respond
    second_site.fallback = lambda request: Page(html("<b>50</b>"))
    rule = f"{key(site)}: {{auth: {{{kind}: 'us:{VARIABLE}'}}}}"
    crawl = yield defs(site.url("/"), rule, f"{key(second_site)}: {{private: true}}")
    assert crawl.done.code == 0
    assert crawl.jobs == {"done": 50}
    assert titles(crawl) == [*range(49), 50]
    assert all("authorization" not in exchange.request.headers for exchange in second_site.exchanges)
    assert second_site.paths == ["/elsewhere"]
    assert_no_secret(crawl.project, crawl.done)
    challenged = sum("authorization" not in e.request.headers for e in site.exchanges if e.path != "/robots.txt")
    assert challenged <= (2 if kind == "digest" else 0), "the first request of each node"
    rejected = crawl.project.query("SELECT count(*) FROM events WHERE text LIKE '%HTTP 401%' OR text LIKE '401 %'")
    assert rejected == [(0,)], "a challenge is no failure"


@pytest.mark.quick
@shared()
def test_pages_behind_basic_authentication(site: Site, second_site: Site) -> Part:
    yield from authenticated(site, second_site, "basic")


@shared()
def test_pages_behind_a_bearer_token(site: Site, second_site: Site) -> Part:
    yield from authenticated(site, second_site, "bearer")


@shared()
def test_pages_behind_digest_authentication(site: Site, second_site: Site) -> Part:
    yield from authenticated(site, second_site, "digest")


def test_answers_to_challenges_count_for_the_page_limit(project: Project, site: Site) -> None:
    """Each nonce serves once."""
    served: set[str] = set()

    def respond(request: Request) -> Page:
        nonce = re.search('nonce="([^"]+)"', request.headers.get("authorization", ""))
        if nonce is None or nonce[1] in served:
            return Page(
                "who?", 401, {"WWW-Authenticate": f'Digest realm="r", nonce="n{len(site.exchanges)}", qop="auth"'}
            )
        served.add(nonce[1])
        return numbered(request)

    site.fallback = respond
    write(project, site.url("/"), f"{key(site)}: {{robots: false, concurrency: 1, auth: {{digest: 'us:{VARIABLE}'}}}}")
    project.crawl("--max-pages", "1")
    assert len(site.paths) == 1, "there is no room for the answer"
    for limit in (7, 12):
        project.crawl("--max-pages", str(limit))
        assert len(site.paths) == limit
    assert project.count_rows("page").total() == len(served) >= 3


@pytest.mark.sweep
def test_a_digest_keeps_the_delay_of_its_host(project: Project, site: Site) -> None:
    def respond(request: Request) -> Page:
        if "authorization" not in request.headers:
            return Page("who?", 401, {"WWW-Authenticate": 'Digest realm="r", nonce="n"'})
        return Page(html("<b>1</b>"))

    site.fallback = respond
    write(project, site.url("/"), f"{key(site)}: {{robots: false, delay: 0.5, auth: {{digest: 'us:{VARIABLE}'}}}}")
    assert project.crawl().jobs == {"done": 1}
    first, second = site.start_times()
    assert second - first >= 0.4, "a node may be 50 ms late"


@pytest.mark.sweep
def test_a_wrong_password_fails_the_page_and_ends_the_run(project: Project, site: Site) -> None:
    site.fallback = lambda request: Page("who?", 401, {"WWW-Authenticate": 'Digest realm="r", nonce="n"'})
    write(project, site.url("/"), f"{key(site)}: {{robots: false, blocked: false, auth: {{digest: 'us:{VARIABLE}'}}}}")
    done = project.crawl(code=1)
    assert done.jobs == {"failed": 1}
    assert project.job(site.url("/"))["reason"].startswith("HTTP 401")
    assert len(site.exchanges) == 2
    assert_no_secret(project, done)


def test_proxies_take_turns_past_a_dead_one(project: Project, site: Site, proxy: ForwardProxy, monkeypatch) -> None:
    site.fallback = numbered
    with serve_proxy() as other:
        monkeypatch.setenv("A_PROXY", f"http://127.0.0.1:{other.port}")
        listed = (
            f"['http://us:{VARIABLE}@127.0.0.1:{proxy.port}', '%{{env.A_PROXY}}', 'http://us:{VARIABLE}@127.0.0.1:1',"
            f" 'http://us:%{{env.A_PASSWORD}}@127.0.0.1:{proxy.port}']"
        )
        write(project, site.url("/"), f"{key(site)}: {{proxy: {listed}}}")
        done = project.crawl()
        assert done.jobs == {"done": 50}
        assert titles(project) == list(range(50))
        assert len(proxy.asked) + len(other.asked) == len(site.exchanges) == 51, "robots.txt, too"
        assert min(len(proxy.asked), len(other.asked)) >= 8
    assert set(re.findall(r"proxy (\S+) rests", project.logs())) == {"http://127.0.0.1:1"}
    assert_no_secret(project, done)


def test_socks_proxies_take_turns_with_others(
    project: Project, site: Site, proxy: ForwardProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.fallback = numbered
    with serve_socks(f"us:{SECRET}") as socks:
        socks.names["shop.test"] = proxy.names["shop.test"] = "127.0.0.1"
        monkeypatch.setenv("A_PROXY", f"socks5h://us:{SECRET}@127.0.0.1:{socks.port}")
        listed = f"['%{{env.A_PROXY}}', 'http://us:{VARIABLE}@127.0.0.1:{proxy.port}']"
        write(project, site.url("/").replace("127.0.0.1", "shop.test"), f"shop.test: {{proxy: {listed}}}")
        done = project.crawl()
        assert done.jobs == {"done": 50}
        assert titles(project) == list(range(50))
        assert set(socks.asked) == {f"shop.test:{site.port}"}
        assert 10 <= len(proxy.asked) <= 40
        assert len(site.exchanges) == 51, "robots.txt, too"
    assert_no_secret(project, done)


@pytest.mark.sweep
def test_a_proxy_that_is_down_fails_the_pages_with_a_clear_reason(project: Project, site: Site) -> None:
    site.fallback = numbered
    write(project, site.url("/"), f"{key(site)}: {{robots: false, proxy: 'http://us:{VARIABLE}@127.0.0.1:1'}}")
    done = project.crawl("--set", "max_attempts=2", code=1)
    assert done.jobs == {"failed": 1}
    job = project.job(site.url("/"))
    assert job == {
        "state": "FAILED", "reason": "proxy http://127.0.0.1:1: connection refused (2 attempts)", "attempts": 2
    }  # fmt: skip
    assert site.exchanges == []
    assert_no_secret(project, done)


@pytest.mark.sweep
def test_no_page_leads_through_a_proxy_to_what_the_defs_do_not_name(
    project: Project, site: Site, proxy: ForwardProxy
) -> None:
    proxy.names["inner.test"] = proxy.names["named.test"] = "127.0.0.1"
    through = f"proxy: 'http://us:{VARIABLE}@127.0.0.1:{proxy.port}'"
    with trapping("127.0.0.1") as trap:
        hosts = ("localhost", "inner.test", f"127.0.0.1:{trap.port}", "169.254.169.254", "[::1]")
        links = [
            *(f"http://{host}:{trap.port}/" for host in ("inner.test", "localhost", "127.0.0.1", "0x7f.0.0.1")),
            *(f"https://{host}:{trap.port}/" for host in ("inner.test", "[::1]")),
            "http://169.254.169.254/latest",
        ]
        named = f"<a href=http://named.test:{site.port}/1>x</a>"
        site["/"] = html("".join(f'<a href="{link}">x</a>' for link in links) + named)
        site["/1"] = html("<b>1</b>")
        rules = [f"'{host}': {{{through}}}" for host in hosts]
        rules += [f"{key(site)}: {{{through}}}", f"named.test: {{private: true, {through}}}"]
        write(project, site.url("/"), *rules)
        done = project.crawl()
        assert done.jobs == {"done": 2, "skipped": len(links) - 1}, "two notations are one page"
        assert trap.connections == []
    reasons = project.query(
        "SELECT reason FROM jobs j JOIN sequences s ON s.id = j.sequence "
        "WHERE j.state = 'SKIPPED' AND s.kind <> 'robots'"
    )
    assert all(reason.startswith("address ") for (reason,) in reasons)
    assert any("is hidden by a proxy" in reason for (reason,) in reasons)
    assert {asked.rpartition("/")[0] for asked in proxy.asked} == {
        f"GET http://{host}:{site.port}" for host in ("127.0.0.1", "named.test")
    }


@pytest.mark.quick
def test_guarded_addresses_are_guarded_on_every_route(project: Project, authority: Authority, modern: Site) -> None:
    routes = ("tls: {verify: false}", "http2: true", "tls: {ca: ca.pem}, http2: true")
    with ExitStack() as exits:
        traps = [exits.enter_context(trapping("127.0.0.1")) for _ in routes]
        hosts = [f"{key(modern)}: {{http2: true, tls: {{ca: ca.pem}}}}"]
        for trap, keys in zip(traps, routes, strict=True):
            hosts += [f"'{host}:{trap.port}': {{{keys}}}" for host in ("localhost", "127.0.0.1")]
        links = [f"https://{host}:{trap.port}/" for trap in traps for host in ("localhost", "127.0.0.1", "0x7f.1")]
        modern["/"] = html("".join(f'<a href="{link}">x</a>' for link in links))
        write(project, modern.url("/"), *hosts)
        assert project.crawl().jobs == {"done": 1, "skipped": 2 * len(routes)}
        assert all(trap.connections == [] for trap in traps)


def test_certificates_decide(project: Project, authority: Authority) -> None:
    authority.write_client()
    with (
        serve_site(authority.server_context(asks_client=True)) as strict,
        serve_site(authority.server_context("other.example")) as unverified,
        serve_site(authority.server_context("other.example")) as misnamed,
    ):
        links = "".join(f"<a href={other.url('/')}>x</a>" for other in (unverified, misnamed))
        for one in (strict, unverified, misnamed):
            one.fallback = lambda request: Page(html(f"<b>1</b>{links}"))
        write(
            project, strict.url("/"), f"{key(strict)}: {{tls: {{ca: ca.pem, client: client.pem}}}}",
            f"{key(unverified)}: {{private: true, tls: {{verify: false}}}}",
            f"{key(misnamed)}: {{private: true, robots: false, tls: {{ca: ca.pem}}}}",
        )  # fmt: skip
        assert project.crawl(code=1).jobs == {"done": 2, "failed": 1}
        reason = project.job(misnamed.url("/"))["reason"]
        assert reason.startswith("TLS: invalid certificate: IP address mismatch")
        assert misnamed.exchanges == []


@pytest.mark.sweep
def test_try_takes_the_same_route(project: Project, authority: Authority, modern: Site, proxy: ForwardProxy) -> None:
    def respond(request: Request) -> Page:
        if request.path != "/robots.txt" and "authorization" not in request.headers:
            return Page("who?", 401, {"WWW-Authenticate": 'Digest realm="r", nonce="n"'})
        return Page(html("<b>7</b>"))

    modern.fallback = respond
    keys = f"http2: true, tls: {{ca: ca.pem}}, auth: {{digest: 'us:{VARIABLE}'}}"
    keys += f", proxy: 'http://us:{VARIABLE}@127.0.0.1:{proxy.port}'"
    write(project, modern.url("/"), f"{key(modern)}: {{{keys}}}")
    tried = project.run_command("try", "page", modern.url("/"), "--defs", str(project.defs), "--json")
    assert tried.code == 0, tried.err
    assert '"7"' in tried.out
    assert modern.http2_requests == 3
    assert len(set(proxy.asked)) == 1
    assert SECRET not in tried.out + tried.err


@pytest.mark.sweep
def test_a_login_takes_the_route_of_its_host(
    project: Project, authority: Authority, modern: Site, proxy: ForwardProxy
) -> None:
    form = "<form method=post action=/enter><input name=csrf value=t1><input name=user><input name=password></form>"

    def respond(request: Request) -> Page:
        if request.path == "/login":
            return Page(html(form))
        if request.path == "/enter":
            assert request.body == f"csrf=t1&user=us&password={SECRET}".encode()
            return Page(status=303, headers={"Location": "/0", "Set-Cookie": "session=in; Path=/"})
        page = numbered(request)
        if request.path == "/robots.txt" or "session=in" not in request.headers.get("cookie", ""):
            return page if request.path == "/robots.txt" else redirect("/login")
        return Page(page.content + b"<i class=logout>x</i>")

    modern.fallback = respond
    login = f"{{url: /login, form: {{user: us, password: '{VARIABLE}'}}, check: .logout}}"
    through = f"'http://us:{VARIABLE}@127.0.0.1:{proxy.port}'"
    write(
        project, modern.url("/0"),
        f"{key(modern)}: {{login: {login}, proxy: {through}, http2: true, tls: {{ca: ca.pem}}}}",
    )  # fmt: skip
    done = project.crawl()
    assert done.jobs == {"done": 50}
    assert titles(project) == list(range(50))
    assert modern.http2_requests == len(modern.exchanges)
    assert set(proxy.asked) == {f"CONNECT 127.0.0.1:{modern.port}"}
    assert_no_secret(project, done)
