"""The command `demo`: crawls a shop on loopback with the defs that also serve as an example."""

import csv
import shutil
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from crawl_console.cli.options import Number, common_options, summary_option
from crawl_console.terminal import interactive
from crawl_engine.defs.yaml.sources import tests_folder
from crawl_engine.errors import CrawlError
from crawl_engine.model import bounds

if TYPE_CHECKING:
    from crawl_engine.settings import Settings

_SAMPLE_ROWS, _WIDTH = 3, 118
_COPY_NAME, _TOWN_DEFS, _TOWN_URLS = "demo-defs", "town.yml", "town-urls.txt"
_FRONT_DEFS, _FRONT_URLS, _SKIPPED = "front.yml", "front-urls.txt", ".skipped"
_COMPLETED_CODES = (0, 1)
_PORT = 8765


@click.command()
@click.option("--no-ui", is_flag=True, help="Headless.")
@click.option("--pages", type=Number(bounds.DEMO_PAGES), default=500, show_default=True, help="Products of the shop.")
@click.option(
    "--latency",
    type=click.FloatRange(0, bounds.DEMO_LATENCY.le),
    default=0.0,
    metavar="MS",
    help="Milliseconds per response.",
)
@click.option(
    "--errors",
    type=click.FloatRange(0, bounds.PERCENT.le),
    default=0.0,
    metavar="PCT",
    help="Percent of responses 503.",
)
@click.option(
    "--town", is_flag=True, help="More hosts, one slow, one with errors, one for a browser; the console has them."
)
@click.option("--serve-only", is_flag=True, help="Serve the shop until Ctrl-C, for defs of your own; crawl nothing.")
@click.option("--port", type=click.IntRange(1, 65535), help=f"Port of --serve-only.  [default: {_PORT}]")
@summary_option
@common_options("data", "assigned")
@click.pass_context
def demo(
    context: click.Context, /, no_ui: bool, pages: int, latency: float, errors: float, town: bool, serve_only: bool,
    port: int | None, as_json: bool, data: Path, assigned: dict[str, str],
) -> int:  # fmt: skip
    """Serve a small shop on loopback and crawl it; attach the console."""
    from crawl_engine.settings import load_settings

    if serve_only:
        return _serve_shop(port or _PORT, pages=pages, latency=latency / 1000, error_share=errors / 100)
    if port is not None:
        raise click.UsageError("--port goes with --serve-only")
    settings = load_settings(assigned)
    if not no_ui and not as_json and interactive():
        from crawl_console.tui.attach import AttachOptions, attach

        arguments = [*context.obj, "--no-ui", *([] if town else ["--town"])]
        return attach(
            AttachOptions(
                data=data, defs=copy_defs(), arguments=arguments, hertz=settings.refresh, fresh=True, resumable=False,
                settings=settings,
            )
        )  # fmt: skip
    return _crawl_shop(
        data, settings, pages=pages, latency=latency / 1000, error_share=errors / 100, town=town, as_json=as_json
    )


def _serve_shop(port: int, *, pages: int, latency: float, error_share: float) -> int:
    """Serve a shop until SIGINT or SIGTERM. Raises CrawlError if the port is taken."""
    import os
    import signal

    from crawl_console.demo.server import serve_shop

    numbers = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        with serve_shop(pages=pages, latency=latency, errors=error_share, port=port) as address:
            click.echo(f"The shop is at {address}/ until Ctrl-C.")
            signal.sigwait(numbers)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise CrawlError(f"cannot serve the shop on port {port}: {reason}", "Choose another --port.") from error
    return 0


def _crawl_shop(
    data: Path, settings: "Settings", *, pages: int, latency: float, error_share: float, town: bool, as_json: bool
) -> int:
    """Serve a shop of `pages` products, crawl it in a new run, print sample rows; returns the run's exit code.

    With `as_json` stdout gets only the summary. Raises CrawlError if the run cannot start.
    """
    import contextlib

    from msgspec.structs import replace

    from crawl_console.cli.headless import HeadlessOptions, run_headless
    from crawl_console.cli.output import redirect_to_devnull, write_stderr
    from crawl_console.demo.server import serve_shop, serve_town
    from crawl_console.demo.town import town_urls

    defs = copy_defs() if town else demo_defs()
    with contextlib.ExitStack() as stack:
        try:
            if town:
                served = serve_town(pages=pages, latency=latency, errors=error_share)
                address, archive, warehouse, front = stack.enter_context(served)
                (defs / _TOWN_URLS).write_text(town_urls(archive, warehouse))
                problem = _find_browser_problem(front, settings)
                _place_front(defs, front, skipped=bool(problem))
                if problem:
                    write_stderr(f"the shop front, which needs a browser, is skipped: {problem}")
            else:
                address = stack.enter_context(serve_shop(pages=pages, latency=latency, errors=error_share))
        except OSError as error:
            raise CrawlError(f"cannot serve the shop: {error}", "Free processes, memory or files.") from error
        settings = replace(settings, base_url=address)
        code = run_headless(HeadlessOptions(defs=defs, data=data, settings=settings, fresh=True, json=as_json))
    if code in _COMPLETED_CODES:
        stream = sys.stderr if as_json else sys.stdout
        try:
            _print_output(data, defs, stream)
        except BrokenPipeError:  # the reader is gone; the exit code stays valid
            redirect_to_devnull(stream)
    return code


def _find_browser_problem(front: str, settings: "Settings") -> str:
    """Why the shop front cannot be rendered; empty if it can, which is tried."""
    from msgspec.structs import replace

    from crawl_console.cli.output import show_wait
    from crawl_engine.model.definition import Definitions
    from crawl_engine.preview.rendering import Rendering
    from crawl_engine.preview.visit import fetch_page

    url = f"{front}/window/1.html"
    with show_wait() as show:
        rendering = Rendering(always=True, on_start=lambda program: show(f"trying {program} …"))
        try:
            fetch_page(url, Definitions(), replace(settings, robots=False), rendering=rendering)
        except CrawlError as error:
            return f"{error.message.removeprefix(f'{url}: browser: ')}. {error.remedy}"
    return ""


def _place_front(defs: Path, front: str, *, skipped: bool) -> None:
    """Have the defs of the shop front be read, or not; an edited copy is kept. Raises OSError."""
    from crawl_console.demo.front import front_urls

    read, kept = defs / _FRONT_DEFS, defs / f"{_FRONT_DEFS}{_SKIPPED}"
    if skipped:
        if read.exists():
            read.rename(kept)
        return
    (defs / _FRONT_URLS).write_text(front_urls(front))
    if kept.exists():
        kept.rename(read)
    elif not read.exists():
        shutil.copyfile(Path(__file__).resolve().parents[3] / "demo" / _FRONT_DEFS, read)


def demo_defs() -> Path:
    """The folder of the demo's defs: packaged in `crawl_console`, or `defs` of a clone. Raises CrawlError."""
    here = Path(__file__).resolve().parents[3]
    for folder in (here / "demo_defs", here.parents[1] / "defs"):
        if (folder / "shop.yml").is_file():
            return folder
    raise CrawlError(f"the demo's defs are missing from {here}", "Reinstall crawl-console.")


def copy_defs() -> Path:
    """A copy of the demo's defs, with those of the town, in the working folder, for editing; an earlier copy is kept.

    Raises CrawlError.
    """
    folder = Path(_COPY_NAME)
    if (folder / "shop.yml").is_file():
        return folder
    try:
        with tempfile.TemporaryDirectory(prefix=f".{_COPY_NAME}-", dir=".") as temporary:
            copy = Path(temporary) / _COPY_NAME
            copy.mkdir()
            for path in sorted(demo_defs().glob("*.yml")):
                shutil.copyfile(path, copy / path.name)
            shutil.copytree(tests_folder(demo_defs()), tests_folder(copy), copy_function=shutil.copyfile)
            shutil.copyfile(Path(__file__).resolve().parents[3] / "demo" / _TOWN_DEFS, copy / _TOWN_DEFS)
            (copy / _TOWN_URLS).write_text("# written by each demo\n")
            copy.rename(folder)  # whole or not at all
    except OSError as error:
        raise CrawlError(
            f"{folder.absolute()}: the demo's defs cannot be copied: {error.strerror}",
            "Run it in a folder of your own.",
        ) from error
    return folder


def _print_output(data: Path, defs: Path, stream: TextIO) -> None:
    """Print the output files and the first rows of each."""
    folder = data / "output" / "latest"
    for path in sorted(path for path in folder.iterdir() if not path.name.startswith(".")):
        stream.write(f"\n{path}\n")
        if path.suffix == ".csv":
            stream.writelines(f"  {line}\n" for line in _sample_lines(path))
    stream.write(f"\nExtracted with the defs in {defs}; see also `crawl-console status --data {data}`.\n")
    stream.flush()


def _sample_lines(path: Path) -> Iterator[str]:
    """The header and a few rows, cut to the width of a terminal."""
    with path.open(encoding="utf-8", newline="") as file:
        for row in islice(csv.reader(file), 1 + _SAMPLE_ROWS):
            line = " | ".join("".join(c if c.isprintable() else " " for c in cell) for cell in row)
            yield line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"
