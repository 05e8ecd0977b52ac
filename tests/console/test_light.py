"""Which libraries a headless run and the start of a console must not import."""

import subprocess
import sys


def loaded(code):
    script = f"import sys\n{code}\nprint(*sys.modules)"
    return set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )


def test_headless_runs_and_nodes_never_load_textual():
    names = ["crawl_console.cli.main", "crawl_console.cli.commands.work.run", "crawl_console.tui.attach"]
    code = "import " + ", ".join([*names, "crawl_engine.node.process", "crawl_engine.supervise.build"])
    assert not [name for name in loaded(code) if name.startswith("textual")]


# optional parts of a crawl: with them every start would be slower
RARE = {
    *("lxml", "jmespath", "cssselect", "httpcore", "h2", "dateutil", "dateparser", "price_parser"),
    *("psycopg", "pypdfium2", "isoduration", "publicsuffixlist", "sqlite_utils", "tomllib", "importlib.metadata"),
}


def test_a_node_starts_without_what_few_crawls_need():
    names = loaded("import crawl_engine.node.process")
    rare = {
        "crawl_engine.extract.tables.axis_table",
        "crawl_engine.http.transports.httpcore_wire",
        "crawl_engine.node.extraction.steps.apply",
    }
    assert names & (RARE | rare | {"yaml", "watchfiles", "crawl_engine.store.db.filter"}) == set()


def test_a_supervisor_starts_without_what_few_crawls_need():
    modules = [
        "crawl_console.cli.main",
        "crawl_console.cli.commands.work.run",
        "crawl_engine.defs.loader",
        "crawl_engine.supervise.build",
    ]
    names = loaded("import " + ", ".join(modules))
    assert (
        names & ((RARE - {"importlib.metadata"}) | {"httpx", "httptools", "selectolax", "regex", "ssl", "asyncio"})
        == set()
    )


def test_an_appender_starts_without_what_few_runs_need():
    names = loaded("import crawl_engine.append.process")
    rare = {
        "ssl",
        "asyncio",
        "httpx",
        "crawl_engine.append.send.class_process",
        "crawl_engine.append.send.output_loops",
    }
    assert names & (RARE | rare) == set()


def test_a_console_starts_without_parsers_clients_and_huey():
    code = "from crawl_console.tui import app, attach; from crawl_console.tui.state import control; "
    code += "from crawl_console.tui.screens import nodes"
    heavy = {"lxml", "selectolax", "httpx", "httptools", "huey", "watchfiles", "sqlite_utils"}
    assert loaded(code) & heavy == set()


def test_what_supervisor_and_template_both_import_is_imported_before_the_fork():
    before = "import importlib, crawl_console.cli.headless as h\nfor m in h.SHARED: importlib.import_module(m)"
    shared = loaded(before)
    supervisor = (
        loaded(f"{before}\nimport crawl_engine.defs.loader, crawl_engine.supervise.build, crawl_console.cli.progress")
        - shared
    )
    template = loaded(f"{before}\nfor m in h.PROCESSES: importlib.import_module(m.partition(':')[0])") - shared
    both = {name for name in supervisor & template if name.startswith("crawl_engine.")}
    assert len(both) <= 5, "name them in crawl_engine.supervise.nodes.SHARED"
