"""Secrets of defs: sent to their origin alone; by variable nowhere, literals in the databases of the data dir alone."""

import os
import signal
from base64 import b64encode
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.postgres_server import PostgresServer

from .project import Project, until
from .site import Page, Request, Site, html

pytestmark = pytest.mark.timeout(90)

CANARIES = {
    name: f"canary{number:02d}x{name}"
    for number, name in enumerate(
        (
            "user",
            "password",
            "listed",
            "streamed",
            "base",
            "header",
            "cookie",
            "own_header",
            "own_cookie",
            "env",
            "file",
        )
    )
}
ANSWERED = "canary90answered"
"""What the site sends: in Set-Cookie, in the credentials of a Location and of links."""

TABLES = ("cookie_jars", "def_versions", "jobs", "locators", "meta", "outputs", "runs", "supervisors")

DEFS = """\
locatorGroups:
  private:
    locators:
      - {{name: url, url: "http://{user}:{password}@{host}/url"}}
      - {{name: list, from: list.txt}}
      - {{name: relative, url: /relative}}
      - {{name: own, url: "http://{host}/own", headers: {{X-Own: {own_header}}}, cookies: {{own: {own_cookie}}}}}
      - {{name: env, url: "http://u:%{{env.CANARY}}@{host}/env"}}
      - name: file
        url: "http://{host}/file/%{{file.key.txt}}?k=%{{env.CANARY}}"
        headers: {{X-Key: "%{{file.key.txt}}"}}
      - {{name: hop, url: "http://{user}:{password}@{host}/hop", headers: {{X-Own: {own_header}}}}}
      - {{sitemap: "http://{host}/sitemap.xml"}}
      - {{name: asked, sitemap: "http://{user}:{password}@{host}/asked.xml", headers: {{X-Own: {own_header}}}}}
taskGroups: {{private: {{page: {{dataDef: page}}}}}}
dataDefs: {{page: {{fields: {{url: {{value: "%{{document.url}}"}}, b: b}}, links: [{{selector: a, sameHost: false}}]}}}}
hosts:
  "{host}": {{headers: {{X-Host: {header}, Accept-Language: de}}, cookies: {{host: {cookie}}}}}
  "{elsewhere}": {{private: true}}
  127.0.0.1:1: {{private: true}}
"""


def basic(user: str, password: str) -> str:
    return "Basic " + b64encode(f"{user}:{password}".encode()).decode()


def canaries(folder: Path) -> dict[str, list[str]]:
    """Where each canary is written below a folder, as text or in base64."""
    known = [*CANARIES.values(), ANSWERED]
    texts = {canary.encode(): canary for canary in known}
    texts |= {b64encode(f"{CANARIES['user']}:{CANARIES['password']}".encode())[:24]: "Basic"}
    files = [file for file in folder.rglob("*") if file.is_file() and not file.is_symlink()]
    found: dict[str, list[str]] = {}
    for file in files:
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            continue  # a process that ended meanwhile removed its beat file
        for text, canary in texts.items():
            if text in content:
                found.setdefault(canary, []).append(str(file.relative_to(folder)))
    return found


def misplaced(folder: Path) -> dict[str, list[str]]:
    """The canaries below a data dir that may not be where they are: those of variables, and literals in other files."""
    hidden = {CANARIES["env"], CANARIES["file"]}
    found = {
        canary: [file for file in files if canary in hidden or not file.startswith("crawl.db")]
        for canary, files in canaries(folder).items()
    }
    return {canary: files for canary, files in found.items() if files}


def answer(request: Request) -> Page:
    link = f'<a href="http://us:{ANSWERED}@127.0.0.1:1/">x</a><a href="/child">c</a>'
    shown = request.path.removesuffix(f"{CANARIES['file']}?k={CANARIES['env']}")  # what a site repeats is stored
    return Page(html(f"<b>{shown}</b>{link}"), headers={"Set-Cookie": f"sid={ANSWERED}; Path=/"})


def write_defs(project: Project, site: Site, elsewhere: Site) -> None:
    values = {**CANARIES, "host": f"127.0.0.1:{site.port}", "elsewhere": f"127.0.0.1:{elsewhere.port}"}
    text = DEFS.format(**values).replace("b: b}", "b: {selector: b}}")
    project.write(text)
    listed = f"http://{CANARIES['user']}:{CANARIES['listed']}@{values['host']}/list\n"
    (project.defs / "list.txt").write_text(listed)
    (project.defs / "key.txt").write_text(f" {CANARIES['file']}\n")


def requests(site: Site) -> dict[str, Mapping[str, str]]:
    """The headers of the last request for each path."""
    return {exchange.path: exchange.request.headers for exchange in list(site.exchanges)}


@pytest.mark.quick
def test_secrets_go_to_their_origin_alone_and_nowhere_else(
    project: Project, site: Site, second_site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", CANARIES["env"])
    site.fallback = second_site.fallback = answer
    site["/robots.txt"] = second_site["/robots.txt"] = Page("", 404, headers={"Set-Cookie": f"r={ANSWERED}"})
    entries = "".join(f"<url><loc>{site.url(path)}</loc></url>" for path in ("/mapped", "/child"))
    site["/sitemap.xml"] = Page(f"<urlset>{entries}</urlset>", headers={"Content-Type": "application/xml"})
    site["/asked.xml"] = Page("<urlset></urlset>", headers={"Content-Type": "application/xml"})
    site["/hop"] = Page(status=302, headers={"Location": second_site.url("/landed").replace("//", f"//us:{ANSWERED}@")})
    write_defs(project, site, second_site)
    base = f"http://{CANARIES['user']}:{CANARIES['base']}@127.0.0.1:{site.port}/"
    running = project.start("--set", f"base_url={base}", "--set", "max_attempts=1", "--set", "delay=0.05")
    assert until(lambda: len(site.exchanges) > 3 or running.exited)
    lines = [line for pid, line in project.live_processes().items() if pid != running.pid]
    assert lines
    assert not [line for line in lines if "canary" in line]
    during = misplaced(project.data)  # with the write-ahead log
    done = running.wait()
    project.assert_clean(done)
    assert done.code == 1, done.err  # 127.0.0.1:1 refuses
    assert (during, misplaced(project.data)) == ({}, {})
    commands = [["status", "--json"], ["events"], ["jobs", "--json"], ["runs", "show"], ["logs"], ["state"]]
    for arguments in (*commands, *(["query", f"SELECT * FROM {name}"] for name in TABLES)):
        shown = project.run_with_data(*arguments)
        assert "canary" not in shown.out + shown.err, arguments
    assert "canary" not in done.out + done.err

    sent = requests(site)
    user = CANARIES["user"]
    assert sent["/url"]["authorization"] == basic(user, CANARIES["password"])
    assert sent["/list"]["authorization"] == basic(user, CANARIES["listed"])
    assert sent["/relative"]["authorization"] == basic(user, CANARIES["base"])
    assert sent["/env"]["authorization"] == basic("u", CANARIES["env"])
    assert sent[f"/file/{CANARIES['file']}?k={CANARIES['env']}"]["x-key"] == CANARIES["file"]
    assert sent["/own"]["x-own"] == CANARIES["own_header"]
    assert f"own={CANARIES['own_cookie']}" in sent["/own"]["cookie"]
    for path in ("/url", "/own", "/child", "/mapped"):
        assert sent[path]["x-host"] == CANARIES["header"]
        assert f"host={CANARIES['cookie']}" in sent[path]["cookie"]
    assert "authorization" not in sent["/child"]
    assert sent["/asked.xml"]["authorization"] == basic(user, CANARIES["password"])
    assert sent["/asked.xml"]["x-own"] == CANARIES["own_header"]
    for path in ("/robots.txt", "/sitemap.xml"):
        assert not {"authorization", "cookie", "x-host", "x-own"} & sent[path].keys()
        assert sent[path]["accept-language"] == "de"
    elsewhere = [header for exchange in second_site.exchanges for header in exchange.request.headers.items()]
    assert "/landed" in second_site.paths
    assert not [value for _, value in elsewhere if value.removeprefix("sid=").startswith("canary0")]
    assert "authorization" not in dict(elsewhere)


def crawl_slowly(project: Project, site: Site, count: int = 60, seeds: str = "") -> None:
    """Defs of `count` slow pages; `seeds` replaces the locator that names them."""
    site["/robots.txt"] = Page("", 404)
    site.fallback = lambda request: Page(html(f"<b>{request.path}</b>"), delay=0.05)
    seeds = seeds or f'url: "http://us:{CANARIES["password"]}@127.0.0.1:{site.port}/{{1..{count}}}"'
    project.write(f"""
locatorGroups: {{g: {{locators: [{{{seeds}}}]}}}}
taskGroups: {{g: {{page: {{dataDef: page}}}}}}
dataDefs: {{page: {{fields: {{b: {{selector: b}}}}}}}}
hosts: {{"127.0.0.1": {{concurrency: 2, headers: {{X-Host: {CANARIES["header"]}}}}}}}
""")


def all_carried(site: Site) -> bool:
    pages = [exchange.request.headers for exchange in site.exchanges if exchange.path != "/robots.txt"]
    expected = (basic("us", CANARIES["password"]), CANARIES["header"])
    return bool(pages) and all((sent.get("authorization"), sent.get("x-host")) == expected for sent in pages)


def test_a_replaced_node_and_a_promoted_backup_have_the_secrets(project: Project, site: Site) -> None:
    crawl_slowly(project, site)
    running = project.start("--set", "backups=1", nodes=1)
    for count in (5, 25):
        assert until(lambda count=count: len(site.paths) >= count or running.exited)  # type: ignore[misc]
        os.kill(project.children("node")[0], signal.SIGKILL)
    done = running.wait()
    assert done.code == 0, done.err
    project.assert_clean(done)
    assert done.jobs == {"done": 60}
    assert all_carried(site)
    assert misplaced(project.data) == {}


@pytest.mark.sweep
def test_a_resumed_run_has_the_secrets(project: Project, site: Site) -> None:
    crawl_slowly(project, site)
    running = project.start()
    assert until(lambda: len(site.paths) >= 10 or running.exited)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert until(lambda: not project.live_processes(), 10)
    assert misplaced(project.data) == {}
    assert project.crawl().jobs == {"done": 60}
    assert all_carried(site)


@pytest.mark.sweep
def test_a_changed_secret_is_a_new_version_that_re_extracts_nothing(project: Project, site: Site) -> None:
    crawl_slowly(project, site)
    running = project.start()
    assert until(lambda: len(site.paths) >= 10 or running.exited)
    changed = (project.defs / "crawl.yml").read_text().replace(CANARIES["header"], "canary77new")
    project.write(changed.replace(CANARIES["password"], "canary78new"))
    done = running.wait()
    assert done.jobs == {"done": 60}, done.err
    sent = [exchange.request.headers for exchange in site.exchanges if exchange.path != "/robots.txt"]
    assert (sent[0]["x-host"], sent[0]["authorization"]) == (CANARIES["header"], basic("us", CANARIES["password"]))
    assert (sent[-1]["x-host"], sent[-1]["authorization"]) == ("canary77new", basic("us", "canary78new"))
    assert len(site.paths) == len(set(site.paths)) == 60
    events = project.run_with_data("events").out
    assert "defs v1 → v2" in events
    assert "re-extract" not in events
    assert "canary" not in events
    assert misplaced(project.data) == {}


@pytest.mark.sweep
def test_a_resumed_run_has_the_passwords_of_standard_input(project: Project, site: Site) -> None:
    crawl_slowly(project, site, seeds="from: '-'")
    urls = "".join(f"http://us:{CANARIES['password']}@127.0.0.1:{site.port}/{n}\n" for n in range(60))
    running = project.start(stdin=urls.encode())
    assert until(lambda: len(site.paths) >= 10 or running.exited)
    running.send(signal.SIGTERM)
    running.wait()
    assert project.crawl().jobs == {"done": 60}
    assert all_carried(site)
    assert misplaced(project.data) == {}


@pytest.mark.sweep
def test_a_typo_in_saved_defs_shows_and_stores_no_secret(project: Project, site: Site) -> None:
    crawl_slowly(project, site)
    running = project.start()
    assert until(lambda: len(site.paths) >= 3 or running.exited)
    secret, header, cookie = (CANARIES[name] for name in ("header", "own_header", "own_cookie"))
    typos = f'{{headers: {{Authorization:Bearer {header}, "X-Key: {header}": b, X: 1}}, cookies: {{"s={cookie}": x}}}}'
    text, own = (project.defs / "crawl.yml").read_text(), f"{{X-Host: {secret}}}}}"
    project.write(text.replace(f"{own}}}", f"{own}, b.example: {typos}}}"))
    assert until(lambda: "is not a valid name" in project.run_with_data("status").out or running.exited)
    shown = [project.run_command("check", str(project.defs)), project.run_with_data("status", "--json")]
    shown += [project.run_with_data("events"), project.run_with_data("logs")]
    assert "Authorization…" in shown[0].err
    assert "Authorization…" in shown[1].out
    assert misplaced(project.data) == {}
    running.send(signal.SIGTERM)
    done = running.wait()
    assert "canary" not in done.out + done.err + "".join(each.out + each.err for each in shown)
    assert misplaced(project.data) == {}


def test_the_password_of_a_store_is_in_the_file_that_names_it_alone(
    project: Project, site: Site, postgres: PostgresServer, database: str
) -> None:
    crawl_slowly(project, site)
    url = database.replace("postgres@", f"postgres:{CANARIES['password']}@")
    store = {"CRAWL_STORE": f"{url}&%70assword={CANARIES['own_cookie']}", "CRAWL_PROJECT": "shop"}
    where = ["--defs", str(project.defs), "--data", str(project.data)]
    running = project.start_command("run", "--no-ui", "--nodes", "1", *where, variables=store)
    assert until(lambda: len(site.paths) >= 3 or running.exited)
    assert not [line for line in project.live_processes().values() if "canary" in line]
    postgres.stop("immediate")
    shown = [project.run_command(*words, *where[2:], variables=store) for words in (["status"], ["retry"])]
    postgres.start()
    assert running.wait().code == 0, running.err
    shown += [project.run_command(*words, variables=store) for words in (["config"], ["config", "--json"])]
    shown += [project.run_with_data(*words) for words in (["status", "--json"], ["events"], ["logs"], ["state"])]
    assert "canary" not in running.out + running.err + "".join(each.out + each.err for each in shown)
    assert set(canaries(project.data)) == {CANARIES["password"], CANARIES["own_cookie"]}
    assert {file for files in canaries(project.data).values() for file in files} == {"store"}


@pytest.mark.sweep
def test_a_resumed_run_has_the_password_of_its_base_url(project: Project, site: Site) -> None:
    crawl_slowly(project, site, seeds='url: "/{1..60}"')
    base = ["--set", f"base_url=http://us:{CANARIES['password']}@127.0.0.1:{site.port}/"]
    running = project.start(*base)
    assert until(lambda: len(site.paths) >= 10 or running.exited)
    running.send(signal.SIGTERM)
    assert running.wait().code != 0
    assert project.crawl().jobs == {"done": 60}
    assert all_carried(site)
    assert misplaced(project.data) == {}


@pytest.mark.quick
def test_no_text_of_a_page_is_searched_for_variables(
    project: Project, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", CANARIES["env"])
    monkeypatch.setenv("SHOP", "127.0.0.1")
    site["/robots.txt"] = Page("User-agent: *\nDisallow: /key/canary", headers={"Content-Type": "text/plain"})
    site["/"] = Page(html('<a href="/link?%{env.CANARY}">a</a><a href="/hop">b</a>'))
    site["/hop"] = Page(status=302, headers={"Location": "/landed?%{env.CANARY}"})
    site.fallback = lambda _: Page(html("<b>x</b>"))
    project.write(f"""
locatorGroups:
  g: {{locators: [{{urls: ["http://%{{env.SHOP}}:{site.port}/", "http://%{{env.SHOP}}:{site.port}/key/%{{env.CANARY}}"]}}]}}
taskGroups: {{g: {{page: {{dataDef: page}}}}}}
dataDefs: {{page: {{fields: {{b: {{selector: b}}}}, links: [{{selector: a}}]}}}}
""")
    done = project.crawl()
    assert done.jobs == {"done": 3, "skipped": 1}, "robots.txt judges what would be sent"
    assert {target for target in site.paths if "?" in target} == {"/link?%{env.CANARY}", "/landed?%{env.CANARY}"}
    assert misplaced(project.data) == {}


@pytest.mark.quick
def test_a_start_names_each_variable_that_cannot_be_read(project: Project, site: Site) -> None:
    url = site.url("/")
    project.write(f"""\
locatorGroups: {{g: {{locators: [{{url: "{url}?%{{env.CANARY_UNSET}}"}}]}}}}
taskGroups: {{g: {{page: {{dataDef: page}}}}}}
dataDefs: {{page: {{fields: {{b: {{selector: b}}}}}}}}
hosts: {{a.example: {{auth: {{bearer: "%{{file.missing}}"}}}}}}
""")
    checked = project.run_command("check", str(project.defs))
    assert checked.code == 0, "they are no mistake of the defs"
    assert ":1:38: warning unset-variable environment variable CANARY_UNSET is not set; `run` needs it" in checked.err
    assert ":4:36: warning unset-variable %{file." in checked.err
    done = project.start().wait()
    assert done.code == 2
    assert ":1:38: unset-variable environment variable CANARY_UNSET is not set" in done.err
    assert ":4:36: unset-variable %{file." in done.err
    assert not site.paths


def test_a_password_in_a_url_that_does_not_parse_is_never_quoted(project: Project) -> None:
    urls = ["//u:canary@h/", " http://u:canary@h/", "http:/u:canary@h/", "htp://u:canary@h/"]
    (project.defs / "list.txt").write_text("\n".join(urls))
    for locator in ("from: list.txt", *(f"{key}: '{url}'" for key in ("url", "sitemap") for url in urls)):
        project.write(f"""
locatorGroups: {{g: {{locators: [{{{locator}}}]}}}}
taskGroups: {{g: {{page: {{dataDef: page}}}}}}
dataDefs: {{page: {{fields: {{b: {{selector: b}}}}}}}}
""")
        shown = [project.run_command("check", str(project.defs)), project.start("--set", "max_attempts=1").wait()]
        shown.append(project.run_with_data("events"))
        assert "canary" not in "".join(each.out + each.err for each in shown), locator


def test_try_sends_the_secrets_of_its_url_and_host(project: Project, site: Site) -> None:
    crawl_slowly(project, site)
    site["/from"] = Page(status=302, headers={"Location": "/to"})
    url = site.url("/from").replace("//", f"//us:{CANARIES['password']}@")
    shown = project.run_command("try", "page", url, "--defs", str(project.defs), "--json")
    assert shown.code == 0, shown.err
    assert "canary" not in shown.out + shown.err
    sent = requests(site)
    for path in ("/from", "/to"):
        assert sent[path]["authorization"] == basic("us", CANARIES["password"])
        assert sent[path]["x-host"] == CANARIES["header"]
    assert not {"authorization", "x-host"} & sent["/robots.txt"].keys()
