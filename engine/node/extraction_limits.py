"""What an extraction process may use, and the calls to the system that enforce it."""

import ctypes
import os
import resource
import signal
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson

from engine.extract.links import MAX_PAGE_URL_CHARACTERS
from engine.settings import Settings

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15
WALL_FACTOR = 3
"""A document may take so many times its CPU seconds of wall time: the machine may be loaded."""
_ANSWER_FACTOR = 1.5
"""What a page gives may be so many times as large as the largest body."""
_BYTES_PER_LINK, _OTHER_ANSWER_BYTES = 80, 4_000_000
"""Of an answer besides the URLs: the key of a link and its entry in the header; rejections and some rows."""

_LATER_RESIDENT = 8_000_000
"""Bytes of libraries that are mapped at first, and resident when they are used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionLimits:
    """Limits of an extraction process."""

    seconds: float
    """CPU seconds for one document."""
    memory: int
    """Bytes of resident memory of the process."""
    answer: int
    """Bytes of one answer."""
    links: int
    """Links of one page."""

    @classmethod
    def from_settings(cls, settings: Settings) -> "ExtractionLimits":
        """The limits that the settings give."""
        links = MAX_PAGE_URL_CHARACTERS + settings.max_links * _BYTES_PER_LINK  # links alone fail no page
        return cls(
            seconds=settings.parse_limit,
            memory=settings.parse_memory,
            answer=max(links + _OTHER_ANSWER_BYTES, int(_ANSWER_FACTOR * settings.max_body)),
            links=settings.max_links,
        )

    @classmethod
    def from_json(cls, text: str) -> "ExtractionLimits":
        """The limits of a text from `to_json`."""
        return cls(**orjson.loads(text))

    def to_json(self) -> str:
        """The form in which a spawned process receives them."""
        return orjson.dumps(asdict(self)).decode()

    @property
    def wall_seconds(self) -> float:
        """Seconds after which a process that works on one document is killed from outside."""
        return self.seconds * WALL_FACTOR


def die_with_parent(parent: int) -> None:
    """Have the system kill this process when its parent ends (Linux); exits at once if that has happened already."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def set_process_name(name: str) -> None:
    """Set the name that `top` shows (Linux), at most 15 bytes."""
    _prctl(_PR_SET_NAME, ctypes.c_char_p(name.encode()))


def close_inherited_files(kept: set[int]) -> None:
    """Close every open file but stderr and `kept`; stdin and stdout become the null device."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(null, fd)
    try:
        opened = [int(path.name) for path in Path("/dev/fd").iterdir()]
    except OSError:
        opened = list(range(resource.getrlimit(resource.RLIMIT_NOFILE)[0]))
    for fd in opened:
        if fd > 2 and fd not in kept:
            with suppress(OSError):  # the listing itself had one
                os.close(fd)


def reset_signals() -> None:
    """Default actions for all signals, except those that are meant for the node of this process group."""
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            with suppress(OSError, ValueError):
                signal.signal(number, signal.SIG_DFL)
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def become_first_victim() -> None:
    """Have the system, short of memory, end this process before any other (Linux); no core dump is written."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def limit_memory(limit: int, base: int) -> None:
    """Let memory grow from `base` resident bytes to `limit`: what would pass it fails with MemoryError (Linux).

    No core dump is written, and the system, short of memory, ends this process before any other.
    """
    become_first_victim()
    with suppress(OSError):
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        most = mapped + max(0, limit - base - _LATER_RESIDENT)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _prctl(option: int, value: object) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)
