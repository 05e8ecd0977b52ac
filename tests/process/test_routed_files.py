"""Files are downloaded on the route of their host: over HTTP/2, through a tunnel, with a digest."""

from pathlib import Path

import pytest

from .certificates import Authority
from .project import Project
from .proxy import serve_proxy
from .site import Page, Request, html, serve_site

pytestmark = pytest.mark.timeout(90)

DEFS = """\
locatorGroups: {{pages: {{locators: [{{url: "{start}"}}]}}}}
taskGroups: {{pages: {{page: {{dataDef: page}}}}}}
dataDefs: {{page: {{query: {{block: a}}, fields: {{paper: {{attribute: href, type: file}}}}}}}}
hosts: {{"127.0.0.1:{port}": {{{keys}}}}}
"""
SIZE = 3_000_000


def test_files_of_a_host_with_a_route(project: Project, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "defs")
    with serve_site(authority.server_context(http2=True)) as site, serve_proxy() as proxy:

        def respond(request: Request) -> Page:
            if request.path == "/robots.txt":
                return Page("nothing", 404)
            if "digest" not in request.headers.get("authorization", "").lower():
                return Page("who?", 401, {"WWW-Authenticate": 'Digest realm="r", nonce="n"'})
            if request.path == "/":
                return Page(html("".join(f"<a href=/{n}.bin>x</a>" for n in range(6))))
            return Page(request.path.encode() * (SIZE // 6), headers={"Content-Type": "application/octet-stream"})

        site.fallback = respond
        keys = f"auth: {{digest: 'us:er'}}, http2: true, tls: {{ca: ca.pem}}, proxy: '{proxy.url}'"
        project.write(DEFS.format(start=site.url("/"), port=site.port, keys=keys))
        project.crawl()
        assert len(project.rows("page")) == 6
        files = sorted(path.read_bytes() for path in (project.data / "output" / "latest" / "files").rglob("*.bin"))
        assert files == [f"/{n}.bin".encode() * (SIZE // 6) for n in range(6)]
        assert site.http2_requests == len(site.exchanges)
        assert set(proxy.asked) == {f"CONNECT 127.0.0.1:{site.port}"}
