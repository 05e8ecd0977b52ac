"""The command `demo`: a shop on loopback, crawled with the defs that also serve as an example."""

import contextlib
import csv
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TextIO

from console.cli.commands.run import HeadlessOptions, run
from console.cli.output import redirect_to_devnull
from console.demo.server import serve_shop
from engine.errors import CrawlError
from engine.settings import Settings

_SAMPLE_ROWS, _WIDTH = 3, 118
_COMPLETED_CODES = (0, 1)


def demo(data: Path, settings: Settings, *, pages: int, latency: float, errors: float, as_json: bool) -> int:
    """Serve a shop of `pages` products, crawl it in a new run, show what came of it; returns the run's exit code.

    `latency`: seconds each answer takes. `errors`: the share (0..1) of pages that answer 503 when first asked for.
    With `as_json` stdout holds nothing but the summary. Raises CrawlError where nothing could be started.
    """
    defs = demo_defs()
    with contextlib.ExitStack() as stack:
        try:
            address = stack.enter_context(serve_shop(pages=pages, latency=latency, errors=errors))
        except OSError as error:
            raise CrawlError(f"cannot serve the shop: {error}", "Free processes, memory or files.") from error
        here = replace(settings, base_url=address)
        code = run(HeadlessOptions(defs=defs, data=data, settings=here, fresh=True, json=as_json))
    if code in _COMPLETED_CODES:
        stream = sys.stderr if as_json else sys.stdout
        try:
            _print_output(data, defs, stream)
        except BrokenPipeError:  # who reads it has seen enough; how the crawl ended stays true
            redirect_to_devnull(stream)
    return code


def demo_defs() -> Path:
    """Where the demo's defs are: packaged in `console`, or in a clone's `defs`. Raises CrawlError."""
    here = Path(__file__).resolve().parents[2]
    for folder in (here / "demo_defs", here.parent / "defs"):
        if (folder / "shop.yml").is_file():
            return folder
    raise CrawlError(f"the demo's defs are missing from {here}", "Install crawl-console again.")


def _print_output(data: Path, defs: Path, stream: TextIO) -> None:
    """Where the rows are, and what they look like."""
    folder = data / "output" / "latest"
    for path in sorted(path for path in folder.iterdir() if not path.name.startswith(".")):
        stream.write(f"\n{path}\n")
        if path.suffix == ".csv":
            stream.writelines(f"  {line}\n" for line in _sample_lines(path))
    stream.write(f"\nMade by the defs in {defs}; see also `crawl-console status --data {data}`.\n")
    stream.flush()


def _sample_lines(path: Path) -> Iterator[str]:
    """The names of the columns and a few rows, as wide as a terminal."""
    with path.open(encoding="utf-8", newline="") as file:
        for row in islice(csv.reader(file), 1 + _SAMPLE_ROWS):
            line = " | ".join("".join(c if c.isprintable() else " " for c in cell) for cell in row)
            yield line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
