"""Crawls inside a network namespace of their own, where private addresses are served; prints what was reached.

Run by `test_address_namespace` as `unshare … python -m tests.process.isolated_crawls FOLDER`; the real resolver reads a
hosts file of its own.
"""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from .project import Project
from .site import Site, html, redirect
from .test_addresses import defs, out, skipped
from .trap import Trap, notations

GUARDED = ("169.254.169.254", "10.0.0.1")
NAMES = {
    "metadata.example": "169.254.169.254", "intranet.example": "10.0.0.1", "mapped.example": "::ffff:10.0.0.1",
    "six.example": "fd00::1", "shop.example": "10.0.0.2",
}  # fmt: skip


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
    for address in (*GUARDED, "10.0.0.2"):
        _run("ip", "addr", "add", f"{address}/32", "dev", "lo")
    six = subprocess.run(["ip", "-6", "addr", "add", "fd00::1/128", "dev", "lo", "nodad"], capture_output=True)
    hosts = folder / "hosts"
    hosts.write_text("127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in NAMES.items()))
    _run("mount", "--bind", str(hosts), "/etc/hosts")
    return [*GUARDED, "127.0.0.1", *(["fd00::1"] if six.returncode == 0 else [])]


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


def main(folder: Path) -> None:
    trap, site = Trap(*isolate(folder)), ShopSite()
    targets = lead_astray(site, trap)
    results: dict[str, object] = {"targets": targets}
    for name, text in (("links", defs(site.url("/"))), ("sitemap", defs(sitemap=site.url("/map.xml")))):
        (folder / name).mkdir()
        project = Project(folder / name)
        project.nodes = 1
        project.write(text)
        done = project.crawl()
        reasons = sorted({reason.split(" ")[0] for reason in skipped(project).values()})
        results[name] = {"jobs": done.jobs, "reasons": reasons, "connections": list(trap.connections)}
    site["/robots.txt"] = redirect(f"http://169.254.169.254:{trap.port}/robots.txt")
    (folder / "robots").mkdir()
    project = Project(folder / "robots")
    project.write(defs(site.url("/")))
    project.crawl(code=1)
    results["robots"] = {"reason": project.job(site.url("/"))["reason"], "connections": list(trap.connections)}
    (folder / "named").mkdir()
    project = Project(folder / "named")
    project.write(defs(f"http://10.0.0.1:{trap.port}/robots.txt", f"http://metadata.example:{trap.port}/"))
    results["named"] = {"jobs": project.crawl().jobs, "connections": sorted(set(trap.connections))}
    site.close()
    trap.close()
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
