"""The table of several data dirs: the latest run of each, one line."""

from typing import Any

from console.format import format_count, format_date_time, format_eta, format_rate
from engine.model.run import Eta

CRAWL_HEADINGS = ("DATA", "RUN", "STATE", "DONE", "READY", "FAILED", "PAGES/S", "ROWS", "END", "ALARMS")


def crawl_cells(line: dict[str, Any]) -> list[str]:
    """The cells behind the name. `line`: the object of `status --all --json`."""
    if line["error"] or line["run"] is None:
        return ["-", "no run yet", *[""] * (len(CRAWL_HEADINGS) - 3)]
    if line["supervisor"]:
        end = f"ETA {format_eta(Eta(**line['eta']))}"
    else:
        end = format_date_time(line["ended"])[:16] if line["ended"] else "no supervisor"
    return [
        line["run"], line["state"], *(format_count(line[name]) for name in ("done", "ready", "failed")),
        format_rate(line["pages_per_s"]), format_count(line["rows"]), end, str(line["alarms"] or ""),
    ]  # fmt: skip
