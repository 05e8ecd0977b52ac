"""The documentation pages as the tests read them: text, sections, tables, code blocks."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def with_chapters(name):
    """The text of a page, and of its chapters in the folder of the same name."""
    page = ROOT / "docs" / name
    chapters = sorted(page.with_suffix("").glob("*.md"))
    return "\n".join(path.read_text("utf-8") for path in (page, *chapters))


README = (ROOT / "README.md").read_text("utf-8")
DEFS, COMMANDS, SETTINGS = with_chapters("defs.md"), with_chapters("commands.md"), with_chapters("settings.md")


PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])


def blocks(text, kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def prose(text):
    """The text without its code blocks."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def quoted(text):
    """All texts in backticks."""
    return re.findall(r"`([^`\n]+)`", prose(text))


def section(text, title):
    """The text below a heading, up to the next heading of the same or a higher level."""
    heading = re.search(rf"^(#+) {re.escape(title)}\n", text, re.MULTILINE)
    assert heading, f"no heading {title!r}"
    rest = text[heading.end() :]
    end = re.search(rf"^#{{1,{len(heading.group(1))}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def table(text):
    """The rows of the tables in a text, with stripped cells; an escaped bar is part of its cell."""
    rows = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]
    return [row for number, row in enumerate(cells) if set("".join(row)) - set("-: ") and not is_heading(cells, number)]


def is_heading(rows, number):
    return number + 1 < len(rows) and not set("".join(rows[number + 1])) - set("-: ")


def first_column(text):
    return {name for row in table(text) for name in re.findall(r"`([^`]+)`", row[0])}
