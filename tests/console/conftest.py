import os
import time

import pytest


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    """Moments are shown in local time: here that is UTC."""
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.delenv("NO_COLOR", raising=False)
    time.tzset()
    yield
    os.environ.pop("TZ", None)
    time.tzset()
