"""A PostgreSQL that says that it starts is waited for at the end of a run; one that is away is not."""

import socket
import struct
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from crawl_engine.append.loop import turns
from crawl_engine.append.loop.turns import OutputFailed, OutputRetries, TurnResult, run_turns
from crawl_engine.append.send.postgres import PostgresTarget

_STARTING = "the database system is not yet accepting connections"


@pytest.fixture
def refusal() -> Iterator[tuple[str, list[str]]]:
    """A server that refuses every connection: its URL, and what it says."""
    said = [_STARTING]
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    while (message := connection.recv(1_000)) and message[4:8] in (b"\x04\xd2\x16/", b"\x04\xd2\x160"):
                        connection.sendall(b"N")  # neither TLS nor GSSAPI
                    fields = f"SFATAL\0VFATAL\0C57P03\0M{said[0]}\0\0".encode()
                    connection.sendall(b"E" + struct.pack("!i", len(fields) + 4) + fields)

        threading.Thread(target=answer, daemon=True).start()
        yield f"postgresql://me@127.0.0.1:{server.getsockname()[1]}/shop", said


def test_a_server_that_starts_is_told_from_one_that_stops(refusal: tuple[str, list[str]]) -> None:
    pytest.importorskip("psycopg")
    url, said = refusal
    target = PostgresTarget(url, {}, None, epoch=1, limit=5.0, stop=SimpleNamespace(supervisor_gone=False))  # type: ignore[arg-type]
    for text, starting in ((_STARTING, True), ("the database system is starting up", True), ("shutting down", False)):
        said[0] = text
        with pytest.raises(OutputFailed) as failed:
            target.deliver(None, "book")  # type: ignore[arg-type]
        assert (text in failed.value.message, failed.value.starting) == (True, starting)


@pytest.mark.parametrize(("starting", "attempts"), [(True, 40), (False, 16)])
def test_the_end_of_a_run_waits_for_a_server_that_starts(
    monkeypatch: pytest.MonkeyPatch, starting: bool, attempts: int
) -> None:
    now = [0.0]
    monkeypatch.setattr(turns.time, "monotonic", lambda: now[0])
    stop = SimpleNamespace(supervisor_gone=False, draining=True)
    monitor = SimpleNamespace(tick=lambda: None, pause=lambda seconds: None, problem="", state="")
    loop: Any = SimpleNamespace(monitor=monitor, stop=stop, give_up_seconds=15.0, db=None)
    retries = OutputRetries(loop, backoff=True)
    output: Any = SimpleNamespace(id=1, error="it starts")
    seen = []

    class Delivering:
        def run_turn(self) -> TurnResult:
            now[0] += 1.0
            seen.append(now[0])
            if len(seen) == 40:  # it has started, and took the rows
                retries._retry_at.clear()
                return TurnResult.IDLE
            retries.add(output, "db/book", "it starts", starting=starting)
            return TurnResult.BLOCKED

    run_turns(Delivering(), retries, loop)
    assert len(seen) == attempts
