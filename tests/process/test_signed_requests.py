"""Signed requests of real crawls: a site that refuses what is unsigned, stale, replayed or meant for another host."""

import base64
import datetime
import json
import re
import threading
from pathlib import Path

import pytest
from http_message_signatures import HTTPMessageSignaturesException, InvalidSignature

from tests.unit.http.signing.keys import PEM, THUMBPRINT, verify

from .project import Project
from .site import Page, Request, Site, html

pytestmark = pytest.mark.timeout(120)

AGENT = "https://bot.example"
DEFS = """\
locatorGroups: {{list: {{locators: [{{url: "{url}"}}]}}}}
taskGroups:
  list: {{page: {{dataDef: entry}}}}
dataDefs:
  entry: {{fields: {{title: {{selector: h1}}}}, links: [{{selector: a, sameHost: false}}]}}
hosts:
  {hosts}
"""
RULE = '{key: "%{file.bot.pem}", agent: "https://bot.example"'


class Verifier:
    """A site that knows one key, and takes each nonce once."""

    def __init__(self, site: Site, *, asks: str = "", status: int = 403) -> None:
        self.site, self.asks, self.status = site, asks, status
        self.nonces: set[str] = set()
        self.hosts: list[str] = []
        self.paths: list[str] = []
        self.refused: list[str] = []
        self.pages: dict[str, Page] = {}
        site.fallback = self.respond

    def respond(self, request: Request) -> Page:
        host = request.headers["host"]
        try:
            headers = {name.title(): value for name, value in request.headers.items()}
            (found,) = verify(request.method, f"http://{host}{request.path}", headers)
            nonce = found.parameters["nonce"]
            if nonce in self.nonces:
                raise InvalidSignature("replayed")
        except (InvalidSignature, HTTPMessageSignaturesException) as error:
            self.refused.append(f"{request.path}: {error}")
            return Page("who?", self.status, {"Accept-Signature": self.asks} if self.asks else {})
        self.nonces.add(nonce)
        self.hosts.append(host)
        self.paths.append(request.path)
        return self.pages.get(request.path, Page(html(f"<h1>{request.path}</h1>")))


@pytest.fixture
def key(project: Project) -> Path:
    file = project.folder / "defs" / "bot.pem"
    file.parent.mkdir(exist_ok=True)
    file.write_text(PEM)
    file.chmod(0o600)
    return file


def defs(site: Site, rule: str = RULE + "}", others: str = "robots: false") -> str:
    hosts = f'"127.0.0.1": {{private: true, {others}, sign: {rule}}}\n  localhost: {{private: true, robots: false}}'
    return DEFS.format(url=site.url("/"), hosts=hosts)


def test_every_request_is_signed_robots_txt_and_redirects_too(project: Project, site: Site, key: Path) -> None:
    verifier = Verifier(site)
    verifier.pages = {
        "/": Page(html("<h1>list</h1>" + "".join(f"<a href='/{n}'>x</a>" for n in range(40)) + "<a href='/hop'>h</a>")),
        "/hop": Page("", 302, {"Location": "/end"}),
        "/robots.txt": Page("User-agent: *\nDisallow: /7\n"),
    }
    project.write(defs(site, others="robots: true"))
    done = project.crawl()
    assert verifier.refused == []
    assert len(project.rows("entry")) == 41
    assert "/7" not in site.paths
    assert {"/robots.txt", "/hop", "/end"} <= set(verifier.paths)
    assert done.summary["rows"] == {"entry": 41}


def test_no_signature_goes_to_a_host_that_the_rule_does_not_name(project: Project, site: Site, key: Path) -> None:
    seen: dict[str, list[str]] = {}
    far = site.url("/far").replace("127.0.0.1", "localhost")

    def respond(request: Request) -> Page:
        names = [name for name in request.headers if name.lower().startswith("signature")]
        seen.setdefault(request.headers["host"].partition(":")[0], []).extend(names)
        if request.path == "/":
            return Page(html(f"<h1>list</h1><a href='{far}'>x</a><a href='/away'>y</a>"))
        return Page("", 302, {"Location": far + "2"}) if request.path == "/away" else Page(html("<h1>far</h1>"))

    site.fallback = respond
    project.write(defs(site))
    project.crawl()
    assert {"/far", "/far2"} <= set(site.paths)
    assert len(seen["127.0.0.1"]) == 2 * 3
    assert seen["localhost"] == []


def test_a_redirect_to_another_signed_host_is_signed_for_that(project: Project, site: Site, key: Path) -> None:
    verifier = Verifier(site)
    far = site.url("/far").replace("127.0.0.1", "localhost")
    verifier.pages = {"/": Page("", 302, {"Location": far})}
    project.write(
        defs(site).replace("private: true, robots: false}", f"private: true, robots: false, sign: {RULE}}}}}")
    )
    project.crawl()
    assert verifier.refused == []
    assert [host.partition(":")[0] for host in verifier.hosts] == ["127.0.0.1", "localhost"]


@pytest.mark.parametrize("status", [401, 403, 429])
def test_a_host_that_asks_gets_signatures_from_then_on(project: Project, site: Site, key: Path, status: int) -> None:
    asks = 'sig9=("@authority" "@method" "signature-agent");created;tag="web-bot-auth"'
    verifier = Verifier(site, asks=asks, status=status)
    links = "".join(f"<a href='/{n}'>x</a>" for n in range(20))
    verifier.pages = {"/": Page(html(f"<h1>list</h1>{links}"))}
    project.write(defs(site, RULE + ", when: asked}"))
    done = project.crawl()
    assert done.jobs == {"done": 21}
    assert [path.partition(":")[0] for path in verifier.refused][:1] == ["/"]
    assert len(verifier.refused) <= 2, "once for each node"


def test_a_nonce_that_a_host_gives_is_that_of_the_request_it_was_given_to(
    project: Project, site: Site, key: Path
) -> None:
    """Side by side: each refusal has a nonce of its own, and waits for that."""
    wanted: dict[str, str] = {}
    mistakes: list[str] = []
    lock = threading.Lock()

    def respond(request: Request) -> Page:
        with lock:
            signed = re.search(r'nonce="([^"]*)"', request.headers.get("signature-input", ""))
            nonce = "" if signed is None else signed[1]
            if nonce.startswith("n-"):
                if wanted.get(request.path) != nonce:
                    mistakes.append(f"{request.path}: {nonce}")
                return Page(html(f"<h1>{request.path}</h1>{links}" if request.path == "/" else "<h1>x</h1>"))
            wanted[request.path] = f"n-{len(wanted)}"
            asks = f'sig1=("@authority" "signature-agent");nonce="{wanted[request.path]}"'
            return Page("sign it", 403, {"Accept-Signature": asks}, delay=0.02)

    links = "".join(f"<a href='/{n}'>x</a>" for n in range(40))
    site.fallback = respond
    project.write(defs(site, others="robots: false, concurrency: 8"))
    done = project.crawl()
    assert mistakes == []
    assert done.jobs == {"done": 41}
    assert len(site.paths) == 82, "each is answered once"


def test_a_host_that_does_not_ask_gets_none(project: Project, site: Site, key: Path) -> None:
    verifier = Verifier(site)
    (project.folder / "crawl.toml").write_text("max_attempts = 1\n")
    project.write(defs(site, RULE + ", when: asked}"))
    project.crawl(code=1)
    assert len(verifier.refused) == 1
    assert verifier.nonces == set()


def test_a_site_that_refuses_the_signature_is_answered_once(project: Project, site: Site, key: Path) -> None:
    asked = 0

    def refuse(_: Request) -> Page:
        nonlocal asked
        asked += 1
        date = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
        headers = {
            "Accept-Signature": f'sig1=("@authority");nonce="n{asked}"',
            "Date": date.strftime("%a, %d %b %Y %H:%M:%S GMT"),
        }
        return Page("no", 403, headers)

    site.fallback = refuse
    (project.folder / "crawl.toml").write_text("max_attempts = 1\n")
    project.write(defs(site))
    project.crawl(code=1)
    assert asked == 2
    ((reason,),) = project.query("SELECT reason FROM jobs WHERE state = 'FAILED'")
    assert reason == "blocked: HTTP 403 (1 attempt)"
    ((told,),) = project.query("SELECT text FROM events WHERE text LIKE '%clock%'")
    assert told == "the refused request was signed, and this machine's clock is 60 min ahead"


def test_the_key_is_in_no_store_log_or_output(project: Project, site: Site, key: Path) -> None:
    Verifier(site)
    project.write(defs(site))
    project.crawl()
    assert project.run_with_data("backup", str(project.folder / "copy")).code == 0
    secret = PEM.splitlines()[1].encode()
    raw = base64.b64decode(secret)[-32:]
    for file in [*project.data.rglob("*"), *(project.folder / "copy").rglob("*")]:
        if file.is_file():
            content = file.read_bytes()
            assert secret not in content, file
            assert raw not in content, file


@pytest.mark.quick
def test_keys_and_agents_that_cannot_sign_are_told(project: Project, site: Site, key: Path) -> None:
    for rule, said in (
        ('{key: "-----BEGIN PRIVATE KEY-----", agent: "https://bot.example"}', "would be stored"),
        ('{key: "%{file.bot.pem}", agent: "http://bot.example"}', "must be the https URL of a host"),
        ('{key: "%{file.bot.pem}", agent: "https://u:p@bot.example"}', "must be the https URL of a host"),
        ('{key: "%{file.bot.pem}", agent: "https://bot.example/?x=1"}', "must be the https URL of a host"),
        ('{key: "%{file.bot.pem}"}', "the key `agent` is missing"),
        ('{key: "%{file.bot.pem}", agent: "https://bot.example", when: never}', "`when` cannot be"),
    ):
        project.write(defs(site, rule))
        checked = project.run_with_data("check")
        assert checked.code == 2, rule
        assert said in checked.err, checked.err
        assert "Traceback" not in checked.err
    project.write(defs(site))
    for mode, code in ((0o400, 0), (0o440, 0), (0o600, 0), (0o604, 2), (0o444, 2)):
        key.chmod(mode)
        checked = project.run_with_data("check")
        assert checked.code == code, (oct(mode), checked.err)
        assert ("can be read by others" in checked.err) == bool(code)
    key.chmod(0o600)
    key.write_text("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----")
    assert "no private key in PEM form" in project.run_with_data("check").err


@pytest.mark.quick
def test_a_browser_is_told_not_to_sign(project: Project, site: Site, key: Path) -> None:
    project.write(defs(site).replace("list: {page:", "list: {loader: browser, page:"))
    checked = project.run_with_data("check")
    assert "the requests of the browser are not signed: the pages of 'list' come without `sign`" in checked.err


def test_the_command_makes_a_key_its_directory_and_tries_it(project: Project, site: Site) -> None:
    file = project.folder / "defs" / "bot.pem"
    file.parent.mkdir(exist_ok=True)
    made = project.run_command("sign", "--new-key", str(file), "--json")
    assert made.code == 0, made.err
    assert file.stat().st_mode & 0o777 == 0o600
    jwk = json.loads(made.out)["jwk"]
    assert project.run_command("sign", "--new-key", str(file)).code == 2, "a key in use is not overwritten"

    project.write(defs(site))
    written = project.run_with_data("sign", "--directory", "--json")
    assert written.code == 0, written.err
    answer = json.loads(written.out)
    assert answer["url"] == "https://bot.example/.well-known/http-message-signatures-directory"
    assert json.loads(answer["body"])["keys"] == [jwk]
    assert answer["headers"]["Content-Type"] == "application/http-message-signatures-directory+json"
    assert re.match(r'binding0=\("@authority";req\);created=\d+;keyid=', answer["headers"]["Signature-Input"])
    as_text = project.run_with_data("sign", "--directory").out
    assert as_text.partition("\n\n")[2].strip() == answer["body"]

    site.fallback = lambda request: Page(html("<h1>x</h1>"), 200 if "signature" in request.headers else 403)
    tried = project.run_with_data("sign", "--try", site.url("/"), "--json")
    result = json.loads(tried.out)
    assert tried.code == 0, tried.err
    assert (result["status"], result["taken"], result["keyid"]) == (200, True, jwk["kid"])
    assert result["directory"].startswith("cannot be read")
    project.write(defs(site, RULE + ", when: asked}"))
    assert project.run_with_data("sign", "--try", site.url("/")).code == 0, "it is signed, asked or not"
    site.fallback = lambda request: Page("no", 403)
    refused = project.run_with_data("sign", "--try", site.url("/"))
    assert refused.code == 1
    assert "HTTP 403" in refused.out
    other = file.with_name("b.pem")
    assert f"%{{file.{other}}}" in project.run_command("sign", "--new-key", str(other)).out
    for wrong in (
        (), ("--directory", "--try", "http://a.example/"), ("--try", "https://elsewhere.example/"), ("--try", "foo"),
        ("--try", ""), ("--try", "ftp://x/"), ("--try", "http://a.example/", "--agent", "https://b.example"),
    ):  # fmt: skip
        assert project.run_with_data("sign", *wrong).code == 2
    assert THUMBPRINT not in written.out
