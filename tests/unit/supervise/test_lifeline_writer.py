"""The writer of a lifeline never waits, and loses nothing that a slow node reads later."""

import json
import os
from collections.abc import Iterator
from typing import IO

import pytest

from engine.processes.child import LifelineWriter


@pytest.fixture
def pipe() -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as read, os.fdopen(writer, "wb") as write:
        yield read, write


def test_what_the_pipe_does_not_take_is_written_later(pipe: tuple[IO[bytes], IO[bytes]]) -> None:
    read, write = pipe
    lifeline = LifelineWriter(write)
    entries = [(f"{n:032x}", "x" * 1000) for n in range(2500)]
    lifeline.send_secrets(entries)
    assert not lifeline.is_flushed
    received = b""
    while not lifeline.is_flushed:
        received += os.read(read.fileno(), 1_000_000)
        lifeline.flush()
    write.close()
    received += read.read()
    messages = [json.loads(line)["secrets"] for line in received.splitlines()]
    assert [len(message) for message in messages] == [1000, 1000, 500]
    assert {id_: text for message in messages for id_, text in message.items()} == dict(entries)


def test_a_line_break_in_a_secret_does_not_end_its_message(pipe: tuple[IO[bytes], IO[bytes]]) -> None:
    LifelineWriter(pipe[1]).send_secrets([("a", "one\ntwo \u00fc\ud800")])
    assert json.loads(pipe[0].readline()) == {"secrets": {"a": "one\ntwo \u00fc\ud800"}}


def test_completeness_follows_the_secrets_before_it(pipe: tuple[IO[bytes], IO[bytes]]) -> None:
    lifeline = LifelineWriter(pipe[1])
    lifeline.send_secrets([("a", "b")])
    lifeline.send_completeness()
    assert [json.loads(pipe[0].readline()) for _ in range(2)] == [{"secrets": {"a": "b"}}, {"complete": True}]


def test_nothing_to_send_writes_nothing(pipe: tuple[IO[bytes], IO[bytes]]) -> None:
    LifelineWriter(pipe[1]).send_secrets([])
    pipe[1].close()
    assert pipe[0].read() == b""


def test_a_node_that_died_stops_nothing(pipe: tuple[IO[bytes], IO[bytes]]) -> None:
    lifeline = LifelineWriter(pipe[1])
    pipe[0].close()
    lifeline.send_secrets([("a", "b")])
    assert lifeline.is_flushed
