"""What a node and its browser processes tell each other about one page.

Scripts of pages run in a browser, so an answer of any unexpected form is `InvalidAnswer`.
"""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from crawl_engine.http.response import check_headers, check_status
from crawl_engine.model.step import RENDERED_FILES, BrowserRule
from crawl_engine.processes.frames import InvalidAnswer

MAX_TEXT = 64 * 1024
TLS = "TLS: "
"""Begins the reason where the certificate of a host is not accepted."""
MAX_COOKIES, MAX_NOTES = 1_000, 20
_Text = Annotated[str, Meta(max_length=MAX_TEXT)]
OTHER_BYTES = 4_000_000
"""Bytes of an answer besides the document, at most."""


class BrowserCookie(Struct, frozen=True, kw_only=True):
    """A cookie of a context, as DevTools name it."""

    name: _Text
    value: _Text
    domain: _Text
    path: _Text = "/"
    expires: float = -1.0
    """Unix time; -1: it ends with the session."""
    secure: bool = False
    http_only: bool = False

    def belongs_to(self, host: str) -> bool:
        """Whether the host may set it: its domain is that of the host, or above it."""
        if self.domain.startswith("."):
            return f".{host}".endswith(self.domain)
        return self.domain == host


class Visit(Struct, frozen=True, kw_only=True, tag="visit"):
    """Load one page, act on it, and give what it became."""

    url: str
    headers: tuple[tuple[str, str], ...]
    """Further ones, for the requests to the host of the page alone."""
    cookies: tuple[BrowserCookie, ...]
    agent: str
    """What follows the User-Agent of the browser."""
    rule: BrowserRule
    proxy: str
    """The address of the node's proxy."""
    key: str
    """The key of this page at the proxy."""
    seconds: float
    max_body: int
    max_file: int
    verify: bool
    """Whether the certificates of servers must be valid."""


class Launch(Struct, frozen=True, kw_only=True, tag="launch"):
    """Start the browser."""

    executable: str
    profiles: str
    """The folder of the profiles."""
    sandbox: bool
    seconds: float
    memory: int
    """Bytes that the browser may have while pages load; beyond them, its largest page is ended."""
    shows: bool = False
    """Whether it has windows, which stay open until it ends."""


class Quit(Struct, frozen=True, tag="quit"):
    """End the browser in order, and answer with `BrowserReady`."""


class GiveUp(Struct, frozen=True, tag="give up"):
    """End the page of this number: nobody waits for it any more. Its other pages stay."""


class May(Struct, frozen=True, kw_only=True, tag="may"):
    """Whether a page may ask for a URL. Answered by `Verdict`."""

    number: int
    """Of the question, among those of its page."""
    url: _Text
    is_document: bool
    """Whether the page, which has arrived, is left for it: a document of its host, which waits for its turn."""


class Verdict(Struct, frozen=True, tag="verdict"):
    """The answer to `May`."""

    refusal: _Text = ""
    """Why it may not; empty: it may."""
    is_for_host: bool = False
    """Whether that holds for all that the page asks of the host."""
    number: int = 0


class BrowserReady(Struct, frozen=True, tag="ready"):
    version: _Text


class MadeFile(Struct, frozen=True):
    """A file of a page. Its bytes come behind the document and the files before it."""

    name: _Text
    """As in RENDERED_FILES."""
    size: int = 0
    problem: _Text = ""
    """Why there is none."""


class Rendered(Struct, frozen=True, kw_only=True, tag="rendered"):
    """The document of a page; its bytes come beside, with those of its files."""

    url: _Text
    status: int
    headers: tuple[tuple[_Text, _Text], ...]
    """With names in lower case."""
    cookies: Annotated[tuple[BrowserCookie, ...], Meta(max_length=MAX_COOKIES)] = ()
    leads_to: _Text = ""
    """Where the page is left for, before it could be used: a redirect."""
    files: Annotated[tuple[MadeFile, ...], Meta(max_length=len(RENDERED_FILES))] = ()
    notes: Annotated[dict[_Text, _Text], Meta(max_length=MAX_NOTES)] = {}
    """What the page was refused, by reason."""
    memory: int = 0
    """Bytes that the browser and its driver have now; 0: unknown."""
    body: bytes = b""


class NotRendered(Struct, frozen=True, kw_only=True, tag="failed"):
    """Why there is no document."""

    text: _Text
    retryable: bool = True
    is_unanswered: bool = False
    """Whether no answer came for the document."""
    memory: int = 0
    is_broken: bool = False
    """Whether the browser must be replaced."""
    is_at_fault: bool = False
    """Whether it was ended for the sake of the others of its browser."""
    is_crashed: bool = False
    """Whether its process ended, perhaps for what other pages of its browser needed."""


Question = Launch | Visit | Verdict | GiveUp | Quit
Answer = BrowserReady | Rendered | NotRendered | May
_questions: msgspec.json.Decoder[Question] = msgspec.json.Decoder(Question)
_answers: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


def decode_question(header: bytes) -> Question:
    return _questions.decode(header)


def decode_answer(header: memoryview, body: memoryview, max_body: int) -> Answer:
    """The answer of a message. Raises only InvalidAnswer."""
    try:
        answer = _answers.decode(header)
        if not isinstance(answer, Rendered):
            return answer
        sizes = [one.size for one in answer.files]
        if min(sizes, default=0) < 0 or max(len(body) - sum(sizes), *sizes, 0) > max_body or sum(sizes) > len(body):
            raise InvalidAnswer("a document over the limit")
        check_status(answer.status)
        return msgspec.structs.replace(answer, headers=check_headers(answer.headers), body=bytes(body))
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidAnswer(f"{type(error).__name__}: {error}"[:200]) from error


def encode(message: Question | Answer) -> bytes:
    """The header of a message; the bytes of a document come beside."""
    if isinstance(message, Rendered):
        message = msgspec.structs.replace(message, body=b"")
    return msgspec.json.encode(message, enc_hook=dict)  # read-only mappings
