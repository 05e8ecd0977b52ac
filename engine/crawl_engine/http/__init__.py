"""HTTP requests and responses: sending, decoding, redirects."""

import sys

sys.modules["httpx._main"] = None  # type: ignore[assignment]  # spares httpx its command line, with rich and click
