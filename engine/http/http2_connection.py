"""An HTTP/2 connection of httpcore, for one request at a time: it checks heads, and completes what a GOAWAY allows."""

from typing import Any

import h2.config
import h2.connection
import h2.errors
import h2.events
import httpcore

_GOAWAY = h2.connection.ConnectionInputs.RECV_GOAWAY
_KEEPS_OPEN = {
    (state, _GOAWAY): (None, state)
    for state in (h2.connection.ConnectionState.IDLE, h2.connection.ConnectionState.CLIENT_OPEN)
}


class Http2Connection(httpcore.AsyncHTTP2Connection):
    """Overrides private parts of httpcore and h2: pyproject.toml bounds the versions, and tests send such frames."""

    CONFIG = h2.config.H2Configuration(validate_inbound_headers=True)
    """httpcore leaves the checks out: without a status, a response would count as 200."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        # h2 reads nothing after a GOAWAY, though streams up to the last one it names are completed (RFC 9113, 6.8)
        machine = self._h2_state.state_machine
        machine._transitions = {**machine._transitions, **_KEEPS_OPEN}
        self._is_draining = False

    @property
    def accepts_requests(self) -> bool:
        """Whether the server accepts a further request: it has sent no GOAWAY, and no limit of 0 streams."""
        return not self._is_draining and self._h2_state.remote_settings.max_concurrent_streams > 0

    async def _read_incoming_data(self, request: httpcore.Request) -> list[h2.events.Event]:
        events = await super()._read_incoming_data(request)
        return [event for event in events if not self._is_graceful(event)]

    def _is_graceful(self, event: h2.events.Event) -> bool:
        """Whether the event ends the connection after the response to its request."""
        if not isinstance(event, h2.events.ConnectionTerminated) or event.error_code != h2.errors.ErrorCodes.NO_ERROR:
            return False
        self._is_draining = True
        return event.last_stream_id is None or event.last_stream_id >= self._h2_state.highest_outbound_stream_id
