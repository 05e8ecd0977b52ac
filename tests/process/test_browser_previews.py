"""One page in a browser by hand: `try`, `shell` and `test --record`, and what is left of them."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from .project import Completed, Running, until
from .shop_front import NEEDS_BROWSER, SANDBOX, Front
from .site import Page, html

pytestmark = NEEDS_BROWSER

ROWS = [{"name": f"Item 1-{n}", "price": f"1.{n}0"} for n in range(3)]
TEXT = {"Content-Type": "text/plain"}
WAIT = "{browser: {wait: '#ready'}}"


@pytest.fixture
def temporary(front: Front) -> Path:
    """The folder of temporary files of the commands."""
    folder = front.project.folder / "tmp"
    folder.mkdir()
    return folder


def start(front: Front, *arguments: str, stdin: bytes | None = None) -> Running:
    command, *others = arguments
    where = ("--defs", str(front.project.defs), *SANDBOX)
    variables = {"TMPDIR": str(front.project.folder / "tmp")}
    return front.project.start_command(command, *where, *others, stdin=stdin, variables=variables)


def run(front: Front, *arguments: str, code: int = 0, stdin: bytes | None = None) -> Completed:
    done = start(front, *arguments, stdin=stdin).wait(60)
    assert done.code == code, done.err
    assert "Traceback" not in done.err
    return done


def edit(front: Front, old: str, new: str) -> None:
    path = front.project.defs / "crawl.yml"
    path.write_text(path.read_text().replace(old, new))


def rows_of(done: Completed) -> list[dict[str, str]]:
    return [json.loads(line) for line in done.out.splitlines()]


def working_in(folder: Path) -> list[int]:
    """The processes that work in a folder, as those of browsers do in that of their profile."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if link.readlink().is_relative_to(folder):
                found.append(int(link.parent.name))
        except OSError:
            continue
    return found


def test_a_page_is_rendered_as_the_flag_or_its_group_says(front: Front, temporary: Path) -> None:
    url = front.site.url("/p/1")
    front.write("browser")
    edit(front, "    loader: browser\n", "")
    plain = run(front, "try", "item", url)
    assert rows_of(plain) == []
    assert "the page has scripts, which may write its rows: add --browser" in plain.err
    asked = run(front, "try", "item", url, "--browser")
    assert rows_of(asked) == ROWS
    assert "rendered in" in asked.err
    assert "(--browser)" in asked.err
    assert "crawl.yml:5:3: a crawl would not render shop" in asked.err
    front.write(WAIT)
    ruled = run(front, "try", "item", url, "--json")
    shown = json.loads(ruled.out)
    assert shown["rows"] == ROWS
    assert shown["document"]["rendered"] is True
    assert shown["document"]["origin"].endswith("(`loader: browser` of shop)")
    assert not list(temporary.iterdir())
    assert not front.project.data.exists()


def test_the_plain_page_is_asked_for_first(front: Front, temporary: Path) -> None:
    front.site["/p/2"] = html("<li class=item><b>Plain</b> <i>1</i></li>")
    one, two = front.site.url("/p/1"), front.site.url("/p/2")
    for missing, lack, full in (
        (".item", "the plain page lacks .item", "the plain page has .item"),
        ("required", "the plain page gives no row", "the plain page has all required fields"),
    ):
        front.write(f"{{browser: {{when: {{missing: {missing}}}, wait: '#ready'}}}}")
        asked = len(front.site.paths)
        rendered = run(front, "try", "item", one)
        assert rows_of(rendered) == ROWS
        assert lack in rendered.err
        assert front.site.paths[asked:].count("/p/1") == 2
        asked = len(front.site.paths)
        plain = run(front, "try", "item", two, "--set", "browser=/nowhere")
        assert rows_of(plain) == [{"name": "Plain", "price": "1"}]
        assert full in plain.err
        assert front.site.paths[asked:] == ["/p/2"]
    assert not list(temporary.iterdir())


def test_a_recorded_page_is_tested_without_a_browser(front: Front, temporary: Path) -> None:
    front.write(WAIT)
    url = front.site.url("/p/1")
    run(front, "test", "--record", url)
    run(front, "test", "--record", url, "--browser", "--name", "asked")
    asked = len(front.site.paths)
    done = run(front, "test", "--set", "browser=/nowhere")
    assert "2 passed" in done.out
    assert len(front.site.paths) == asked
    edit(front, "selector: i}", "selector: b}")
    assert "row 1, price: expected" in run(front, "test", code=1).out


def test_a_shell_reads_what_the_page_became(front: Front, temporary: Path) -> None:
    front.site["/p/1"] = html("<p id=here></p><script>here.innerHTML = '<a href=/p/2>two</a>'</script>")
    front.write("browser")
    lines = b".item\na\n:open 1\n.item b\n:open " + front.site.url("/p/3").encode() + b"\n.item b\n"
    done = run(front, "shell", "--browser", front.site.url("/p/1"), stdin=lines)
    assert done.out.count("rendered in") == 3
    assert "1  two" in done.out
    assert "Item 2-0" in done.out
    assert "Item 3-2" in done.out
    assert not list(temporary.iterdir())


@pytest.mark.extended
def test_what_a_page_was_refused_is_named(front: Front, temporary: Path) -> None:
    front.site["/p/1"] = html(
        "<script>fetch('http://127.0.0.2:8099/x', {mode: 'no-cors'})</script><b class=item>there</b>"
    )
    front.write("{browser: {wait: idle}}", fields="{name: {}}")
    done = run(front, "try", "item", front.site.url("/p/1"))
    assert rows_of(done) == [{"name": "there"}]
    assert f"{front.site.url('/p/1')}: the address guard refused 127.0.0.2:8099" in done.err


def test_robots_txt_holds_for_what_a_page_asks_for_and_leads_to(front: Front, temporary: Path) -> None:
    front.site["/robots.txt"] = Page("User-agent: *\nDisallow: /api/\nDisallow: /kept\n", headers=TEXT)
    front.site["/kept"] = html("<b class=item>kept</b>")
    front.write("{browser: {wait: idle}}")
    part = run(front, "try", "item", front.site.url("/p/1"))
    assert rows_of(part) == []
    assert "robots.txt" in part.err
    assert "Disallow: /api/" in part.err
    assert "/api/p/1" not in front.site.paths
    front.site["/p/2"] = html("<a href=/kept>more</a><b class=item>there</b>")
    front.write("{browser: {actions: [{click: a}, {wait: idle}]}}", fields="{name: {}}")
    led = run(front, "try", "item", front.site.url("/p/2"), code=1)
    assert "/kept: robots.txt disallows it (line 3: Disallow: /kept)" in led.err
    assert "A crawl would skip it." in led.err
    assert "/kept" not in front.site.paths
    free = run(front, "try", "item", front.site.url("/p/2"), "--set", "robots=false")
    assert rows_of(free) == [{"name": "kept"}]


@pytest.mark.parametrize("moment", ["start", "page", "twice"])
def test_ctrl_c_leaves_neither_a_browser_nor_a_folder(front: Front, temporary: Path, moment: str) -> None:
    front.site["/p/1"] = html("<p>never</p>")
    front.write(WAIT)
    running = start(front, "try", "item", front.site.url("/p/1"))
    assert until(lambda: bool(working_in(temporary)), 20)
    if moment != "start":
        assert until(lambda: "/p/1" in front.site.paths, 20)
        time.sleep(0.5)
    running.process.send_signal(signal.SIGINT)
    if moment == "twice":
        time.sleep(0.05)
        running.process.send_signal(signal.SIGINT)
    done = running.wait(20)
    assert done.code == 130, done.err
    assert "Traceback" not in done.err
    assert not working_in(temporary)
    assert not list(temporary.iterdir())


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_leave_neither_a_browser_nor_a_folder(front: Front, temporary: Path, ending: int) -> None:
    front.site["/p/1"] = html("<p>never</p>")
    front.write(WAIT)
    running = start(front, "try", "item", front.site.url("/p/1"))
    assert until(lambda: "/p/1" in front.site.paths, 20)
    assert working_in(temporary)
    running.process.send_signal(ending)
    done = running.wait(20)
    assert done.code == -ending, done.err
    assert "Traceback" not in done.err
    assert not working_in(temporary)
    assert not list(temporary.iterdir())


def test_a_killed_preview_leaves_nothing_that_the_next_one_does_not_sweep(front: Front, temporary: Path) -> None:
    front.site["/p/1"] = html("<p>never</p>")
    front.write(WAIT)
    running = start(front, "try", "item", front.site.url("/p/1"))
    assert until(lambda: "/p/1" in front.site.paths, 20)
    running.process.kill()
    running.wait(20)
    assert until(lambda: not working_in(temporary), 5)
    (left,) = temporary.iterdir()
    os.utime(left, (1, 1))
    (temporary / "crawl-browser-file").write_text("kept")
    assert rows_of(run(front, "try", "item", front.site.url("/p/2"))) != []
    assert [path.name for path in temporary.iterdir()] == ["crawl-browser-file"]


def test_a_browser_that_does_not_start_is_told(front: Front, temporary: Path) -> None:
    front.write(WAIT)
    url = front.site.url("/p/1")
    missing = run(front, "try", "item", url, "--set", "browser=/nowhere", code=2)
    assert "browser = /nowhere: no such program\n  Set browser" in missing.err
    assert front.site.paths == []
    assert "does not start" in run(front, "try", "item", url, "--set", "browser=/bin/false", code=2).err
    if os.geteuid() == 0:
        refused = run(front, "try", "item", url, "--set", "browser_sandbox=true", code=2)
        assert "cannot use its sandbox" in refused.err
        assert "--set browser_sandbox=false" in refused.err
    assert not list(temporary.iterdir())


XVFB = shutil.which("Xvfb")


@pytest.mark.skipif(XVFB is None, reason="needs a display: apt-get install xvfb")
def test_a_window_shows_the_page_until_the_next_one(front: Front, temporary: Path) -> None:
    front.site["/p/1"] = html("<a href=/p/2>two</a>")
    front.write("browser")
    reader, writer = os.pipe()
    with subprocess.Popen([str(XVFB), "-displayfd", str(writer)], pass_fds=[writer], stderr=subprocess.DEVNULL) as xvfb:
        os.close(writer)
        try:
            with open(reader) as numbers:
                display = f":{numbers.readline().strip()}"
            variables = {"TMPDIR": str(temporary), "DISPLAY": display}
            where = ("--defs", str(front.project.defs), *SANDBOX)
            line = ("shell", "--browser", "--show", *where, front.site.url("/p/1"))
            lines = b"a\n:open 1\n.item b\n"
            running = front.project.start_command(*line, stdin=lines, variables=variables)
            done = running.wait(90)
        finally:
            xvfb.terminate()
    assert done.code == 0, done.err
    assert "Item 2-0" in done.out
    assert not working_in(temporary)
    assert not list(temporary.iterdir())
