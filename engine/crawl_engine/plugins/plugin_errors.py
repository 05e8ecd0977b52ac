"""Errors of plugin code: those that it may raise, and how others are told."""

from crawl_engine.errors import tell_new_name

PACKAGE = "plugins"
"""The package of the imported files; `import shop` works too if no other module has that name."""


class NotApplicable(Exception):
    """The step does not apply to this page: its rows stay as they are. Counted, never stored."""


class StepError(Exception):
    """The step failed on this page: the job becomes FAILED with `TASK/STEP: text`, and the task gives no rows."""

    def __init__(self, text: str, code: str = "") -> None:
        """`code` groups errors of one cause, such as `no-price`."""
        super().__init__(text)
        self.code = code


class PluginUnavailable(Exception):
    """A class cannot be loaded; the message says why."""


def describe_error(error: BaseException) -> str:
    """`ValueError: no digits (plugins/shop.py:12)`: the error, and the last line of plugin code it passed."""
    path, line = last_place(error)
    if isinstance(error, SyntaxError) and error.filename:
        path, line = error.filename, error.lineno or 1
    place = f" ({path}:{line})" if path else ""
    text = error.msg if isinstance(error, SyntaxError) else error_text(error)
    return f"{type(error).__name__}{': ' if text else ''}{text}{tell_new_name(error)}{place}"


def last_place(error: BaseException) -> tuple[str | None, int]:
    """The last line of plugin code that an error passed: `plugins/shop.py` and 12; None if it passed none."""
    path, line, traceback = None, 1, error.__traceback__
    while traceback is not None:
        filename = traceback.tb_frame.f_code.co_filename
        if filename.startswith(f"{PACKAGE}/"):
            path, line = filename, traceback.tb_lineno
        traceback = traceback.tb_next
    return path, line


def error_text(error: BaseException) -> str:
    """The text of a plugin's error, whose `__str__` may be broken."""
    try:
        return str(error)
    except BaseException:
        return "its text cannot be read"
