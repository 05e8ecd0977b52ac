"""The steps of docs/deploy/Containerfile without a container: installed into a fresh venv, run by another user."""

import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .project import until

ROOT = Path(__file__).resolve().parents[2]
USER = "nobody"
TEXT = (ROOT / "docs/deploy/Containerfile").read_text("utf-8").replace("\\\n", " ")
pytestmark = [
    pytest.mark.sweep,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user"),
    pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv"),
]


class Container:
    """A folder that another user has, with the paths of the image below it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.user = pwd.getpwnam(USER)

    def start(self, *words: str) -> "subprocess.Popen[str]":
        environment = {
            "PATH": f"{self.folder}/opt/crawl-console/bin:/usr/bin:/bin", "HOME": str(self.folder / "home"),
            **{name: value for name, value in os.environ.items() if name.startswith("PIP_")},
        }  # fmt: skip
        identity = [f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--clear-groups"]
        command = ["setpriv", *identity, "--no-new-privs", *words]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment,
            cwd=self.folder / "defs", start_new_session=True,
        )  # fmt: skip

    def run(self, *words: str, seconds: float = 120) -> tuple[int, str]:
        process = self.start(*words)
        out, _ = process.communicate(timeout=seconds)
        return process.returncode, out

    def place(self, word: str) -> str:
        """A word of the file with its absolute paths below the folder."""
        return re.sub(r"(?<![\w./])/(opt|source|data|defs)\b", rf"{self.folder}/\1", word)


@pytest.fixture(scope="module")
def container() -> Iterator[Container]:
    python = next((path for path in ("/usr/bin/python3", "/usr/local/bin/python3") if Path(path).exists()), None)
    if python is None:
        pytest.skip("needs a Python that other users can start")
    folder = Path("/var/tmp") / f"crawl-console-container-{os.getpid()}"  # other users do not reach pytest's folders
    container = Container(folder)
    for name in ("home", "defs", "data", "opt"):
        (folder / name).mkdir(parents=True)
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    ignored = (ROOT / "docs/deploy/Containerfile.dockerignore").read_text().split()
    for name in names.rstrip("\0").split("\0"):
        if name.split("/")[0] not in ignored and (ROOT / name).is_file():
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / "source" / name)
    for path in (folder, *folder.rglob("*")):
        os.chown(path, container.user.pw_uid, container.user.pw_gid)
    (step,) = re.findall(r"^RUN (python -m venv .*)$", TEXT, re.MULTILINE)
    (extras,) = re.findall(r"^ARG EXTRAS=(.*)$", TEXT, re.MULTILINE)
    step = container.place(step).replace("$EXTRAS", extras).replace("python -m venv", f"{python} -m venv")
    try:
        code, out = container.run("sh", "-c", step, seconds=800)
        if code and re.search("No matching distribution|NewConnectionError|ensurepip|Network is unreachable", out):
            pytest.skip(f"no packages can be installed here: {out[-300:]}")
        assert code == 0, out[-3000:]
        yield container
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_another_user_crawls(container: Container) -> None:
    code, out = container.run("crawl-console", "--version")
    assert (code, out.split()[0]) == (0, "crawl-console")
    code, out = container.run(
        "crawl-console", "demo", "--no-ui", "--pages", "20", "--data", f"{container.folder}/data/d"
    )
    assert code == 0, out[-2000:]


def test_a_stop_takes_less_than_30_seconds(container: Container) -> None:
    process = container.start("crawl-console", "demo", "--no-ui", "--data", f"{container.folder}/data/stopped")
    database = container.folder / "data/stopped/crawl.db"
    assert until(database.exists, 60)
    time.sleep(2.0)
    started_at = time.monotonic()
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(30) in (143, 0)
    assert time.monotonic() - started_at < 30


def test_the_health_check_follows_serve(container: Container) -> None:
    (check,) = re.findall(r"^HEALTHCHECK .*?CMD (\[.*\])$", TEXT, re.MULTILINE)
    words = json.loads(check)
    data = container.folder / "data/served"
    assert container.run("crawl-console", "demo", "--no-ui", "--pages", "5", "--data", str(data))[0] == 0
    process = container.start("crawl-console", "serve", "--data", str(data), "--port", "0")
    try:
        assert process.stdout is not None
        found = (re.search(r"127\.0\.0\.1:(\d+)", line) for line in process.stdout)
        port = next(match[1] for match in found if match is not None)
        words = [word.replace(":8787/", f":{port}/") for word in words]
        assert container.run(*words)[0] == 0
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.wait(30)
    assert container.run(*words)[0] != 0
