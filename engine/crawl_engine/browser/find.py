"""Finds the browser of the machine, and says what is missing."""

import os

from crawl_engine.errors import UsageError
from crawl_engine.model.definition import Definitions
from crawl_engine.runtime.extras import require_extra
from crawl_engine.settings import Settings

SHELLS = ("chromium-headless-shell", "chrome-headless-shell")
"""They make no window for a page, which costs most of its time."""
_BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome", "microsoft-edge")


def require_browser(definitions: Definitions, settings: Settings) -> None:
    """Raise UsageError if a group needs a browser, and none can be started."""
    if any(group.loader is not None for group in definitions.task_groups):
        find_browser(settings)
        if settings.browser_sandbox and os.geteuid() == 0:
            remedy = (
                "Run as another user; or, if you trust the sites, give --set browser_sandbox=false, or write "
                "browser_sandbox = false in crawl.toml."
            )
            raise UsageError("`loader: browser`: Chromium has no sandbox for root", remedy)


def find_browser(settings: Settings, user: str = "`loader: browser`", *, shows: bool = False) -> str:
    """The path of the program. `user`: what needs it. `shows`: with windows. Raises UsageError, with what to do."""
    import shutil  # most commands look for no browser

    require_extra("browser", user)
    if settings.browser is not None:
        path = shutil.which(settings.browser)
        if path is None:
            text = f"browser = {settings.browser}: no such program"
            raise UsageError(text, "Set browser to the path of Chromium or Chrome, or remove it.")
        return path
    names = _BROWSERS if shows else SHELLS + _BROWSERS
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path is None:
        text = f"no browser is on PATH ({os.environ.get('PATH', '')}): looked for {', '.join(names[:5])}"
        package = f"Debian: apt-get install chromium{'' if shows else '-headless-shell'}"
        raise UsageError(text, f"Install Chromium ({package}), or set browser to its path.")
    return path
