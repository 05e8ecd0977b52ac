"""The start of a child process."""

import signal
from pathlib import Path

import pytest

from engine.supervise import child_process
from engine.supervise.child_process import spawn


def test_a_child_that_dies_before_its_first_line_is_returned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start does not fail; the monitor sees the death."""
    popen = child_process.subprocess.Popen

    def start_and_kill(*args: object, **kwargs: object) -> object:
        process = popen(*args, **kwargs)  # type: ignore[call-overload]
        process.kill()
        process.wait()
        return process

    monkeypatch.setattr(child_process.subprocess, "Popen", start_and_kill)
    process = spawn("engine.node", [], first_line="{}" * 100_000, log=tmp_path / "logs" / "n1.log")
    assert process.poll() == -signal.SIGKILL
