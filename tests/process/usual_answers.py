"""A small server of usual answers: statuses, redirects, encodings, cookies, credentials, robots.txt, a drip."""

import base64
import contextlib
import gzip
import json
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from http.cookies import SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import brotli

NOVEL = "<!DOCTYPE html><html><body><h1>Herman Melville - Moby-Dick</h1></body></html>"
SLIDES = {"slideshow": {"title": "Sample Slide Show", "author": "Yours Truly", "slides": [{"title": "Overview"}]}}
XML = "<?xml version='1.0' encoding='us-ascii'?><slideshow><slide><title>Wake up</title></slide></slideshow>"
SAMPLE = "<h1>Unicode Demo</h1><pre>STARGATE, ∮ E⋅da = Q,  n → ∞, ∑ f(i) = ∏ g(i), ∀x∈ℝ: ⌈x⌉ = −⌊−x⌋</pre>"
PIXEL = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\b\6\0\0\0\x1f\x15\xc4\x89\0\0\0\0IEND\xaeB`\x82"
JSON, HTML = "application/json", "text/html; charset=utf-8"
_PACKERS: Mapping[str, tuple[str, Callable[[bytes], bytes]]] = {
    "gzip": ("gzip", gzip.compress), "deflate": ("deflate", zlib.compress), "brotli": ("br", brotli.compress),
}  # fmt: skip


class _Handler(BaseHTTPRequestHandler):
    """One request: the first part of its path names what it asks for."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:  # called by http.server
        parts = urlsplit(self.path)
        name, *given = parts.path.strip("/").split("/")
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        answer = getattr(self, "answer_" + name.replace("-", "_").replace(".", "_"), None)
        if answer is None:
            self.send(404, b"", HTML)
        else:
            answer(*given, **query)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name of the base class
        pass

    def send(self, status: int, body: bytes | str, kind: str, **headers: str) -> None:
        content = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(content)

    def send_json(self, data: object, **headers: str) -> None:
        self.send(200, json.dumps(data), JSON, **headers)

    def answer_html(self) -> None:
        self.send(200, NOVEL, HTML)

    def answer_json(self) -> None:
        self.send_json(SLIDES)

    def answer_xml(self) -> None:
        self.send(200, XML, "application/xml")

    def answer_encoding(self, _: str) -> None:
        self.send(200, SAMPLE, HTML)

    def answer_get(self) -> None:
        self.send_json({"url": self.path})

    def _answer_packed(self, name: str) -> None:
        token, pack = _PACKERS[name]
        key = {"gzip": "gzipped", "deflate": "deflated", "brotli": "brotli"}[name]
        self.send(200, pack(json.dumps({key: True}).encode()), JSON, Content_Encoding=token)

    def answer_gzip(self) -> None:
        self._answer_packed("gzip")

    def answer_deflate(self) -> None:
        self._answer_packed("deflate")

    def answer_brotli(self) -> None:
        self._answer_packed("brotli")

    def _send_on(self, to: str, status: int = 302) -> None:
        self.send(status, f"<title>Redirecting</title><a href='{to}'>{to}</a>", HTML, Location=to)

    def answer_relative_redirect(self, count: str) -> None:
        left = int(count) - 1
        self._send_on(f"/relative-redirect/{left}" if left else "/get")

    def answer_absolute_redirect(self, count: str) -> None:
        left = int(count) - 1
        host = self.headers["Host"]
        self._send_on(f"http://{host}/absolute-redirect/{left}" if left else f"http://{host}/get")

    def answer_redirect_to(self, *, url: str, status_code: str = "302") -> None:
        self._send_on(url, int(status_code))

    def answer_status(self, code: str) -> None:
        extra = {"WWW_Authenticate": 'Basic realm="Fake Realm"'} if code == "401" else {}
        self.send(int(code), "I'm a teapot" if code == "418" else "", HTML, **extra)

    def answer_headers(self) -> None:
        self.send_json({"headers": dict(self.headers.items())})

    def answer_basic_auth(self, user: str, password: str) -> None:
        wanted = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        if self.headers.get("Authorization") == wanted:
            self.send_json({"authenticated": True, "user": user})
        else:
            self.send(401, "", HTML, WWW_Authenticate='Basic realm="Fake Realm"')

    def answer_cookies(self) -> None:
        cookies = SimpleCookie(self.headers.get("Cookie", ""))
        self.send_json({"cookies": {name: morsel.value for name, morsel in cookies.items()}})

    def answer_links(self, count: str, own: str) -> None:
        pages = range(int(count))
        links = [str(n) if str(n) == own else f"<a href='/links/{count}/{n}'>{n}</a>" for n in pages]
        self.send(200, f"<title>Links</title>{' '.join(links)}", HTML)

    def answer_robots_txt(self) -> None:
        self.send(200, "User-agent: *\nDisallow: /deny\n", "text/plain")

    def answer_deny(self) -> None:
        self.send(200, "YOU SHOULDN'T BE HERE", "text/plain")

    def answer_image(self, _: str) -> None:
        self.send(200, PIXEL, "image/png")

    def answer_drip(self, *, duration: str, numbytes: str, code: str) -> None:
        """So many bytes, evenly over the time."""
        count = int(numbytes)
        self.send_response(int(code))
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(count))
        self.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(count):
                self.wfile.write(b"*")
                time.sleep(float(duration) / count)


@contextlib.contextmanager
def serve_usual_answers() -> Iterator[str]:
    """Its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.block_on_close = False  # the drip goes on after its reader has left
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
