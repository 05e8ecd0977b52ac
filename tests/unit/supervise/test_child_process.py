"""A child process as its supervisor starts it."""

import signal
from pathlib import Path

import pytest

from engine.supervise import child_process
from engine.supervise.child_process import spawn


def test_a_child_that_dies_before_it_is_told_anything_is_still_a_child(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its death is seen by who watches it; the start itself does not fail."""
    began = child_process.subprocess.Popen

    def at_once_dead(*args: object, **kwargs: object) -> object:
        process = began(*args, **kwargs)  # type: ignore[call-overload]
        process.kill()
        process.wait()
        return process

    monkeypatch.setattr(child_process.subprocess, "Popen", at_once_dead)
    process = spawn("engine.node", [], first_line="{}" * 100_000, log=tmp_path / "logs" / "n1.log")
    assert process.poll() == -signal.SIGKILL
