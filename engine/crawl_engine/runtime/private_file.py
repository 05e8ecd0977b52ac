"""Makes files in a data dir, for their owner alone; a link that somebody planted leads nowhere."""

import errno
import os
from pathlib import Path

_FLAGS = os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def open_private(path: Path, flags: int) -> int:
    """Open a file with a fixed name, such as a lock or a log, and make it if it is missing. Raises OSError."""
    try:
        return os.open(path, flags | _FLAGS, 0o600)
    except OSError as error:
        raise _explain(error, path) from error


def create_draft(path: Path, mode: int = 0o600) -> int:
    """Make a new file that will take the place of another one; what a killed process left there goes. Raises OSError.

    A link of that name is removed as well, and what it leads to stays.
    """
    path.unlink(missing_ok=True)
    return os.open(path, os.O_WRONLY | os.O_EXCL | _FLAGS, mode)


def create_missing(path: Path, mode: int = 0o600) -> None:
    """Make an empty file unless there is one. A link of our own, perhaps to another disk, is followed. Raises OSError.

    A link of another user is refused: it may lead to a file that only this user may write.
    """
    try:
        os.close(os.open(path, os.O_RDWR | os.O_EXCL | _FLAGS, mode))
    except FileExistsError:
        if path.lstat().st_uid not in (0, os.geteuid()) and path.is_symlink():
            raise _explain(OSError(errno.ELOOP, ""), path) from None
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode))


def _explain(error: OSError, path: Path) -> OSError:
    """The error, in words for a link in the place of the file."""
    return OSError(errno.ELOOP, f"{path.name} is a link: remove it", str(path)) if error.errno == errno.ELOOP else error
