"""Kills random processes of crawl after crawl, counts rows lost and doubled, and recomputes the sums.

Usage: python -m tests.process.kills [--kills N] [--seed S] [--kind KIND].
Exits with 0 when no row was lost and none doubled.
"""

import argparse
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.process.killed_crawl import KINDS, kill, library_of, victims
from tests.process.project import Project
from tests.process.site import Site, serve_site
from tests.process.verified_crawl import assert_exact_sums


def crawl_once(folder: Path, site: Site, rng: random.Random, kills: int, kinds: Sequence[str]) -> tuple[int, int, int]:
    """One crawl with at most `kills` kills, then run to its end; returns kills, rows lost, rows doubled."""
    project = Project(folder)
    library = library_of(project, site, delay=0.03, kind="any")
    done = 0
    while True:
        running = project.start("--backups", "1")
        while done < kills and not running.exited:
            time.sleep(rng.uniform(0.05, 1.2))
            if not running.exited:
                pids = victims(project, running, rng.choice(kinds), rng)
                kill(*pids)
                done += len(pids)
        result = running.wait()
        if result.code == 0:
            break
        if result.code not in (-signal.SIGKILL, 3):
            raise AssertionError(f"exit {result.code}\n{result.err}\n{project.logs()[-3000:]}")
        project.assert_no_process_left()
    project.assert_clean(result)
    assert_exact_sums(project)
    actual, expected = project.count_rows("entry", "book"), library.rows()
    return done, (expected - actual).total(), (actual - expected).total()


def main() -> int:
    """Crawl until `--kills` processes were killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", choices=KINDS, help="all victims are of this kind")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    kinds = [options.kind] if options.kind else KINDS
    crawls = kills = lost = doubled = 0
    while kills < options.kills:
        with serve_site() as site, tempfile.TemporaryDirectory() as folder:
            count, missing, extra = crawl_once(Path(folder), site, rng, rng.randint(4, 12), kinds)
        crawls, kills, lost, doubled = crawls + 1, kills + count, lost + missing, doubled + extra
        print(f"crawls {crawls}, kills {kills}, rows lost {lost}, rows doubled {doubled}", flush=True)
    return 1 if lost or doubled else 0


if __name__ == "__main__":
    sys.exit(main())
