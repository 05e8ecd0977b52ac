"""When messages are sent, and what is gathered meanwhile: begun, healed, flapping and acknowledged alarms."""

import json
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from crawl_console.notify import notifier as notifier_module
from crawl_console.notify.message import EndedRun
from crawl_console.notify.notifier import Notifier
from crawl_engine.model.run import Alarm

SLOW = Alarm("failing-requests", "a.example fails", host="a.example:80", since=1000.0)
EMPTY = Alarm("empty-field", "book.isbn empty", data_def="book", field="isbn", since=1010.0)


class Sent:
    """A child that ends at once, unless `ends` is false."""

    texts: list[dict[str, object]]
    ends = True

    def __init__(self, setting: str, command: object, text: str, data: Path, *, seconds: float) -> None:
        assert setting == "notify"
        self.failure: str | None = None
        self.seconds = seconds
        Sent.texts.append(json.loads(text))

    def has_ended(self) -> bool:
        return Sent.ends

    def kill(self, reason: str) -> None:
        self.failure = reason
        Sent.ends = True


class Clock:
    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return 1000.0 + self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    Sent.texts, Sent.ends = [], True
    clock = Clock()
    monkeypatch.setattr(notifier_module, "UserCommand", Sent)
    monkeypatch.setattr(notifier_module, "time", clock)
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    return clock


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def teller(clock: Clock, said: list[str]) -> Notifier:
    return Notifier(["json://h/"], Path("/srv/shop/data"), "3f2a", said.append)


def start(teller: Notifier, clock: Clock) -> None:
    """Have a first message sent."""
    teller.check([SLOW])
    assert Sent.texts == []
    clock.now = 105.0
    teller.check([SLOW])


def bodies() -> list[object]:
    return [text["body"] for text in Sent.texts]


def test_one_message_a_minute(teller: Notifier, clock: Clock) -> None:
    start(teller, clock)
    assert [(text["title"], text["level"]) for text in Sent.texts] == [("shop: 00:16:40 a.example fails", "warning")]
    for second in range(1, 60):
        clock.now = 105.0 + second
        teller.check([SLOW, EMPTY])
    assert len(Sent.texts) == 1
    clock.now = 165.0
    teller.check([EMPTY])
    assert len(Sent.texts) == 2
    assert bodies()[1] == "00:16:50 book.isbn empty\n00:19:25 healed after 00:02:45: a.example fails"
    assert Sent.texts[1]["title"] == "shop: 1 alarm"


def test_an_alarm_that_began_and_healed_in_the_same_minute_is_one_line(teller: Notifier, clock: Clock) -> None:
    start(teller, clock)
    teller.check([SLOW, EMPTY])
    teller.check([SLOW])
    clock.now = 170.0
    teller.check([SLOW])
    assert Sent.texts[1]["level"] == "success"
    assert str(bodies()[1]).count("book.isbn empty") == 1


def test_an_acknowledged_alarm_is_quiet(teller: Notifier, clock: Clock) -> None:
    teller.check([replace(SLOW, acknowledged=True)])
    clock.now = 200.0
    teller.check([])
    assert Sent.texts == []


def test_nothing_is_sent_while_a_child_sends(teller: Notifier, clock: Clock) -> None:
    start(teller, clock)
    Sent.ends = False
    clock.now = 200.0
    teller.check([SLOW, EMPTY])
    assert len(Sent.texts) == 1


def test_the_end_is_told_at_once_with_what_is_gathered(teller: Notifier, clock: Clock, said: list[str]) -> None:
    start(teller, clock)
    teller.check([SLOW, EMPTY])
    teller.finish(EndedRun(exit_code=3, reason="disk full"), signalled_for=None, interrupted=lambda: False)
    assert str(bodies()[1]).splitlines() == [
        "run 3f2a ended, exit 3: disk full", "00:16:50 book.isbn empty",
        "stood at the end, since 00:16:40: a.example fails",
    ]  # fmt: skip
    assert Sent.texts[1]["level"] == "failure"
    assert said == []


@pytest.mark.parametrize(("signalled_for", "waits"), [(None, 10.0), (2.0, 10.0), (25.0, 4.5), (60.0, 1.5)])
def test_a_receiver_that_hangs_is_given_up(
    teller: Notifier, clock: Clock, said: list[str], signalled_for: float | None, waits: float
) -> None:
    Sent.ends = False
    teller.finish(EndedRun(exit_code=143), signalled_for=signalled_for, interrupted=lambda: False)
    assert clock.now - 100.0 == pytest.approx(waits, abs=0.1)
    assert said == [f"killed after {waits:g} s"]


def test_a_further_signal_ends_the_wait(teller: Notifier, clock: Clock) -> None:
    Sent.ends = False
    teller.finish(EndedRun(exit_code=143), signalled_for=1.0, interrupted=lambda: clock.now > 101.0)
    assert clock.now < 102.0


def test_lines_are_limited_and_cleaned(teller: Notifier) -> None:
    for number in range(60):
        teller._healed.append(f"line {number}")
    teller._next_at = 0.0
    teller.check([])
    assert str(bodies()[0]).splitlines()[-1] == "… and 20 more lines"
    evil = replace(SLOW, text="a\x1b[31m http://u:secret@h/ b")
    teller._next_at = 0.0
    teller.check([evil])
    assert "\x1b" not in str(bodies()[-1])
    assert "secret" not in str(bodies()[-1])


def test_what_an_earlier_start_told_is_not_told_again(clock: Clock, said: list[str]) -> None:
    teller = Notifier(["json://h/"], Path("/srv/shop/data"), "3f2a", said.append, told=[SLOW, EMPTY])
    for second in range(130):
        clock.now = 100.0 + second
        teller.check([] if second < 9 else [SLOW])
    assert Sent.texts == [], "neither again, nor as healed: nobody saw the end of the other one"
    for clock.now in (300.0, 306.0):
        teller.check([])
    assert bodies() == ["00:21:40 healed after 00:05:00: a.example fails"]


def test_a_host_that_hangs_and_then_fails_has_one_trouble(teller: Notifier, clock: Clock) -> None:
    start(teller, clock)
    silent = replace(SLOW, code="host-silent", text="a.example is silent")
    for clock.now in (170.0, 300.0):
        teller.check([silent])
    assert len(Sent.texts) == 1
    many = Alarm("host-silent", "6 hosts are silent", count=6, members=(silent.key, "reach b.example:80"), since=1100.0)
    other = replace(silent, host="b.example:80")
    for now, found in ((301.0, [many]), (400.0, [silent, other]), (500.0, [])):
        for clock.now in (now, now + 6):
            teller.check(found)
    assert "healed" not in f"{bodies()[:-1]}"
    assert len(bodies()) == 3
