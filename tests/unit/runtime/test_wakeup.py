import os
import signal
import subprocess
import sys
import threading
import time

from engine.runtime.wakeup import Wakeup, notify_fd

LONG = 20.0


def slept(nudge: Wakeup, seconds: float) -> float:
    begun = time.monotonic()
    nudge.wait(seconds)
    return time.monotonic() - begun


def test_a_nudge_given_before_the_sleep_ends_it_at_once_and_is_used_up() -> None:
    nudge = Wakeup()
    nudge.notify()
    nudge.notify()
    assert slept(nudge, LONG) < LONG / 2
    assert slept(nudge, 0.05) >= 0.04


def test_another_thread_wakes_the_sleeper() -> None:
    nudge = Wakeup()
    threading.Timer(0.1, nudge.notify).start()
    assert slept(nudge, LONG) < LONG / 2


def test_another_process_wakes_the_sleeper_by_the_file_it_was_handed() -> None:
    nudge = Wakeup()
    text = f"from engine.runtime.wakeup import notify_fd; notify_fd({nudge.write_fd})"
    process = subprocess.Popen([sys.executable, "-c", text], pass_fds=[nudge.write_fd])
    assert slept(nudge, LONG) < LONG / 2
    assert process.wait(timeout=LONG) == 0


def test_a_full_pipe_and_one_nobody_reads_are_no_trouble() -> None:
    nudge = Wakeup()
    for _ in range(100_000):
        nudge.notify()
    assert slept(nudge, LONG) < LONG / 2
    assert slept(nudge, 0.05) >= 0.04, "one sleep uses all of them up"
    read, write = os.pipe()
    os.close(read)
    notify_fd(write)
    os.close(write)


WAKES = """
import os, signal, sys, threading, time
from engine.runtime.wakeup import Wakeup
signal.signal(signal.SIGTERM, lambda *_: None)
nudge = Wakeup()
nudge.install_signal_wakeup()
print("ready", flush=True)
begun = time.monotonic()
nudge.wait(20)
print(time.monotonic() - begun)
"""


def test_a_signal_wakes_the_sleeper() -> None:
    process = subprocess.Popen([sys.executable, "-c", WAKES], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    os.kill(process.pid, signal.SIGTERM)
    assert float(process.communicate(timeout=LONG)[0]) < LONG / 2
    assert process.returncode == 0


CHILD_ENDS = """
import subprocess, sys, time
from console.cli.commands.run import _Signals
signals = _Signals()
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
child.stdin.close()
begun = time.monotonic()
signals.sleep(20)
print(time.monotonic() - begun, child.wait())
"""


def test_the_end_of_a_child_wakes_a_headless_supervisor() -> None:
    told = subprocess.run([sys.executable, "-c", CHILD_ENDS], capture_output=True, text=True, timeout=2 * LONG)
    seconds, code = told.stdout.split()
    assert float(seconds) < LONG / 2
    assert int(code) == 1
