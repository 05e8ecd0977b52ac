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


def test_certificates_of_unknown_authorities_and_other_hosts_and_expired_ones_fail_without_retry(
    project: Project, authority: trustme.CA, trust_store: Path
) -> None:
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    unknown, other = trustme.CA().issue_cert("localhost"), authority.issue_cert("shop.example")
    expired = authority.issue_cert("localhost", not_after=past)
    with serve(unknown) as port1, serve(other) as port2, serve(expired) as port3:
        urls = [f"https://localhost:{port}/" for port in (port1, port2, port3)]
        project.write(DEFS.format(url='"}, {url: "'.join(urls)))
        assert project.crawl(code=1).jobs == {"failed": 3}
    jobs = [project.job(url) for url in urls]
    assert [job["attempts"] for job in jobs] == [1, 1, 1]
    for job, reason in zip(jobs, ("invalid certificate", "invalid certificate", "expired"), strict=True):
        assert reason in job["reason"]
