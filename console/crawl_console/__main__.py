"""The entry point of `crawl-console`. Ctrl-C ends it without a traceback at any moment."""

import gc
import os
import signal
import sys
from types import FrameType

_INTERRUPTED = 130


def main() -> None:
    """Run a command and exit with its code."""
    gc.set_threshold(100_000, 20, 20)  # the imports make many objects, which stay
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit_immediately)  # while modules are imported there is nothing to clean up
    if sys.argv[1:] == ["--version"] and _print_version():
        return
    try:
        from crawl_console.cli.main import main as run

        if signal.getsignal(signal.SIGINT) is _exit_immediately:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def _print_version() -> bool:
    """Print it without the imports of a command, which take most of its time.

    False if stdout cannot be written: the command says why.
    """
    from crawl_engine import __version__

    try:
        sys.stdout.write(f"crawl-console {__version__}\n")
        sys.stdout.flush()
    except (OSError, AttributeError):  # AttributeError: stdout is closed
        return False
    return True


def _exit_immediately(_number: int, _frame: FrameType | None) -> None:
    os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
