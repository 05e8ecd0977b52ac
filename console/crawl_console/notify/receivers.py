"""The receivers of the setting `notify`: their secrets, and whether apprise knows them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import msgspec
import orjson
from msgspec import Struct

from crawl_engine.errors import StorageError, UsageError
from crawl_engine.model.variables import UnusableVariable, render_secrets
from crawl_engine.runtime.extras import require_extra
from crawl_engine.settings import resolve_settings
from crawl_engine.settings.values import mask_receiver

SENDER = (sys.executable, "-P", "-m", "crawl_console.notify.sender")
"""The child. It reads its order from stdin: command lines can be read by all users."""
DEADLINE_SECONDS = 10.0
"""For one message to all receivers."""
_START_SECONDS = 20.0
_NAMES = ("notify",)


class Order(Struct, frozen=True, kw_only=True):
    """What the child is to do. `level`: info, success, warning or failure; without a body it only checks the URLs."""

    urls: list[str]
    title: str = ""
    body: str = ""
    level: str = "info"
    seconds: float = DEADLINE_SECONDS
    as_json: bool = False
    """Whether it prints the failures as a list, null for each receiver that got the message; else lines for a log."""


def name_receiver(number: int, url: str) -> str:
    """How a receiver is called in messages: by its place in the list, from 1, and its scheme."""
    return f"notify[{number}] {mask_receiver(url)}"


def load_receivers(urls: Sequence[str]) -> list[str]:
    """The URLs with their secrets, each known to apprise. Raises UsageError with the place of the setting."""
    origin = _find_origin(urls)
    require_extra("notify", f"{origin}: notify")
    resolved, mistakes = [], list[str]()
    for number, url in enumerate(urls, start=1):
        try:
            resolved.append(render_secrets(url, os.environ))
        except UnusableVariable as error:
            mistakes.append(f"{origin}: {name_receiver(number, url)}: {error}")
    if not mistakes:
        failures = call_sender(Order(urls=resolved, as_json=True), _START_SECONDS)
        for number, (url, failure) in enumerate(zip(resolved, failures, strict=True), start=1):
            if failure is not None:
                mistakes.append(f"{origin}: {name_receiver(number, url)}: {failure}")
    if mistakes:
        raise UsageError(
            "\n".join(mistakes), "docs/schedule.md has examples; `crawl-console notify --test` tries them."
        )
    return resolved


def call_sender(order: Order, seconds: float) -> list[str | None]:
    """Why each receiver failed, None for those that did not. Raises StorageError if the child cannot do it."""
    try:
        done = subprocess.run(
            SENDER, input=msgspec.json.encode(order), capture_output=True, timeout=seconds, check=False
        )
        answer: list[str | None] = orjson.loads(done.stdout)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        said = "it does not end" if isinstance(error, subprocess.TimeoutExpired) else type(error).__name__
        raise StorageError(
            f"notify: the process that sends failed: {said}", "Try it: `crawl-console notify --test`."
        ) from None
    return answer


def _find_origin(urls: Sequence[str]) -> str:
    """Where the setting was written."""
    found: Any = resolve_settings({}, names=_NAMES)
    return found[0].origin if found[0].value == tuple(urls) else "--set notify"
