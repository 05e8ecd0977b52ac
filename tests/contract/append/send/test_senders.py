"""What senders do with one batch: acknowledgements in part, its key, texts of secrets."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from crawl_engine.append.loop.lifeline import Lifeline, LoopControl
from crawl_engine.append.loop.turns import OutputFailed, SupervisorGone
from crawl_engine.append.send.command_sender import CommandSender
from crawl_engine.append.send.delivery_batch import Change, DeliveryBatch
from crawl_engine.append.send.http_sender import HttpSender
from tests.contract.append.harness import books
from tests.contract.append.send.class_harness import ClassHarness, run_until_delivered
from tests.process.raw_server import serve_raw
from tests.process.receiver import Receiver
from tests.templates import template

ACK = "import json, sys\nfor line in sys.stdin:\n    i = json.loads(line)['id']\n    "


@pytest.fixture
def control() -> LoopControl:
    return LoopControl(Lifeline())


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    yield receiver
    receiver.die()


def batch(*ids: int) -> DeliveryBatch:
    lines = [json.dumps({"id": id_, "run": "r", "dataDef": "d", "row": {}}).encode() for id_ in ids]
    return DeliveryBatch([Change(id_, line) for id_, line in zip(ids, lines, strict=True)], ids[-1], 0)


def command(control: LoopControl, program: str, limit: float = 5) -> CommandSender:
    return CommandSender("x", template(), lambda: [sys.executable, "-c", program], limit=limit, stop=control)


def http(control: LoopControl, url: str, limit: float = 1, **headers: str) -> HttpSender:
    return HttpSender(url, headers, limit=limit, stop=control)


def failure(sender: CommandSender | HttpSender, sent: DeliveryBatch) -> OutputFailed:
    with closing(sender), pytest.raises(OutputFailed) as caught:
        sender.deliver(sent, "d")
    return caught.value


def test_one_acknowledgement_may_stand_for_all(control: LoopControl) -> None:
    program = ACK + "if i == 3: print(json.dumps({'ack': i}), flush=True)"
    with closing(command(control, program)) as sender:
        sender.deliver(batch(1, 2, 3), "d")


def test_a_program_that_answers_each_line_of_a_large_batch_is_read_meanwhile(control: LoopControl) -> None:
    program = ACK + "print(json.dumps({'ack': i, 'more': 'x' * 500}), flush=True)"
    with closing(command(control, program)) as sender:
        sender.deliver(batch(*range(1, 5_000)), "d")


@pytest.mark.parametrize(
    ("program", "delivered", "message"),
    [
        ("print(json.dumps({'ack': i}), flush=True)\n    if i == 2: sys.exit(4)", 2, "the program ended (exit 4)"),
        ("print(json.dumps({'ack': i if i < 3 else 99}), flush=True)", 2, "answered '{\"ack\": 99}', where"),
        ("print(json.dumps({'ack': str(i)}), flush=True)", 0, 'answered \'{"ack": "1"}\', where'),
        ("print('x' * 70_000, end='', flush=True)", 0, "answered 'xxx"),
        ("if i == 1: print(json.dumps({'ack': i}), flush=True)", 1, "gave no answer for its limit of 1 s"),
        ("sys.stdout.close(); import os; os.close(1); import time; time.sleep(9)", 0, "the program closed its output"),
    ],
)
def test_what_a_program_does_wrong(control: LoopControl, program: str, delivered: int, message: str) -> None:
    error = failure(command(control, ACK + program, limit=1), batch(1, 2, 3))
    assert error.message.startswith(message)
    assert error.delivered == delivered


def test_a_program_ends_with_its_input(control: LoopControl, tmp_path: Path) -> None:
    end = f"print(json.dumps({{'ack': i}}), flush=True)\nopen({str(tmp_path / 'end')!r}, 'w')"
    with closing(command(control, ACK + end)) as sender:
        sender.deliver(batch(1), "d")
    assert (tmp_path / "end").exists()


def test_a_slow_receiver_ends_at_the_limit_and_the_next_batch_arrives(control: LoopControl, receiver: Receiver) -> None:
    with closing(http(control, receiver.url, limit=0.3)) as sender:
        receiver.delay = 2.0
        began = time.monotonic()
        with pytest.raises(OutputFailed, match=r"took longer than its limit of 0.3 s"):
            sender.deliver(batch(1), "d")
        assert time.monotonic() - began < 1.5
        receiver.delay = 0.0
        sender.deliver(batch(2), "d")
        assert 2 in receiver.rows


def test_a_sender_stops_when_the_supervisor_is_gone(control: LoopControl, receiver: Receiver) -> None:
    control.stop()
    receiver.delay = 2.0
    with closing(http(control, receiver.url)) as sender, pytest.raises(SupervisorGone):
        sender.deliver(batch(1), "d")


@pytest.mark.parametrize(
    ("url", "headers", "message"),
    [
        ("http://127.0.0.1:1/", {}, "no connection"),
        ("http://%{env.NO_SUCH_HOST_X}/", {}, "environment variable NO_SUCH_HOST_X is not set"),
        ("http://[::1", {}, "cannot be sent: its URL is not valid"),
        ("http://127.0.0.1:pass-word/", {}, "cannot be sent: its URL is not valid"),
        ("http://127.0.0.1:1/", {"X": "%{file./no/such}"}, "%{file./no/such}: the file cannot be read"),
    ],
)
def test_why_a_batch_cannot_be_sent(control: LoopControl, url: str, headers: dict[str, str], message: str) -> None:
    assert failure(http(control, url, **headers), batch(1)).message.startswith(message)


def test_a_header_from_the_environment_with_a_line_break_sends_nothing(
    control: LoopControl, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("T", "a\r\nX-Evil: b")
    message = failure(http(control, receiver.url, X="%{env.T}"), batch(1)).message
    assert message == "cannot be sent: a header contains invalid characters"
    assert not receiver.bodies


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 401 Bad pass-word\r\nContent-Length: 0\r\n\r\n", "answered 401 Unauthorized: set what"),
        (b"pass-word\r\n\r\n", "the answer is not valid HTTP"),
        (b"HTTP/1.1 500 x\r\npass-word\0: y\r\n\r\n", "the answer is not valid HTTP"),
        (b"", "the connection ended without an answer"),
    ],
)
def test_what_a_receiver_repeats_is_not_said(control: LoopControl, answer: bytes, message: str) -> None:
    """It may be what it was sent, with the secrets."""
    with serve_raw(lambda path, connection: connection.sendall(answer)) as server:
        assert failure(http(control, server.url("/"), X="pass-word"), batch(1)).message.startswith(message)


def test_a_header_beyond_ascii_is_sent_as_utf_8(control: LoopControl, receiver: Receiver) -> None:
    with closing(http(control, receiver.url, X="schlüssel")) as sender:
        sender.deliver(batch(1), "d")
    assert receiver.bodies


def test_retry_after_holds_the_next_attempt_back(control: LoopControl, receiver: Receiver) -> None:
    for value, seconds in (("7", 7.0), ("999999", 600.0), ("soon", 0.0), ("Thu, 01 Jan 1970 00:00:00 GMT", 0.0)):
        receiver.answer = (503, {"Retry-After": value}, b"")
        assert failure(http(control, receiver.url), batch(1)).retry_after == seconds


class Partial:
    """Takes some changes, and then fails."""

    def __init__(self, taken: int) -> None:
        self.taken = taken
        self.got: list[list[str]] = []

    def deliver(self, sent: DeliveryBatch, data_def: str) -> None:
        assert data_def == "book"
        self.got.append([f"d{change.row}" if change.withdrawal else str(change.row) for change in sent.changes])
        if len(sent.changes) > self.taken:
            raise OutputFailed("full", delivered=self.taken)

    def close(self) -> None: ...


@pytest.mark.parametrize("taken", [1, 2, 4])
def test_what_was_acknowledged_is_not_sent_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
    """Rows and deletions: the position moves over those that were taken, and the rest comes in a batch of its own."""
    monkeypatch.setattr("crawl_engine.append.loop.turns.RETRY_SECONDS", 0.0)
    harness, target = ClassHarness(tmp_path), Partial(9)
    first = harness.add(books(2))
    with closing(harness.delivery_loop()) as loop:
        loop._target, loop._form = target, "x"
        monkeypatch.setattr(loop, "_target_for", lambda *_: target)
        run_until_delivered(loop)
        harness.add(books(2, start=5), job=first)
        harness.add(books(1, start=9))
        target.taken, target.got = taken, []
        run_until_delivered(loop)
    changes = ["d1", "d2", "3", "4", "5"]
    assert target.got == [changes[at:] for at in range(0, 5, taken)]
    assert harness.output("sink").rows == 3
    assert harness.output("sink").cursor == 5


def test_the_key_of_a_batch_is_a_hash_of_its_bytes(control: LoopControl, receiver: Receiver) -> None:
    with closing(http(control, receiver.url)) as sender:
        for sent in (batch(1, 2), batch(1, 2), batch(1)):
            sender.deliver(sent, "d")
    assert receiver.counts["posts"] == 3
    assert len(receiver.bodies) == 2
    assert not receiver.violations
