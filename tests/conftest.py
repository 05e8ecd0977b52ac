"""Settings for all tests."""

import os
import shutil
import tempfile

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # time limits are tested by the bench and with the stopwatch
settings.load_profile("untimed")

_STATE_HOME = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Tests must not share the hosts of the user's crawls, nor of other tests."""
    config.stash[_STATE_HOME] = os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="crawl-console-tests-")


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[_STATE_HOME], ignore_errors=True)
