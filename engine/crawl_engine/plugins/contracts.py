"""The contracts of plugin classes: one small protocol for each kind."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from crawl_engine.plugins.plugin_errors import NotApplicable as NotApplicable
from crawl_engine.plugins.plugin_errors import StepError as StepError

Row = dict[str, Any]
"""A record by field: texts, numbers, `Decimal`, bools, lists and objects; None where a value is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A fetched page, as a Parser gets it."""

    url: str
    status: int
    content_type: str
    body: bytes
    """Without its content encoding."""
    fetched_at: float
    """Seconds since 1970."""

    @property
    def text(self) -> str:
        """The body as UTF-8 text, with replacements for invalid bytes."""
        return self.body.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """A request that a Loader answers."""

    url: str
    method: str = "GET"
    headers: Mapping[str, str]
    body: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageResponse:
    """The answer of a Loader."""

    body: bytes
    url: str | None = None
    """The URL after redirects; None: that of the request."""
    status: int = 200
    headers: Mapping[str, str] | None = None


class StepStore(Protocol):
    """Values that the steps of a run share. Writes are part of the job's commit, and lost with it."""

    def get(self, key: str, default: Any = None) -> Any:
        """The JSON value of a key, or `default`."""

    def set(self, key: str, value: Any) -> None:
        """Store a JSON value of at most 64 kB."""


class StepContext(Protocol):
    """What a class can read about the page it works on, and what it can report."""

    url: str
    """Of the page, after redirects."""
    status: int
    fetched_at: float
    """Seconds since 1970."""
    group: str
    task: str
    data_def: str
    locator: str
    depth: int
    """0 for a locator's own page."""
    run: str
    """The id of the run."""
    fields: tuple[str, ...]
    """The fields of the dataDef, in written order."""

    @property
    def store(self) -> StepStore:
        """Values that the steps of a run share."""

    def warning(self, text: str, code: str = "") -> None:
        """Record a warning; the rows stay."""

    def follow(self, url: str, group: str | None = None) -> None:
        """Make the page of this URL (relative ones are joined to the page's) a job of the group; None: of this one."""

    def checkpoint(self, key: str | None = None) -> str | None:
        """Store a text at once, for the next attempt at this job. Without a text: return the stored one."""


class Step(Protocol):
    """Changes the rows of a page."""

    def run(self, rows: list[Row], context: StepContext) -> "list[Row] | Awaitable[list[Row]]":
        """The new rows. May be `async`. Raises NotApplicable, StepError."""


class Parser(Protocol):
    """Makes the rows of a page, in place of the selectors of the dataDef."""

    def parse(self, document: Document, context: StepContext) -> "list[Row] | Awaitable[list[Row]]":
        """The rows of the page. May be `async`. Raises NotApplicable (no rows), StepError."""


class Converter(Protocol):
    """Converts the text of a field, after `match` and before `type`."""

    def convert(self, value: str, context: StepContext) -> Any:
        """The value; None or an empty text count as missing. May be `async`. Raises StepError to reject the record."""


class LoadContext(Protocol):
    """What a Loader can read about the page that it loads, and what it can report."""

    url: str
    group: str
    task: str
    """The first task of the group that uses the loader."""
    locator: str
    depth: int
    """0 for a locator's own page."""
    run: str
    """The id of the run."""
    attempt: int
    """1 for the first attempt at the page."""

    def warning(self, text: str, code: str = "") -> None:
        """Record a warning; the response stays."""


class Loader(Protocol):
    """Fetches the pages of a group in place of the built-in client."""

    def load(self, request: PageRequest, context: LoadContext) -> "PageResponse | Awaitable[PageResponse]":
        """The response. May be `async`. An exception is a failed attempt, and retried.

        Raises StepError (the job becomes FAILED at once), NotApplicable (the built-in client fetches the page).
        """


class Middleware(Protocol):
    """Stands around the requests for the pages of a host. Requests and responses are those of httpx."""

    async def handle(self, request: Any, send: Callable[[Any], Awaitable[Any]]) -> Any:
        """The `httpx.Response` to an `httpx.Request`: that of `await send(request)`, or one of its own.

        Each `send` waits for its turn at the host. An exception fails the job.
        """


class Encoder(Protocol):
    """Makes the bytes of an output file of its own type.

    The class attribute `suffix`, a literal text, is the end of the file's name; `out` without it.
    """

    def header(self, columns: tuple[str, ...]) -> "bytes | Awaitable[bytes]":
        """The first bytes of the file, always the same for the same columns. Called once, before all rows."""

    def encode(self, rows: list[Row]) -> "bytes | Awaitable[bytes]":
        """The bytes of these rows, appended to the file. May be `async`.

        If a call raises, its rows are encoded again later, by a new instance.
        """

    def footer(self) -> "bytes | Awaitable[bytes]":
        """The last bytes of the file. Optional: with it the file is written whole, each time by a new instance."""


class Appender(Protocol):
    """Writes rows to a destination of its own."""

    def append(self, rows: Iterable[Mapping[str, Any]]) -> "Awaitable[None] | None":
        """Write these rows durably: `{"id", "run", "dataDef", "row"}`, or `{"id", "run", "dataDef", "deleted": true}`.

        May be `async`. If it raises, a new instance gets the same rows later.
        """

    def close(self) -> "Awaitable[None] | None":
        """Release its resources. Optional."""
