"""The receiving side of an extraction process: memory is returned while nothing arrives, and answers may wait."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from crawl_engine.node.extraction import inbox as inbox_module
from crawl_engine.node.extraction.inbox import Inbox
from crawl_engine.processes.frames import PREFIX

_HEADER = PREFIX.pack(7, 2, 0) + b"{}"


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    node, process = socket.socketpair()
    with node, process:
        yield node, process


def test_an_answer_waits_for_the_node_after_a_large_page(ends: tuple[socket.socket, socket.socket]) -> None:
    node, process = ends
    inbox = Inbox(process)
    inbox.trim_when_idle()
    node.sendall(_HEADER)
    assert inbox.read_header() == (7, {}, 0)
    answer = bytes(5_000_000)
    received = bytearray()

    def read_late() -> None:
        time.sleep(0.5)
        while len(received) < len(answer):
            received.extend(node.recv(1_000_000))

    reader = threading.Thread(target=read_late)
    reader.start()
    process.sendall(answer)
    reader.join()
    assert len(received) == len(answer)


def test_memory_is_returned_once_nothing_has_arrived_for_a_moment(
    ends: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    node, process = ends
    trims: list[float] = []
    monkeypatch.setattr(inbox_module, "trim_heap", lambda: trims.append(time.monotonic()))
    inbox = Inbox(process)
    inbox.trim_when_idle()
    node.sendall(_HEADER)
    assert inbox.read_header() == (7, {}, 0)
    assert trims == []
    threading.Timer(0.6, node.sendall, [_HEADER]).start()
    assert inbox.read_header() == (7, {}, 0)
    assert len(trims) == 1
