"""Orphans that a subreaper has adopted: those that lead a session are left to their owner for a while."""

import os
import sys
import time

import pytest

from engine.processes.child import reap_orphans

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


def test_an_orphan_is_reaped_at_once() -> None:
    pid = zombie(leads_session=False)
    reap_orphans({})
    assert not is_there(pid)


def test_what_leads_a_session_is_reaped_once_nobody_else_did() -> None:
    pid, seen = zombie(leads_session=True), dict[int, float]()
    reap_orphans(seen)
    assert is_there(pid)
    assert pid in seen
    seen[pid] = time.monotonic() - 60
    reap_orphans(seen)
    assert not is_there(pid)
    assert seen == {}
