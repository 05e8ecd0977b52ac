import os
import signal
import subprocess
import sys
import threading
import time

from crawl_engine.runtime.wakeup import Wakeup, notify_fd

LONG = 20.0


def slept(wakeup: Wakeup, seconds: float) -> float:
    started = time.monotonic()
    wakeup.wait(seconds)
    return time.monotonic() - started


def test_a_notification_before_the_sleep_ends_it_at_once_and_is_consumed() -> None:
    wakeup = Wakeup()
    wakeup.notify()
    wakeup.notify()
    assert slept(wakeup, LONG) < LONG / 2
    assert slept(wakeup, 0.05) >= 0.04


def test_another_thread_wakes_the_sleeper() -> None:
    wakeup = Wakeup()
    threading.Timer(0.1, wakeup.notify).start()
    assert slept(wakeup, LONG) < LONG / 2


def test_another_process_wakes_the_sleeper_by_an_inherited_descriptor() -> None:
    wakeup = Wakeup()
    text = f"from crawl_engine.runtime.wakeup import notify_fd; notify_fd({wakeup.write_fd})"
    process = subprocess.Popen([sys.executable, "-c", text], pass_fds=[wakeup.write_fd])
    assert slept(wakeup, LONG) < LONG / 2
    assert process.wait(timeout=LONG) == 0


def test_a_full_pipe_and_a_pipe_without_reader_do_no_harm() -> None:
    wakeup = Wakeup()
    for _ in range(100_000):
        wakeup.notify()
    assert slept(wakeup, LONG) < LONG / 2
    assert slept(wakeup, 0.05) >= 0.04, "one sleep consumes all of them"
    read, write = os.pipe()
    os.close(read)
    notify_fd(write)
    os.close(write)


WAKES = """
import os, signal, sys, threading, time
from crawl_engine.runtime.wakeup import Wakeup
signal.signal(signal.SIGTERM, lambda *_: None)
wakeup = Wakeup()
wakeup.install_signal_wakeup()
print("ready", flush=True)
started = time.monotonic()
wakeup.wait(20)
print(time.monotonic() - started)
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
from crawl_console.cli.headless import _Signals
signals = _Signals()
child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
child.stdin.close()
started = time.monotonic()
signals.sleep(20)
print(time.monotonic() - started, child.wait())
"""


def test_the_end_of_a_child_wakes_a_headless_supervisor() -> None:
    result = subprocess.run([sys.executable, "-c", CHILD_ENDS], capture_output=True, text=True, timeout=2 * LONG)
    seconds, code = result.stdout.split()
    assert float(seconds) < LONG / 2
    assert int(code) == 1
