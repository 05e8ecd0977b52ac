import os
import signal
import subprocess
import sys
import threading
import time

from engine.runtime.wakeup import Nudge, give

LONG = 20.0


def slept(nudge: Nudge, seconds: float) -> float:
    begun = time.monotonic()
    nudge.wait(seconds)
    return time.monotonic() - begun


def test_a_nudge_given_before_the_sleep_ends_it_at_once_and_is_used_up() -> None:
    nudge = Nudge()
    nudge.give()
    nudge.give()
    assert slept(nudge, LONG) < LONG / 2
    assert slept(nudge, 0.05) >= 0.04


def test_another_thread_wakes_the_sleeper() -> None:
    nudge = Nudge()
    threading.Timer(0.1, nudge.give).start()
    assert slept(nudge, LONG) < LONG / 2


def test_another_process_wakes_the_sleeper_by_the_file_it_was_handed() -> None:
    nudge = Nudge()
    text = f"from engine.runtime.wakeup import give; give({nudge.file})"
    process = subprocess.Popen([sys.executable, "-c", text], pass_fds=[nudge.file])
    assert slept(nudge, LONG) < LONG / 2
    assert process.wait(timeout=LONG) == 0


def test_a_full_pipe_and_one_nobody_reads_are_no_trouble() -> None:
    nudge = Nudge()
    for _ in range(100_000):
        nudge.give()
    assert slept(nudge, LONG) < LONG / 2
    assert slept(nudge, 0.05) >= 0.04, "one sleep uses all of them up"
    read, write = os.pipe()
    os.close(read)
    give(write)
    os.close(write)


WAKES = """
import os, signal, sys, threading, time
from engine.runtime.wakeup import Nudge
signal.signal(signal.SIGTERM, lambda *_: None)
nudge = Nudge()
nudge.heed_signals()
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
