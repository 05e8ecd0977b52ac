"""Settings for all tests."""

import contextlib
import gc
import importlib
import os
import shutil
import sys
import tempfile
import textwrap
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import settings

from crawl_engine.runtime.clock import store_clock

settings.register_profile("untimed", deadline=None)  # time limits are tested by the bench and with the stopwatch
settings.load_profile("untimed")

pytest_plugins = ["tests.object_store", "tests.postgres_server"]
_STATE_HOME = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    """Tests must not share the hosts of the user's crawls, nor of other tests."""
    config.stash[_STATE_HOME] = os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="crawl-console-tests-")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else each worker and each process compiles every module
    sys.dont_write_bytecode = False


def pytest_collection(session: pytest.Session) -> None:
    """Each worker first imports its share of the modules, so that not every worker has to rewrite and compile all."""
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    first, step = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    for path in sorted(Path(__file__).parent.rglob("test_*.py"))[first::step]:
        with contextlib.suppress(Exception, pytest.skip.Exception):  # the collection reports it
            importlib.import_module(".".join(path.relative_to(session.config.rootpath).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """The collected tests stay: the garbage collector need not look at them during each test."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was skipped: a run that proves less than another says so."""
    skipped = terminalreporter.stats.get("skipped", [])
    names = defaultdict[str, list[str]](list)
    for report in skipped:
        reason = report.longrepr[-1] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        names[reason.removeprefix("Skipped: ")].append(report.nodeid.removeprefix("tests/"))
    if names:
        terminalreporter.section(f"{len(skipped)} skipped")
    for reason, tests in sorted(names.items()):
        terminalreporter.write_line(f"{len(tests)} × {reason}")
        terminalreporter.write_line(
            textwrap.fill(
                " ".join(sorted(tests)),
                118,
                break_on_hyphens=False,
                break_long_words=False,
                initial_indent="  ",
                subsequent_indent="  ",
            )
        )


def pytest_unconfigure(config: pytest.Config) -> None:
    shutil.rmtree(config.stash[_STATE_HOME], ignore_errors=True)


@pytest.fixture(autouse=True)
def own_clock() -> None:
    """Each test has a store of its own: a process has one, whose clock it follows, but that of the tests has many."""
    store_clock.cache_clear()
