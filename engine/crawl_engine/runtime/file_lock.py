"""Takes advisory locks on open files. Imports only the standard library and our errors."""

import errno
import fcntl
from pathlib import Path

from crawl_engine.errors import StorageError

_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL)


def try_lock_file(fd: int, path: Path) -> bool:
    """Lock an open file without waiting; False while another process holds the lock. It lasts until `fd` is closed.

    Raises StorageError, naming `path`, where the file system has no locks.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise StorageError(
                f"{path}: {error.strerror}", "Check the disk, or use another --data directory."
            ) from error
        raise StorageError(
            f"{path}: its file system does not support file locks (flock: {error.strerror})",
            "Use a --data directory on a local disk; some network file systems need a lock service.",
        ) from error
    return True
