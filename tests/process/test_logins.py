"""Crawls behind a login: every member page once and right, through kills, lost sessions and restarts."""

import os
import signal
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from .member_site import PASSWORD, USER, MemberSite, find_in_files
from .project import Completed, Project, until
from .site import Page, Site, html

pytestmark = pytest.mark.timeout(120)

PAGES = 40
FORM = '<form method=post action="{}"><input name=user><input name=password></form>'


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_USER", USER)
    monkeypatch.setenv("SHOP_PASSWORD", PASSWORD)


def assert_all_rows(project: Project, pages: int = PAGES) -> None:
    rows = sorted((row["n"], row["who"]) for row in project.rows("page"))
    assert rows == sorted((f"/page/{n}", "member") for n in range(1, pages + 1))


def assert_nothing_secret(project: Project, members: MemberSite) -> None:
    assert find_in_files(project, [USER, PASSWORD, "canary02", "canary02%26pass"]) == {}
    assert_in_database_alone(project, members.secrets)


def assert_in_database_alone(project: Project, secrets: Iterable[str]) -> None:
    """Cookies and literals are in crawl.db, which only the user can read, and not in what commands show."""
    files = {file for files in find_in_files(project, list(secrets)).values() for file in files}
    assert {Path(file).name for file in files} <= {"crawl.db", "crawl.db-wal"}
    assert (project.data / "crawl.db").stat().st_mode & 0o777 == 0o600
    commands = [["status", "--json"], ["events"], ["query", "SELECT * FROM cookie_jars, locators, def_versions"]]
    for arguments in commands:
        shown = project.run_with_data(*arguments)
        assert not [secret for secret in secrets if secret in shown.out + shown.err], arguments


def texts(project: Project, like: str) -> list[str]:
    if not (project.data / "output").exists():
        return []
    return [text for (text,) in project.query(f"SELECT text FROM events WHERE text LIKE '%{like}%' ORDER BY id")]


@pytest.mark.quick
def test_40_member_pages_with_a_node_killed_in_between(project: Project, site: Site) -> None:
    members = MemberSite(site)
    members.delay = 0.1
    members.write_defs(project, PAGES)
    running = project.start()
    assert until(lambda: sum(path.startswith("/page/") for path in site.paths) >= 10)
    os.kill(project.children("node")[0], signal.SIGKILL)
    done = running.wait()
    assert done.code == 0, done.err
    assert_all_rows(project)
    assert members.logins == 1, "the other node has the session"
    assert_nothing_secret(project, members)
    project.assert_clean(done)


@pytest.mark.quick
def test_a_session_lost_on_page_20_is_made_again(project: Project, site: Site) -> None:
    members = MemberSite(site)
    members.loses = lambda number: number == 20
    members.delay = 0.02
    members.write_defs(project, PAGES)
    done = project.start().wait()
    assert done.code == 0, (done.err, project.describe_state())
    assert_all_rows(project)
    assert members.logins == 2
    assert len(texts(project, "logging in again")) == 1
    assert_nothing_secret(project, members)
    assert project.query("SELECT count(*) FROM documents WHERE url LIKE '%/page/%'") == [(PAGES,)]
    project.assert_clean(done)


def test_a_redirect_to_the_login_page_is_a_lost_session(project: Project, site: Site) -> None:
    members = MemberSite(site, to_login=True)
    members.loses = lambda number: number == 20
    members.delay = 0.02
    members.write_defs(project, PAGES, check="")
    done = project.start().wait()
    assert done.code == 0, (done.err, project.describe_state())
    assert_all_rows(project)
    assert members.logins == 2
    project.assert_clean(done)


@pytest.mark.sweep
def test_a_node_killed_during_the_login(project: Project, site: Site) -> None:
    members = MemberSite(site)
    members.write_defs(project, PAGES)
    form = members.login_form()
    site["/login"] = lambda r: (
        Page(form.content, headers=form.headers, delay=30) if r.attempt == 1 else members._login_page(r)
    )
    running = project.start()
    assert until(lambda: site.count("/login"))
    [(epoch,)] = project.query("SELECT node FROM jobs WHERE state = 'TAKEN'")
    [(pid,)] = project.query(f"SELECT pid FROM nodes WHERE epoch = {epoch}")
    os.kill(pid, signal.SIGKILL)
    done = running.wait()
    assert done.code == 0, done.err
    assert_all_rows(project)
    assert members.logins == 1


def fail(project: Project) -> Completed:
    done = project.start("--set", "max_attempts=2").wait()
    assert done.code == 1, (done.err, project.describe_state())
    assert done.jobs["failed"] == 6
    return done


@pytest.mark.quick
def test_a_login_that_fails_is_said_once_and_a_retry_logs_in_again(project: Project, site: Site) -> None:
    members = MemberSite(site)
    members.accepts = lambda number: number > 2
    members.write_defs(project, 6)
    fail(project)
    assert members.logins == 2, "two attempts: many sites lock an account after a few wrong passwords"
    assert not any(path.startswith("/page/") for path in site.paths)
    assert len(texts(project, "the login failed")) == 1
    reasons = {
        reason for (reason,) in project.query("SELECT reason FROM jobs WHERE state = 'FAILED' AND url LIKE '%/page/%'")
    }
    assert reasons == {
        "the login to its host failed: the page after it lacks `check`: wrong name or password, or wrong selector"
    }
    assert project.status()["hosts"][0]["login"] == "failed"
    retried = project.run_with_data("retry")
    assert retried.code == 0, retried.err
    done = project.start().wait()
    assert done.code == 0, done.err
    assert_all_rows(project, 6)
    assert_nothing_secret(project, members)


def test_a_login_page_that_is_the_answer_to_everything(project: Project, site: Site) -> None:
    members = MemberSite(site)
    site.fallback = lambda _: members.login_form()
    site["/login"] = lambda _: members.login_form()
    members.write_defs(project, 6, check="")
    fail(project)
    assert [reason for (reason,) in project.query("SELECT DISTINCT login_failure FROM hosts")] == [
        "the login page came back: wrong name or password"
    ]
    assert project.rows("page") == []


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (Page(html("no form here")), "the login page has no form"),
        (Page(html("<form><input name=q></form><form><input name=z></form>")), "none of the 2 forms"),
        (Page("no", 403), "HTTP 403"),
        (Page(status=302, headers={"Location": "http://elsewhere.example/"}), "redirect leaves 127.0.0.1"),
        (
            Page(html(FORM.format("http://elsewhere.example/"))),
            "the form would send the password unencrypted to http://elsewhere.example",
        ),
        (
            Page(html(FORM.format("https://elsewhere.example/"))),
            "the form leads to another site",
        ),
        (Page(b"\x00\x01\x02", headers={"Content-Type": "image/png"}), "cannot be read"),
        (Page(drop="unanswered"), "connection"),
    ],
)  # fmt: skip
def test_login_pages_that_lead_nowhere(project: Project, site: Site, page: Page, reason: str) -> None:
    members = MemberSite(site)
    site["/login"] = page
    members.write_defs(project, 6)
    fail(project)
    [(failure,)] = project.query("SELECT login_failure FROM hosts WHERE login = 'FAILED'")
    assert reason in failure
    assert PASSWORD not in project.logs()


def test_a_variable_that_is_not_set_is_named(project: Project, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOP_PASSWORD")
    MemberSite(site).write_defs(project, 6)
    done = project.start().wait()
    assert done.code == 2
    assert "unset-variable environment variable SHOP_PASSWORD is not set" in done.err
    assert not site.paths


@pytest.mark.sweep
def test_a_lost_session_pauses_the_host_until_an_operator_resumes_it(project: Project, site: Site) -> None:
    members = MemberSite(site)
    members.loses = lambda number: number == 3
    members.delay = 0.02
    members.write_defs(project, 10, more=", on_lost: pause")
    running = project.start()
    assert until(lambda: texts(project, "is paused: its login was lost"))
    time.sleep(0.5)
    assert members.logins == 1
    host = f"127.0.0.1:{site.port}"
    resumed = project.run_with_data("host", host, "--resume")
    assert resumed.code == 0, resumed.err
    done = running.wait()
    assert done.code == 0, done.err
    assert_all_rows(project, 10)
    assert members.logins == 2


@pytest.mark.sweep
def test_pages_that_are_lost_after_each_login_fail_and_pause_the_host(project: Project, site: Site) -> None:
    members = MemberSite(site)
    members.loses = lambda _: True
    members.write_defs(project, 10)
    running = project.start()
    assert until(lambda: texts(project, "is paused: 3 pages in a row"))
    failed = project.query("SELECT reason FROM jobs WHERE state = 'FAILED'")
    assert set(failed) == {("logged out again after a new login",)}
    assert len(failed) >= 3
    assert project.run_with_data("cancel").code == 0
    running.wait()
    assert project.query("SELECT count(*) FROM documents") == [(0,)]


@pytest.mark.sweep
def test_a_resumed_run_keeps_its_session(project: Project, site: Site) -> None:
    members = MemberSite(site)
    members.delay = 0.1
    members.write_defs(project, PAGES)
    running = project.start()
    assert until(lambda: sum(path.startswith("/page/") for path in site.paths) >= 10)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    project.assert_no_process_left()
    done = project.start().wait()
    assert done.code == 0, done.err
    assert_all_rows(project)
    assert members.logins == 1
    assert_nothing_secret(project, members)


@pytest.mark.sweep
def test_a_session_that_changes_with_each_answer_goes_through_both_nodes(project: Project, site: Site) -> None:
    members = MemberSite(site, changes_cookie=True)
    members.delay = 0.02
    members.write_defs(project, PAGES)
    done = project.start().wait()
    assert done.code == 0, done.err
    assert_all_rows(project)
    assert members.logins == 1
    assert_nothing_secret(project, members)


@pytest.mark.quick
def test_a_literal_password_is_in_the_defs_and_the_database_alone(project: Project, site: Site) -> None:
    members = MemberSite(site)
    members.write_defs(project, 6)
    text = (project.defs / "crawl.yml").read_text()
    project.write(text.replace("%{env.SHOP_USER}", USER).replace("%{env.SHOP_PASSWORD}", PASSWORD))
    done = project.start().wait()
    assert done.code == 0, done.err
    assert_all_rows(project, 6)
    assert_in_database_alone(project, [USER, PASSWORD, *members.secrets])


@pytest.mark.sweep
def test_a_site_without_cookies_is_asked_without_cookies(project: Project, site: Site) -> None:
    site.fallback = lambda r: Page(
        html(f"<b>{r.path}</b><i>{r.headers.get('cookie', '')}</i>"), headers={"Set-Cookie": "a=1"}
    )
    project.write(
        f'locatorGroups: {{m: {{locators: [{{url: "http://127.0.0.1:{site.port}/page/{{1..6}}"}}]}}}}\n'
        "taskGroups: {m: {page: {dataDef: page}}}\ndataDefs: {page: {fields: {n: {selector: b}, who: {selector: i}}}}\n"
        'hosts: {"127.0.0.1": {cookieJar: off, concurrency: 1}}\n'
    )
    assert project.start().wait().code == 0
    assert {row["who"] for row in project.rows("page")} == {""}
    project.write((project.defs / "crawl.yml").read_text().replace("off", "shared"))
    assert project.start("--fresh").wait().code == 0
    assert {row["who"] for row in project.rows("page")} == {"", "a=1"}
