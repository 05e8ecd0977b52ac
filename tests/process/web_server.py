"""A process of `serve`, for tests: its address, its token, and a client."""

import os
from pathlib import Path
from typing import Any

import httpx
import pytest

from .project import Project, Running, until

pytest.importorskip("prometheus_client", reason="the extra serve is missing")


class WebServer:
    def __init__(self, project: Project, *arguments: str, data: tuple[Path, ...] = ()) -> None:
        """It serves the data dir of the project, or others, on any free port."""
        # relative: `Project.assert_clean` looks for processes of the crawl by the path of its folder
        names = [os.path.relpath(folder, project.folder) for folder in data or (project.data,)]
        (data or (project.data,))[0].mkdir(mode=0o700, parents=True, exist_ok=True)
        folders = [word for name in names for word in ("--data", name)]
        self.running: Running = project.start_command("serve", "--port", "0", *arguments, *folders)
        assert until(lambda: "\n" in self.running.out or self.running.exited), "it does not start"
        assert not self.running.exited, self.running.err
        self.url = self.running.out.splitlines()[0]
        token = next(line for line in self.running.err.splitlines() if line.startswith("token: "))
        self.token = Path(project.folder, token.removeprefix("token: ")).read_text().strip()
        self.client = httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {self.token}"}, timeout=20)

    def status(self, **parameters: str) -> dict[str, Any]:
        answer = self.client.get("/status.json", params=parameters)
        assert answer.status_code == 200, answer.text
        shown: dict[str, Any] = answer.json()
        return shown

    def command(self, name: str, **arguments: Any) -> httpx.Response:
        return self.client.post(f"/commands/{name}", json=arguments)

    def stop(self) -> None:
        self.client.close()
        self.running.process.terminate()
        done = self.running.wait()
        assert done.code == 0, done.err
        assert "Traceback" not in done.err, done.err
