"""Changes that a newcomer makes, each as what it writes into which file, and what must then work.

`test_adding.py` makes each in a copy of the tree. Another kind of change is one more entry of `CHANGES`.
"""

from tests.process.change import Change, Edit, before
from tests.process.changes_of_fields import DEF_KEY, FIELD_TYPE

COLUMN = Change(
    section="a column on a screen",
    code={
        "console/crawl_console/words/host_table.py": [
            before(
                '    _count("WAITING"',
                '    _count("REJECTED", 8, lambda host: host.rejected, "warn", "records that a rule rejected", 120),\n',
            )
        ]
    },
    check="""
from crawl_console.tui.screens.hosts import HostsTable
from crawl_console.tui.widgets.line_table import place_columns, sort_letters
from crawl_console.web.pages.grids import grid
from crawl_console.words.host_table import HOST_COLUMNS, host_row
from tests.console.builders import host

row, place = host_row(host("a:80", rejected=7), is_live=True), [c.title for c in HOST_COLUMNS].index("REJECTED")
assert row.cells[place] == ("7", "warn") and row.sort_values[place] == 7
placed = place_columns(HostsTable.COLUMNS, 200)
assert "REJECTED" in [each.column.title for each in sort_letters(placed).values()]
assert "REJECTED" not in [each.column.title for each in place_columns(HostsTable.COLUMNS, 100)]
assert len(place_columns(HostsTable.COLUMNS, 200, {"REJECTED"})) == len(placed) - 1
shown = grid("hosts", "Hosts", HOST_COLUMNS, [row], "")
assert "7" in [cell.text for cell in shown.lines[0].cells]
""",
    tests=["tests/unit/console/test_columns.py"],
)

COMMAND = Change(
    section="a command",
    code={
        "console/crawl_console/cli/commands/look/hosts.py": [
            Edit(
                '''"""The command `hosts`: lists the hosts of a run."""

from contextlib import closing
from pathlib import Path

import click

from crawl_console.cli.options import common_options, lines_option
from crawl_console.cli.output import write_json, write_lines
from crawl_console.format import align_columns

_MAX_HOSTS = 1_000


@click.command()
@lines_option
@common_options("data")
def hosts(as_json: bool, data: Path) -> int:
    """List the hosts of the latest run."""
    from crawl_console.crawl.source import DataSource

    with closing(DataSource(data)) as source:
        found = source.snapshot(_MAX_HOSTS).hosts
    if as_json:
        write_json(*({"host": host.host, "pages": host.pages, "waiting": host.waiting} for host in found))
    else:
        rows = [(host.host, str(host.pages), str(host.waiting)) for host in found]
        write_lines(*align_columns([("HOST", "PAGES", "WAITING"), *rows]))
    return 0
'''
            )
        ],
        "console/crawl_console/cli/commands/__init__.py": [
            before('    "state": ("look.', '    "hosts": ("look.hosts:hosts", "List the hosts of the latest run."),\n'),
            before('    "state": ("state"', '    "hosts": ("hosts", "hosts --json"),\n'),
        ],
    },
    check="""
import json
import subprocess
import sys
from pathlib import Path

from tests.contract.store.harness import StoreHarness

def run(*arguments):
    return subprocess.run([sys.executable, "-m", "crawl_console", *arguments], capture_output=True, text=True)

empty = run("hosts", "--data", "none")
assert empty.stdout.split() == ["HOST", "PAGES", "WAITING"], empty
Path("data").mkdir()
store = StoreHarness(Path("data"))
store.seed("http://a.example/", "http://a.example/2")
store.db.close()
ended = run("hosts", "--data", "data", "--json")
assert json.loads(ended.stdout) == {"host": "a.example:80", "pages": 0, "waiting": 2}, ended
assert "List the hosts of the latest run." in run("--help").stdout
assert run("hosts", "--nothing").returncode == 2
""",
    beside={
        "docs/commands.md": [
            before("| [`state`](", "| [`hosts`](commands/look.md#hosts) | list the hosts of the latest run |\n")
        ],
        "docs/commands/look.md": [
            before(
                "## state\n",
                "## hosts\n\nLists the hosts of the latest run.\n\n| flag | what |\n|---|---|\n"
                "| `--json` | one object per line |\n\n",
            )
        ],
    },
    tests=["tests/unit/test_docs_commands.py", "-k", "hosts"],
)

SETTING = Change(
    section="a setting",
    code={
        "engine/crawl_engine/settings/declaration.py": [
            before(
                "    meta_nofollow: bool = True\n",
                "    accept_language: str | None = None\n"
                '    """The languages that are asked for, as `cs, en;q=0.8`."""\n',
            )
        ],
        "engine/crawl_engine/http/client.py": [
            Edit(
                "cookies: SessionCookies | None = None,\n        languages: str | None = None,\n    ) -> None:\n",
                "cookies: SessionCookies | None = None,\n    ) -> None:\n",
            ),
            before(
                "        route = RouteTransport(\n",
                '        headers |= {"Accept-Language": languages} if languages else {}\n',
            ),
            Edit(
                "cookies=cookies,\n            languages=settings.accept_language,\n        )\n\n    async def send(",
                "cookies=cookies,\n        )\n\n    async def send(",
            ),
        ],
    },
    check="""
import asyncio
import os
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

from crawl_engine.http.client import Fetcher
from crawl_engine.model.job import Request
from crawl_engine.settings import Settings

def shown(*arguments, **environment):
    command = [sys.executable, "-m", "crawl_console", "config", "--json", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}).stdout

assert '"cs"' in shown("--set", "accept_language=cs")
assert '"de"' in shown(CRAWL_ACCEPT_LANGUAGE="de")
Path("crawl.toml").write_text('accept_language = "fr"')
assert '"fr"' in shown()

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.headers["Accept-Language"].encode())

    def log_message(self, *_):
        pass

server = HTTPServer(("127.0.0.1", 0), Handler)
Thread(target=server.serve_forever, daemon=True).start()

async def send():
    fetcher = Fetcher.from_settings(Settings(accept_language="cs, en;q=0.8"), connections=1)
    response = await fetcher.send(f"http://127.0.0.1:{server.server_port}/", Request(), exempt=True)
    await fetcher.aclose()
    return response.body

assert asyncio.run(send()) == b"cs, en;q=0.8"
""",
    beside={
        "docs/settings.md": [
            before(
                "| `meta_nofollow` |",
                "| `accept_language` | none | | | | the languages that are asked for, such as `cs, en;q=0.8` |\n",
            )
        ]
    },
    tests=["tests/unit/test_docs_settings.py"],
)

OUTPUT_TYPE = Change(
    section="an output type",
    code={
        "engine/crawl_engine/model/output_type.py": [
            before(
                "            OutputType(\n                name=SCOOPI,",
                '            OutputType(\n                name="tsv", suffixes=("tsv",), compressible=True,\n'
                '                summary="CSV with tabs between the values.",\n            ),\n',
            )
        ],
        "engine/crawl_engine/append/formats/tsv.py": [
            Edit(
                '''"""The output type `tsv`: CSV with tabs between the values."""

from crawl_engine.append.formats.csv import CsvEncoder
from crawl_engine.append.formats.file_writer import FileFormat

FORMAT = FileFormat(
    lambda settings: CsvEncoder(settings["columns"], settings.get("joins"), delimiter="\\t"), is_quoted=True
)
'''
            )
        ],
    },
    check="""
from pathlib import Path

from crawl_engine.append.formats.writer import create_encoder
from crawl_engine.defs.language.schema import build_json_schema
from crawl_engine.defs.loader import load

encoder = create_encoder("tsv", {"columns": ["a", "b"]})
assert encoder.header() + encoder.rows(['{"a":1,"b":"x\\ty"}']) == b'a\\tb\\r\\n1\\t"x\\ty"\\r\\n'
assert '"tsv"' in str(build_json_schema()).replace("'", '"')
Path("defs.yml").write_text('''
locatorGroups: {g: {locators: [{url: "https://a.example/"}]}}
taskGroups: {g: {list: {dataDef: entry}}}
dataDefs: {entry: {fields: {title: {selector: h1}}}}
appenders: {tabs: {type: tsv, path: "{dataDef}.tsv.gz"}}
''')
(appender,) = load(Path("defs.yml")).definitions.appenders
assert appender.type == "tsv"
""",
    beside={
        "tests/contract/append/harness.py": [
            Edit('TYPES = ("csv", "tsv", ', 'TYPES = ("csv", '),
            before(
                '    if type_ == "json":\n        objects',
                '    if type_ == "tsv":\n'
                "        text = read_bytes(path).decode()\n"
                '        header, *records = csv.reader(io.StringIO(text, newline=""), delimiter="\\t", strict=True)\n'
                "        assert header == columns\n"
                "        return records\n",
            ),
        ]
    },
    tests=[
        "tests/contract/append/loop/test_appender.py",
        "tests/unit/append/formats/test_formats.py::test_each_output_type_has_its_module_and_its_own_suffixes",
        "-k",
        "tsv and file or output_type",
    ],
)

DOCUMENT_TYPE = Change(
    section="a type of binary documents",
    code={
        "engine/crawl_engine/extract/documents/document_types.py": [
            Edit(
                'EPUB = DocumentType(\n    content_types=("application/epub+zip",), suffix="epub",'
                ' reader="crawl_engine.extract.documents.epub:read"\n)\nDOCUMENT_TYPES = NameTable(\n',
                "DOCUMENT_TYPES = NameTable(\n",
            ),
            Edit(
                '            "pdf": PDF,\n            "epub": EPUB,\n',
                '            "pdf": PDF,\n',
            ),
        ],
        "engine/crawl_engine/extract/documents/epub.py": [
            Edit(
                '''"""Reads an e-book: the pages of an EPUB file, one after another."""

from io import BytesIO
from zipfile import BadZipFile, ZipFile

from crawl_engine.extract.documents.document_types import DocumentTooLarge, DocumentUnreadable

_MAX_BYTES = 20_000_000


def read(body: bytes) -> tuple[bytes, tuple[str, ...]]:
    try:
        book = ZipFile(BytesIO(body))
    except BadZipFile:
        raise DocumentUnreadable("is no EPUB file") from None
    pages = sorted(entry.filename for entry in book.infolist() if entry.filename.endswith((".xhtml", ".html")))
    if sum(book.getinfo(name).file_size for name in pages) > _MAX_BYTES:
        raise DocumentTooLarge(f"has more than {_MAX_BYTES:,} bytes of text")
    return b"".join(book.read(name) for name in pages), ()
'''
            )
        ],
    },
    check="""
from io import BytesIO
from zipfile import ZipFile

from crawl_engine.extract.documents.document_types import DocumentUnreadable, find_document_type

file = BytesIO()
with ZipFile(file, "w") as book:
    book.writestr("1.xhtml", "<h1>One</h1>")
    book.writestr("2.xhtml", "<h1>Two</h1>")
type_ = find_document_type(file.getvalue(), "application/epub+zip; charset=binary")
assert type_.read(file.getvalue()) == (b"<h1>One</h1><h1>Two</h1>", ())
try:
    type_.read(b"PK")
except DocumentUnreadable as error:
    assert str(error) == "is no EPUB file"
else:
    raise AssertionError("two letters were a book")
""",
    tests=["tests/unit/test_installed.py"],
)

TRANSPORT = Change(
    section="a transport",
    code={
        "engine/crawl_engine/http/transports/request_log.py": [
            Edit(
                '''"""Logs each request with the status of its response."""

import logging

import httpx

from crawl_engine.http.exchange import OutgoingRequest, RequestTransport, WireResponse

_log = logging.getLogger(__name__)


class RequestLogTransport(httpx.AsyncBaseTransport):
    def __init__(self, inner: RequestTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> WireResponse:
        assert isinstance(request, OutgoingRequest)
        response = await self._inner.handle_async_request(request)
        _log.info("%s %s %s", request.method, request.terms.url, response.status_code)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()
'''
            )
        ],
        "engine/crawl_engine/http/client.py": [
            before(
                "from crawl_engine.http.transports.route import",
                "from crawl_engine.http.transports.request_log import RequestLogTransport\n",
            ),
            Edit("HostTurnTransport(RequestLogTransport(jar))", "HostTurnTransport(jar)"),
        ],
    },
    check="""
import asyncio
import logging
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

from crawl_engine.http.client import Fetcher
from crawl_engine.model.job import Request
from crawl_engine.settings import Settings

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(404)

    def log_message(self, *_):
        pass

server = HTTPServer(("127.0.0.1", 0), Handler)
Thread(target=server.serve_forever, daemon=True).start()
url, lines = f"http://127.0.0.1:{server.server_port}/a", []
handler = logging.Handler()
handler.emit = lambda record: lines.append(record.getMessage())
logging.basicConfig(level="INFO", handlers=[handler])

async def send():
    fetcher = Fetcher.from_settings(Settings(), connections=1)
    await fetcher.send(url, Request(), exempt=True)
    await fetcher.aclose()

asyncio.run(send())
assert lines == [f"GET {url} 404"], lines
""",
    tests=["tests/unit/http/test_transports.py"],
)

CHANGES = {
    change.section: change
    for change in (COLUMN, FIELD_TYPE, DEF_KEY, COMMAND, SETTING, OUTPUT_TYPE, DOCUMENT_TYPE, TRANSPORT)
}
