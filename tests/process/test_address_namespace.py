"""A whole crawl beside real servers at 169.254.169.254 and 10.0.0.1, in a network namespace of its own."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from crawl_engine.runtime.extras import has_extra

from .shop_front import BROWSER

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


def crawl_in(
    namespace: tuple[str, ...], folder: Path, *which: str, module: str = "isolated_crawls", seconds: float = 280
) -> dict[str, Any]:
    """The results of the crawls, by their road."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [*namespace, sys.executable, "-m", f"tests.process.{module}", str(folder), *which],
        capture_output=True, text=True, timeout=seconds, cwd=ROOT, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    results: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return results


@pytest.mark.quick
@pytest.mark.timeout(180)
def test_nothing_leads_to_a_private_server_but_a_locator(tmp_path: Path, namespace: tuple[str, ...]) -> None:
    results = crawl_in(namespace, tmp_path)
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


@pytest.mark.sweep
@pytest.mark.timeout(300)
def test_no_other_road_leads_to_a_private_server(tmp_path: Path, namespace: tuple[str, ...]) -> None:
    """Through proxies, TLS and HTTP/2, files, middleware, loaders, logins, refreshing pages, names that change."""
    results = crawl_in(namespace, tmp_path, "others")
    targets = results.pop("targets")
    assert {road: result["connections"] for road, result in results.items() if result["connections"]} == {}
    assert results["proxied"]["asked"] == [], "the proxy is asked for the named host alone"
    assert results["proxied"]["served"] > targets
    for road in ("proxied", "proxied-sitemap", "tls", "http2"):
        assert results[road]["reasons"] == ["address"], road
        assert "failed" not in results[road]["jobs"], road
    assert results["proxied"]["jobs"]["skipped"] > targets
    assert results["names"]["public"] > 0
    for reason in results["middleware"]["failures"]:
        assert reason.startswith("middleware astray.Astray: a request must stay on http://shop.example"), reason


@pytest.mark.sweep
@pytest.mark.timeout(500)
@pytest.mark.skipif(not has_extra("browser") or BROWSER is None, reason="needs playwright and Chromium")
def test_no_road_of_a_browser_leads_to_a_private_server(tmp_path: Path, namespace: tuple[str, ...]) -> None:
    """Parts, workers, sockets, windows, redirects and documents of pages; nothing else leaves the machine either."""
    result = crawl_in(namespace, tmp_path, module="isolated_browser", seconds=450)
    assert result["roads"] >= 50
    assert result["connections"] == []
    assert result["packets"] == 0, "of DNS, STUN, QUIC or Chromium's own services"
    left = {path: state for path, state in result["states"].items() if path.startswith("/leave/")}
    assert set(left.values()) == {"SKIPPED"}, left
    assert result["rows"] == len(result["states"]) - len(left), result["err"]
