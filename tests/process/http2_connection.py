"""The server's side of one HTTP/2 connection in tests: requests, responses of any size, and raw frames."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

Headers = Sequence[tuple[str, str]]


class Http2Stream:
    """One request, and what answers it."""

    def __init__(self, connection: "Http2Connection", number: int, headers: dict[str, str]) -> None:
        self.connection = connection
        self.number = number
        self.headers = headers
        self.body = b""

    @property
    def method(self) -> str:
        return self.headers[":method"]

    @property
    def path(self) -> str:
        return self.headers[":path"]

    async def send_head(self, headers: Headers, *, end: bool = False) -> None:
        self.connection.state.send_headers(self.number, headers, end_stream=end)
        await self.connection.flush()

    async def send_data(self, data: bytes, *, end: bool = False) -> None:
        """Send bytes as the window of the client allows. Raises OSError when the connection is gone."""
        state = self.connection.state
        while data:
            room = min(state.local_flow_control_window(self.number), state.max_outbound_frame_size)
            if room <= 0:
                await self.connection.wait_for_window()
                continue
            piece, data = data[:room], data[room:]
            state.send_data(self.number, piece)
            await self.connection.flush()
        if end:
            state.end_stream(self.number)
            await self.connection.flush()


Respond = Callable[[Http2Stream], Awaitable[None]]


class Http2Connection:
    """Calls `respond` for each complete request, in a task of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, respond: Respond) -> None:
        self.reader = reader
        self.writer = writer
        self._respond = respond
        # what a test sends may be wrong on purpose
        self.state = h2.connection.H2Connection(
            h2.config.H2Configuration(
                client_side=False, header_encoding="latin-1", validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )  # fmt: skip
        self._streams: dict[int, Http2Stream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._window = asyncio.Event()

    async def serve(self) -> None:
        """Serve until the client closes the connection."""
        self.state.initiate_connection()
        await self.flush()
        try:
            while data := await self.reader.read(65_536):
                for event in self.state.receive_data(data):
                    self._handle(event)
                await self.flush()
        except (OSError, h2.exceptions.ProtocolError):
            pass
        finally:
            for task in self._tasks:
                task.cancel()
            self.writer.close()

    async def flush(self) -> None:
        self.writer.write(self.state.data_to_send())
        await self.writer.drain()

    async def wait_for_window(self) -> None:
        if self.writer.is_closing():
            raise ConnectionResetError
        self._window.clear()
        await self._window.wait()

    def _handle(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived():
                self._streams[event.stream_id] = Http2Stream(self, event.stream_id, dict(event.headers))  # type: ignore[arg-type]
            case h2.events.DataReceived():
                self._streams[event.stream_id].body += event.data
                self.state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.StreamEnded():
                task = asyncio.ensure_future(self._answer(self._streams[event.stream_id]))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            case h2.events.WindowUpdated() | h2.events.RemoteSettingsChanged():
                self._window.set()

    async def _answer(self, stream: Http2Stream) -> None:
        try:
            await self._respond(stream)
        except (OSError, h2.exceptions.ProtocolError):  # the client has closed the stream or the connection
            self.writer.close()


def frame(kind: int, payload: bytes = b"", *, flags: int = 0, stream: int = 0) -> bytes:
    """One raw frame."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload
