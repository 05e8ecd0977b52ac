"""Starts, asks and ends the process of a plugin encoder or appender, within a time limit."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct

from crawl_engine.append.loop.lifeline import StopSignal
from crawl_engine.append.loop.turns import OutputFailed, SupervisorGone
from crawl_engine.append.send.output_process import OutputProcess
from crawl_engine.errors import reason_of
from crawl_engine.model.step import PluginFile
from crawl_engine.plugins.files import encode_files
from crawl_engine.processes.launcher import TemplateLink, TemplateLost
from crawl_engine.processes.orders import ProcessKind
from crawl_engine.processes.worker import Question, Worker, WorkerEnded

START_SECONDS = 20.0
"""Seconds for the start of the interpreter and the creation of the class, besides its limit."""
CLOSE_SECONDS = 5.0
MAX_ANSWER_BYTES = 256_000_000
_KEPT_SHARE = 0.5
"""Part of its memory that a process may hold between two requests; then it is replaced."""
_KIND = ProcessKind("crawl_engine.append.send.class_host:main", "output", leads_session=True)

_log = logging.getLogger("appender")


class ClassSpec(Struct, frozen=True, kw_only=True):
    """What a plugin class is created with."""

    name: str
    kind: str
    """`encoder` or `appender`."""
    options: Mapping[str, Any]
    data_defs: Mapping[str, Mapping[str, Any]]
    """By dataDef: `columns`, `types` and `item_types`."""
    limit: float
    """Seconds for one request."""
    memory: int
    """Bytes by which the memory of the process may grow."""


class ClassProcess:
    """The process of one class, started when it is needed. After a failure the next request starts another one."""

    def __init__(
        self, spec: ClassSpec, link: TemplateLink, output: str, load_files: Callable[[], Sequence[PluginFile]],
        stop: StopSignal,
    ) -> None:  # fmt: skip
        """`load_files`: reads the plugin files of the defs in force; called at each start."""
        self._spec = spec
        self._output = output
        self._load_files = load_files
        self._stop = stop
        self._process = OutputProcess[Worker](link, stop)
        self._header = b""
        self.has_footer = False
        """Whether an encoder has the method `footer`. Known once it was started."""
        self._in_file = False
        """Whether its process has encoded rows of a file that gets a footer."""

    def header(self) -> bytes:
        """The first bytes of an encoder's file; each file with a footer has an instance of its own.

        Raises OutputFailed, SupervisorGone.
        """
        if self._in_file:
            self.close()
        self._ensure_started()
        return self._header

    def ask(self, operation: str, lines: Sequence[bytes], data_def: str = "") -> bytes:
        """Have the class encode or append rows. Raises OutputFailed, SupervisorGone."""
        self._ensure_started()
        header = {"operation": operation, "data_def": data_def}
        rss, answer = self._request(header, b"\n".join(lines), self._spec.limit)
        self._in_file = self.has_footer
        if rss > self._spec.memory * _KEPT_SHARE and not self._in_file:
            _log.info("%s: its process holds %.0f MB and is replaced", self._output, rss / 1e6)
            self.close()
        return answer

    def footer(self) -> bytes:
        """The last bytes of an encoder's file. Raises OutputFailed, SupervisorGone."""
        footer = self.ask("footer", [])
        self.close()
        return footer

    def close(self) -> None:
        """Let the class release what it holds, and end the process; may be called again."""
        if self._process.current is not None and not self._stop.supervisor_gone:
            try:
                self._request({"operation": "close"}, b"", min(self._spec.limit, CLOSE_SECONDS))
            except OutputFailed as error:
                _log.warning("%s: `close`: %s", self._output, error.message)
            except SupervisorGone:
                pass
        self._end()

    def _ensure_started(self) -> None:
        if self._process.has_ended:
            in_file = self._in_file
            self._end()
            if in_file:
                raise OutputFailed("its process ended before the footer of the file")
        if self._process.current is not None:
            return
        files = self._load_files()
        try:
            self._process.start(lambda launcher: Worker(launcher, _KIND, max_bytes=MAX_ANSWER_BYTES))
        except (OSError, TemplateLost) as error:
            raise OutputFailed(
                f"its process cannot be started: {reason_of(error)}", "Free memory or processes."
            ) from error
        spec = self._spec
        header = {
            "operation": "create", "class": spec.name, "kind": spec.kind, "options": dict(spec.options),
            "data_defs": {name: dict(fields) for name, fields in spec.data_defs.items()}, "memory": spec.memory,
        }  # fmt: skip
        _, self._header = self._request(header, encode_files(files), spec.limit, START_SECONDS)

    def _request(self, header: dict[str, Any], body: bytes, limit: float, more: float = 0.0) -> tuple[int, bytes]:
        """Send one request; returns the resident bytes of the process and the answer. A failure ends the process."""
        worker = self._process.current
        assert worker is not None
        question = Question(header, body, seconds=limit + more, read=lambda header, body: (bytes(header), bytes(body)))
        try:
            answer, content = self._process.run(worker.ask(question))
            fields = orjson.loads(answer)
            if error := fields.get("error"):
                raise OutputFailed(str(error))
        except WorkerEnded as end:
            self._end()
            text = f"it took longer than its limit of {limit:g} s; its process was ended" if end.is_late else str(end)
            if worker.is_broken:
                text = f"it gave more than {MAX_ANSWER_BYTES / 1e6:,.0f} MB for one batch"
            raise OutputFailed(text) from None
        except BaseException:
            self._end()  # what it left half done is lost with it
            raise
        self.has_footer = fields.get("footer", self.has_footer)
        return int(fields["rss"]), content

    def _end(self) -> None:
        self._process.end()
        self._in_file = False
