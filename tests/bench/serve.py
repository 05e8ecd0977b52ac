"""Measures `serve` on a large data dir: the first answers, and 60 s of scrapes and streams beside a busy store.

    python -m tests.bench.serve [--jobs N] [--hosts N] [--streams N] [--scrapes N] [--seconds S] [--load N]

The store fills the data dir; this process finishes jobs in it as a crawl would, and asks.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from .console import Load, filled

_TICK = os.sysconf("SC_CLK_TCK")


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICK


def memory_of(pid: int) -> int:
    """Bytes that it alone would return: its proportional share."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return 1024 * int(next(line for line in text.splitlines() if line.startswith("Pss:")).split()[1])


async def listen(client: httpx.AsyncClient, counts: list[int]) -> None:
    async with client.stream("GET", "/events", timeout=None) as answer:
        async for chunk in answer.aiter_raw():
            counts[0] += len(chunk)


async def ask(url: str, token: str, options: argparse.Namespace, pid: int) -> None:
    limits = httpx.Limits(max_connections=options.streams + 10)
    headers = {"Authorization": f"Bearer {token}"}
    counts = [0]
    async with httpx.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=30) as client:
        for path in ("/status.json", "/metrics", "/"):
            before, began = cpu_of(pid), time.monotonic()
            size = len((await client.get(path)).content)
            seconds = time.monotonic() - began
            print(f"first {path:14} {cpu_of(pid) - before:.2f} s CPU, {seconds:.2f} s, {size:,} bytes", flush=True)
        streams = [asyncio.create_task(listen(client, counts)) for _ in range(options.streams)]
        await asyncio.sleep(3)
        before, began, memory, sent = cpu_of(pid), time.monotonic(), memory_of(pid), counts[0]
        for number in range(options.scrapes):
            await asyncio.sleep(max(0.0, began + number * options.seconds / options.scrapes - time.monotonic()))
            (await client.get("/metrics")).raise_for_status()
        await asyncio.sleep(max(0.0, began + options.seconds - time.monotonic()))
        seconds, now = time.monotonic() - began, memory_of(pid)
        print(
            f"{options.streams} streams, {options.scrapes} scrapes in {seconds:.0f} s:"
            f" {100 * (cpu_of(pid) - before) / seconds:.1f} % of a core; {(counts[0] - sent) / seconds / 1e3:.0f} kB/s;"
            f" memory {memory / 1e6:.1f} → {now / 1e6:.1f} MB"
        )
        for stream in streams:
            stream.cancel()


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, value in (("jobs", 100_000), ("hosts", 10_000), ("streams", 50), ("scrapes", 200), ("load", 50)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="serve-bench-") as name:
        folder = Path(name) / "data"
        folder.mkdir(mode=0o700)
        run, epochs = filled(folder, options.jobs, options.hosts, 4)
        load = Load(folder, run, epochs, options.load)
        command = [sys.executable, "-m", "crawl_console", "serve", "--port", "0", "--data", str(folder)]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            print(f"start {cpu_of(server.pid):.2f} s CPU", flush=True)
            asyncio.run(ask(url, (folder / "serve.token").read_text().strip(), options, server.pid))
        finally:
            server.terminate()
            server.wait()
            load.stop()


if __name__ == "__main__":
    main()
