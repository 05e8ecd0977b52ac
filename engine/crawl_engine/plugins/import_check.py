"""Imports plugin classes in another process, and tells which of them cannot be imported, and where."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

import orjson
from msgspec import Struct, json

from crawl_engine.model.step import PluginFile
from crawl_engine.plugins.files import decode_files, encode_files
from crawl_engine.plugins.loading import PluginLoader
from crawl_engine.plugins.plugin_errors import PACKAGE, PluginUnavailable, last_place

_LIMIT_SECONDS = 60.0


class ImportFailure(Struct, frozen=True):
    """A class that cannot be imported."""

    name: str
    reason: str
    path: str | None = None
    """The plugin file with the statement that failed, relative to their folder; None: there is none."""
    line: int = 1
    is_slow: bool = False
    """Whether its import only took too long."""


def find_failures(files: Sequence[PluginFile], names: Sequence[str]) -> list[ImportFailure]:
    """The classes that cannot be imported. Nothing of them runs but their modules, and not in this process."""
    order = orjson.dumps({"path": sys.path, "names": names, "files": encode_files(files).decode()})
    command = [sys.executable, "-P", "-m", __name__]
    timed_out, status = False, 0
    try:
        done = subprocess.run(
            command, input=order, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=_LIMIT_SECONDS,
            check=False, start_new_session=True,
        )  # fmt: skip
        output, status = done.stdout, done.returncode
    except subprocess.TimeoutExpired as expired:
        output, timed_out = expired.stdout or b"", True
    answers = [json.decode(line, type=ImportFailure) for line in output.splitlines()]
    failures = [answer for answer in answers if answer.reason]
    if len(answers) < len(names):
        name = names[len(answers)]
        how = f"takes longer than {_LIMIT_SECONDS:g} s" if timed_out else f"ends its process ({_describe(status)})"
        failures.append(ImportFailure(name, f"its import {how}", is_slow=timed_out))
    return failures


def _describe(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"exit {status}"


def _import(files: Sequence[PluginFile], names: Sequence[str]) -> Iterator[ImportFailure]:
    """An answer for each class; its reason is empty if it can be imported."""
    loader = PluginLoader(files)
    for name in names:
        try:
            loader.load(name)
            yield ImportFailure(name, "")
        except PluginUnavailable as error:
            path, line = last_place(error.__cause__ or error)
            yield ImportFailure(name, str(error), path and path.removeprefix(f"{PACKAGE}/"), line)


def _main() -> None:
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what modules print as they are imported
    order = orjson.loads(sys.stdin.buffer.read())
    sys.path[:] = order["path"]
    for answer in _import(decode_files(order["files"].encode()), order["names"]):
        answers.write(json.encode(answer) + b"\n")
    os._exit(0)  # threads that a module started must not keep it alive


if __name__ == "__main__":
    _main()
