"""The first crawl of the README, as it is written there: the shop in one terminal, the defs in another folder."""

import json
import re
import shlex
import signal
import socket
from pathlib import Path

import pytest

from .project import Project, until

README = (Path(__file__).resolve().parents[2] / "README.md").read_text("utf-8")
SECTION = README.partition("## A first crawl")[2].partition("\n## ")[0]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.mark.quick
def test_the_first_crawl_gives_the_rows_that_the_readme_promises(project: Project) -> None:
    port = free_port()
    serve, commands = (block.splitlines() for block in blocks("sh"))
    shop = project.start_command(*shlex.split(serve[0])[1:], "--port", str(port))
    outputs = {}
    try:
        until(lambda: f"127.0.0.1:{port}" in shop.out)
        (project.defs / "shop.yml").write_text(blocks("yaml")[0].replace("127.0.0.1:8765", f"127.0.0.1:{port}"))
        for line in commands:
            words = shlex.split(line, comments=True)
            if words[0] == "crawl-console":
                done = project.run_command(*words[1:])
                assert done.code == 0, (line, done.err)
                outputs[words[1]] = done.out
    finally:
        shop.send(signal.SIGINT)
    assert shop.wait().code == 0
    rows = project.rows("offer")
    assert re.findall(r"crawl; (\d+) rows", SECTION) == [str(len(rows))]
    written = (project.data / "output" / "latest" / "offer.csv").read_text("utf-8").replace(f":{port}", ":8765")
    assert written.startswith(blocks("text")[0])
    assert all(re.fullmatch(r"\d+\.\d\d", row["price"]) for row in rows if row["price"]), "prices keep their digits"
    assert len({row["url"] for row in rows}) == len(rows)
    exported = [json.loads(line) for line in outputs["export"].splitlines()]
    assert [row["name"] for row in exported] == [row["name"] for row in rows]
