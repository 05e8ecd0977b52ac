"""Kill random processes of crawl after crawl, and count: python -m tests.process.kills [--kills N] [--seed S].

Exit 0 when no row was lost and none doubled.
"""

import argparse
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.process.house import House
from tests.process.site import Site, serving
from tests.process.test_deaths import KINDS, kill, library_of, victims


def crawl_once(folder: Path, site: Site, dice: random.Random, kills: int) -> tuple[int, int, int]:
    """One crawl, killed at most so often and then let end; kills, rows lost, rows doubled."""
    house = House(folder)
    library = library_of(house, site, delay=0.03)
    done = 0
    while True:
        running = house.start("--backups", "1")
        while done < kills and not running.over:
            time.sleep(dice.uniform(0.05, 1.2))
            if not running.over:
                struck = victims(house, running, dice.choice(KINDS), dice)
                kill(*struck)
                done += len(struck)
        ended = running.wait()
        if ended.code == 0:
            break
        if ended.code not in (-signal.SIGKILL, 3):
            raise AssertionError(f"exit {ended.code}\n{ended.err}\n{house.logs()[-3000:]}")
        house.assert_nobody_left()
    house.assert_clean(ended)
    made, wanted = house.counted("entry", "book"), library.rows()
    return done, (wanted - made).total(), (made - wanted).total()


def main() -> int:
    """Crawl until so many kills were dealt."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    dice = random.Random(asked.seed)
    crawls = kills = lost = doubled = 0
    while kills < asked.kills:
        with serving() as site, tempfile.TemporaryDirectory() as folder:
            dealt, missing, extra = crawl_once(Path(folder), site, dice, dice.randint(4, 12))
        crawls, kills, lost, doubled = crawls + 1, kills + dealt, lost + missing, doubled + extra
        print(f"crawls {crawls}, kills {kills}, rows lost {lost}, rows doubled {doubled}", flush=True)
    return 1 if lost or doubled else 0


if __name__ == "__main__":
    sys.exit(main())
