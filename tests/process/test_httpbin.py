"""A crawl of httpbin: statuses, redirects, encodings, cookies, credentials, robots.txt as others serve them."""

import json
import threading
from collections.abc import Iterator

import pytest

from tests.sample import sampled

from .project import Project

pytest.importorskip("httpbin", reason="httpbin is not installed")
from httpbin import app
from werkzeug.serving import WSGIRequestHandler, make_server

pytestmark = pytest.mark.timeout(60)

DEFS = """\
locatorGroups:
  pages: {{locators: [{locators}]}}
taskGroups:
  pages: {{page: {{dataDef: page}}}}
dataDefs:
  page:
    fields:
      url: {{value: "%{{document.url}}"}}
      heading: {{selector: h1}}
      sample: {{selector: pre}}
      slide: {{selector: "jmespath: slideshow.title"}}
      echoed: {{selector: "jmespath: headers", type: json}}
      user: {{selector: "jmespath: user"}}
      cookie: {{selector: "jmespath: cookies.flavour"}}
      gzipped: {{selector: "jmespath: gzipped || deflated || brotli", type: bool}}
    links: [{{selector: a}}]
hosts: {{"127.0.0.1": {{concurrency: 8, robots: {robots}, headers: {{X-Canary: "7"}}}}}}
"""


class _QuietHandler(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002  # the name of the base class
        pass


@pytest.fixture(scope="module")
def httpbin() -> Iterator[str]:
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_QuietHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def write_defs(project: Project, base: str, *paths: str, robots: str = "false") -> None:
    locators = ", ".join(f'{{url: "{base}{path}"}}' for path in paths)
    project.write(DEFS.format(locators=locators, robots=robots))


def rows_by_path(project: Project, base: str) -> dict[str, dict[str, str]]:
    return {row["url"].removeprefix(base): row for row in project.rows("page")}


def test_bodies_in_every_encoding_are_read(project: Project, httpbin: str) -> None:
    write_defs(project, httpbin, "/html", "/json", "/gzip", "/deflate", "/brotli", "/xml", "/encoding/utf8")
    project.crawl()
    rows = rows_by_path(project, httpbin)
    assert rows["/html"]["heading"] == "Herman Melville - Moby-Dick"
    assert rows["/json"]["slide"] == "Sample Slide Show"
    assert [rows[path]["gzipped"] for path in ("/gzip", "/deflate", "/brotli")] == ["true"] * 3
    assert "∮ E⋅da = Q" in rows["/encoding/utf8"]["sample"]


def test_redirects_of_each_kind_end_at_their_target(project: Project, httpbin: str) -> None:
    paths = ("/relative-redirect/3", "/absolute-redirect/2", "/redirect-to?url=/html&status_code=307")
    write_defs(project, httpbin, *paths)
    project.crawl()
    assert sorted(row["url"].removeprefix(httpbin) for row in project.rows("page")) == ["/get", "/get", "/html"]


def test_too_many_redirects_fail_with_the_reason(project: Project, httpbin: str) -> None:
    write_defs(project, httpbin, "/relative-redirect/15")
    project.crawl("--set", "max_redirects=5", code=1)
    job = project.job(f"{httpbin}/relative-redirect/15")
    assert job["state"] == "FAILED"
    assert "redirects" in job["reason"]


@pytest.mark.parametrize(
    "attempts", sampled([{400: 1, 401: 2, 403: 2, 404: 1, 410: 1, 418: 1, 500: 2}, {429: 2}, {503: 2}], 0), ids=str
)
def test_error_statuses_fail_and_only_passing_ones_are_retried(
    project: Project, httpbin: str, attempts: dict[int, int]
) -> None:
    write_defs(project, httpbin, *(f"/status/{status}" for status in attempts))
    project.crawl("--set", "max_attempts=2", code=1)
    for status in attempts:
        job = project.job(f"{httpbin}/status/{status}")
        assert job["state"] == "FAILED"
        assert f"HTTP {status}" in job["reason"]
        assert job["attempts"] == attempts[status]


def test_host_headers_basic_credentials_and_cookies_arrive(project: Project, httpbin: str) -> None:
    plain = httpbin.removeprefix("http://")
    project.write(
        DEFS.format(
            locators=f'{{url: "{httpbin}/headers"}}, {{url: "http://ada:pw@{plain}/basic-auth/ada/pw"}},'
            f' {{url: "{httpbin}/cookies", cookies: {{flavour: vanilla}}}}',
            robots="false",
        )
    )
    project.crawl()
    rows = rows_by_path(project, httpbin)
    assert json.loads(rows["/headers"]["echoed"])["X-Canary"] == "7"
    assert rows["/basic-auth/ada/pw"]["user"] == "ada"
    assert rows["/cookies"]["cookie"] == "vanilla"


def test_a_page_of_links_is_followed_to_its_end(project: Project, httpbin: str) -> None:
    write_defs(project, httpbin, "/links/12/0")
    project.crawl()
    assert len(rows_by_path(project, httpbin)) == 12


def test_its_robots_txt_is_obeyed(project: Project, httpbin: str) -> None:
    write_defs(project, httpbin, "/html", "/deny", robots="true")
    project.crawl()
    assert list(rows_by_path(project, httpbin)) == ["/html"]
    job = project.job(f"{httpbin}/deny")
    assert job["state"] == "SKIPPED"
    assert "robots.txt" in job["reason"]


def test_a_drip_is_cut_at_the_deadline(project: Project, httpbin: str) -> None:
    write_defs(project, httpbin, "/drip?duration=30&numbytes=30&code=200", "/html")
    done = project.crawl("--set", "deadline=1.5", "--set", "max_attempts=1", code=1)
    assert done.jobs == {"done": 1, "failed": 1}
    assert "timeout" in project.job(f"{httpbin}/drip?duration=30&numbytes=30&code=200")["reason"]


def test_what_is_no_page_fails_as_a_locator(project: Project, httpbin: str) -> None:
    write_defs(project, httpbin, "/image/png", "/html")
    done = project.crawl(code=1)
    assert done.jobs == {"done": 1, "failed": 1}
    assert "not a page: image/png" in project.job(f"{httpbin}/image/png")["reason"]
