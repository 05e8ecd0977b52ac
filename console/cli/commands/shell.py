"""The command `shell`: type selectors at a page and see what they match. Reads one page, writes only files asked for.

Works by the selectors of a crawl, and on whatever stdin is: at a terminal with line editing, else line by line.
"""

import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from console.cli.commands.try_page import counted, read_source, row_lines
from console.cli.line_editing import typed
from console.sanitize import clean
from engine.defs.loader import load
from engine.errors import CrawlError, DefsError, UsageError
from engine.extract.budget import CHARACTERS
from engine.extract.node_value import CONTENTS, read
from engine.extract.patterns import Patience, Pattern, TooSlow
from engine.extract.selectors import Scope, compiled
from engine.model.definition import Definitions
from engine.preview.page_trial import Document, Trier, chosen, page_of, way_to
from engine.settings import Settings

MODES = ("css", "xpath", "jmespath", "regex")
SHOWN = 10
"""Matches that are shown, unless `:all` asks for all."""
_REGEX_SECONDS = 5.0
_MARKUP = ("html", "outerHtml")

HELP = """\
A line is a selector; what it matches is counted and shown. `css:`, `xpath:`, `jmespath:` or `regex:` in front
holds for that line. Regular expressions search the source of the page.

:css  :xpath  :jmespath  :regex   what a line is from now on
:block SELECTOR      look into each match of it, as fields look into their block; alone: the whole page again
:attr NAME           what is shown of a match: text, ownText, html, outerHtml, or an attribute; alone: text
:match PATTERN       show what it finds in the value, as `match` of a field does; alone: no pattern
:all                 show every match, or the first 10 again
:fields DATADEF      the rows and links a dataDef gives of this page; the defs are read anew
:source              the source of the page
:write FILE          write the source to a file
:open URL|FILE       go to another page; a number opens what that match links to
:page                which page this is
:help  :quit"""


class Shell:
    """What was typed so far: the page, the kind of selector, what is shown of a match."""

    def __init__(self, defs: Path, settings: Settings, document: Document, *, say: Callable[[str], None]) -> None:
        """`say` is given lines to show, cleaned. Raises NoPage where the document is no text."""
        self._defs = defs
        self._settings = settings
        self._out = say
        self._mode = "css"
        self._attribute = "text"
        self._block: str | None = None
        self._pattern: str | None = None
        self._all = False
        self._links: list[str] = []
        self._document = document
        self._page = page_of(document)
        self.over = False

    @property
    def prompt(self) -> str:
        """What stands in front of the cursor."""
        return f"{self._mode}{' in block' if self._block else ''}> "

    def begin(self) -> None:
        """Say which page this is."""
        self._tell_page("")
        self._say("type a selector; `:help` tells the rest")

    def obey(self, line: str) -> None:
        """Work one line. What is wrong with it is told, and nothing is raised."""
        line = line.strip()
        if not line:
            return
        try:
            if line.startswith(":") and not line.startswith("::") and self._command(line[1:]):
                return
            self._select(line)
        except (TooSlow, ValueError) as error:
            self._say(f"error: {' '.join(str(error).split())}")
        except DefsError as error:
            for problem in error.problems:
                self._say(str(problem))
        except CrawlError as error:
            self._say(f"error: {error.what}{'; ' + error.remedy if error.remedy else ''}")
        except OSError as error:
            self._say(f"error: {error.filename or ''}: {error.strerror}")

    def words(self) -> list[str]:
        """What a line may be completed to."""
        try:
            names = [d.name for d in load(self._defs).definitions.data_defs]
        except CrawlError:
            names = []
        return [f":{name}" for name in (*MODES, *self._commands())] + [f":fields {name}" for name in names]

    def _commands(self) -> dict[str, Callable[[str], None]]:
        return {
            "block": self._set_block, "attr": self._set_attribute, "match": self._set_pattern, "all": self._switch_all,
            "fields": self._fields, "source": self._source, "write": self._write, "open": self._open,
            "page": self._tell_page, "help": self._help, "quit": self._quit,
        }  # fmt: skip

    def _command(self, line: str) -> bool:
        """Obey it; False where a selector such as `:is(a)` was meant."""
        name, _, rest = line.partition(" ")
        known = self._commands()
        aliases = {"q": "quit", "exit": "quit", "h": "help", "?": "help"}
        name, rest = aliases.get(name, name), rest.strip()
        if name in MODES:
            self._mode = name
            if rest:
                self._select(rest)
        elif name in known:
            known[name](rest)
        elif name.isalpha() or not name:
            raise UsageError(f"no command :{name}", f"There are {', '.join(f':{n}' for n in (*MODES, *known))}.")
        else:
            return False
        return True

    def _select(self, line: str) -> None:
        mode, text = self._mode, line
        prefix, colon, rest = line.partition(":")
        if colon and prefix.strip() in MODES:
            mode, text = prefix.strip(), rest.strip()
        if mode == "regex":
            self._search(text)
            return
        selector = compiled(text if mode == "css" else f"{mode}: {text}")
        scopes = [Scope(self._page)]
        if self._block is not None:
            scopes = [Scope(self._page, node) for node in compiled(self._block).all(scopes[0])]
        counts, values, self._links = [], [], []
        for scope in scopes:
            found = selector.all(scope)
            counts.append(len(found))
            for node in found:
                values.append(self._picked(read(node, self._attribute)))
                self._links.append(node if isinstance(node, str) else read(node, "href") or "")
        if self._block is None:
            self._show(values, counted(len(values), "match"))
        else:
            without = counts.count(0)
            none = f", {without} without a match" if without else ""
            self._show(values, f"{counted(len(values), 'match')} in {counted(len(counts), 'block')}{none}")

    def _search(self, text: str) -> None:
        self._links = []
        found = Pattern(text).each(self._page.text, Patience(_REGEX_SECONDS))
        self._show(list(found), counted(len(found), "match"))

    def _picked(self, text: str | None) -> str | None:
        """What a field would make of it, up to its `match`."""
        if text is None:
            return None
        text = text.strip() if self._attribute in _MARKUP else " ".join(text[:CHARACTERS].split())
        return Pattern(self._pattern).picked(text, Patience(1.0)) if self._pattern and text else text

    def _show(self, values: Sequence[str | None], counted: str) -> None:
        self._say(counted)
        shown = values if self._all else values[:SHOWN]
        width = max(40, shutil.get_terminal_size().columns - 8)
        for number, value in enumerate(shown, 1):
            text = f"(no {'match' if self._pattern else self._attribute})" if value is None else value
            cut = text if self._all or len(text) <= width else text[: width - 1] + "…"
            for at, part in enumerate(cut.splitlines() or [""]):
                self._say(f"{number if at == 0 else '':>4}  {part}")
        if len(values) > len(shown):
            self._say(f"      {len(values) - len(shown)} more; `:all` shows them")

    def _set_block(self, text: str) -> None:
        if not text:
            self._block = None
            self._say("the whole page")
            return
        found = compiled(text if self._mode in ("css", "regex") else f"{self._mode}: {text}")
        self._block = text if self._mode in ("css", "regex") else f"{self._mode}: {text}"
        self._say(f"{counted(len(found.all(Scope(self._page))), 'block')}: selectors look into each")

    def _set_attribute(self, name: str) -> None:
        self._attribute = name or "text"
        kind = "" if self._attribute in CONTENTS else "attribute "
        self._say(f"{kind}{self._attribute} is shown")

    def _set_pattern(self, text: str) -> None:
        if text:
            Pattern(text)
        self._pattern = text or None
        self._say(f"shown through {text}" if text else "shown as it is")

    def _switch_all(self, _: str) -> None:
        self._all = not self._all
        self._say("every match is shown" if self._all else f"the first {SHOWN} matches are shown")

    def _fields(self, name: str) -> None:
        definitions = self._definitions()
        if not name:
            names = ", ".join(d.name for d in definitions.data_defs)
            raise UsageError("which dataDef?", f"The defs have: {names or 'none'}.")
        target = chosen(definitions, name)
        trial = Trier(definitions, target).on(
            self._page, way_to(definitions, name, self._document.url, self._settings)
        )  # fmt: skip
        rows = list(row_lines(trial.rows, terminal=True))
        for row in rows if self._all else rows[:SHOWN]:
            self._say(row)
        for rejection in trial.rejected:
            self._say(f"{rejection.place}: rejected {rejection.field}: {rejection.reason}")
        for link in trial.links if self._all else trial.links[:SHOWN]:
            self._say(f"link to {link.group}: {link.url}")
        counts = (counted(len(rows), "row"), counted(len(trial.links), "link"))
        self._say(f"{', '.join(counts)}, {len(trial.rejected)} rejected, {trial.filtered} filtered")

    def _source(self, _: str) -> None:
        for line in self._page.text.splitlines():
            self._say(line)

    def _write(self, name: str) -> None:
        if not name:
            raise UsageError("write where?", "Name a file: `:write page.html`.")
        path = Path(name).expanduser()
        if path.exists():
            raise UsageError(f"{path} exists", "Name another file.")
        path.write_bytes(self._document.body)
        self._say(f"{path}: {len(self._document.body):,} bytes")

    def _open(self, where: str) -> None:
        if where.isdigit() and not Path(where).exists():
            link = self._links[int(where) - 1] if 0 < int(where) <= len(self._links) else ""
            if not link:
                raise UsageError(f"match {where} has no link", "Select links first; their numbers stand in front.")
            where = self._absolute(link)
        if not where:
            raise UsageError("open what?", "Name a URL, a file, or the number of a match that is a link.")
        document = read_source(where, None, self._definitions(), self._settings)
        self._page, self._document, self._links = page_of(document), document, []
        self._tell_page("")

    def _absolute(self, link: str) -> str:
        from engine import urls

        found = urls.join(self._page.base, link)
        if found is None:
            raise UsageError(f"{link}: leads to no web page", "Name a URL.")
        return found

    def _definitions(self) -> Definitions:
        """The defs as they are on disk now; without any, none."""
        return load(self._defs).definitions if self._defs.exists() else Definitions()

    def _tell_page(self, _: str) -> None:
        document = self._document
        kind = f"{document.status} {self._page.kind}"
        self._say(f"{document.url}: {kind}, {len(document.body):,} bytes, {document.origin}")

    def _help(self, _: str) -> None:
        for line in HELP.splitlines():
            self._say(line)

    def _quit(self, _: str) -> None:
        self.over = True

    def _say(self, text: str) -> None:
        self._out(clean(text))


def shell(defs: Path, settings: Settings, source: str, url: str | None) -> int:
    """Open a page and work lines of stdin until `:quit` or their end; returns 0. Raises NoPage, UsageError."""
    if source == "-":
        raise UsageError("the page cannot come from stdin, where the selectors do", "Give a URL or a FILE.")
    try:
        definitions = load(defs).definitions if defs.exists() else Definitions()
    except DefsError as error:
        click.echo(clean(f"warning: {error.problems[0]}; the defs are not used"), err=True)
        definitions = Definitions()
    it = Shell(defs, settings, read_source(source, url, definitions, settings), say=click.echo)
    it.begin()
    at_terminal = sys.stdin.isatty() and sys.stdout.isatty()
    for line in typed(lambda: it.prompt, it.words()) if at_terminal else iter(sys.stdin.readline, ""):
        try:
            it.obey(line)
        except KeyboardInterrupt:
            click.echo("stopped")
        if it.over:
            break
    return 0
