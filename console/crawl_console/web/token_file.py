"""Reads the token of `serve` from its file, and makes that file at the first start."""

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

from crawl_engine.errors import CrawlError, StorageError, UsageError
from crawl_engine.runtime.private_file import create_draft
from crawl_engine.supervise.lock import check_private

TOKEN_NAME = "serve.token"
_TOKEN = re.compile(rb"[!-~]{16,4096}")
_MAX_BYTES = 10_000


class TokenFile:
    """A file with a token, read again when it changes. While it holds none, nobody gets in."""

    def __init__(
        self, path: Path, say: Callable[[str], None] = lambda _: None, *, waits: bool = False
    ) -> None:  # fmt: skip
        """`say` gets a line when the token changes or is lost. Raises UsageError, StorageError as `load_token`.

        `waits`: its data dir does not exist; the file is made once a run has made that.
        """
        self.path = path
        self._say = say
        self._waits = waits
        self._stamp = _stamp(path)
        self._token = "" if waits else _read(path)

    def current(self) -> str:
        """The token that the file holds now; empty: it cannot be used. Where its folder is away, it is the last one."""
        if self._waits and self.path.parent.is_dir():
            self._waits = False
            try:
                _create(self.path)
            except CrawlError as error:
                self._refuse(error)
        stamp = _stamp(self.path)
        if stamp != self._stamp and (stamp is not None or self.path.parent.exists()):
            self._stamp, before = stamp, self._token
            try:
                self._token = _read(self.path)
            except CrawlError as error:
                self._refuse(error)
            else:
                has_changed = before and self._token != before
                self._say(f"token: {self.path}{' has changed: all logins end' if has_changed else ''}")
        return self._token

    def _refuse(self, error: CrawlError) -> None:
        self._token = ""
        self._say(f"nobody gets in: {error.message}. {error.remedy}")


def load_token(
    given: Path | None, folders: Sequence[Path], say: Callable[[str], None] = lambda _: None
) -> TokenFile:  # fmt: skip
    """The given file with a token, else that in a data dir, which is made if there is none, with its data dir or later.

    Raises UsageError if the file cannot be used as a secret, StorageError if it cannot be read or made.
    """
    if given is not None:
        return TokenFile(given, say)
    found = next((folder / TOKEN_NAME for folder in folders if (folder / TOKEN_NAME).exists()), None)
    if found is None:
        folder = next((folder for folder in folders if folder.is_dir()), None)
        if folder is None:  # none is made: its name may be mistyped
            say(f"{folders[0]}: no such data directory; nobody gets in until a crawl makes it")
            return TokenFile(folders[0] / TOKEN_NAME, say, waits=True)
        found = folder / TOKEN_NAME
        _create(found)
    return TokenFile(found, say)


def _stamp(path: Path) -> tuple[int, ...] | None:
    """What differs when the file was written, replaced, or got another mode or owner; None: it cannot be looked at."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _create(path: Path) -> None:
    """Make the file whole or not at all; one that another process made meanwhile stays."""
    draft = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        check_private(path.parent)
        with os.fdopen(create_draft(draft), "wb") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}", "Name a file with a token: --token-file FILE.") from error


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            status, content = os.fstat(file.fileno()), file.read(_MAX_BYTES)
    except OSError as error:
        raise StorageError(
            f"{path}: {error.strerror}", "Write a token there: `umask 077; openssl rand -hex 32 > FILE`."
        ) from error
    if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UsageError(
            f"{path}: others may read or change it (mode {stat.S_IMODE(status.st_mode):04o})",
            f"A token is a secret: `chmod 600 {path}`; if somebody may have read it, write another one.",
        )
    if status.st_uid not in (0, os.geteuid()):
        raise UsageError(f"{path}: it belongs to another user", "Use a file of your own.")
    token = content.strip()
    if not _TOKEN.fullmatch(token):
        raise UsageError(
            f"{path}: no token: one word of at least 16 printable ASCII characters is expected",
            "Write one: `umask 077; openssl rand -hex 32 > FILE`.",
        )
    return token.decode("ascii")
