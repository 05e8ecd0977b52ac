"""What is left of a browser after the end of its process is killed, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest

_CHILD = """
import subprocess, sys
from crawl_engine.browser.process_tree import start_guard
start_guard(sys.argv[1], 10**12)
for folder in (sys.argv[1], sys.argv[1] + "/cache"):
    print(subprocess.Popen(["sleep", "60"], cwd=folder, start_new_session=True, stdout=subprocess.DEVNULL).pid)
"""


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not list processes in /proc")
def test_the_guard_of_a_browser_spares_one_whose_folder_begins_alike(tmp_path: Path) -> None:
    for name in ("1/cache", "10"):
        (tmp_path / name).mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"], cwd=tmp_path / "10", start_new_session=True) as neighbour:
        try:
            # the output ends with the guard, which has it from its parent
            child = [sys.executable, "-c", _CHILD, str(tmp_path / "1")]
            done = subprocess.run(child, capture_output=True, text=True, check=True, timeout=60)
            left = [pid for pid in done.stdout.split() if _runs(pid)]
            assert (left, neighbour.poll()) == ([], None)
        finally:
            neighbour.kill()


def _runs(pid: str) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
