"""A table of lines: fixed columns, a cursor that stays on its row, marks, sorting. Draws only the rows in sight."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from textual import events
from textual.actions import SkipAction
from textual.message import Message

from console.tui.state.log_buffer import compile_pattern
from console.tui.widgets.line_canvas import Line, Span, fit
from console.tui.widgets.pane import Pane

RowKey = Hashable
_WIDE_PANE = 118


@dataclass(frozen=True, slots=True)
class Column:
    """A column. `width` 0: takes what is left. `least`: only in panes that wide. `roomy`: its width in wide ones."""

    title: str
    width: int
    right: bool = False
    min_pane_width: int = 0
    wide_width: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """A row: what tells it from others, its cells as text and role, and the values it is sorted by."""

    key: RowKey
    cells: tuple[Span, ...]
    sort_values: tuple[Any, ...] = ()
    subject: Any = None
    """What the row stands for."""


class LineTable(Pane):
    """Rows under a cursor. The owner sets rows as often as it likes; the cursor stays with its row's key."""

    COLUMNS: Sequence[Column] = ()
    EMPTY = "nothing here yet"
    HAS_HEADING = True
    NEWEST_FIRST = False
    """Whether a cursor on the first row stays there when others come before it."""
    always_show_cursor = False
    """Whether the cursor is shown without the focus, too."""

    class RowOpened(Message):
        """A row was opened with enter or a double click."""

        def __init__(self, table: "LineTable", row: Row) -> None:
            super().__init__()
            self.table = table
            self.row = row

    class RowHighlighted(Message):
        """The cursor stands on another row."""

        def __init__(self, table: "LineTable") -> None:
            super().__init__()
            self.table = table

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self.rows: Sequence[Row] = ()
        self.marks: set[RowKey] = set()
        self.sort_column: int | None = None
        self.reverse = False
        self.filter_text = ""
        self._accepts: Callable[[str], bool] | None = None
        self._cursor = 0
        self._first_visible = 0
        self._last_click: tuple[float, int] = (0.0, -1)

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        return self.rows[self._cursor] if self._cursor < len(self.rows) else None

    @property
    def first_visible(self) -> int:
        """The first row in sight."""
        return self._first_visible

    def selected_rows(self) -> list[Row]:
        """The marked rows; the one under the cursor where none is marked."""
        marked = [row for row in self.rows if row.key in self.marks]
        return marked or ([self.row] if self.row else [])

    def show(self, rows: Sequence[Row], *, keep: bool = True) -> None:
        """Other rows; the cursor keeps its row where it is still there. Sorts them as the operator asked."""
        rows = self._sort_rows(rows)
        if keep and (row := self.row) is not None and not (self.NEWEST_FIRST and self._cursor == 0):
            moved = next((i for i, r in enumerate(rows) if r.key == row.key), self._cursor)
            self._first_visible = max(
                0, self._first_visible + moved - self._cursor
            )  # it stays on its line of the screen, too
            self._cursor = moved
        self.rows = rows
        self.marks &= {r.key for r in rows} if self.marks else set()
        self._move_cursor(self._cursor if keep else 0, quiet=True)

    def set_filter(self, text: str) -> None:
        """Show only rows in whose cells the words are found; `!` in front: not found. Empty: all."""
        self.filter_text, self._accepts = text, text_matcher(text)

    def show_filtered(self, rows: Sequence[Row]) -> None:
        """The rows that the operator's filter lets through."""
        accepts = self._accepts
        self.show([r for r in rows if accepts(" ".join(t for t, _ in r.cells))] if accepts else rows)

    def _sort_rows(self, rows: Sequence[Row]) -> Sequence[Row]:
        column = self.sort_column
        if column is None:
            return list(reversed(rows)) if self.reverse else rows
        return sorted(rows, key=lambda row: _sort_key(row.sort_values[column]), reverse=self.reverse)

    # --- drawing

    def paint(self, width: int, height: int) -> list[Line]:
        """The heading and the rows in sight."""
        columns = [c for c in self.COLUMNS if width >= c.min_pane_width]
        widths = _column_widths(columns, width)
        lines = [self._heading_line(columns, widths)] if self.HAS_HEADING else [self.rule(width)]
        page = max(1, height - 1)
        self._first_visible = max(0, min(self._first_visible, self._cursor, len(self.rows) - page))
        self._first_visible = max(self._first_visible, self._cursor - page + 1)
        if not self.rows:
            return [
                *lines,
                Line((("   " + (f"nothing matches {self.filter_text}" if self.filter_text else self.EMPTY), "dim"),)),
            ]
        shown = {id(c): i for i, c in enumerate(self.COLUMNS)}
        indexes = [shown[id(c)] for c in columns]
        seen = range(self._first_visible, min(len(self.rows), self._first_visible + page))
        return lines + [self._row_line(number, columns, widths, indexes) for number in seen]

    def _heading_line(self, columns: Sequence[Column], widths: Sequence[int]) -> Line:
        spans: list[Span] = [(" ▌ " if self.has_focus else "   ", "title")]
        for column, width in zip(columns, widths, strict=True):
            ordered = self.sort_column is not None and column is self.COLUMNS[self.sort_column]
            title = column.title + (("↓" if self.reverse else "↑") if ordered else "")
            spans += [(fit(title, width, right=column.right), "strong" if ordered else "dim"), (" ", "")]
        return Line(spans)

    def _row_line(self, number: int, columns: Sequence[Column], widths: Sequence[int], indexes: Sequence[int]) -> Line:
        row, here = self.rows[number], number == self._cursor
        mark = "●" if row.key in self.marks else " "
        pointed = here and (self.HAS_HEADING or self.has_focus or self.always_show_cursor)
        spans: list[Span] = [((">" if pointed else " ") + mark + " ", "accent")]
        for column, width, index in zip(columns, widths, indexes, strict=True):
            text, role = row.cells[index]
            spans += [(fit(text, width, right=column.right), role), (" ", "")]
        return Line(spans, "cursor" if here and (self.has_focus or self.always_show_cursor) else "")

    # --- what keys do here

    def action_down(self) -> None:
        """One row on."""
        self._move_cursor(self._cursor + 1)

    def action_up(self) -> None:
        """One row back."""
        self._move_cursor(self._cursor - 1)

    def action_page_down(self) -> None:
        """A page on."""
        self._move_cursor(self._cursor + self._page_rows)

    def action_page_up(self) -> None:
        """A page back."""
        self._move_cursor(self._cursor - self._page_rows)

    def action_top(self) -> None:
        """The first row."""
        self._move_cursor(0)

    def action_bottom(self) -> None:
        """The last row."""
        self._move_cursor(len(self.rows) - 1)

    def action_open(self) -> None:
        """Look into the row."""
        if self.row is not None:
            self.post_message(self.RowOpened(self, self.row))

    def action_mark(self) -> None:
        """Mark the row, or take its mark away."""
        if self.row is not None:
            self.marks ^= {self.row.key}
            self._move_cursor(self._cursor + 1)

    def action_mark_all(self) -> None:
        """Mark all rows, or none where all are."""
        keys = {row.key for row in self.rows}
        self.marks = set() if keys <= self.marks else keys
        self.redraw()

    def action_sort(self) -> None:
        """Sort by the next column."""
        count = len(self.rows[0].sort_values) if self.rows else 0
        order: list[int | None] = [None, *range(count)]
        self.sort_column = order[(order.index(self.sort_column) + 1) % len(order)] if count else None
        self.show(self.rows)

    def action_reverse(self) -> None:
        """The other way round."""
        self.reverse = not self.reverse
        self.show(self.rows if self.sort_column is not None else list(self.rows))

    def action_filter(self) -> None:
        """Type words that rows must hold."""
        self.console_app.prompt.ask("words that rows hold; !x: do not", self.filter_text, self._apply_filter)

    def _apply_filter(self, text: str) -> None:
        self.set_filter(text)
        self.console_app.update_screen()

    def action_back(self) -> None:
        """Out of the filter or the marks, then out of here."""
        if self.marks:
            self.marks = set()
            self.redraw()
        elif self.filter_text:
            self._apply_filter("")
        else:
            raise SkipAction

    def action_copy(self) -> None:
        """The row, as text."""
        if self.row is not None:
            self.console_app.desktop.copy_text("  ".join(text.strip() for text, _ in self.row.cells))

    def action_export(self) -> None:
        """The rows, as a CSV file."""
        headings = [column.title for column in self.COLUMNS]
        name = self.id or type(self).__name__.lower()
        self.console_app.desktop.export_rows(name, headings, [[text for text, _ in row.cells] for row in self.rows])

    def _move_cursor(self, to: int, *, quiet: bool = False) -> None:
        before, self._cursor = self._cursor, max(0, min(to, len(self.rows) - 1))
        self.redraw()
        if before != self._cursor and not quiet:
            self.post_message(self.RowHighlighted(self))

    @property
    def _page_rows(self) -> int:
        return max(1, self.size.height - 2)

    # --- the mouse

    def on_click(self, event: events.Click) -> None:
        """Go to a row; a second click opens it; on the heading: sort."""
        if event.y == 0:
            self.action_sort()
            return
        target = self._first_visible + event.y - 1
        if target < len(self.rows):
            self._move_cursor(target)
            if event.chain >= 2:
                self.action_open()

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        """Three rows on."""
        self._move_cursor(self._cursor + 3)

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        """Three rows back."""
        self._move_cursor(self._cursor - 3)


def text_matcher(text: str) -> Callable[[str], bool] | None:
    """Whether all words of a filter are found in a text; words with `!` must not be. A word is a regular expression."""
    words = [(word.startswith("!"), compile_pattern(word.lstrip("!"))) for word in text.split()]
    terms = [(negated, found) for negated, found in words if found is not None]
    if not terms:
        return None
    return lambda line: all((found.search(line) is None) == negated for negated, found in terms)


def _column_widths(columns: Sequence[Column], width: int) -> list[int]:
    wanted = [c.wide_width if c.wide_width and width >= _WIDE_PANE else c.width for c in columns]
    left = max(4, width - 3 - sum(wanted) - len(columns))
    return [w or left for w in wanted]


def _sort_key(value: Any) -> tuple[int, Any]:
    """None sorts before everything; numbers before texts."""
    return (0, 0) if value is None else (1, value) if isinstance(value, (int, float)) else (2, str(value))
