"""Takes the screenshots of the docs from a running demo crawl: `just shots`."""

import asyncio
import contextlib
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from console.cli.commands.demo import demo_defs
from console.tui.app import Console
from console.tui.config import Config
from console.tui.options import ConsoleOptions
from console.tui.state.control import ControlClient
from console.tui.state.source import DataSource
from engine.supervise.lock import read_holder

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "screens"
SHOTS = (
    ("nodes", (160, 48), ()),
    ("narrow", (80, 24), ()),
    ("hosts", (120, 20), ("3",)),
    ("failed", (120, 24), ("4",)),
    ("kill", (100, 24), ("space", "X")),
)


async def take_shots(data: Path) -> None:
    FOLDER.mkdir(exist_ok=True)
    for name, size, keys in SHOTS:
        config = Config(data / "config")
        app = Console(
            ConsoleOptions(data=data, defs=demo_defs(), hertz=4, config=config),
            DataSource(data),
            ControlClient(data),
        )
        async with app.run_test(size=size) as pilot:
            await asyncio.sleep(5 if name == "nodes" else 2)
            for key in keys:
                await pilot.press(key)
            await asyncio.sleep(1)
            svg = app.export_screenshot(title="crawl-console demo")
        svg = re.sub(r"\s*@font-face \{.*?\}", "", re.sub(r"terminal-\d+", "terminal-0", svg), flags=re.DOTALL)
        (FOLDER / f"{name}.svg").write_text(svg, "utf-8")
        print(FOLDER / f"{name}.svg")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "tea" / "data"
        crawl = subprocess.Popen(
            [
                *(sys.executable, "-m", "console", "demo", "--no-ui", "--data", str(data), "--pages", "9000"),
                *("--latency", "60", "--errors", "4", "--set", "max_attempts=1", "--set", "nodes=4"),
                *("--set", "backups=1"),
            ],
            stderr=subprocess.DEVNULL,
        )
        try:
            while (holder := read_holder(data)) is None or not holder.run:
                time.sleep(0.1)
            time.sleep(2)
            asyncio.run(take_shots(data))
        finally:
            crawl.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                crawl.wait(30)


if __name__ == "__main__":
    main()
