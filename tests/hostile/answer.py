"""A hostile answer: what it sends, what the defs extract from it, and how long its job may take."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal

MAX_BODY = 10_000_000
"""The default setting, bytes."""
CRAWL_SETTINGS = {"deadline": "5", "max_attempts": "1", "parse_limit": "3"}
"""Settings of every crawl, so that the limits of a hostile job are reached soon."""


class Connection:
    """One request of the crawl, and the raw socket on which it is answered."""

    def __init__(self, path: str, writer: asyncio.StreamWriter, bodies: "dict[MakeBody, bytes]") -> None:
        self.path = path
        self.writer = writer
        self._bodies = bodies

    async def make(self, body: "MakeBody") -> bytes:
        """The body; if it was not prepared, it is made in another thread."""
        made = self._bodies.get(body)
        return await asyncio.to_thread(make_body, body) if made is None else made

    async def send(self, data: bytes) -> None:
        """Raw bytes. Raises OSError when the crawl has closed the connection."""
        self.writer.write(data)
        await self.writer.drain()

    async def respond(
        self,
        body: bytes = b"",
        content_type: str = "text/html; charset=utf-8",
        *,
        status: str = "200 OK",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """A whole response that closes the connection."""
        lines = {"Content-Type": content_type, "Content-Length": str(len(body)), "Connection": "close"}
        head = "".join(f"{name}: {value}\r\n" for name, value in (lines | dict(headers or {})).items())
        await self.send(f"HTTP/1.1 {status}\r\n{head}\r\n".encode("latin-1") + body)

    def reset(self) -> None:
        """Close with RST instead of FIN."""
        self.writer.transport.abort()


MakeBody = Callable[[], bytes | str]
Send = Callable[[Connection], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HostileAnswer:
    """`fields`, `query` and `links` are YAML of the dataDef that is applied to it; without `fields` it is a table."""

    name: str
    send: Send
    body: MakeBody | None = None
    """Makes what it sends, before the crawl, since that may take seconds; None: it sends small parts of its own."""
    fields: str = "{b: {selector: b}, text: {selector: body}}"
    query: str = ""
    links: str = "[]"
    more: str = ""
    """A further key of the dataDef, with its value."""
    locator: Literal["url", "sitemap"] = "url"
    robots: bool = False
    """Whether it is the robots.txt of its host."""
    settings: Mapping[str, str] | None = None
    """On top of `CRAWL_SETTINGS`."""
    slow: bool = False
    """Whether its sending takes up the deadline of a request."""

    @property
    def max_body(self) -> int:
        """Bytes that its body may have."""
        return int((self.settings or {}).get("max_body", MAX_BODY))

    @property
    def limit(self) -> float:
        """Seconds from the request to the end of its job."""
        return float(CRAWL_SETTINGS["deadline" if self.slow else "parse_limit"])


def make_body(body: MakeBody) -> bytes:
    """The body as bytes."""
    made = body()
    return made.encode() if isinstance(made, str) else made


def page(
    name: str,
    body: MakeBody,
    content_type: str = "text/html; charset=utf-8",
    *,
    fields: str = "{b: {selector: b}, text: {selector: body}}",
    query: str = "",
    links: str = "[]",
    more: str = "",
    locator: Literal["url", "sitemap"] = "url",
    robots: bool = False,
    settings: Mapping[str, str] | None = None,
) -> HostileAnswer:
    """An answer that is correct HTTP; its body is made when it is asked for."""

    async def send(connection: Connection) -> None:
        await connection.respond(await connection.make(body), content_type)

    return HostileAnswer(
        name=name, send=send, body=body, fields=fields, query=query, links=links, more=more, locator=locator,
        robots=robots, settings=settings,
    )  # fmt: skip


def selected(selector: str, **more: str) -> str:
    """The YAML of one field `f` with a selector and further keys."""
    keys = "".join(f", {key}: {value}" for key, value in more.items())
    return f"{{f: {{selector: '{selector}'{keys}}}}}"
