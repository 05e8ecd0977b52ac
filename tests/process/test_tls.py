"""Crawls over TLS with a certificate authority made for the test."""

import datetime
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from .project import Project

pytest.importorskip("trustme", reason="trustme is not installed")
import trustme

pytestmark = pytest.mark.timeout(60)

DEFS = """\
locatorGroups: {{pages: {{locators: [{{url: "{url}"}}]}}}}
taskGroups: {{pages: {{page: {{dataDef: page}}}}}}
dataDefs: {{page: {{fields: {{title: {{selector: h1}}, url: {{value: "%{{document.url}}"}}}}}}}}
hosts: {{"localhost": {{robots: false}}, "127.0.0.1": {{robots: false}}}}
"""


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<h1>secure</h1>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name of the base class
        pass


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that refuses the certificate is expected."""


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@contextmanager
def serve(certificate: trustme.LeafCert) -> Iterator[int]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    server = _Server(("127.0.0.1", 0), _Page)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def trust_store(authority: trustme.CA, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The authority as the system's trust store, for the processes the test starts."""
    path = tmp_path / "authority.pem"
    authority.cert_pem.write_to_path(path)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    return path


def test_a_certificate_of_a_trusted_authority_is_accepted(
    project: Project, authority: trustme.CA, trust_store: Path
) -> None:
    with serve(authority.issue_cert("localhost")) as port:
        project.write(DEFS.format(url=f"https://localhost:{port}/"))
        project.crawl()
    assert [row["title"] for row in project.rows("page")] == ["secure"]


def test_a_certificate_of_an_unknown_authority_fails_without_retry(project: Project, trust_store: Path) -> None:
    with serve(trustme.CA().issue_cert("localhost")) as port:
        url = f"https://localhost:{port}/"
        project.write(DEFS.format(url=url))
        project.crawl(code=1)
    job = project.job(url)
    assert (job["state"], job["attempts"]) == ("FAILED", 1)
    assert "invalid certificate" in job["reason"]


def test_a_certificate_of_another_host_is_refused(project: Project, authority: trustme.CA, trust_store: Path) -> None:
    with serve(authority.issue_cert("shop.example")) as port:
        url = f"https://localhost:{port}/"
        project.write(DEFS.format(url=url))
        project.crawl(code=1)
    assert "invalid certificate" in project.job(url)["reason"]


def test_an_expired_certificate_is_refused(project: Project, authority: trustme.CA, trust_store: Path) -> None:
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    with serve(authority.issue_cert("localhost", not_after=past)) as port:
        url = f"https://localhost:{port}/"
        project.write(DEFS.format(url=url))
        project.crawl(code=1)
    assert "expired" in project.job(url)["reason"]
