"""Table with a cursor that stays on its row, marks, sorting and filter. Draws only the visible rows."""

from collections.abc import Callable, Collection, Iterable, Sequence
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any, NamedTuple

from textual import events
from textual.actions import SkipAction
from textual.message import Message

from crawl_console.format import Span, shorten_subject
from crawl_console.tui.state.log_buffer import compile_pattern
from crawl_console.tui.widgets.line_canvas import Line, fit
from crawl_console.tui.widgets.scroll_pane import ScrollPane
from crawl_console.words.table import AnyColumn, Row, RowKey, SortValue

_WIDE_PANE = 118
_POINTER_WIDTH = 3
_MIN_REST = 4
_SORT_LETTERS = ascii_lowercase + digits + ascii_uppercase
"""Keys that choose a column, the first ones first: of a wide table some columns get a digit or a capital."""


class PlacedColumn(NamedTuple):
    """A column that is shown: its place among all, its first cell and its width."""

    place: int
    column: AnyColumn
    start: int
    width: int


def place_columns(columns: Sequence[AnyColumn], pane_width: int, hidden: Collection[str] = ()) -> list[PlacedColumn]:
    """The columns that fit and that the operator has not hidden, by title; one always stays."""
    fitting = [(index, column) for index, column in enumerate(columns) if pane_width >= column.min_pane_width]
    shown = [(index, column) for index, column in fitting if column.title not in hidden] or fitting[:1]
    widths = [c.wide_width if c.wide_width and pane_width >= _WIDE_PANE else c.width for _, c in shown]
    rest = max(_MIN_REST, pane_width - _POINTER_WIDTH - sum(widths) - len(shown) + 1)
    if 0 not in widths and widths:
        widths[-1] += max(0, rest - _MIN_REST)
    placed, start = [], _POINTER_WIDTH
    for (index, column), width in zip(shown, widths, strict=True):
        placed.append(PlacedColumn(index, column, start, width or rest))
        start += (width or rest) + 1
    return placed


def sort_letters(columns: Iterable[PlacedColumn]) -> dict[str, PlacedColumn]:
    """A key for each column: a letter of its title, if another column has not taken it."""
    letters: dict[str, PlacedColumn] = {}
    for placed in columns:
        wanted = [*filter(str.isalpha, placed.column.title.lower()), *_SORT_LETTERS]
        letter = next((letter for letter in wanted if letter not in letters), None)
        if letter is None:
            break  # a click on the heading sorts by it
        letters[letter] = placed
    return letters


class LineTable(ScrollPane):
    """Rows with a cursor. When the owner sets other rows, the cursor stays on the row with the same key."""

    COLUMNS: Sequence[AnyColumn] = ()
    EMPTY = "nothing here yet"
    empty_text = ""
    """Replaces `EMPTY` if it is set."""
    HAS_HEADING = True
    RULE_HEADINGS = ""
    """At the right of the rule, for tables without a line of headings."""
    always_show_cursor = False
    """Whether the cursor is also shown without focus."""
    is_read = False
    """Whether the owner has set rows: until then no row means nothing."""

    class RowOpened(Message):
        """A row was opened with Enter or a double click."""

        def __init__(self, table: "LineTable", row: Row) -> None:
            super().__init__()
            self.table = table
            self.row = row

    class RowHighlighted(Message):
        """The cursor moved to another row."""

        def __init__(self, table: "LineTable") -> None:
            super().__init__()
            self.table = table

    class Scrolled(Message):
        """The wheel or the scroll bar changed which rows are visible."""

    def __init__(self, **named: Any) -> None:
        super().__init__(**named)
        self.rows: Sequence[Row] = ()
        self.marks: set[RowKey] = set()
        self.sort_column: int | None = None
        self.reverse = False
        self.filter_text = ""
        self._accepts: Callable[[str], bool] | None = None
        self._unfiltered = 0
        self.hidden_columns: set[str] = set()
        """Titles of those that the operator has hidden."""
        self._placed: list[PlacedColumn] = []
        self._cursor = 0
        self.has_cursor = True
        """False until the operator moves the cursor: the row under it is gone, and no key may act on another."""
        self._first_visible = 0

    @property
    def row(self) -> Row | None:
        return self.rows[self._cursor] if self.has_cursor and self._cursor < len(self.rows) else None

    @property
    def first_visible(self) -> int:
        return self._first_visible

    def on_mount(self) -> None:
        self.hidden_columns = set(self.console_app.options.config.hidden_columns.get(type(self).__name__, ()))

    def selected_rows(self) -> list[Row]:
        """Return the marked rows, or the row under the cursor if none is marked."""
        marked = [row for row in self.rows if row.key in self.marks]
        return marked or ([self.row] if self.row else [])

    def show(self, rows: Sequence[Row], *, keep: bool = True) -> None:
        """Set the rows and sort them. With `keep`, the row under the cursor stays where it is.

        A table without focus whose cursor was never moved shows its first rows: no key acts on them.
        """
        rows, self.is_read = self._sort_rows(rows), True
        at_top = not self._cursor and not self.has_focus and not self.always_show_cursor
        if keep and not at_top and (row := self.row) is not None:
            moved = next((i for i, r in enumerate(rows) if r.key == row.key), self._cursor)
            if self._first_visible:  # at the start of the list the rows that come first stay visible
                self._first_visible = max(0, self._first_visible + moved - self._cursor)
            self._cursor = moved
        self.rows = rows
        self.marks &= {r.key for r in rows} if self.marks else set()
        self._move_cursor(self._cursor if keep else 0, quiet=True)

    def select(self, key: RowKey) -> bool:
        """Move the cursor to the row with a key; returns whether there is one."""
        place = next((place for place, row in enumerate(self.rows) if row.key == key), None)
        if place is not None:
            self._move_cursor(place)
        return place is not None

    def set_filter(self, text: str) -> None:
        """Show only rows that contain all the words; `!word` excludes rows. An empty text shows all rows."""
        self.filter_text, self._accepts = text, text_matcher(text)

    def show_filtered(self, rows: Sequence[Row]) -> None:
        """Set the rows, without those that the filter excludes."""
        accepts, self._unfiltered = self._accepts, len(rows)
        self.show([r for r in rows if accepts(" ".join(t for t, _ in r.cells))] if accepts else rows)

    def _sort_rows(self, rows: Sequence[Row]) -> Sequence[Row]:
        column = self.sort_column
        if column is None:
            return list(reversed(rows)) if self.reverse else rows
        values = [row for row in rows if row.sort_values]
        values.sort(key=lambda row: _sort_key(row.sort_values[column]), reverse=self.reverse)
        return [*values, *(row for row in rows if not row.sort_values)]

    # --- scrolling

    @property
    def page_lines(self) -> int:
        return max(1, super().page_lines - bool(self.filter_text))

    @property
    def full_height(self) -> int:
        """Lines that show all rows, with the heading and what is said of a filter."""
        return max(2, len(self.rows) + 1 + bool(self.filter_text))

    def unloaded_rows(self) -> tuple[int, int]:
        """Return how many rows of the list lie before and after `rows`, as far as known."""
        return 0, 0

    def scroll_position(self) -> tuple[int, int]:
        """Return the position of the first visible row in the whole list, and its largest value."""
        before, after = self.unloaded_rows()
        maximum = max(0, before + len(self.rows) + after - self.page_lines)
        return min(before + self._first_visible, maximum), maximum

    def scroll_lines_to(self, position: int) -> None:
        """Show the rows from `position` on and keep the cursor visible. The ends of the list may have to be loaded."""
        before, after = self.unloaded_rows()
        if before and position <= 0:
            self.action_top()
        elif after and position >= before + len(self.rows) + after - self.page_lines:
            self.action_bottom()
        else:
            first = max(0, min(position - before, len(self.rows) - self.page_lines))
            self._first_visible = first
            self._move_cursor(max(first, min(self._cursor, first + self.page_lines - 1)))
        self.post_message(self.Scrolled())

    # --- drawing

    def paint(self, width: int, height: int) -> list[Line]:  # noqa: ARG002
        self._placed = place_columns(self.COLUMNS, self.text_width, self.hidden_columns)
        has_heading = self.HAS_HEADING or self.awaits_key
        lines = [self._heading_line()] if has_heading else [self.rule(width, headings=self.RULE_HEADINGS)]
        page = self.page_lines
        self._first_visible = max(0, min(self._first_visible, self._cursor, len(self.rows) - page))
        self._first_visible = max(self._first_visible, self._cursor - page + 1)
        if not self.rows:
            text = f"no row matches {self.filter_text}" if self.filter_text else self.empty_text or self.EMPTY
            text = text if self.is_read else "reading …"
            return [*lines, Line((("   " + text, "dim"),))]
        visible = range(self._first_visible, min(len(self.rows), self._first_visible + page))
        lines += [self._row_line(number) for number in visible]
        if self.filter_text:
            count = f"{len(self.rows):,} of {self._unfiltered:,}"
            lines.append(Line(((f"   {count} match /{self.filter_text}", "accent"), ("  esc: all", "dim"))))
        return lines

    def _heading_line(self) -> Line:
        spans: list[Span] = [(" ▌ " if self.has_focus else "   ", "title")]
        letters = (
            {placed.place: letter for letter, placed in sort_letters(self._sortable()).items()}
            if self.awaits_key
            else {}
        )
        for index, column, _, width in self._placed:
            sorted_by = index == self.sort_column
            arrow = ("↓" if self.reverse else "↑") if sorted_by else ""
            title = column.title[: width - 1] + arrow if arrow else column.title
            role, text = "strong" if sorted_by else "dim", fit(title, width, right=column.right)
            letter = letters.get(index, "")
            at = text.find(letter.upper()) if letter else -1
            if letter and at < 0:
                at = len(text) - len(text.lstrip())
            spans += [(text[: max(0, at)], role), (letter, "match"), (text[at + 1 if letter else 0 :], role), (" ", "")]
        return Line(spans)

    def _sortable(self) -> list[PlacedColumn]:
        """The visible columns that the rows can be sorted by."""
        has_values = any(row.sort_values for row in self.rows)
        return [placed for placed in self._placed if has_values and placed.column.sort is not None]

    def _row_line(self, number: int) -> Line:
        row, is_cursor = self.rows[number], self.has_cursor and number == self._cursor
        mark = "●" if row.key in self.marks else " "
        has_pointer = is_cursor and (self.HAS_HEADING or self.has_focus or self.always_show_cursor)
        spans: list[Span] = [((">" if has_pointer else " ") + mark + " ", "accent")]
        last = len(row.cells) - 1 if len(row.cells) < len(self.COLUMNS) else len(self.COLUMNS)
        for index, column, start, width in self._placed:
            if index >= last:
                spans.append((fit(row.cells[last][0], self._placed[-1].start + self._placed[-1].width - start),
                              row.cells[last][1]))  # fmt: skip
                break
            text, role = row.cells[index]
            text = shorten_subject(text, width) if column.keeps_end else text
            spans += [(fit(text, width, right=column.right), role), (" ", "")]
        return Line(spans, "cursor" if is_cursor and (self.has_focus or self.always_show_cursor) else "")

    # --- keys

    def move(self, lines: int) -> None:
        self._move_cursor(self._cursor + lines)

    def action_top(self) -> None:
        self._move_cursor(0)

    def action_bottom(self) -> None:
        self._move_cursor(len(self.rows) - 1)

    def action_open(self) -> None:
        if self.row is not None:
            self.post_message(self.RowOpened(self, self.row))

    def action_mark(self) -> None:
        if self.row is not None:
            self.marks ^= {self.row.key}
            self.move(1)

    def action_mark_all(self) -> None:
        """Mark all rows, or unmark them if all are marked."""
        keys = {row.key for row in self.rows}
        self.marks = set() if keys <= self.marks else keys
        self.redraw()

    def action_sort(self) -> None:
        """Show a letter on each heading; the next key sorts by it."""
        self.await_key("sort: a letter chooses its column, any other key leaves" if self.rows else "no rows to sort")
        self.redraw()

    def take_key(self, key: str) -> None:
        """Sort by the column of a letter."""
        placed = sort_letters(self._sortable()).get(key)
        if placed is not None:
            self._sort_by(placed)

    def _sort_by(self, placed: PlacedColumn) -> None:
        """Sort by a column, numbers from the largest on; a second time in reverse."""
        if self.sort_column == placed.place:
            self.action_reverse()
        else:
            values = [row.sort_values[placed.place] for row in self.rows if row.sort_values]
            self.reverse = not any(isinstance(value, str) for value in values)
            self.sort_column = placed.place
            self.show(self.rows)

    def action_columns(self) -> None:
        self.console_app.navigation.choose_columns(self)

    def toggle_column(self, title: str) -> None:
        """Show or hide a column; kept for the next start."""
        self.hidden_columns ^= {title}
        self.console_app.options.config.hide_columns(type(self).__name__, self.hidden_columns)
        self.redraw()

    def _sort_by_cell(self, x: int) -> None:
        """Sort by the column at a cell of the heading."""
        placed = next((p for p in self._sortable() if p.start <= x < p.start + p.width), None)
        if placed is not None:
            self._sort_by(placed)

    def action_reverse(self) -> None:
        self.reverse = not self.reverse
        self.show(self.rows if self.sort_column is not None else list(self.rows))

    def action_filter(self) -> None:
        self.console_app.prompt.ask("rows with all words; !x: without x", self.filter_text, self._apply_filter)

    def _apply_filter(self, text: str) -> None:
        self.set_filter(text)
        self.console_app.update_screen()

    def action_back(self) -> None:
        """Clear the marks, else the filter, else leave the view."""
        if self.marks:
            self.marks = set()
            self.redraw()
        elif self.filter_text:
            self._apply_filter("")
        else:
            raise SkipAction

    def action_copy(self) -> None:
        if self.row is not None:
            self.console_app.desktop.copy_text("  ".join(text.strip() for text, _ in self.row.cells))

    def action_export(self) -> None:
        headings = [column.title for column in self.COLUMNS]
        name = self.id or type(self).__name__.lower()
        self.console_app.desktop.export_rows(name, headings, [[text for text, _ in row.cells] for row in self.rows])

    def _move_cursor(self, to: int, *, quiet: bool = False) -> None:
        before, self._cursor = self._cursor if self.has_cursor else None, max(0, min(to, len(self.rows) - 1))
        self.has_cursor = self.has_cursor or not quiet
        self.redraw()
        if before != self._cursor and not quiet:
            self.post_message(self.RowHighlighted(self))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the row; a double click opens it. A click on a heading sorts by it."""
        if event.y == 0:
            self._sort_by_cell(event.x)
            return
        target = self._first_visible + event.y - 1
        if target < len(self.rows):
            self._move_cursor(target)
            if event.chain >= 2:
                self.action_open()


def text_matcher(text: str) -> Callable[[str], bool] | None:
    """Return a test: does a text match all words of a filter, and no word behind `!`? Words are regular expressions."""
    words = [(word.startswith("!"), compile_pattern(word.lstrip("!"))) for word in text.split()]
    terms = [(negated, pattern) for negated, pattern in words if pattern is not None]
    if not terms:
        return None
    return lambda line: all((pattern.search(line) is None) == negated for negated, pattern in terms)


def _sort_key(value: SortValue) -> tuple[int, str | float]:
    """Sort None first, then numbers, then texts."""
    return (0, 0) if value is None else (1, value) if isinstance(value, (int, float)) else (2, str(value))
