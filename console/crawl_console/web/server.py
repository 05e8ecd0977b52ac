"""Serves the application on a port and a Unix socket; ends what is slow, and itself by a signal."""

import asyncio
import contextlib
import errno
import ipaddress
import os
import resource
import signal
import socket
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from msgspec import Struct
from uvicorn.protocols.http.h11_impl import H11Protocol

from crawl_console.crawl.servers import remove_server
from crawl_console.web.access import Access
from crawl_console.web.app import OWN_PARTS, create_app
from crawl_console.web.root_path import read_root_path
from crawl_console.web.watch import Crawls, Watch, label_folders, name_folders
from crawl_engine.errors import StorageError, UsageError, plural

MAX_CLIENTS = 1_200
"""Connections at a time; further ones get 503."""
_MAX_FILES = 4_096
_REQUEST_SECONDS = 10.0
"""How long the head or the body of a request may take."""
_READ_SECONDS = 20.0
"""How long a client may leave its answer unread."""
_BUFFER_BYTES = 16_384
"""Of an answer that a client does not read yet: here, and as much again in the kernel."""
_MAX_NAME = 100
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ServeOptions(Struct, frozen=True):
    bind: str = "127.0.0.1"
    port: int = 8787
    socket: Path | None = None
    control: bool = False
    allowed_hosts: Sequence[str] = ()
    names: Sequence[str] = ()
    """Of the data dirs; empty: by their paths."""
    root_path: str = ""
    """The path of a proxy below which it is served."""
    reads_prefix: bool = False
    """Whether the proxy says it, in `X-Forwarded-Prefix`."""


def run(folders: Sequence[Path], token: Callable[[], str], options: ServeOptions, say: Callable[[str], None]) -> None:
    """Serve data dirs until a signal. `token`: the one of this moment. `say` gets each address. Raises CrawlError."""
    try:
        root_path = read_root_path(options.root_path, OWN_PARTS)
    except ValueError as error:
        raise UsageError(f"--root-path {options.root_path}: {error}") from None
    _raise_file_limit()
    for folder in folders:
        remove_server(folder)  # those that were killed
    crawls = Crawls({watch.name: watch for watch in _watch(folders, options.names)}, options.control)
    listener = _listen(options.bind, options.port)
    port = listener.getsockname()[1]
    sockets = [listener]
    url = f"http://{_in_url(options.bind)}:{port}"
    say(url)
    if options.socket is not None:
        sockets.append(_listen_locally(options.socket))
        say(f"unix:{options.socket}")
    access = Access(token, port, {host.lower() for host in (options.bind, *options.allowed_hosts)})
    app = create_app(crawls, access, root_path, reads_prefix=options.reads_prefix)
    config = uvicorn.Config(
        app, loop="asyncio", http=_ClientProtocol, ws="none", lifespan="off", log_config=None,
        log_level="critical", access_log=False, proxy_headers=False, server_header=False,
        limit_concurrency=MAX_CLIENTS, timeout_keep_alive=5, timeout_graceful_shutdown=2,
    )  # fmt: skip
    try:
        _Server(config, crawls, access, url, options.socket).run(sockets)
    finally:
        if options.socket is not None:
            options.socket.unlink(missing_ok=True)


def _watch(folders: Sequence[Path], names: Sequence[str]) -> list[Watch]:
    """Raises UsageError if the names are not one for each folder."""
    if not names:
        named = zip(name_folders(folders).items(), label_folders(folders), strict=True)
        return [Watch(name, folder, label) for (name, folder), label in named]
    if len(names) != len(folders) or len(set(names)) < len(names):
        raise UsageError(
            f"--name: {len(set(names))} different names for {plural(len(folders), 'data directory')}",
            "Give each --data its own --name, in the same order.",
        )
    for name in names:
        if not (name.strip() == name and name.isprintable() and 0 < len(name) <= _MAX_NAME):
            raise UsageError(f"--name {name!r}: not a name", f"Write up to {_MAX_NAME} printable characters.")
    return [Watch(name, folder) for name, folder in zip(names, folders, strict=True)]


def is_loopback(bind: str) -> bool:
    """Whether only this machine reaches an address."""
    if bind == "localhost":
        return True
    try:
        return ipaddress.ip_address(bind).is_loopback
    except ValueError:
        return False


class _ClientProtocol(H11Protocol):
    """A connection that buffers little. Linux ends it if its client takes nothing for a while."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(_BUFFER_BYTES)
        client = transport.get_extra_info("socket")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
        if client.family != socket.AF_UNIX and hasattr(socket, "TCP_USER_TIMEOUT"):  # macOS has none
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(_READ_SECONDS * 1_000))


class _Server(uvicorn.Server):
    """Ends with exit code 0 by a signal, and connections whose clients neither ask nor read."""

    def __init__(
        self, config: uvicorn.Config, crawls: Crawls, access: Access, url: str, path: Path | None
    ) -> None:  # fmt: skip
        super().__init__(config)
        self._crawls = crawls
        self._access, self._token = access, access.token()
        self._places = url, None if path is None else str(path.absolute())
        self._stalls: dict[Any, tuple[str, float]] = {}
        """By connection: what it waits for, and since when."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        yield

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            self._end_stalled(time.monotonic())
            self._end_logins()
        if counter % 50 == 0:
            self._crawls.publish(*self._places)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._crawls.close()
        await super().shutdown(sockets)

    def _end_logins(self) -> None:
        """With another token, end the streams that the one before let in."""
        before, self._token = self._token, self._access.token()
        if before != self._token:
            for connection in list(self.server_state.connections):
                _end_answer(connection)

    def _end_stalled(self, now: float) -> None:
        stalls = {}
        for connection in self.server_state.connections:
            what = _stall_of(connection)
            if not what:
                continue
            before, since = self._stalls.get(connection, (what, now))
            stalls[connection] = what, since if before == what else now
            if now - stalls[connection][1] > (_READ_SECONDS if what == "read" else _REQUEST_SECONDS):
                connection.transport.abort()
        self._stalls = stalls


def _end_answer(connection: Any) -> None:
    """End a connection that is being answered; not one by the Unix socket, where nobody logs in."""
    cycle, client = connection.cycle, connection.transport.get_extra_info("socket")
    is_answered = cycle is not None and cycle.response_started and not cycle.response_complete
    if is_answered and client.family != socket.AF_UNIX:
        connection.transport.abort()


def _stall_of(connection: Any) -> str:
    """What a connection waits for: that its client reads, or sends the rest of its request; empty: neither."""
    if connection.flow.write_paused or connection.transport.is_closing():
        return "read"
    cycle = connection.cycle
    if cycle is None or cycle.response_complete or (cycle.more_body and not cycle.response_started):
        return "request"
    return ""


def _listen(bind: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(bind, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError) as error:
        raise UsageError(f"--bind {bind}: not an address of this machine", "Name one, such as 127.0.0.1.") from error
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise UsageError(f"port {port} of {bind} is in use", "Choose another one with --port.") from error
        raise UsageError(f"--bind {bind} --port {port}: {error.strerror}", "Choose others.") from error
    return listener


def _listen_locally(path: Path) -> socket.socket:
    """A Unix socket for its owner alone. One that a crash left is replaced."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        mode = None
    if mode is not None:
        if not stat.S_ISSOCK(mode):
            raise UsageError(f"--socket {path}: a file is there, and no socket", "Name another path.")
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1.0)
            try:
                probe.connect(str(path))
            except (ConnectionRefusedError, FileNotFoundError):
                path.unlink(missing_ok=True)
            except OSError as error:
                raise StorageError(f"--socket {path}: {error.strerror}", "Name another path.") from error
            else:
                raise UsageError(f"--socket {path}: another process serves it", "Name another path.")
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise UsageError(f"--socket {path}: {error.strerror or error}", "Name a path in a folder of yours.") from error
    finally:
        os.umask(before)
    listener.listen(128)
    return listener


def _in_url(bind: str) -> str:
    return f"[{bind}]" if ":" in bind else bind


def _raise_file_limit() -> None:
    """Each client takes a descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_FILES if hard == resource.RLIM_INFINITY else min(_MAX_FILES, hard)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
