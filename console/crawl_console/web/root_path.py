"""Serves below a path of a proxy: strips it from requests, puts it before the addresses of answers."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crawl_console.web.access import refuse
from crawl_engine.late_regex import late_regex

HEADER = "x-forwarded-prefix"
_MAX_LENGTH = 200
_SAFE = late_regex(r"(?:/(?!\.)[A-Za-z0-9._~-]+)+")
_KEY = "crawl_console.root_path"
# values of templates are escaped: a quotation mark behind such a name is one of our own
_OWN_ADDRESS = late_regex(r'\b((?:href|src|action|data-events)=")(?=/)')


def read_root_path(text: str, taken: frozenset[str]) -> str:
    """A path such as `/crawls` as it is put before addresses; empty for `/`. Raises ValueError: it cannot serve.

    `taken`: the first parts of our own paths, which a proxy that strips the path asks for.
    """
    path = text.rstrip("/")
    if path and (len(path) > _MAX_LENGTH or not _SAFE.fullmatch(path)):
        raise ValueError("a root path is such as /crawls: letters, digits, and `.`, `_`, `~`, `-` between slashes")
    first = path.split("/")[1] if path else ""
    if first in taken:
        raise ValueError(f"/{first} is a path of this server itself; choose another root path, such as /crawls")
    return path


def root_path_of(scope: Scope) -> str:
    """What stands before the paths of this server in the browser that asks; empty: nothing."""
    path: str = scope.get(_KEY, "")
    return path


def prefix_addresses(html: str, root_path: str) -> str:
    """A page of ours whose addresses are below the root path."""
    return _OWN_ADDRESS.sub(lambda match: match[1] + root_path, html) if root_path else html


class RootPath:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, root_path: str, reads_header: bool, taken: frozenset[str]) -> None:
        """`root_path`: as `read_root_path` gives it. `reads_header`: the proxy's header takes precedence."""
        self._app = app
        self._root_path = root_path
        self._reads_header = reads_header
        self._taken = taken

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            root_path = self._find(scope)
        except ValueError as error:
            await refuse(400, f"X-Forwarded-Prefix: {error}", "Correct it in the proxy.")(scope, receive, send)
            return

        async def send_below(message: Message) -> None:
            if message["type"] == "http.response.start" and root_path:
                headers = MutableHeaders(scope=message)
                target = headers.get("location", "")
                if target.startswith("/") and not target.startswith("//"):
                    headers["location"] = f"{root_path}{target}"
            await send(message)

        await self._app(_strip(scope, root_path), receive, send_below)

    def _find(self, scope: Scope) -> str:
        given = Headers(scope=scope).getlist(HEADER) if self._reads_header else []
        if len(given) > 1:
            raise ValueError("it is given more than once")
        return read_root_path(given[0], self._taken) if given else self._root_path


def _strip(scope: Scope, root_path: str) -> Scope:
    """The request without the root path, which some proxies leave in its path."""
    below: Scope = {**scope, _KEY: root_path}
    if root_path and f"{scope['path']}/".startswith(f"{root_path}/"):
        raw = scope.get("raw_path")
        below["path"] = scope["path"][len(root_path) :] or "/"
        below["raw_path"] = raw[len(root_path) :] or b"/" if raw is not None else None
    return below
