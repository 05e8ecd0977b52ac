"""The key for the cookies that nodes share: random, in a file of the user outside of every data dir."""

import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from engine.runtime.host_clock import machine_path

_FILE_NAME = "cookies.key"
_KEY = re.compile(r"[0-9a-f]{64}")


def key_path(environment: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/crawl-console/cookies.key`. Raises OSError where the user has no such folder."""
    return machine_path(environment).with_name(_FILE_NAME)


def read_or_create_key(path: Path) -> str:
    """The key of a file, in hexadecimal, created at the first need. Raises OSError.

    A file without a key, such as one of a program that was killed as it wrote, is replaced.
    """
    key = _read(path)
    if key is not None:
        return key
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(f"{_FILE_NAME}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(fd, "w") as file:
            file.write(secrets.token_hex(32))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(beside, path)  # of two programs that start at once, the first one's key holds
        except FileExistsError:
            if _read(path) is None:
                beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    key = _read(path)
    if key is None:
        raise OSError(f"{path} cannot be read back")
    return key


def _read(path: Path) -> str | None:
    """The key of a file; None: it is missing, or holds none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    with os.fdopen(fd) as file:
        text = file.read(100).strip()
    return text if _KEY.fullmatch(text) else None
