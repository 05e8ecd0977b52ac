"""The session of the command `shell`: evaluates selector lines and prints what they match."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, cast, get_args

from crawl_console.cli.output import write_lines
from crawl_console.cli.page_source import find_start_url, read_link, read_source, row_lines
from crawl_console.format import plural
from crawl_engine import urls
from crawl_engine.defs.builders.table_settings import complete_tables
from crawl_engine.defs.loader import load
from crawl_engine.errors import CrawlError, DefsError, UsageError
from crawl_engine.extract.page.patterns import TimedPattern
from crawl_engine.extract.select.node_value import CONTENT_ATTRIBUTES
from crawl_engine.extract.select.selection import Selection, SelectionResult
from crawl_engine.extract.select.selector_syntax import (
    EMBEDDED_PREFIX,
    pattern_problem,
    selector_problem,
    source_problem,
)
from crawl_engine.late_regex import late_regex
from crawl_engine.model.definition import Definitions
from crawl_engine.model.link import TextFormat, TextSource
from crawl_engine.preview.extraction_client import ExtractionClient, TrialDocument
from crawl_engine.preview.page_trial import PageTrial, find_data_def, locator_origin, parse_document
from crawl_engine.settings import Settings

if TYPE_CHECKING:
    from crawl_engine.preview.rendering import Window

MODES = ("css", "xpath", "jmespath", "jsonld", "column", "regex")
_SOURCE = late_regex(r"(.*?)(?:(?<!\S)match (.+?))?(?:^|\s+)as (\w+)")
MATCH_LIMIT = 10
"""Matches shown without `:all`."""

HELP = """\
A line is a selector; its matches are counted and shown. A prefix `css:`, `xpath:`, `jmespath:`, `jsonld:`, `column:`
or `regex:` applies to that line only, and so does `jmespath(CSS):`. Regular expressions search the source of the page.

:css  :xpath  :jmespath  :jsonld  :column  :regex   the kind of the following lines
:from SELECTOR as FORMAT   select in texts of the page, read as html, json, js, xml, csv, …; `match PATTERN`
                     before `as` cuts them; alone: the page itself
:block SELECTOR      select inside each of its matches, as fields do inside their block; alone: the whole page
:block table: SELECTOR   select inside each row of a table, and by `column: HEADING` its cells
:attr NAME           show this of a match: text, ownText, html, outerHtml, or an attribute; alone: text
:match PATTERN       show what it matches in the value, as `match` of a field does; alone: no pattern
:all                 show every match, or the first 10 again
:fields DATADEF      show the rows and links of a dataDef on this page; the defs are reloaded
:source              show the source of the page
:write FILE          write the source to a file
:open URL|FILE       open another page; a number opens the link of that match
:page                show which page this is
:help  :quit"""


class SelectorShell:
    """The state of a session: the page, the kind of selector, the shown part of a match."""

    def __init__(
        self, defs: Path, settings: Settings, document: TrialDocument, *, start_url: str,
        arguments: Mapping[str, str] = MappingProxyType({}), browser: bool = False,
        window: "Window | None" = None,
    ) -> None:  # fmt: skip
        """`start_url`: the page that the operator opened. `arguments`: the values of `-a`, for the defs.

        `browser`: whether a browser renders each page that is opened. `window`: where it is shown.

        Raises PageUnavailable if the document is not text.
        """
        self._defs = defs
        self._arguments = arguments
        self._browser = browser
        self._window = window
        self._settings = settings
        self._mode = "css"
        self._attribute = "text"
        self._block: str | None = None
        self._sources: tuple[TextSource, ...] = ()
        self._pattern: str | None = None
        self._show_all = False
        self._links: list[str] = []
        self._document = document
        self._client = ExtractionClient(settings)
        try:
            self._page = parse_document(document, self._client)
        except BaseException:
            self._client.close()
            raise
        self._base = document.url
        self._start_url = start_url
        """The page that the operator opened; links led from there to the current one."""
        self.closed = False

    @property
    def prompt(self) -> str:
        return f"{self._mode}{' in texts' if self._sources else ''}{' in block' if self._block else ''}> "

    def start(self) -> None:
        self._print_page("")
        write_lines("type a selector, or `:help`")

    def close(self) -> None:
        """End the extraction process."""
        self._client.close()

    def execute(self, line: str) -> None:
        """Execute one line; prints its errors."""
        line = line.strip()
        if not line:
            return
        try:
            line.encode()
            if line.startswith(":") and not line.startswith("::") and self._run_command(line[1:]):
                return
            self._select(line)
        except UnicodeEncodeError:
            write_lines("error: the line is not UTF-8")
        except ValueError as error:
            write_lines(f"error: {' '.join(str(error).split())}")
        except DefsError as error:
            write_lines(*map(str, error.problems))
        except CrawlError as error:
            write_lines(f"error: {error.message}{'; ' + error.remedy if error.remedy else ''}")
        except OSError as error:
            write_lines(f"error: {error.filename or ''}: {error.strerror}")

    def completions(self) -> list[str]:
        try:
            names = [
                d.name
                for d in load(self._defs, self._settings.default_steps, arguments=self._arguments).definitions.data_defs
            ]
        except CrawlError:
            names = []
        return [f":{name}" for name in (*MODES, *self._commands())] + [f":fields {name}" for name in names]

    def _commands(self) -> dict[str, Callable[[str], None]]:
        return {
            "from": self._set_source, "block": self._set_block, "attr": self._set_attribute,
            "match": self._set_pattern, "all": self._toggle_all,
            "fields": self._print_fields, "source": self._print_source, "write": self._write, "open": self._open,
            "page": self._print_page, "help": self._print_help, "quit": self._quit,
        }  # fmt: skip

    def _run_command(self, line: str) -> bool:
        """Execute a command; False for a selector such as `:is(a)`."""
        name, _, rest = line.partition(" ")
        commands = self._commands()
        aliases = {"q": "quit", "exit": "quit", "h": "help", "?": "help"}
        name, rest = aliases.get(name, name), rest.strip()
        if name in MODES:
            self._mode = name
            if rest:
                self._select(rest)
        elif name in commands:
            commands[name](rest)
        elif name.isalpha() or not name:
            names = ", ".join(f":{n}" for n in (*MODES, *commands))
            raise UsageError(f"unknown command :{name}", f"Commands: {names}.")
        else:
            return False
        return True

    def _select(self, line: str) -> None:
        mode, text = self._mode, line
        prefix, colon, rest = line.partition(":")
        if colon and prefix.strip() in MODES:
            mode, text = prefix.strip(), rest.strip()
        elif mode != "regex" and line.startswith(EMBEDDED_PREFIX):
            mode = "css"
        if mode == "column":
            result = self._evaluate(None, column=text)
            if not result.count and result.headings:
                write_lines(f"the columns are: {', '.join(result.headings)}")
        else:
            selector = text if mode in ("css", "regex") else f"{mode}: {text}"
            if mode != "regex" and (problem := selector_problem(selector)) is not None:
                raise ValueError(problem)
            result = self._evaluate(selector, regex=mode == "regex")
        self._links = list(result.links)
        matches = plural(result.count, "match")
        if self._block is not None and mode != "regex":
            without = f", {result.blocks_without} without a match" if result.blocks_without else ""
            matches = f"{matches} in {plural(result.blocks, 'block')}{without}"
        self._print_matches(result.values, result.count, matches)

    def _evaluate(
        self, selector: str | None, *, regex: bool = False, block: bool = True, column: str | None = None
    ) -> SelectionResult:
        """Evaluate in the extraction process, so that no selector or page can hang the shell."""
        result = self._client.select(
            self._document,
            Selection(
                selector=selector, regex=regex, block=self._block if block else None, column=column,
                attribute=self._attribute, pattern=self._pattern, limit=None if self._show_all else MATCH_LIMIT,
                sources=self._sources,
            ),
        )  # fmt: skip
        self._base = result.base
        return result

    def _print_matches(self, shown: Sequence[str | None], count: int, summary: str) -> None:
        write_lines(summary)
        width = max(40, shutil.get_terminal_size().columns - 8)
        for number, value in enumerate(shown, 1):
            text = f"(no {'match' if self._pattern else self._attribute})" if value is None else value
            cut = text if self._show_all or len(text) <= width else text[: width - 1] + "…"
            for at, part in enumerate(cut.splitlines() or [""]):
                write_lines(f"{number if at == 0 else '':>4}  {part}")
        if count > len(shown):
            write_lines(f"      {count - len(shown)} more; `:all` shows them")

    def _set_source(self, text: str) -> None:
        sources = (_read_source(text),) if text else ()
        if sources:
            found = self._client.select(self._document, Selection(selector=None, sources=sources))
            if found.miss:
                raise UsageError(found.miss, "The page is searched as before.")
            write_lines(f"{plural(found.blocks, 'text')}: selectors search each")
        else:
            write_lines("the whole page")
        self._sources, self._block = sources, None

    def _set_block(self, text: str) -> None:
        if not text:
            self._block = None
            write_lines("the whole page")
            return
        block = text if self._mode in ("css", "column", "regex") else f"{self._mode}: {text}"
        count = self._evaluate(block, block=False).count
        self._block = block
        write_lines(f"{plural(count, 'block')}: selectors match inside each")

    def _set_attribute(self, name: str) -> None:
        self._attribute = name or "text"
        kind = "" if self._attribute in CONTENT_ATTRIBUTES else "attribute "
        write_lines(f"{kind}{self._attribute} is shown")

    def _set_pattern(self, text: str) -> None:
        if text:
            TimedPattern(text)
        self._pattern = text or None
        write_lines(f"values are shown through {text}" if text else "values are shown unchanged")

    def _toggle_all(self, _: str) -> None:
        self._show_all = not self._show_all
        write_lines("all matches are shown" if self._show_all else f"the first {MATCH_LIMIT} matches are shown")

    def _print_fields(self, name: str) -> None:
        definitions = self._load_definitions()
        if not name:
            names = ", ".join(d.name for d in definitions.data_defs)
            raise UsageError("which dataDef?", f"The defs have: {names or 'none'}.")
        target = find_data_def(definitions, name)
        trial = PageTrial(definitions, target, self._client).run(
            self._document, locator_origin(definitions, name, self._document.url, self._settings)
        )  # fmt: skip
        rows = list(row_lines(trial.rows, terminal=True))
        limit = None if self._show_all else MATCH_LIMIT
        write_lines(
            *rows[:limit],
            *(
                f"{rejection.place}: rejected {rejection.field}: {rejection.reason}"
                for rejection in trial.page.rejected
            ),
            *(f"link to {link.group}: {link.url}" for link in trial.links[:limit]),
        )
        counts = (plural(len(rows), "row"), plural(len(trial.links), "link"))
        write_lines(f"{', '.join(counts)}, {len(trial.page.rejected)} rejected, {trial.page.filtered} filtered")

    def _print_source(self, _: str) -> None:
        write_lines(*self._page.text.splitlines())

    def _write(self, name: str) -> None:
        if not name:
            raise UsageError("write where?", "Give a file: `:write page.html`.")
        path = Path(name).expanduser()
        if path.exists():
            raise UsageError(f"{path} exists", "Give another file.")
        path.write_bytes(self._document.body)
        write_lines(f"{path}: {len(self._document.body):,} bytes")

    def _open(self, where: str) -> None:
        if where.isdigit() and not Path(where).exists():
            link = self._links[int(where) - 1] if 0 < int(where) <= len(self._links) else ""
            if not link:
                raise UsageError(f"match {where} has no link", "Select links first; give the number of one.")
            url, defs = self._absolute_url(link), self._load_definitions()
            start = self._start_url
            self._show(read_link(url, start, defs, self._settings, browser=self._browser, window=self._window))
        elif where:
            browser = self._browser and urls.is_http_url(where)
            defs = self._load_definitions()
            document = read_source(where, None, defs, self._settings, browser=browser, window=self._window)
            self._show(document)
            self._start_url = find_start_url(where, document)
        else:
            raise UsageError("open what?", "Give a URL, a file, or the number of a match that is a link.")

    def _show(self, document: TrialDocument) -> None:
        self._page, self._document, self._links = parse_document(document, self._client), document, []
        self._print_page("")

    def _absolute_url(self, link: str) -> str:
        url = urls.join(self._base, link)
        if url is None:
            raise UsageError(f"{link}: not an http or https link", "Give a URL.")
        return url

    def _load_definitions(self) -> Definitions:
        """The defs on disk; empty if they do not exist."""
        if not self._defs.exists():
            return Definitions()
        return complete_tables(
            load(self._defs, self._settings.default_steps, arguments=self._arguments).definitions, self._settings
        )

    def _print_page(self, _: str) -> None:
        document = self._document
        kind = f"{document.status} {self._page.kind}"
        write_lines(f"{document.url}: {kind}, {len(document.body):,} bytes, {document.origin}", *document.notes)

    def _print_help(self, _: str) -> None:
        write_lines(*HELP.splitlines())

    def _quit(self, _: str) -> None:
        self.closed = True


def _read_source(text: str) -> TextSource:
    """The source of `SELECTOR match PATTERN as FORMAT`, whose first two may be absent. Raises UsageError."""
    form = "Write `:from SELECTOR as FORMAT`, or `:from SELECTOR match PATTERN as FORMAT`."
    written = _SOURCE.fullmatch(text)
    if written is None or written[3] not in get_args(TextFormat):
        raise UsageError(f"'{text}' does not say how its text is read", f"{form} {', '.join(get_args(TextFormat))}.")
    selector, match, format_ = written[1].strip() or None, written[2], cast(TextFormat, written[3])
    problem = (selector and source_problem(selector)) or (match and pattern_problem(match))
    if problem:
        raise UsageError(problem, form)
    return TextSource(selector=selector, match=match, format=format_)
