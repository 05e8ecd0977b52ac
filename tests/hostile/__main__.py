"""Crawls each hostile answer beside 200 good pages, and prints what it did to nodes, rows, memory and time.

Usage: python -m tests.hostile [--only TEXT] [--part PART] [--at-once N] [--seconds S] [--transport NAME].
Exits with 0 when no answer did any harm.
A node may grow by twice the largest body over its base: what it keeps after a large page that does no harm.
"""

import argparse
import itertools
import sys
import tempfile
from pathlib import Path

from tests.hostile.answer import MAX_BODY, page
from tests.hostile.catalogue import PARTS, all_answers
from tests.hostile.crawl import Measured, crawl, serve_good_pages
from tests.hostile.server import serve_hostile
from tests.hostile.transports import NAMES, open_transport
from tests.process.site import serve_site

LARGE = page("large", lambda: "<p>some words</p>" * 550_000 + "<b>x</b>", fields="{b: {selector: b}}")
_HEAD = (
    f"{'answer':24} {'exit':>4} {'good':>4} {'lost':>4} {'job':8} {'s':>6} {'CPU s':>6} {'node':>5} {'extr':>5} "
    " faults or reason"
)


def main() -> int:
    """Crawl them all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="answers whose name contains this text")
    parser.add_argument("--part", choices=PARTS, help="answers of one part; default: all")
    parser.add_argument("--at-once", type=int, default=1, help="answers in one crawl")
    parser.add_argument("--seconds", type=float, default=60.0, help="after which a crawl is killed")
    parser.add_argument("--transport", choices=NAMES, default="plain", help="how the answers reach the crawl")
    options = parser.parse_args()
    answers = all_answers()
    part = [answer.name for answer in PARTS[options.part]()] if options.part else list(answers)
    chosen = [answers[name] for name in part if options.only in name]
    harmful = 0
    print(_HEAD, flush=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        serve_site() as site,
        open_transport(options.transport, Path(folder)) as transport,
    ):
        serve_good_pages(site)
        with serve_hostile({LARGE.name: LARGE}, transport) as server:
            [calm] = crawl(Path(folder) / "large", site, server, LARGE)
        limit = calm.node_last + 2 * MAX_BODY
        print(f"base of a node: {calm.node_last / 1e6:.0f} MB; its limit by default: {limit / 1e6:.0f} MB")
        for number in itertools.count():
            group = chosen[number * options.at_once : (number + 1) * options.at_once]
            if not group:
                break
            with serve_hostile(answers, transport) as server:
                results = crawl(Path(folder) / str(number), site, server, *group, seconds=options.seconds)
            node_limit = calm.node_last + 2 * max(answer.max_body for answer in group)
            for measured in results:
                faults = measured.faults + (["memory of the node"] if measured.node_peak > node_limit else [])
                harmful += bool(faults)
                print(_line(measured, faults), flush=True)
    print(f"{len(chosen)} answers, {harmful} did harm")
    return 1 if harmful else 0


def _line(measured: Measured, faults: list[str]) -> str:
    reason = measured.reason.partition("\n")[0]
    note = f"FAULT: {', '.join(faults)}; {reason}" if faults else reason
    exit_code = "-" if measured.exit_code is None else measured.exit_code
    return (
        f"{measured.name:24} {exit_code:>4} {measured.good_rows:>4} {measured.nodes_lost:>4} {measured.state:8}"
        f" {measured.seconds:>6.2f} {measured.extraction_cpu:>6.2f}"
        f" {measured.node_peak / 1e6:>5.0f} {measured.extraction_peak / 1e6:>5.0f} {note[:90]}"
    )


if __name__ == "__main__":
    sys.exit(main())
