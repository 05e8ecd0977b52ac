"""Announces new alarms outside the screen, as the user's configuration asks: the bell, a desktop notification."""

from collections.abc import Sequence
from typing import Any

from console.reports.alarms import Alarm
from console.sanitize import clean
from console.tui.config import Config

_MAX_CHARS = 200


def announce(app: Any, alarms: Sequence[Alarm], config: Config) -> None:
    """Ring the bell, and send the worst of the alarms as a notification of the terminal (OSC 9)."""
    if not alarms:
        return
    worst = min(alarms, key=lambda alarm: alarm.level != "bad")
    if config.bell:
        app.bell()
    driver = getattr(app, "_driver", None)  # private: Textual has no public way to write an escape sequence
    if config.notify and driver is not None:
        driver.write(f"\x1b]9;crawl-console: {clean(worst.text)[:_MAX_CHARS]}\x07")
