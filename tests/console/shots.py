"""Takes the pictures of the docs from a crawl of the demo's town: `just shots`.

Each picture notes which golden screen it belongs to, and its hash: `test_pictures.py` finds pictures of screens that
have changed since.
"""

import asyncio
import contextlib
import hashlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from textual.app import App

from crawl_console.crawl.source import DataSource
from crawl_console.tui.app import Console
from crawl_console.tui.config import Config
from crawl_console.tui.crawls import CrawlList
from crawl_console.tui.options import ConsoleOptions
from crawl_console.tui.state.control import ControlClient
from crawl_engine.supervise.lock import read_holder
from tests.console.pictures import draw_screen, drawn_strips

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "screens"
GOLDEN = Path(__file__).with_name("golden")
SHOTS = {
    "nodes": ((160, 48), (), "nodes-160x48"),
    "narrow": ((80, 24), (), "nodes-80x24"),
    "hosts": ((120, 20), ("3",), "hosts-120x40"),
    "failed": ((120, 24), ("4",), "failed-120x40"),
    "crawls": ((120, 8), (), "crawls-160x48"),
    "kill": ((100, 24), ("space", "X"), "kill-80x24"),
}
"""By picture: the size, the keys, and the golden screen that shows the same."""
_CRAWL_SECONDS = 25.0
"""Before the first picture: the town's mistakes are noticed by then."""
_POLL_SECONDS = 3.0


def describe(name: str) -> str:
    """The note of a picture: the golden screen that it belongs to, as that is now."""
    golden = SHOTS[name][2]
    digest = hashlib.sha256((GOLDEN / f"{golden}.txt").read_bytes()).hexdigest()
    return f"crawl-console demo: {name}. Drawn by `just shots` with {golden} {digest[:16]}"


async def take_shots(data: Path, defs: Path, others: Sequence[Path]) -> None:
    """`others`: data dirs that the list of crawls shows besides."""
    for name, (size, keys, _) in SHOTS.items():
        config = Config(data / "config")
        options = ConsoleOptions(data=data, defs=defs, hertz=4, config=config)
        app: App[Any] = Console(options, DataSource(data), ControlClient(data))
        if name == "crawls":
            app = CrawlList([data, *others], config, 4)
        async with app.run_test(size=size) as pilot:
            await asyncio.sleep(_POLL_SECONDS)
            await pilot.press(*keys)
            await asyncio.sleep(1)
            picture = draw_screen(drawn_strips(app), describe(name))
        (FOLDER / f"{name}.svg").write_text(picture, "utf-8")
        print(FOLDER / f"{name}.svg")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        shop, small = Path(folder) / "tea", Path(folder) / "small"
        shop.mkdir()
        small.mkdir()
        done = [sys.executable, "-m", "crawl_console", "demo", "--no-ui", "--pages", "300"]
        subprocess.run(done, check=True, cwd=small, stderr=subprocess.DEVNULL)
        crawl = subprocess.Popen(
            [
                *(sys.executable, "-m", "crawl_console", "demo", "--town", "--no-ui", "--pages", "6000"),
                *("--set", "backups=1", "--set", "max_attempts=1", "--set", "nodes=3"),
                *("--latency", "60", "--errors", "2"),
            ],
            stderr=subprocess.DEVNULL, cwd=shop,
        )  # fmt: skip
        try:
            while (holder := read_holder(shop / "data")) is None or not holder.run:
                time.sleep(0.1)
            time.sleep(_CRAWL_SECONDS)
            os.chdir(shop)
            [defs] = [path for path in shop.iterdir() if path.is_dir() and (path / "shop.yml").is_file()]
            asyncio.run(take_shots(shop / "data", defs, [small / "data", Path(folder) / "moved" / "data"]))
        finally:
            os.chdir("/")
            crawl.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                crawl.wait(30)


if __name__ == "__main__":
    main()
