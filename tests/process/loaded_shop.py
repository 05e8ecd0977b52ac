"""A shop of numbered items that a plugin loader fetches; what the loader does besides depends on the number."""

import shutil
from collections import Counter
from pathlib import Path

from .project import Project
from .site import Site, html

EXAMPLE = Path(__file__).parents[1] / "data" / "loader"
DEFS = """\
locatorGroups:
  items: {{locators: [{{url: "{url}", name: items}}]}}
taskGroups:
  items:
    own: {{dataDef: item, steps: {{jsoupDefault: {{loader: {step}}}}}}}
dataDefs:
  item:
    fields:
      title: {{selector: h1, required: true}}
      price: {{selector: i, type: decimal, required: true}}
    links: [{{selector: a}}]
hosts: {{"127.0.0.1": {host}}}
"""
PLUGIN = '''\
"""A loader of the shop."""

import asyncio
import os
import sys
import time
import urllib.error
import urllib.request

from crawl_console import NotApplicable, PageResponse, StepError

leaked = []


def fetch(request):
    headers = {**request.headers, "x-loader": str(os.getpid())}
    try:
        response = urllib.request.urlopen(urllib.request.Request(request.url, headers=headers, data=request.body))
    except urllib.error.HTTPError as error:
        response = error
    with response:
        return PageResponse(
            body=response.read(), url=response.url, status=response.status, headers=dict(response.headers)
        )


class Fetch:
    """Fetches pages, and misbehaves on those whose number ends with 3."""

    def __init__(self, trouble="", always=False):
        self.trouble, self.always = trouble, always

    def load(self, request, context):
        name = request.url.rpartition("/")[2]
        number = int(name) if name.isdecimal() else 0
        if number % 10 == 3 and (self.always or context.attempt == 1):
            answer = self.misbehave(request, context)
            if answer is not None:
                return answer
        return fetch(request)

    def misbehave(self, request, context):
        match self.trouble:
            case "error":
                raise StepError("three is bad", "three")
            case "exception":
                1 / 0
            case "warning":
                context.warning("three is odd", "odd")
            case "not applicable":
                raise NotApplicable("three")
            case "loop":
                while True:
                    pass
            case "sleep":
                time.sleep(60)
            case "exit":
                os._exit(7)
            case "quit":
                sys.exit(3)
            case "memory":
                while True:
                    leaked.append(bytearray(os.urandom(1_000_000)))
            case "leak":
                leaked.append(os.urandom(250_000_000))
            case "print":
                print("x" * 100_000)
                os.write(1, b"y" * 100_000)
            case "garbage":
                os.write(int(max(os.listdir("/proc/self/fd"), key=int)), b"z" * 100)
                for name in os.listdir("/proc/self/fd"):
                    if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                        os.write(int(name), b"z" * 100_000)
            case "no response":
                return {"body": b""}
            case "text":
                return PageResponse(body="text")
            case "bad status":
                return PageResponse(body=b"", status=99)
            case "bad header":
                return PageResponse(body=b"", headers={"a": "b\\r\\nc: d"})
            case "bad url":
                return PageResponse(body=b"", url="file:///etc/passwd")
            case "large":
                return PageResponse(body=bytes(20_000_000))
        return None


class Async(Fetch):
    """The same, on one event loop."""

    def __init__(self, **options):
        super().__init__(**options)
        self.loop = None

    async def load(self, request, context):
        self.loop = self.loop or asyncio.get_running_loop()
        assert self.loop is asyncio.get_running_loop()
        await asyncio.sleep(0)
        return super().load(request, context)
'''
STEP = "{{class: shop.{name}, options: {{trouble: {trouble}, always: {always}}}, limit: {limit}, workers: {workers}}}"


class LoadedShop:
    """`size` items behind an index."""

    def __init__(self, project: Project, site: Site, size: int = 30) -> None:
        self.project, self.site, self.size = project, site, size
        self.url = site.url("/")
        self.plugins = Path(project.defs) / "plugins"
        site["/"] = html("<h1>Item 0</h1><i>0.50</i>" + "".join(f"<a href=/i/{n}>x</a>" for n in range(1, size)))
        for number in range(1, size):
            site[f"/i/{number}"] = html(f"<h1>Item {number}</h1><i>{number}.50</i>")

    def write(
        self, trouble: str = "none", *, always: bool = False, limit: str = "20", workers: int = 1, name: str = "Fetch",
        host: str = "{concurrency: 16}",
    ) -> None:  # fmt: skip
        """Write defs and plugin."""
        self.plugins.mkdir(exist_ok=True)
        (self.plugins / "shop.py").write_text(PLUGIN)
        step = STEP.format(name=name, trouble=trouble, always=str(always).lower(), limit=limit, workers=workers)
        self.project.write(DEFS.format(url=self.url, step=step, host=host))

    def write_example(self) -> None:
        """Write the example of the documentation."""
        shutil.copytree(EXAMPLE / "plugins", self.plugins)
        self.project.write((EXAMPLE / "shop.yml").read_text().replace("START_URL", self.url))

    def rows(self, *, without: int | None = None) -> Counter[tuple[str, ...]]:
        """The rows; `without`: numbers with this last digit have none."""
        numbers = [number for number in range(self.size) if number % 10 != without]
        return Counter(("item", f"Item {n}", f"{n}.50") for n in numbers)

    def loader_pids(self) -> list[str]:
        """The processes that have sent requests, in order of the first one."""
        exchanges = [e for e in self.site.exchanges if e.path != "/robots.txt"]
        return list(dict.fromkeys(e.request.headers.get("x-loader", "") for e in exchanges))
