"""Pages that a browser renders in previews: whether and why, and where its profile lies meanwhile."""

import contextlib
import fcntl
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from crawl_engine.browser.find import find_browser
from crawl_engine.errors import PageUnavailable, UsageError
from crawl_engine.extract.page.context import Context
from crawl_engine.model.definition import Definitions, TaskGroup
from crawl_engine.model.retry_policy import classify_status
from crawl_engine.model.step import REQUIRED_FIELDS, BrowserAction, BrowserRule, GroupLoading
from crawl_engine.node.rules.lacking import UnrenderedRule
from crawl_engine.preview.extraction_client import ExtractionClient, TrialDocument
from crawl_engine.preview.page_trial import PageTrial
from crawl_engine.runtime.file_folder import list_working_in
from crawl_engine.settings import Settings

_PREFIX = "crawl-browser-"
_NEW_SECONDS = 60.0
"""A folder that is younger may not be locked yet."""
_END_SECONDS = 5.0
"""Browsers that were killed end within them."""
_PAUSE = 0.05
_ENDING = (signal.SIGTERM, signal.SIGHUP)
_open_folders: list[Path] = []
"""The folders of profiles that this process uses: a window keeps one while the next page is fetched."""
_ANY_PAGE = BrowserRule(actions=(BrowserAction(wait="idle", optional=True),))
"""For a page whose group says nothing of browsers."""


class Window:
    """What keeps the browser of a preview open: the window stays until the next page is shown."""

    def __init__(self) -> None:
        """Raises UsageError where there is no display."""
        if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            text = "--show needs a display: neither DISPLAY nor WAYLAND_DISPLAY is set"
            raise UsageError(text, "Run it in a desktop session, or leave out --show.")
        self._end: Callable[[], None] | None = None

    def keep(self, end: Callable[[], None] | None) -> None:
        """`end`: ends a browser; the one before is ended now."""
        before, self._end = self._end, end
        if before is not None:
            before()

    def close(self) -> None:
        self.keep(None)


class Rendering(Struct, frozen=True, kw_only=True):
    """How an operator has pages loaded."""

    always: bool = False
    """Whether a browser renders each page; else the rule of its group says so."""
    window: Window | None = None
    """Where the page stays to be seen."""
    on_start: Callable[[str], None] = lambda _: None
    """Called with the program of the browser, when it is about to be needed."""

    def rule_for(self, group: TaskGroup) -> TaskGroup:
        """A group, as its pages are loaded."""
        if not self.always:
            return group
        rule = _ANY_PAGE if group.loader is None else group.loader.browser
        return replace(group, loader=GroupLoading(browser=replace(rule, when=None)))

    def prepare(self, settings: Settings) -> None:
        """Find the browser, and announce it. Raises UsageError, with what to do."""
        logging.getLogger("crawl_engine.browser").addHandler(logging.NullHandler())  # the command tells of failures
        self.on_start(
            find_browser(settings, "--browser" if self.always else "`loader: browser`", shows=self.window is not None)
        )


def describe_rule(group: TaskGroup | None, *, always: bool) -> tuple[str, str]:
    """Why pages of a group are rendered without being asked for before, and what its crawl would do otherwise.

    `group`: as the defs have it; None: the page has none.
    """
    if group is None:
        return "--browser", ""
    if group.loader is not None:
        return f"--browser, by `loader` of {group.name}" if always else f"`loader: browser` of {group.name}", ""
    advice = f"{group.place}: a crawl would not render {group.name}; write `loader: {{browser: {{wait: idle}}}}`"
    return "--browser", advice


def remedy_of(problem: str) -> str:
    """What to do about a browser that does not start."""
    if "browser_sandbox" in problem:
        return "A setting is given by --set browser_sandbox=false, or in crawl.toml."
    return "Start the program yourself to see more, or set another one: --set browser=PATH."


def find_lack(
    document: TrialDocument, group: TaskGroup, definitions: Definitions, settings: Settings
) -> tuple[bool, str]:
    """Whether a plain page must be rendered by the rule of its group, and the reason in words."""
    missing = "" if group.loader is None or group.loader.browser.when is None else group.loader.browser.when.missing
    if not missing or document.refusal or classify_status(document.status) != "ok":
        return False, ""
    wanted = "" if missing == REQUIRED_FIELDS else missing
    context = Context(
        group=group.name, locator=group.name, locator_url=document.url, depth=0, run="try", run_time="",
        rules={UnrenderedRule.name: wanted} if wanted else {},
    )  # fmt: skip
    rows = 0
    with ExtractionClient(settings) as client:
        for name in dict.fromkeys(task.data_def for task in group.tasks):
            data_def = definitions.data_def(name)
            if data_def is None:
                continue
            try:
                page = PageTrial(definitions, data_def, client).run(document, context).page
            except PageUnavailable:  # as in a crawl; who extracts it is told
                return False, ""
            if wanted:
                lacks = UnrenderedRule.name in page.parts
                return lacks, f"the plain page {'lacks' if lacks else 'has'} {wanted}"
            if page.rejected:
                rejected = page.rejected[0]
                return True, f"the plain page lacks {rejected.data_def}.{rejected.field or 'fields'}"
            rows += sum(len(texts) for _, texts in page.rows)
    return (False, "the plain page has all required fields") if rows else (True, "the plain page gives no row")


class ProfileFolder:
    """A folder for the profiles of a preview's browsers, below that for temporary files.

    It is locked while it is used: the next preview deletes what one that was killed has left.
    """

    def __init__(self) -> None:
        """Raises OSError."""
        for path in _list_left_over():
            _remove(path)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX)).resolve()
        self._lock = os.open(self.path, os.O_RDONLY)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        _open_folders.append(self.path)
        for number in _ENDING:
            if signal.getsignal(number) == signal.SIG_DFL:  # not where `nohup` has it ignored
                signal.signal(number, _end)

    def close(self) -> None:
        """Delete it, and end what still works in it."""
        _remove(self.path)
        os.close(self._lock)
        _open_folders.remove(self.path)
        for number in () if _open_folders else _ENDING:
            if signal.getsignal(number) == _end:
                signal.signal(number, signal.SIG_DFL)


def _end(number: int, _: object) -> None:
    """End by a signal, as a program without this handler, but leave no browser and no folder."""
    for path in _open_folders:
        _remove(path)
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


def _list_left_over() -> Iterator[Path]:
    """The folders of this user that no process has locked."""
    for entry in os.scandir(tempfile.gettempdir()):
        with contextlib.suppress(OSError):
            found = entry.stat(follow_symlinks=False)
            is_own = entry.name.startswith(_PREFIX) and entry.is_dir(follow_symlinks=False)
            if not is_own or found.st_uid != os.getuid() or time.time() - found.st_mtime < _NEW_SECONDS:
                continue
            lock = os.open(entry.path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield Path(entry.path)
            finally:
                os.close(lock)


def _remove(folder: Path) -> None:
    """Delete a folder, once the processes that work in it have ended."""
    deadline = time.monotonic() + _END_SECONDS
    while time.monotonic() < deadline:
        running = list_working_in(folder)
        for pid in running:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
        if not running and not folder.exists():
            return
        time.sleep(_PAUSE)
