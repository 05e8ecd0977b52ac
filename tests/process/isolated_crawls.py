"""Crawls inside a network namespace of their own, where private addresses are served; prints what was reached.

Run by `test_address_namespace` as `unshare … python -m tests.process.isolated_crawls FOLDER [roads]`; the real resolver
reads a hosts file of its own.
"""

import asyncio
import json
import socket
import subprocess
import sys
from pathlib import Path

from .project import Project
from .proxy import ForwardProxy, serve_proxy
from .site import Site, html, redirect
from .test_addresses import defs, out
from .trap import Trap, notations

GUARDED = ("169.254.169.254", "10.0.0.1")
PUBLIC = "8.8.4.4"
FAILURES = "SELECT DISTINCT reason FROM jobs WHERE state = 'FAILED'"
SKIPPED = (
    "SELECT DISTINCT j.reason FROM jobs j JOIN sequences s ON s.id = j.sequence "
    "WHERE j.state = 'SKIPPED' AND s.kind <> 'robots'"
)
NAMES = {
    "metadata.example": "169.254.169.254", "intranet.example": "10.0.0.1", "mapped.example": "::ffff:10.0.0.1",
    "six.example": "fd00::1", "shop.example": "10.0.0.2",
}  # fmt: skip
ASTRAY = """\
import httpx
from crawl_console import PageResponse

LINKS = b"<b>x</b><a class=out href=/below>x</a><a class=out href=http://metadata.example:{port}/>x</a>"


class Astray:
    def __init__(self, **options):
        self.number = 0

    async def handle(self, request, send):
        target = {targets}[self.number % {count}]
        self.number += 1
        if self.number % 2:
            request.url = httpx.URL(target)
            return await send(request)
        return await send(httpx.Request("GET", target))

    def load(self, request, context):
        return PageResponse(body=LINKS, url="http://10.0.0.1:{port}/led", headers={{"content-type": "text/html"}})
"""


class ShopSite(Site):
    """The site whose pages lead astray; a locator names it."""

    def __init__(self) -> None:
        super().__init__()
        self.open()
        self._shop = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "10.0.0.2", self.port, limit=2**20, backlog=512), self._loop
        ).result(10)

    def url(self, path: str = "/") -> str:
        return f"http://shop.example:{self.port}{path}"


def isolate(folder: Path) -> list[str]:
    """Give the namespace its addresses, and its processes a hosts file; returns the addresses to guard."""
    _run("ip", "link", "set", "lo", "up")
    for address in (*GUARDED, "10.0.0.2", PUBLIC):
        _run("ip", "addr", "add", f"{address}/32", "dev", "lo")
    six = subprocess.run(["ip", "-6", "addr", "add", "fd00::1/128", "dev", "lo", "nodad"], capture_output=True)
    write_hosts(folder, **{"both.example": PUBLIC, "rebound.example": PUBLIC})
    _run("mount", "--bind", str(folder / "hosts"), "/etc/hosts")
    return [*GUARDED, "127.0.0.1", *(["fd00::1"] if six.returncode == 0 else [])]


def write_hosts(folder: Path, **more: str) -> None:
    """Write the hosts file; `both.example` has a guarded address, too."""
    pairs = [("localhost", "127.0.0.1"), *NAMES.items(), *more.items(), ("both.example", "10.0.0.1")]
    (folder / "hosts").write_text("".join(f"{address} {name}\n" for name, address in pairs))


def _run(*command: str) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def lead_astray(site: Site, trap: Trap) -> int:
    """Fill the site with every road to the trap; returns how many locators it needs."""
    targets = [url for address in GUARDED for url in notations(address, trap.port)]
    targets += [f"http://{name}:{trap.port}/" for name in NAMES if name != "shop.example"]
    targets += [f"http://[fd00::1]:{trap.port}/", f"http://127.0.0.1:{trap.port}/", f"http://localhost:{trap.port}/"]
    site["/"] = html(out(*targets, *(f"/to/{index}" for index in range(len(targets)))))
    for index, target in enumerate(targets):
        site[f"/to/{index}"] = redirect(target.encode().decode("latin-1"))
    plain = [url for url in targets if url.startswith("http://") and url.isascii()]
    entries = "".join(f"<url><loc>{url}x</loc></url>" for url in plain)
    maps = "".join(f"<sitemap><loc>{url}map.xml</loc></sitemap>" for url in plain)
    moved = f"<sitemap><loc>{site.url('/moved.xml')}</loc></sitemap>"
    site["/entries.xml"], site["/moved.xml"] = f"<urlset>{entries}</urlset>", redirect(plain[0])
    entry = f"<sitemap><loc>{site.url('/entries.xml')}</loc></sitemap>"
    site["/map.xml"] = f"<sitemapindex>{entry}{moved}{maps}</sitemapindex>"
    return len(targets)


class Rebinding(Trap):
    """A public server that breaks each connection; from the first one on its name has a guarded address."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        super().__init__(PUBLIC, port=port)

    def answer(self, connection: socket.socket) -> None:
        write_hosts(self._folder, **{"both.example": PUBLIC, "rebound.example": "10.0.0.1"})


class Roads:
    """Every road to the trap, each in a crawl of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.trap, self.site = Trap(*isolate(folder)), ShopSite()
        self.targets = lead_astray(self.site, self.trap)
        self.plain = [
            f"http://{host}:{self.trap.port}/" for host in (*GUARDED, *NAMES, "[fd00::1]", "127.0.0.1", "localhost")
            if host != "shop.example"
        ]  # fmt: skip
        self.results: dict[str, dict[str, object]] = {}

    def crawl(self, name: str, text: str, *arguments: str, plugin: str = "") -> Project:
        (self.folder / name).mkdir()
        project = Project(self.folder / name)
        project.nodes = 1
        project.write(text)
        if plugin:
            (project.defs / "plugins").mkdir()
            (project.defs / "plugins" / "astray.py").write_text(plugin)
        done = project.start(*arguments).wait()
        assert done.code in (0, 1), done.err
        project.assert_clean(done)
        reasons = sorted({reason.split(" ")[0] for (reason,) in project.query(SKIPPED)})
        self.results[name] = {
            "jobs": done.jobs, "reasons": reasons, "connections": sorted(set(self.trap.connections)),
            "failures": sorted({str(reason) for (reason,) in project.query(FAILURES)}),
        }  # fmt: skip
        return project

    def first(self) -> None:
        """Links, redirects, sitemaps, and robots.txt; at last a locator."""
        self.crawl("links", defs(self.site.url("/")))
        self.crawl("sitemap", defs(sitemap=self.site.url("/map.xml")))
        self.site["/robots.txt"] = redirect(f"http://169.254.169.254:{self.trap.port}/robots.txt")
        project = self.crawl("robots", defs(self.site.url("/")))
        self.results["robots"]["reason"] = project.job(self.site.url("/"))["reason"]
        port = self.trap.port
        self.crawl("named", defs(f"http://10.0.0.1:{port}/robots.txt", f"http://metadata.example:{port}/"))

    def others(self) -> None:
        """Proxies, TLS and HTTP/2, files, middleware, loaders, logins, refreshing pages, and names that change."""
        with serve_proxy() as proxy:
            self._by_proxy(proxy)
        secure = [url.replace("http:", "https:") for url in self.plain]
        self.site["/secure"] = html(out(*secure, *(f"/secure/{number}" for number in range(len(secure)))))
        for number, url in enumerate(secure):
            self.site[f"/secure/{number}"] = redirect(url)
        for name, rule in (("tls", "tls: {verify: false}"), ("http2", "http2: true, tls: {verify: false}")):
            self.crawl(name, defs(self.site.url("/secure"), hosts=self._hosts(rule)))
        self._by_files()
        self._by_plugins()
        page = "".join(f"<meta http-equiv=refresh content='0;url={url}'>" for url in self.plain[:1])
        self.site["/based"] = html(
            f"<base href={self.plain[0]}>{page}<link rel=canonical href={self.plain[1]}>{out('/below', 'a/b')}"
        )
        for number, url in enumerate(self.plain):
            self.site[f"/refresh/{number}"] = f"<!doctype html><meta http-equiv=refresh content='0;url={url}'><b>x</b>"
        starts = [self.site.url("/based"), *(self.site.url(f"/refresh/{n}") for n in range(len(self.plain)))]
        self.crawl("pages", defs(*starts))
        self._by_names()

    def _hosts(self, rule: str) -> str:
        return ", ".join(f'"{name}": {{{rule}}}' for name in (*GUARDED, *NAMES, "[fd00::1]", "127.0.0.1", "localhost"))

    def _by_proxy(self, proxy: ForwardProxy) -> None:
        hosts = self._hosts(f'proxy: "{proxy.url}"')
        self.crawl("proxied", defs(self.site.url("/"), hosts=hosts))
        self.crawl("proxied-sitemap", defs(sitemap=self.site.url("/map.xml"), hosts=hosts))
        self.site["/robots.txt"] = redirect(f"http://metadata.example:{self.trap.port}/robots.txt")
        self.crawl("proxied-robots", defs(self.site.url("/"), hosts=hosts))
        del self.site.pages["/robots.txt"]
        shop = f"shop.example:{self.site.port}"
        self.results["proxied"]["asked"] = sorted({asked for asked in proxy.asked if shop not in asked})
        self.results["proxied"]["served"] = len(proxy.asked)

    def _by_files(self) -> None:
        for number, url in enumerate(self.plain):
            self.site[f"/file/{number}"] = redirect(url)
        hrefs = (*self.plain, *(f"/file/{number}" for number in range(len(self.plain))))
        self.site["/files"] = html("".join(f"<li><a href={href}>x</a></li>" for href in hrefs))
        fields = "query: {block: li}\n    fields: {file: {selector: a, attribute: href, type: file}}"
        text = defs(self.site.url("/files")).replace('fields: {url: {value: "%{document.url}"}}', fields)
        self.crawl("files", text)

    def _by_plugins(self) -> None:
        plugin = ASTRAY.format(port=self.trap.port, targets=self.plain, count=len(self.plain))
        starts = [self.site.url(f"/to/{number}") for number in range(2 * len(self.plain))]
        hosts = "shop.example: {middleware: [astray.Astray]}"
        self.crawl("middleware", defs(*starts, hosts=hosts), plugin=plugin)
        step = "page: {dataDef: page, steps: {jsoupDefault: {loader: {class: astray.Astray}}}}"
        self.crawl("loader", defs(*starts[:4]).replace("page: {dataDef: page}", step), plugin=plugin)
        for number, url in enumerate(self.plain):
            login = f'"shop.example": {{login: {{url: /login/{number}, form: {{user: me}}, check: .out}}}}'
            form = f"<form method=post action={url}><input name=user><input type=password name=p></form>"
            self.site[f"/login/{number}"] = html(form) if number % 2 else redirect(url)
            self.crawl(f"login-{number}", defs(self.site.url("/plain"), hosts=login))

    def _by_names(self) -> None:
        """Of two addresses the public one is taken; a name that changes is judged at each connection."""
        port = self.trap.port
        server = Rebinding(self.folder, port)
        links = (f"http://both.example:{port}/", f"https://rebound.example:{port}/", f"http://rebound.example:{port}/x")
        self.site["/names"] = html(out(*links))
        hosts = "rebound.example: {http2: true, tls: {verify: false}}"
        self.crawl(
            "names", defs(self.site.url("/names"), hosts=hosts), "--set", "robots=false", "--set", "max_attempts=3"
        )
        self.results["names"]["public"] = len(server.connections)
        server.close()

    def close(self) -> None:
        self.site.close()
        self.trap.close()


def main(folder: Path, *which: str) -> None:
    roads = Roads(folder)
    if which:
        roads.others()
    else:
        roads.first()
    roads.close()
    print(json.dumps({"targets": roads.targets, **roads.results}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
