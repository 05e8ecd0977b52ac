"""One crawl for several tests of a module: each has its own sites, groups and dataDefs in it."""

import inspect
import json
import re
from collections import Counter
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urljoin

import pytest
import yaml

from crawl_engine.store.tables.run.events import TEXT

from .project import Completed, Project
from .site import Site, serve_site
from .trap import Trap, trapping

Part = Generator[str | tuple[str, Mapping[str, str]], "Crawled", None]
"""A test's part: it fills its sites, yields its defs, and receives what the crawl made of them.

Files of the plugin folder may follow the defs; their names are of no other test.
"""


class Crawled:
    """What a shared crawl made of the defs of one test."""

    def __init__(self, project: Project, number: int) -> None:
        self.project, self._number, self.prefix = project, number, f"part{number}-"
        self.done: Completed

    def write(self, text: str, plugins: Mapping[str, str], sites: list[Site]) -> None:
        """Write the defs: their groups and dataDefs get names, and their hosts ports, that no other test has."""
        self._sites = sites
        for name, source in plugins.items():
            (self.project.defs / "plugins").mkdir(exist_ok=True)
            (self.project.defs / "plugins" / name).write_text(source)
        defs = yaml.safe_load(text)
        base = defs.pop("baseUrl", "")
        for group in defs["locatorGroups"].values():
            for locator in group["locators"]:
                if "url" in locator:
                    locator["url"] = urljoin(base, locator["url"])
                if "urls" in locator:
                    locator["urls"] = [urljoin(base, url) for url in locator["urls"]]
        for section in ("locatorGroups", "taskGroups", "dataDefs"):
            defs[section] = {self._name(name): value for name, value in defs[section].items()}
        for tasks in defs["taskGroups"].values():
            for task in tasks.values():
                if isinstance(task, dict):
                    task["dataDef"] = self._name(task["dataDef"])
                    for step in self._steps(task):
                        if "linkGroup" in step.get("options", ()):
                            step["options"]["linkGroup"] = self._name(step["options"]["linkGroup"])
        for data_def in defs["dataDefs"].values():
            for link in data_def.get("links", ()):
                if "linkGroup" in link:
                    link["linkGroup"] = self._name(link["linkGroup"])
        ports = {str(site.port) for site in sites} | set(re.findall(r"//127\.0\.0\.1:(\d+)", text))
        terms = defs["hosts"].pop("127.0.0.1", None)
        if terms is not None:
            defs["hosts"] |= {f"127.0.0.1:{port}": terms for port in ports}
        self.project.write(json.dumps(defs), f"part{self._number}.yml")

    @property
    def jobs(self) -> Counter[str]:
        """Jobs by state."""
        return Counter(str(job["state"]).lower() for job in self.all_jobs())

    def all_jobs(self) -> list[dict[str, Any]]:
        groups = f"SELECT id FROM sequences WHERE kind = 'page' AND grp LIKE '{self.prefix}%'"
        names = ["url", "state", "reason", "attempts", "depth"]
        jobs = self.project.query(f"SELECT {', '.join(names)} FROM jobs WHERE sequence IN ({groups}) ORDER BY id")
        return [dict(zip(names, job, strict=True)) for job in jobs]

    def job(self, url: str) -> dict[str, Any]:
        return self.project.job(url)

    def events(self, words: str) -> list[str]:
        """Events whose texts name a URL or a dataDef of this test, and these words."""
        texts = [text for (text,) in self.project.query(f"SELECT {TEXT} FROM events ORDER BY id") if words in text]
        names = [self.prefix, *(site.url() for site in self._sites)]
        return [text for text in texts if any(name in text for name in names)]

    def rows(self, data_def: str) -> list[dict[str, str]]:
        return self.project.rows(self._name(data_def))

    def count_rows(self, *data_defs: str) -> Counter[tuple[str, ...]]:
        return Counter((name, *row.values()) for name in data_defs for row in self.rows(name))

    def results(self) -> dict[tuple[str, str], int]:
        """Results of steps by outcome and code."""
        counts = f"result_counts WHERE grp LIKE '{self.prefix}%' GROUP BY outcome, code"
        found = self.project.query(f"SELECT outcome, code, sum(results) FROM {counts}")
        return {(outcome, code): count for outcome, code, count in found}

    @staticmethod
    def _steps(task: dict[str, Any]) -> list[dict[str, Any]]:
        steps = task.get("steps")
        return [step for chain in steps.values() for step in chain.values()] if isinstance(steps, dict) else []

    def _name(self, name: str) -> str:
        return self.prefix + name


class SharedCrawls:
    """The crawls of a module: one for each set of arguments that its tests ask for."""

    def __init__(self, module: ModuleType, folder: Callable[[str], Path], exits: ExitStack) -> None:
        self._module, self._folder, self._exits = module, folder, exits
        self._parts: dict[Callable[..., Part], tuple[Part, Crawled]] = {}

    def finish(self, case: Callable[..., Part], arguments: tuple[str, ...]) -> None:
        """Let a test check its part of the crawl; the first test of a crawl starts it."""
        if case not in self._parts:
            self._crawl(arguments)
        part, crawled = self._parts.pop(case)
        with pytest.raises(StopIteration):
            part.send(crawled)

    def _crawl(self, arguments: tuple[str, ...]) -> None:
        project = Project(self._folder("shared"))
        project.nodes = 1
        self._exits.callback(project.kill_all)
        parts: list[Crawled] = []
        for test in vars(self._module).values():
            case = getattr(test, "case", None)
            if case is not None and test.arguments == arguments:
                servers = [self._exits.enter_context(_serve(name)) for name in inspect.signature(case).parameters]
                part, crawled = case(*servers), Crawled(project, len(parts))
                self._parts[case] = part, crawled
                written = next(part)
                text, plugins = (written, {}) if isinstance(written, str) else written
                crawled.write(text, plugins, [server for server in servers if isinstance(server, Site)])
                parts.append(crawled)
        done = project.start(*arguments).wait()
        project.assert_clean(done)
        assert done.code == ("failed" in done.jobs)
        for crawled in parts:
            crawled.done = done
        assert sum((crawled.jobs for crawled in parts), Counter()) == done.jobs


def _serve(name: str) -> AbstractContextManager[Site | Trap]:
    return trapping("127.0.0.1") if name == "trap" else serve_site()


def shared(*arguments: str) -> Callable[[Callable[..., Part]], Callable[[SharedCrawls], None]]:
    """Make a test of a generator that takes sites and traps; tests of its module with these arguments share a crawl."""

    def decorate(case: Callable[..., Part]) -> Callable[[SharedCrawls], None]:
        def test(shared_crawls: SharedCrawls) -> None:
            shared_crawls.finish(case, arguments)

        test.__name__, test.__module__, test.__doc__ = case.__name__, case.__module__, case.__doc__
        test.case, test.arguments = case, arguments  # type: ignore[attr-defined]
        return test

    return decorate
