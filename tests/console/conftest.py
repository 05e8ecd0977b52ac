import os
import time

import pytest


@pytest.fixture(autouse=True)
def utc(monkeypatch, tmp_path):
    """The console shows local time: make that UTC."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("NO_COLOR", raising=False)
    time.tzset()
    yield
    os.environ.pop("TZ", None)
    time.tzset()
