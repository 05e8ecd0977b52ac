"""Decides who may ask what, before any route is reached; adds to answers what protects a browser."""

import hashlib
import hmac
import ipaddress
import time
from collections.abc import Callable, Collection
from http.cookies import SimpleCookie
from urllib.parse import urlencode

from msgspec import Struct
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY = 1_000_000
MAX_LOGIN_BODY = 4_096
"""Of a request that anybody may send."""
LOGIN_SECONDS = 30 * 86_400
_MAX_PATH = 2_000
NO_TOKEN = "nobody gets in now: the token file of this server holds no token that can be used"
OPEN_PATHS = ("/health", "/login")
"""What is answered without a token, besides the files of the program in /static/."""
_SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Access(Struct, frozen=True):
    """The rules of one server."""

    token: Callable[[], str]
    """The token of this moment; empty: nobody gets in."""
    port: int
    hosts: Collection[str] = ()
    """Names in `Host` that are allowed besides those of loopback."""

    @property
    def cookie_name(self) -> str:
        """Browsers send a cookie to all ports of a host."""
        return f"crawl_console_{self.port}"

    def new_cookie(self) -> str:
        """What a browser shows instead of the token, which it does not keep."""
        until = str(int(time.time()) + LOGIN_SECONDS)
        return f"{until}.{self._sign(until)}"

    def is_token(self, given: str) -> bool:
        token = self.token()
        return bool(token) and hmac.compare_digest(given.encode(), token.encode())

    def is_cookie(self, given: str) -> bool:
        until, _, signature = given.partition(".")
        if not self.token() or not hmac.compare_digest(signature.encode(), self._sign(until).encode()):
            return False
        return int(until) > time.time()

    def _sign(self, until: str) -> str:
        return hmac.new(self.token().encode(), f"login {until}".encode(), hashlib.sha256).hexdigest()

    def is_allowed_host(self, written: str) -> bool:
        """Whether the name in `Host` is one under which this server is reached; other names may be rebound by DNS."""
        name = _name_of(written)
        if name in self.hosts or name == "localhost":
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False


def login_path(path: str, **more: str) -> str:
    """The address of the login that leads to a path of this server."""
    given = {**more, **({"to": path} if own_path(path) not in ("", "/") else {})}
    return f"/login?{urlencode(given)}" if given else "/login"


def own_path(text: str) -> str:
    """A path of this server, with its query; empty for anything else, such as `//host`."""
    is_own = text.startswith("/") and not text.startswith("//") and len(text) <= _MAX_PATH
    return text if is_own and text.isascii() and text.isprintable() and "\\" not in text else ""


def _path_of(scope: Scope) -> str:
    """The path that a request asked for, as it was written."""
    query = scope.get("query_string", b"").decode("latin-1")
    path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").partition("?")[0]
    return f"{path}?{query}" if query else path


def is_local(scope: Scope) -> bool:
    """Whether a request came by the Unix socket, whose mode says who may."""
    server = scope.get("server")
    return server is not None and server[1] is None


def who_asks(scope: Scope) -> str:
    """Whence a request came, for `commands.given_by`."""
    if is_local(scope):
        return "socket"
    client = scope.get("client")
    return f"web {client[0]}" if client else "web"


def _name_of(written: str) -> str:
    """The name in `Host` or `Origin`, without its port."""
    name = written.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    return name.partition(":")[0].removesuffix(".")


class Gate:
    """The layer before all routes."""

    def __init__(self, app: ASGIApp, access: Access, note: Callable[[str], None]) -> None:
        """`note` gets the address of each client that is let through."""
        self._app = app
        self._access = access
        self._note = note

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_protected(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._judge(scope)
        if refusal is not None:
            await refusal(scope, receive, send_protected)
        else:
            if scope["path"] not in OPEN_PATHS:
                self._note(who_asks(scope))
            await self._app(scope, _bounded(receive, _most_bytes(scope["path"])), send_protected)

    def _judge(self, scope: Scope) -> Response | None:
        """The answer to a request that is refused; None: it goes on."""
        headers, path = Headers(scope=scope), scope["path"]
        length, most = headers.get("content-length", "0"), _most_bytes(path)
        if not (length.isascii() and length.isdigit()) or len(length) > 18 or int(length) > most:
            return refuse(413, f"the body is larger than {most:,} bytes", close=True)
        if path == "/health" or is_local(scope):
            return None
        hosts = headers.getlist("host")
        if len(hosts) != 1 or not self._access.is_allowed_host(hosts[0]):
            return refuse(403, "this server is not reached under that name", "Start it with --allow-host NAME.")
        if scope["method"] not in _SAFE_METHODS and (problem := self._foreign(headers, hosts[0])):
            return refuse(403, problem, "Only pages of this server may do that.")
        if path in OPEN_PATHS or path.startswith("/static/"):
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._access.is_token(given.strip()):
            return None
        if self._has_cookie(headers):
            if scope["method"] in _SAFE_METHODS or headers.get("origin"):
                return None
            return refuse(403, "a browser says from where it posts, and this one does not", "Send the token instead.")
        if scope["method"] == "GET" and "text/html" in headers.get("accept", ""):
            return RedirectResponse(login_path(_path_of(scope)), 303)
        if not self._access.token():
            return refuse(503, NO_TOKEN, "Whoever runs it writes one there, which counts at once.")
        return refuse(401, "the token is missing or wrong", "Send `Authorization: Bearer TOKEN`, or log in at /login.")

    def _foreign(self, headers: Headers, host: str) -> str:
        """Why a request that changes something is that of another origin; empty: it is none."""
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2].lower() != host.strip().lower():
            return "the request comes from another origin"
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return "the request comes from another site"
        return ""

    def _has_cookie(self, headers: Headers) -> bool:
        try:
            cookies = SimpleCookie(headers.get("cookie", ""))
        except Exception:  # http.cookies raises CookieError, and others for what no browser sends
            return False
        cookie = cookies.get(self._access.cookie_name)
        return cookie is not None and self._access.is_cookie(cookie.value)


def _most_bytes(path: str) -> int:
    """How long the body of a request may be."""
    return MAX_LOGIN_BODY if path in OPEN_PATHS else MAX_BODY


def _bounded(receive: Receive, most: int) -> Receive:
    """The body of a request that did not tell its length ends where it is too long."""
    size = 0

    async def receive_bounded() -> Message:
        nonlocal size
        message = await receive()
        if message["type"] == "http.request":
            size += len(message.get("body", b""))
            if size > most:
                raise HTTPException(413, f"the body is larger than {most:,} bytes", {"Connection": "close"})
        return message

    return receive_bounded


def refuse(status: int, error: str, remedy: str = "", *, close: bool = False) -> Response:
    """The answer to a request that cannot be done: what is wrong, and what to do."""
    headers = {"Connection": "close"} if close else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"error": error, "remedy": remedy}, status, headers)
