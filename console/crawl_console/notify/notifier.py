"""Tells receivers of a run: at most one message a minute about alarms, and its end at once."""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from crawl_console.alarm_book import AlarmBook
from crawl_console.format import project_name
from crawl_console.notify.message import (
    EndedRun,
    Message,
    describe_alarms,
    describe_begin,
    describe_end,
    describe_heal,
    describe_standing,
)
from crawl_console.notify.receivers import DEADLINE_SECONDS, SENDER, Order
from crawl_engine.model.run import Alarm
from crawl_engine.processes.user_command import UserCommand

_EVERY_SECONDS, _GATHER_SECONDS = 60.0, 5.0
"""Between two messages about alarms; and from the first line of one until it is sent: causes come in groups."""
_POLL_SECONDS = 0.02
_MIN_END_SECONDS, _STOP_SECONDS = 1.5, 29.5


class Notifier:
    """One child process a message. `check` never waits for it; `finish` does, up to the deadline of a message."""

    def __init__(
        self, urls: Sequence[str], data: Path, run_id: str, say: Callable[[str], None], told: Iterable[Alarm] = ()
    ) -> None:  # fmt: skip
        """`urls`: with their secrets. `say`: takes the text of a failure. `told`: alarms of an earlier start."""
        self._urls = list(urls)
        self._data = data
        self._project = project_name(data)
        self._run_id = run_id
        self._say = say
        self._book = AlarmBook()
        self._told = {alarm.key: alarm for alarm in told}
        """Alarms that last and are told, or gathered, by key."""
        self._earlier = set(self._told)
        """Those of an earlier start that this one has not seen: it knows nothing of their end."""
        self._earlier_until = time.monotonic() + _EVERY_SECONDS
        self._begun: dict[str, str] = {}
        """Lines about alarms that last, by key, and no message had yet; `_healed`: about those that are over."""
        self._healed: list[str] = []
        self._next_at = time.monotonic() + _GATHER_SECONDS
        self._sending: list[UserCommand] = []

    def check(self, alarms: Sequence[Alarm]) -> None:
        """Take the current alarms; send what is due."""
        self._gather(alarms)
        self._reap()
        now = time.monotonic()
        if not (self._begun or self._healed):
            self._next_at = max(self._next_at, now + _GATHER_SECONDS)
        elif not self._sending and now >= self._next_at:
            lines, begun = [*self._begun.values(), *self._healed], len(self._begun)
            self._begun, self._healed = {}, []
            self._next_at = now + _EVERY_SECONDS
            self._send(describe_alarms(self._project, lines, begun=begun), DEADLINE_SECONDS)

    def finish(self, end: EndedRun, *, signalled_for: float | None, interrupted: Callable[[], bool]) -> None:
        """Tell how the run ended, with what is gathered.

        A receiver that hangs is given up at the deadline. `signalled_for`: seconds since a signal asked for the end;
        then it is given up in time for a stop of 30 seconds, if it takes longer than the least.
        """
        warnings = [one["text"] for one in end.summary["warnings"]] if end.summary is not None else []
        standing = [describe_standing(alarm) for key, alarm in self._told.items() if key not in self._begun]
        gathered = [*self._begun.values(), *self._healed, *standing]
        lines = [line for line in gathered if not any(text in line for text in warnings)]
        limit = DEADLINE_SECONDS
        if signalled_for is not None:
            limit = max(_MIN_END_SECONDS, min(limit, _STOP_SECONDS - signalled_for))
        begun = time.monotonic()
        self._wait(begun + limit / 2, interrupted)  # an alarm that is being told comes first
        left = limit - (time.monotonic() - begun)
        self._send(describe_end(self._project, self._run_id, end, lines), left)
        self._wait(begun + limit, interrupted)
        for command in self._sending:
            command.kill(f"killed after {limit:g} s")
        self._reap()

    def _wait(self, deadline: float, interrupted: Callable[[], bool]) -> None:
        while self._sending and not interrupted() and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
            self._reap()

    def _gather(self, alarms: Sequence[Alarm]) -> None:
        for alarm in self._book.update(alarms):
            if alarm.key not in self._told and not any(alarm.key in told.members for told in self._told.values()):
                self._begun[alarm.key] = describe_begin(alarm)
            self._told[alarm.key] = alarm
        lasting = {alarm.key: alarm for alarm in self._book.alarms}
        members = {key for alarm in self._book.alarms for key in alarm.members}
        self._told |= {key: alarm for key, alarm in lasting.items() if key in self._told}
        self._earlier -= lasting.keys()
        if time.monotonic() >= self._earlier_until:
            self._told = {key: alarm for key, alarm in self._told.items() if key not in self._earlier}
            self._earlier.clear()
        for key in self._told.keys() - lasting.keys() - self._earlier - members:
            alarm = self._told.pop(key)
            self._begun.pop(key, None)
            if lasting.keys() & set(alarm.members):
                continue  # some of its hosts have alarms of their own now
            self._healed.append(describe_heal(alarm, time.time()))

    def _send(self, message: Message, seconds: float) -> None:
        order = Order(urls=self._urls, title=message.title, body=message.body, level=message.level, seconds=seconds)
        text = msgspec.json.encode(order).decode()
        self._sending.append(UserCommand("notify", SENDER, text, self._data, seconds=seconds))

    def _reap(self) -> None:
        """Report children that failed."""
        ended = [command for command in self._sending if command.has_ended()]
        self._sending = [command for command in self._sending if command not in ended]
        for command in ended:
            if command.failure is not None:
                self._say(command.failure)
