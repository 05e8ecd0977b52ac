"""`python -m tests.bench.loop_start`: a part of the ceiling, started as a node is."""

import gc
import sys

if __name__ == "__main__":
    gc.disable()
    from tests.bench.loop_part import main

    gc.enable()
    sys.exit(main())
