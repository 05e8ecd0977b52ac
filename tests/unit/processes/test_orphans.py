"""Orphans that a subreaper has adopted: those that lead a session are left to their owner for a while."""

import os
import sys
import time
import traceback
from collections.abc import Callable

import pytest

from crawl_engine.processes.child import reap_orphans

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has subreapers")


def zombie(*, leads_session: bool) -> int:
    """The pid of a child that has ended."""
    pid = os.fork()
    if not pid:
        if leads_session:
            os.setsid()
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid


def is_there(pid: int) -> bool:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def has_passed(check: Callable[[], None]) -> bool:
    """Run a check in a process without further children; those of the tests would be orphans too."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            check()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitpid(pid, 0)[1] == 0


def test_an_orphan_is_reaped_at_once() -> None:
    def check() -> None:
        pid = zombie(leads_session=False)
        reap_orphans({})
        assert not is_there(pid)

    assert has_passed(check)


def test_what_leads_a_session_is_reaped_once_nobody_else_did() -> None:
    def check() -> None:
        pid, seen = zombie(leads_session=True), dict[int, float]()
        reap_orphans(seen)
        assert is_there(pid)
        assert pid in seen
        seen[pid] = time.monotonic() - 60
        reap_orphans(seen)
        assert not is_there(pid)
        assert seen == {}

    assert has_passed(check)
