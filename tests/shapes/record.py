"""Records the shapes: `python -m tests.shapes.record [NAME]…` runs each against local servers."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest.mock
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec

from crawl_console.cli.main import main
from crawl_console.client import read_snapshot
from crawl_engine.judge.trouble import RunJudge
from crawl_engine.model.run import Alarm, Eta
from crawl_engine.store.read.situation import Situation

FOLDER = Path(__file__).parent
_LETTERS = "abcdefghijklmnop"
DEFS = """\
locatorGroups: {{pages: {{locators: [{locators}]}}}}
taskGroups: {{pages: {{page: {{dataDef: item}}}}}}
dataDefs: {{item: {{fields: {{name: {{selector: h1}}, price: {{selector: .price}}}}, links: [{{selector: a}}]}}}}
hosts: {{{hosts}}}
"""
PAGE = "<article><h1>{number}</h1><p class=price>{number}</p>{links}</article>"
Answer = tuple[int, dict[str, str], str]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_GET(self) -> None:
        number = int(self.path.rpartition("/")[2] or 0)
        status, headers, body = self.server.answer(number)
        with contextlib.suppress(OSError):
            self.send_response(status)
            for name, value in {"Content-Type": "text/html", "Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    """One host. `respond`: to the number in the path, and the number of the request; it may wait."""

    daemon_threads = True

    def __init__(self, respond: Callable[[int, int], Answer]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self._respond = respond
        self._requests = 0
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def key(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def answer(self, number: int) -> Answer:
        self._requests += 1
        return self._respond(number, self._requests)


def good(number: int, _: int = 0, links: str = "", seconds: float = 0.05) -> Answer:
    time.sleep(seconds)
    return 200, {}, PAGE.format(number=number, links=links)


def hangs(number: int, request: int) -> Answer:
    time.sleep(0.05 if request < 20 or request > 26 else 60.0)
    return good(number)


def rests(number: int, request: int) -> Answer:
    return (429, {"Retry-After": "8"}, "later") if request == 30 else good(number)


def overloaded(number: int, request: int) -> Answer:
    return (503, {}, "later") if 30 <= request < 36 else good(number)


def challenges(number: int, request: int) -> Answer:
    return (403, {"cf-mitigated": "challenge"}, "are you human?") if 20 <= request < 24 else good(number)


def endless(number: int, _: int) -> Answer:
    links = "".join(f"<a href='/{number * 20 + child + 1}'>x</a>" for child in range(20))
    return good(number, links=links)


def tree(number: int, _: int) -> Answer:
    children = [child for child in (2 * number, 2 * number + 1) if child <= 500]
    return good(number, links="".join(f"<a href='/{child}'>x</a>" for child in children))


def breaks(number: int, request: int) -> Answer:
    return good(number) if request <= 100 else (200, {}, f"<article><h1>{number}</h1><i>{number}</i></article>")


def turns_bad(number: int, request: int) -> Answer:
    return (500, {}, "broken") if 2_000 < request <= 2_200 else good(number, seconds=0.01)


def redesigned(number: int, request: int) -> Answer:
    return good(number) if request <= 60 else (200, {}, f"<article><h1>{number}</h1><i>{number}</i></article>")


def forbids(number: int, _: int) -> Answer:
    time.sleep(0.05)
    return 403, {}, "no"


def goes_on(number: int, _: int) -> Answer:
    return good(number, links=f"<a href='/{number + 1}'>next</a>" if number < 20 else "", seconds=0.4)


Order = tuple[float, tuple[str, ...]]


class Shape(msgspec.Struct):
    """`hosts`: with their number of pages and the rest of their rule. `orders`: commands with their moment.

    `{a}` in a command stands for the first host, and so on.
    """

    hosts: list[tuple[Callable[[int, int], Answer], int, str]]
    options: tuple[str, ...] = ()
    orders: list[Order] = []
    kill_at: float | None = None


SHAPES = {
    "steady": Shape([(good, 500, "concurrency: 2")]),
    "two-hosts": Shape([(good, 300, "concurrency: 2"), (good, 200, "concurrency: 1")]),
    "slow-tail": Shape([(good, 300, "concurrency: 2"), (good, 40, "delay: 0.5")]),
    "hang": Shape([(good, 500, "concurrency: 1"), (hangs, 100, "concurrency: 2")], ("--set", "deadline=8")),
    "rest": Shape([(good, 300, "concurrency: 1"), (rests, 200, "concurrency: 1")]),
    "overload": Shape([(good, 300, "concurrency: 1"), (overloaded, 200, "concurrency: 1")]),
    "challenge": Shape([(good, 300, "concurrency: 1"), (challenges, 100, "concurrency: 1")]),
    "endless": Shape([(endless, 1, "concurrency: 2")], ("--max-time", "75")),
    "tree": Shape([(tree, 1, "concurrency: 2")]),
    "pause": Shape([(good, 300, "concurrency: 2")], orders=[(5.0, ("pause",)), (12.0, ("resume",))]),
    "page-limit": Shape([(good, 900, "concurrency: 2")], ("--max-pages", "400")),
    "nodes-lost": Shape([(good, 500, "concurrency: 2")], kill_at=5.0),
    "turns-bad": Shape([(turns_bad, 2_600, "concurrency: 4")]),
    "redesign": Shape([(redesigned if number == 7 else good, 150, "concurrency: 1") for number in range(16)]),
    "refusals": Shape([*[(forbids, 4, "concurrency: 1")] * 3, *[(good, 200, "concurrency: 1")] * 2]),
    "list-goes-on": Shape([(good, 200, "concurrency: 1"), (goes_on, 1, "concurrency: 1")]),
    "list-paused": Shape(
        [(good, 200, "concurrency: 1"), (goes_on, 1, "concurrency: 1")],
        orders=[(4.0, ("pause", "pages@{b}")), (25.0, ("resume", "pages@{b}"))],
    ),
    "broken-selector": Shape([(breaks, 300, "concurrency: 1")]),
}  # fmt: skip


def record(name: str, folder: Path) -> None:
    """Run a shape, and write its situations."""
    shape = SHAPES[name]
    servers = [(Server(answer), pages, rule) for answer, pages, rule in shape.hosts]
    locators = ", ".join(f'{{url: "http://{server.key}/{{1..{pages}}}"}}' for server, pages, _ in servers)
    hosts = ", ".join(f'"{server.key}": {{private: true, robots: false, {rule}}}' for server, _, rule in servers)
    (folder / "shape.yml").write_text(DEFS.format(locators=locators, hosts=hosts))
    options = ("--nodes", "2", "--progress", "quiet", *shape.options)
    child = subprocess.Popen([sys.executable, "-m", "tests.shapes.record", "--child", str(folder), *options])
    keys = dict(zip(_LETTERS, (server.key for server, _, _ in servers), strict=False))
    threading.Thread(target=lambda: give_orders(shape, folder, keys), daemon=True).start()
    child.wait()
    lines = [msgspec.json.decode(line) for line in (folder / "situations.jsonl").read_bytes().splitlines()]
    kept = [line for number, line in enumerate(lines) if not number or line["at"] - lines[number - 1]["at"] > 0.2]
    text = "\n".join(msgspec.json.encode(line).decode() for line in kept)
    for letter, key in keys.items():
        text = text.replace(key, f"{letter}.example")
    (FOLDER / f"{name}.jsonl").write_text(text.replace(str(folder), "/data") + "\n")
    print(f"{name}: {len(kept)} situations, {lines[-1]['at'] - lines[0]['at']:.0f} s", flush=True)


def give_orders(shape: Shape, folder: Path, keys: Mapping[str, str]) -> None:
    """Send the commands of a shape at their moments, and kill a node."""
    began = time.monotonic()
    for at, command in shape.orders:
        time.sleep(max(0.0, began + at - time.monotonic()))
        arguments = [word.format(**keys) for word in command]
        subprocess.run([sys.executable, "-m", "crawl_console", *arguments, "--data", str(folder / "data")], check=False)
    if shape.kill_at is not None:
        time.sleep(shape.kill_at)
        os.kill(find_node(folder), signal.SIGKILL)


def find_node(folder: Path) -> int:
    """The pid of a node of the run."""
    return next(node.pid for node in read_snapshot(folder / "data").nodes if node.pid is not None)


def run_child(folder: Path, options: list[str]) -> None:
    """Crawl in this process, and write each situation that the supervisor judges."""
    update, file = RunJudge.update, (folder / "situations.jsonl").open("ab")

    def note(judge: RunJudge, situation: Situation) -> tuple[Eta, list[Alarm]]:
        file.write(msgspec.json.encode(situation) + b"\n")
        file.flush()
        return update(judge, situation)

    with unittest.mock.patch.object(RunJudge, "update", note):
        main(["run", "--no-ui", "--defs", str(folder / "shape.yml"), "--data", str(folder / "data"), *options])


def folders() -> Iterator[Path]:
    while True:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        run_child(Path(sys.argv[2]), sys.argv[3:])
    else:
        for name, folder in zip(sys.argv[1:] or SHAPES, folders(), strict=False):
            record(name, folder)
