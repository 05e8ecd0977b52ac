"""A whole crawl beside real servers at 169.254.169.254 and 10.0.0.1, in a network namespace of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UNSHARE = ("unshare", "--net", "--mount", "--map-root-user")


@pytest.fixture(scope="module")
def namespace() -> tuple[str, ...]:
    for program in ("unshare", "ip", "mount"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    tried = subprocess.run([*UNSHARE, "ip", "link", "set", "lo", "up"], capture_output=True, text=True, timeout=20)
    if tried.returncode:
        pytest.skip(f"no network namespace may be made here: {tried.stderr.strip()}")
    return UNSHARE


@pytest.mark.timeout(180)
def test_nothing_leads_to_a_private_server_but_a_locator(tmp_path: Path, namespace: tuple[str, ...]) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*namespace, sys.executable, "-m", "tests.process.isolated_crawls", str(tmp_path)],
        capture_output=True, text=True, timeout=170, cwd=ROOT, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    results = json.loads(done.stdout.splitlines()[-1])
    for road in ("links", "sitemap"):
        assert results[road]["connections"] == [], road
        assert results[road]["reasons"] == ["address"]
        assert "failed" not in results[road]["jobs"]
    assert results["links"]["jobs"]["done"] == 1
    assert results["links"]["jobs"]["skipped"] > results["targets"]
    assert results["sitemap"]["jobs"]["skipped"] > results["targets"] / 2
    assert results["robots"]["connections"] == []
    assert results["robots"]["reason"].startswith("robots.txt cannot be read: address 169.254.169.254")
    assert results["named"]["jobs"] == {"done": 2}
    assert results["named"]["connections"] == ["10.0.0.1", "169.254.169.254"]
