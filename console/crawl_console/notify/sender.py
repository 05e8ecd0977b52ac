"""The child that sends: reads an order from stdin, reports each receiver, shows no secret."""

import logging
import os
import re
import sys
import threading
import time
from collections.abc import Sequence
from urllib.parse import unquote

import apprise
import msgspec
import orjson
from apprise.manager_plugins import NotificationManager

from crawl_console.notify.receivers import Order, name_receiver
from crawl_engine.errors import suggest

_RESERVE_SECONDS = 1.0
"""It ends so long before it would be killed."""
_PARTS = re.compile(r"[/:@?&=+,;#\s]+")
_MIN_PART = 3
_HIDDEN = "·····"
_POST = "json or jsons"
_NO_SCHEME = re.compile(r"https?:", re.IGNORECASE)


class _Said(logging.Handler):
    """Keeps the last warning of apprise in each thread."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.by_thread: dict[int, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        self.by_thread[threading.get_ident()] = record.getMessage()


def main() -> None:
    """Carry out the order; the exit code is 1 if a receiver failed."""
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    said = _Said()
    logger = logging.getLogger("apprise")
    logger.handlers, logger.propagate = [said], False
    failures = _check(order.urls) if not order.body else _send_all(order, said)
    if order.as_json:
        sys.stdout.buffer.write(orjson.dumps(failures))
    else:
        for number, (url, failure) in enumerate(zip(order.urls, failures, strict=True), start=1):
            sys.stdout.write(f"{name_receiver(number, url)}: {failure or 'sent'}\n")
    sys.stdout.flush()
    os._exit(int(any(failures)))  # threads that hang must not keep it alive


def _check(urls: Sequence[str]) -> list[str | None]:
    return [None if apprise.Apprise.instantiate(url, suppress_exceptions=True) else _explain(url) for url in urls]


def _explain(url: str) -> str:
    """Why apprise does not know a URL."""
    scheme = url.partition("://")[0].lower()
    known: list[str] = NotificationManager().schemas()  # type: ignore[no-untyped-call]
    if _NO_SCHEME.match(url):
        return f"no receiver; a URL that takes posted messages begins with {_POST} instead of {scheme}"
    if scheme not in known:
        return f"unknown scheme '{scheme}'{suggest(scheme, known)}"
    return f"not a URL that {scheme} takes; see apprise's page about it"


def _send_all(order: Order, said: _Said) -> list[str | None]:
    """Send to all receivers at once: one that hangs delays no other."""
    limit = order.seconds - _RESERVE_SECONDS
    failures: list[str | None] = [f"no answer within {limit:g} s"] * len(order.urls)

    def send(number: int) -> None:
        failures[number] = _send(order, order.urls[number], said)

    threads = [threading.Thread(target=send, args=(number,), daemon=True) for number in range(len(order.urls))]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + limit
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return list(failures)


def _send(order: Order, url: str, said: _Said) -> str | None:
    """Why a receiver did not take the message; None: it did."""
    try:
        receiver = apprise.Apprise.instantiate(url, suppress_exceptions=True)
        if receiver is None:
            return _explain(url)
        text = apprise.NotifyFormat.TEXT
        if receiver.notify(body=order.body, title=order.title, notify_type=order.level, body_format=text):
            return None
        reason = said.by_thread.get(threading.get_ident(), "refused")
    except Exception as error:  # of any of 100 plugins
        reason = f"{type(error).__name__}: {error}"
    return _hide_parts(reason, url)


def _hide_parts(text: str, url: str) -> str:
    """A text without any part of a URL: each may be a token."""
    words = {part for form in (url, unquote(url)) for part in _PARTS.split(form) if len(part) >= _MIN_PART}
    scheme = url.partition("://")[0]
    for word in sorted(words - {scheme}, key=len, reverse=True):
        text = text.replace(word, _HIDDEN)
    return " ".join(text.split())


if __name__ == "__main__":
    main()
