"""Which libraries a headless run and the start of a console must not import."""

import subprocess
import sys


def loaded(code):
    script = f"import sys\n{code}\nprint(*sys.modules)"
    return set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )


def test_headless_runs_and_nodes_never_load_textual():
    names = ["console.cli.main", "console.cli.commands.run", "console.tui.attach"]
    code = "import " + ", ".join([*names, "engine.node.process", "engine.supervise.build"])
    assert not [name for name in loaded(code) if name.startswith("textual")]


def test_a_console_starts_without_parsers_clients_and_huey():
    code = "import console.tui.app, console.tui.state.control, console.tui.attach, console.tui.screens.nodes"
    heavy = {"lxml", "selectolax", "httpx", "aiohttp", "pydantic", "huey", "watchfiles", "sqlite_utils"}
    assert loaded(code) & heavy == set()
