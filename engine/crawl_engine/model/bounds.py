"""The bounds of every number that a user gives: in settings, flags, defs and operators' commands."""

from msgspec import Meta


def _seconds(least: float, most: float) -> Meta:
    return Meta(ge=least, le=most, extra={"unit": "seconds"})


NODES = Meta(ge=1, le=256)
BACKUPS = Meta(ge=0, le=256)
BROWSERS = Meta(ge=1, le=64)
CONCURRENCY = Meta(ge=1, le=1_000)
"""Requests at once, of one node or to one host."""
BATCH = Meta(ge=1, le=1_000)
ATTEMPTS = Meta(ge=1, le=100)
REPEATS = Meta(ge=0, le=100)
"""Redirects, and retries of a list of URLs."""
COUNT = Meta(ge=0, le=10**12)
POSITIVE_COUNT = Meta(ge=1, le=10**12)
LINKS = Meta(ge=0, le=1_000_000)
BODY_BYTES = Meta(ge=1, le=10**9)
FILE_BYTES = Meta(ge=1, le=10**13)
FREE_BYTES = Meta(ge=0, le=10**15)
DATA_BYTES = Meta(ge=1_000_000, le=10**15)
"""Of a whole data dir: an empty one has less than the least."""
PARSE_BYTES = Meta(ge=100_000_000, le=10**11)
HERTZ = Meta(ge=0.1, le=10)
PRIORITY = Meta(ge=-(2**31) + 1, le=2**31 - 1)
DEF_COUNT = Meta(ge=0, le=2**31 - 1)
POSITIVE_DEF_COUNT = Meta(ge=1, le=2**31 - 1)
SENDER_BATCH = Meta(ge=1, le=10_000)
PORT = Meta(ge=1, le=65_535)
PERCENT = Meta(ge=0, le=100)
DEMO_PAGES = Meta(ge=1, le=1_000_000)
DEMO_LATENCY = Meta(ge=0, le=60_000)
"""Milliseconds."""

DELAY = _seconds(0, 86_400)
"""`runtime.host_clock` treats a longer delay as damage."""
HEART = _seconds(0.5, 3_600)
START = _seconds(1, 3_600)
GRACE = _seconds(0, 86_400)
STOP = _seconds(1, 86_400)
DRAIN = _seconds(1, 86_400)
SEND_DRAIN = _seconds(0, 86_400)
REQUEST = _seconds(0.1, 3_600)
WAIT = _seconds(0.1, 86_400)
PERIOD = _seconds(0.1, 366 * 86_400)
KEEP = _seconds(0, 10**10)
"""The age up to which something is kept."""
HELPER_STOP = _seconds(0, 3_600)
STEP_LIMIT = _seconds(0.001, 3_600)


def describe_bounds(bounds: Meta) -> str:
    """The bounds as words: `between 1 and 256`."""
    return f"between {bounds.ge:,} and {bounds.le:,}"


def is_time(bounds: Meta) -> bool:
    """Whether they bound a time, which may have a unit."""
    return bounds.extra is not None


def is_within(bounds: Meta, number: float) -> bool:
    """Whether a number lies within the bounds; NaN never does."""
    least, most = limits_of(bounds)
    return least <= number <= most


def limits_of(bounds: Meta) -> tuple[float, float]:
    """The least and the most."""
    assert bounds.ge is not None and bounds.le is not None
    return bounds.ge, bounds.le
