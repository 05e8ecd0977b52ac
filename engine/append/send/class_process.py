"""Starts, asks and ends the process of a plugin encoder or appender, within a time limit."""

import contextlib
import logging
import selectors
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from engine.append.loop.lifeline import StopSignal
from engine.append.loop.turns import OutputFailed, SupervisorGone
from engine.errors import reason_of
from engine.model.step import PluginFile
from engine.plugins.files import encode_files
from engine.processes.frames import FrameTooLarge, encode_frame, receive_frame
from engine.processes.launcher import ForkedProcess, TemplateLink, TemplateLost

START_SECONDS = 20.0
"""Seconds for the start of the interpreter and the creation of the class, besides its limit."""
CLOSE_SECONDS = 5.0
MAX_ANSWER_BYTES = 256_000_000
_SLICE_SECONDS = 0.1
_KEPT_SHARE = 0.5
"""Part of its memory that a process may hold between two requests; then it is replaced."""

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
        self._link = link
        self._output = output
        self._load_files = load_files
        self._stop = stop
        self._process: ForkedProcess | None = None
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
        if self._process is not None and not self._stop.supervisor_gone:
            try:
                self._request({"operation": "close"}, b"", min(self._spec.limit, CLOSE_SECONDS))
            except OutputFailed as error:
                _log.warning("%s: `close`: %s", self._output, error.message)
            except SupervisorGone:
                pass
        self._kill()

    def _ensure_started(self) -> None:
        if self._process is not None and self._process.poll() is not None:
            in_file = self._in_file
            self._kill()  # it ended between two requests
            if in_file:
                raise OutputFailed("its process ended before the footer of the file")
        if self._process is not None:
            return
        files = self._load_files()
        try:
            self._process = ForkedProcess(self._link, "engine.append.send.class_host:main", "output", {}, {})
        except (OSError, TemplateLost) as error:
            raise OutputFailed(
                f"its process cannot be started: {reason_of(error)}", "Free memory or processes."
            ) from error
        self._process.connection.setblocking(False)
        spec = self._spec
        header = {
            "operation": "create", "class": spec.name, "kind": spec.kind, "options": dict(spec.options),
            "data_defs": {name: dict(fields) for name, fields in spec.data_defs.items()}, "memory": spec.memory,
        }  # fmt: skip
        _, self._header = self._request(header, encode_files(files), spec.limit, START_SECONDS)

    def _request(self, header: dict[str, Any], body: bytes, limit: float, more: float = 0.0) -> tuple[int, bytes]:
        """Send one request; returns the resident bytes of the process and the answer. A failure ends the process."""
        assert self._process is not None
        connection = _PatientSocket(self._process.connection, self._stop, time.monotonic() + limit + more)
        try:
            for piece in encode_frame(header, body):
                connection.sendall(piece)
            frame = receive_frame(connection.recv_into, MAX_ANSWER_BYTES)
        except TimeoutError:
            self._kill()
            raise OutputFailed(f"it took longer than its limit of {limit:g} s; its process was ended") from None
        except FrameTooLarge:
            self._kill()
            raise OutputFailed(f"it gave more than {MAX_ANSWER_BYTES / 1e6:,.0f} MB for one batch") from None
        except ConnectionError:
            frame = None
        except BaseException:
            self._kill()
            raise
        if frame is None:
            raise OutputFailed(self._describe_end())
        answer, content = frame
        if error := answer.get("error"):
            self._kill()  # what it left half done is lost with it
            raise OutputFailed(str(error))
        self.has_footer = answer.get("footer", self.has_footer)
        return int(answer["rss"]), content

    def _describe_end(self) -> str:
        assert self._process is not None
        ended = self._process.wait()
        self._kill()
        return "it closed the connection to its process" if ended is None else f"its process ended ({ended.cause})"

    def _kill(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None
        self._in_file = False


class _PatientSocket:
    """A socket that waits until a deadline. Its methods raise TimeoutError and SupervisorGone."""

    def __init__(self, connection: socket.socket, stop: StopSignal, deadline: float) -> None:
        self._connection = connection
        self._stop = stop
        self._deadline = deadline

    def sendall(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            self._wait(selectors.EVENT_WRITE)
            with contextlib.suppress(BlockingIOError):
                rest = rest[self._connection.send(rest) :]

    def recv_into(self, buffer: memoryview) -> int:
        while True:
            self._wait(selectors.EVENT_READ)
            with contextlib.suppress(BlockingIOError):
                return self._connection.recv_into(buffer)

    def _wait(self, event: int) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._connection, event)
            while not selector.select(max(0.0, min(_SLICE_SECONDS, self._deadline - time.monotonic()))):
                if self._stop.supervisor_gone:
                    raise SupervisorGone
                if time.monotonic() >= self._deadline:
                    raise TimeoutError
