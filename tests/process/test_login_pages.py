"""Login pages as sites write them: on other hosts, with GET, with traps; and the manners of a login."""

from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from .certificates import Authority
from .gaps import assert_spaced
from .member_site import PASSWORD, USER, MemberSite, cookies_of, find_in_files, write_member_defs
from .project import Project, until
from .site import Page, Request, Site, html, redirect, serve_site
from .test_logins import assert_all_rows

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_USER", USER)
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)
    monkeypatch.setenv("OTHER_SECRET", "canary03other")


def member_pages(site: Site) -> None:
    """Pages for who has the cookie `sid=ok`."""

    def answer(request: Request) -> Page:
        if cookies_of(request).get("sid") == "ok":
            return Page(html(f"<b>{request.path}</b><i>member</i><a class=logout>out</a>"))
        return Page(html(f"<b>{request.path}</b><i>visitor</i>"))

    site.fallback = answer


def welcome() -> Page:
    return Page(html("<a class=logout>out</a>"), headers={"Set-Cookie": "sid=ok; Path=/"})


@pytest.mark.sweep
def test_a_login_page_on_another_host_that_leads_back(project: Project, site: Site, second_site: Site) -> None:
    member_pages(site)
    second_site["/sso"] = redirect("/form")
    second_site["/form"] = html("<form method=post><input name=user><input name=password><input name=c value=1></form>")
    posted: list[Request] = []

    def check(request: Request) -> Page:
        if request.method == "GET":
            return Page(html("<form method=post><input name=user><input name=password></form>"))
        posted.append(request)
        return redirect(site.url("/return?ticket=7"))

    second_site.pages["/form"] = check
    site["/return?ticket=7"] = Page(status=302, headers={"Location": "/home", "Set-Cookie": "sid=ok; Path=/"})
    write_member_defs(project, site, 6, login=f'"{second_site.url("/sso")}"')
    text = (project.defs / "crawl.yml").read_text().replace('"127.0.0.1":', f'"127.0.0.1:{site.port}":')
    project.write(text)
    assert project.crawl().code == 0
    assert_all_rows(project, 6)
    (request,) = posted
    assert dict(parse_qsl(request.body.decode())) == {"user": USER, "password": PASSWORD}
    assert request.headers["origin"] == second_site.url("")
    assert site.paths[:2] == ["/return?ticket=7", "/home"]


def test_what_a_login_page_writes_is_no_variable(project: Project, site: Site) -> None:
    member_pages(site)
    posted: list[Request] = []
    form = (
        '<form method=post action="/in?a=%{env.OTHER_SECRET}"><input name=user><input name=password>'
        '<input type=hidden name=h value="%{env.OTHER_SECRET}%{file./etc/hostname}"></form>'
    )
    site["/login"] = html(form)

    def answer(request: Request) -> Page:
        posted.append(request)
        return welcome()

    site["/in?a=%{env.OTHER_SECRET}"] = answer
    write_member_defs(project, site, 6)
    project.crawl()
    assert_all_rows(project, 6)
    (request,) = posted
    fields = dict(parse_qsl(request.body.decode()))
    assert fields["h"] == "%{env.OTHER_SECRET}%{file./etc/hostname}"
    assert "canary03" not in str([exchange.request for exchange in site.exchanges])


@pytest.mark.parametrize("submit", [None, "none", "signin", "gone"])
def test_a_login_sends_the_button_that_it_names(project: Project, site: Site, submit: str | None) -> None:
    member_pages(site)
    buttons = "<button name=cancel value=1>cancel</button><button name=b id=signin value=in>sign in</button>"
    site["/login"] = html(f'<form method=post action="/in"><input name=user><input name=password>{buttons}</form>')

    def answer(request: Request) -> Page:
        return Page(html("cancelled")) if b"cancel" in request.body else welcome()

    site["/in"] = answer
    write_member_defs(project, site, 2, check='check: ".logout"' + (f", submit: {submit}" if submit else ""))
    done = project.crawl(code=0 if submit in ("none", "signin") else 1)
    if submit == "gone":
        assert "the login page has no form with the button `gone`" in done.err
    elif submit is not None:
        assert_all_rows(project, 2)
        (body,) = [exchange.request.body.decode() for exchange in site.exchanges if exchange.request.path == "/in"]
        assert body.endswith("&b=in") == (submit == "signin")


@pytest.mark.sweep
def test_a_form_that_is_sent_with_get_shows_its_fields_nowhere(project: Project, site: Site) -> None:
    member_pages(site)
    site["/login"] = html('<form action="/in?old=1"><input name=user><input name=password></form>')
    usual = site.fallback
    assert usual is not None

    def answer(request: Request) -> Page:
        path, _, query = request.path.partition("?")
        if path != "/in":
            return usual(request)
        assert dict(parse_qsl(query)) == {"user": USER, "password": PASSWORD}
        return Page(status=302, headers={"Location": f"/in2?{query}", "Set-Cookie": "sid=ok; Path=/"})

    site.fallback = answer
    write_member_defs(project, site, 6)
    project.crawl()
    assert_all_rows(project, 6)
    assert find_in_files(project, ["canary01", "canary02"]) == {}


def test_a_redirect_that_repeats_the_password_at_another_site_is_not_followed(
    project: Project, site: Site, second_site: Site
) -> None:
    member_pages(site)
    site["/login"] = html('<form method=post action="/in"><input name=user><input name=password></form>')
    site["/in"] = redirect(second_site.url("/steal"), 307)
    second_site["/steal"] = "thanks"
    write_member_defs(project, site, 6)
    host = f'"127.0.0.1:{second_site.port}": {{private: true}}'
    project.write((project.defs / "crawl.yml").read_text() + f"  {host}\n")
    project.crawl(code=1)
    [(failure,)] = project.query("SELECT login_failure FROM hosts WHERE login = 'FAILED'")
    assert failure == f"a redirect would send the password to {second_site.url('')}"
    assert second_site.paths == []


@pytest.mark.sweep
def test_a_login_keeps_the_delay_and_needs_no_leave_of_robots_txt(project: Project, site: Site) -> None:
    members = MemberSite(site)
    site["/robots.txt"] = Page("User-agent: *\nDisallow: /login\n", headers={"Content-Type": "text/plain"})
    members.write_defs(project, 3)
    project.write((project.defs / "crawl.yml").read_text().replace("concurrency: 4", "delay: 0.3"))
    project.crawl()
    assert_all_rows(project, 3)
    assert_spaced(sorted(exchange.started for exchange in site.exchanges), 0.3)
    assert [exchange.path for exchange in site.exchanges][:4] == ["/robots.txt", "/login", "/login?step=2", "/home"]


def write_login_elsewhere(project: Project, site: Site, login: str) -> None:
    """The login page is on another host; at its form ends the login."""
    member_pages(site)
    write_member_defs(project, site, 3, login=f'"{login}"')
    text = (project.defs / "crawl.yml").read_text().replace('"127.0.0.1":', f'"127.0.0.1:{site.port}":')
    project.write(text.replace('check: ".logout"', ""))


def login_elsewhere(site: Site, second_site: Site) -> None:
    second_site["/form"] = html("<form method=post action=/in><input name=user><input name=password></form>")
    second_site["/in"] = redirect(site.url("/return"))
    site["/return"] = welcome()


@pytest.mark.quick
def test_a_login_keeps_the_limits_of_its_own_host(project: Project, site: Site, second_site: Site) -> None:
    login_elsewhere(site, second_site)
    rules = "User-agent: *\nDisallow: /\nCrawl-delay: 0.4\n"
    second_site["/robots.txt"] = Page(rules, headers={"Content-Type": "text/plain"})
    write_login_elsewhere(project, site, second_site.url("/form"))
    project.crawl()
    assert_all_rows(project, 3)
    exchanges = sorted(second_site.exchanges, key=lambda e: e.started)
    assert [exchange.path for exchange in exchanges] == ["/robots.txt", "/form", "/in"]
    assert_spaced([exchange.started for exchange in exchanges], 0.4)


@pytest.mark.quick
def test_a_login_waits_for_the_robots_txt_of_its_own_host(project: Project, site: Site, second_site: Site) -> None:
    login_elsewhere(site, second_site)
    second_site["/robots.txt"] = lambda request: Page("", 500 if request.attempt == 1 else 404)
    write_login_elsewhere(project, site, second_site.url("/form"))
    project.crawl("--set", "max_attempts=1", code=1)
    [(failure,)] = project.query("SELECT login_failure FROM hosts WHERE login = 'FAILED'")
    assert failure.endswith("robots.txt answered 500 (1 attempt)")
    assert second_site.paths == []
    project.crawl("--set", "max_attempts=1")
    assert_all_rows(project, 3)


@pytest.mark.sweep
def test_a_private_host_gets_no_password_unencrypted(project: Project, site: Site, tmp_path: Path) -> None:
    """`private: true` concerns its address; a form of an https page may lead to it, but not over http."""
    (tmp_path / "defs").mkdir(exist_ok=True)
    with serve_site(Authority(tmp_path / "defs").server_context()) as secure:
        form = f"<form method=post action={site.url('/in')}><input name=user><input name=password></form>"
        secure["/login"] = html(form)
        secure.fallback = lambda request: Page(html("<b>x</b>"))
        write_member_defs(project, secure, 1)
        text = (project.defs / "crawl.yml").read_text().replace(f"http://127.0.0.1:{secure.port}", secure.url(""))
        project.write(text.replace("concurrency: 4", "private: true\n    tls: {verify: false}"))
        project.crawl(code=1)
        [(failure,)] = project.query("SELECT login_failure FROM hosts WHERE login = 'FAILED'")
        assert failure.startswith(f"the form would send the password unencrypted to {site.url('')}")
    assert site.paths == []


@pytest.mark.sweep
def test_a_login_may_end_with_an_image(project: Project, site: Site, second_site: Site) -> None:
    login_elsewhere(site, second_site)
    png = {"Content-Type": "image/png", "Set-Cookie": "sid=ok; Path=/"}
    site["/return"] = Page(b"\x89PNG", headers=png)
    write_login_elsewhere(project, site, second_site.url("/form"))
    project.crawl()
    assert_all_rows(project, 3)


@pytest.mark.sweep
def test_a_login_that_is_added_while_the_crawl_runs(project: Project, site: Site) -> None:
    members = MemberSite(site)
    members.write_defs(project, 20)
    text = (project.defs / "crawl.yml").read_text()
    before = "\n".join(
        line for line in text.replace("concurrency: 4", "delay: 0.2").splitlines() if "login:" not in line
    )
    project.write(before)
    running = project.start()
    assert until(lambda: len(site.paths) >= 4)
    project.write(text)
    done = running.wait()
    assert done.code == 0, done.err
    rows = [row["who"] for row in project.rows("page")]
    assert len(rows) == 20
    assert rows.count("member") >= 10
    assert members.logins == 1


def test_a_changed_password_is_tried_at_once(project: Project, site: Site) -> None:
    members = MemberSite(site)
    members.write_defs(project, 10)
    text = (project.defs / "crawl.yml").read_text()
    project.write(text.replace("%{env.SHOP_PASSWORD}", "wrong"))
    running = project.start("--set", "max_attempts=4")
    assert until(lambda: members.logins == 1)
    project.write(text)
    done = running.wait()
    assert done.code == 0, (done.err, project.describe_state())
    assert_all_rows(project, 10)


def test_files_are_behind_the_login_too(project: Project, site: Site) -> None:
    members = MemberSite(site, to_login=True)
    usual = site.fallback
    assert usual is not None
    lost = []

    def answer(request: Request) -> Page:
        if not request.path.startswith("/file/"):
            page = usual(request)
            number = request.path.rpartition("/")[2]
            return Page(page.content + f"<a class=file href=/file/{number}>f</a>".encode(), page.status, page.headers)
        session = cookies_of(request).get("sid", "")
        if request.path == "/file/3" and not lost:
            lost.append(session)
            members.sessions.discard(session)
        if session not in members.sessions:
            return redirect(f"/login?next={request.path}")
        return Page(f"content of {request.path}".encode(), headers={"Content-Type": "application/pdf"})

    site.fallback = answer
    members.write_defs(project, 6)
    text = (project.defs / "crawl.yml").read_text()
    project.write(
        text.replace("who: {selector: i}", "who: {selector: i}, f: {selector: a.file, attribute: href, type: file}")
    )
    project.crawl()
    assert_all_rows(project, 6)
    assert all(row["f"] for row in project.rows("page"))
    contents = {file.read_text() for file in project.output("files").iterdir() if file.is_file()}
    assert contents == {f"content of /file/{n}" for n in range(1, 7)}
    assert members.logins == 2
