"""Starts one half of the ceiling with the process settings of a node.

The same as in `engine.node`: no garbage collection during imports, imported objects frozen, the collector's thresholds,
batch scheduling. `loop` sets the allocator's environment variables, and `loop_part` pins the process to a CPU.
"""

import gc
import sys

GC_THRESHOLDS = (100_000, 20, 20)
"""Equal to those of a node; a test compares them."""

if __name__ == "__main__":
    gc.disable()
    from engine.node.tuning import use_batch_scheduling
    from tests.bench.loop_part import main

    use_batch_scheduling()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.enable()
    sys.exit(main())
