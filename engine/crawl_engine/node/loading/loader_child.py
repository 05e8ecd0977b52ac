"""The loader process: creates a plugin loader and has it load pages."""

import signal
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from crawl_engine.http.response import check_headers, check_status
from crawl_engine.node.extraction.steps.context import cut_text
from crawl_engine.node.loading.messages import (
    MAX_URL_CHARACTERS,
    Answer,
    Loaded,
    LoaderWarning,
    NotLoaded,
    Ready,
    encode_answer,
)
from crawl_engine.plugins.contracts import PageRequest, PageResponse
from crawl_engine.plugins.files import decode_files
from crawl_engine.plugins.loading import Awaiter, PluginLoader
from crawl_engine.plugins.plugin_errors import NotApplicable, PluginUnavailable, StepError, describe_error, error_text
from crawl_engine.processes.child_limits import become_first_victim
from crawl_engine.processes.frames import serve
from crawl_engine.processes.start import ChildStart
from crawl_engine.runtime import log_file

_DEFAULT_HEADERS = MappingProxyType({"content-type": "text/html; charset=utf-8"})


class RequestContext:
    """The `LoadContext` of one call."""

    def __init__(
        self, *, url: str, group: str, task: str, locator: str, depth: int, run: str, attempt: int
    ) -> None:  # fmt: skip
        """`attempt`: 1 for the first one."""
        self.url = url
        self.group = group
        self.task = task
        self.locator = locator
        self.depth = depth
        self.run = run
        self.attempt = attempt
        self._warnings: list[LoaderWarning] = []

    def warning(self, text: str, code: str = "") -> None:
        """Record a warning; the response stays."""
        self._warnings.append(LoaderWarning(cut_text(text), cut_text(code, 100)))

    @property
    def warnings(self) -> tuple[LoaderWarning, ...]:
        """What was recorded."""
        return tuple(self._warnings)


class LoaderChild:
    """A loader process: creates one loader, and has it load one page after another."""

    def __init__(self) -> None:
        self._loader: Any = None
        self._awaiter = Awaiter()

    def answer(self, header: dict[str, Any], body: bytes) -> tuple[bytes, bytes]:
        """The answer to a question of the node."""
        work = self._prepare if header["kind"] == "prepare" else self._load
        return encode_answer(work(header, body))

    def _prepare(self, header: Mapping[str, Any], body: bytes) -> Answer:
        try:
            self._loader = PluginLoader(decode_files(body)).create(header["class"], header["options"])
        except PluginUnavailable as error:
            return NotLoaded(kind="unavailable", text=cut_text(error), code="unavailable")
        except BaseException as error:  # plugin code may raise anything
            return NotLoaded(kind="error", text=cut_text(describe_error(error)), code=_code_of(error))
        return Ready()

    def _load(self, header: Mapping[str, Any], body: bytes) -> Answer:
        request = PageRequest(
            url=header["url"], method=header["method"], headers=header["headers"],
            body=body if header["has_body"] else None,
        )  # fmt: skip
        context = RequestContext(**header["context"])
        try:
            response = self._awaiter.finish(self._loader.load(request, context))
        except NotApplicable as reason:
            return NotLoaded(kind="not-applicable", text=cut_text(error_text(reason)))
        except StepError as error:
            return NotLoaded(kind="step", text=cut_text(error_text(error)), code=cut_text(error.code, 100))
        except BaseException as error:  # plugin code may raise anything
            return NotLoaded(kind="error", text=cut_text(describe_error(error)), code=_code_of(error))
        try:
            return _read_response(response, context, header["max_body"])
        except ValueError as error:
            return NotLoaded(kind="bad-response", text=cut_text(error), code="bad-response")
        except _TooLarge as error:
            return NotLoaded(kind="too-large", text=str(error), code="too-large")


class _TooLarge(Exception):
    """The body has more bytes than it may have."""


def _read_response(response: Any, context: RequestContext, max_body: int) -> Loaded:
    """The answer of a loader's response. Raises ValueError and _TooLarge."""
    if not isinstance(response, PageResponse):
        raise ValueError(f"`load` must return a PageResponse, not {type(response).__name__}")
    if not isinstance(response.body, bytes | bytearray | memoryview):
        raise ValueError(f"the body of a PageResponse must be bytes, not {type(response.body).__name__}")
    if len(response.body) > max_body:
        raise _TooLarge(f"body over {max_body} bytes (max_body)")
    if response.url is not None and (type(response.url) is not str or len(response.url) > MAX_URL_CHARACTERS):
        raise ValueError("the url of a PageResponse must be a text, or None")
    given = _DEFAULT_HEADERS if response.headers is None else response.headers
    if not isinstance(given, Mapping):
        raise ValueError("the headers of a PageResponse must be a mapping, or None")
    headers = check_headers(list(given.items()))
    if all(name != "content-type" for name, _ in headers):
        headers = (*headers, *_DEFAULT_HEADERS.items())
    return Loaded(
        url=None if response.url is None else response.url.encode("utf-8", "replace").decode(),
        status=check_status(response.status),
        headers=tuple((name, value.encode("utf-8", "replace").decode()) for name, value in headers),
        body=bytes(response.body),
        warnings=context.warnings,
    )


def _code_of(error: BaseException) -> str:
    return cut_text(type(error).__name__, 100)


def main(start: ChildStart) -> None:
    """Serve a node until it closes the socket. A helper that plugin code starts, such as a browser, ends with this."""
    log_file.log_to_stderr()
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)  # helpers inherit what is ignored
    become_first_victim()  # the node watches its memory: a limit of addresses would break the helpers
    serve(start.connect(), LoaderChild().answer)
