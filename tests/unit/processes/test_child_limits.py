"""Limits of children."""

import subprocess
import sys

RAISE = """
import resource
from crawl_engine.processes.child_limits import raise_file_limit

resource.setrlimit(resource.RLIMIT_NOFILE, (100, 200))
raise_file_limit()
print(resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_a_process_may_open_as_many_files_as_the_system_grants_it() -> None:
    done = subprocess.run([sys.executable, "-c", RAISE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(200, 200)"
