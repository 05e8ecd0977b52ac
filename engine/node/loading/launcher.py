"""A node's handle of the template of its loader processes."""

import subprocess
from contextlib import suppress

from engine.node.extraction.launcher import ExtractionLauncher
from engine.node.extraction.limits import ExtractionLimits

_MODULE = "engine.node.loading.template"
_END_SECONDS = 2.0


class LoaderLauncher(ExtractionLauncher):
    """Not thread-safe. Its template is a fresh interpreter, started when the first loader is needed."""

    def __init__(self, limits: ExtractionLimits) -> None:
        super().__init__(limits, _MODULE)

    def close(self) -> None:
        """End all processes and their helpers: the template sees to that when its socket is closed."""
        if self.control is not None and self._process is not None:
            self.control.close()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_SECONDS)
        super().close()
