"""`python -m engine.append`: the appender process."""

import gc
import logging
import os
import sys

if __name__ == "__main__":
    gc.disable()  # during the imports, which stay in memory
    from engine.append.process import main

    gc.freeze()
    gc.enable()
    code = main(sys.argv[1:])
    logging.shutdown()
    os._exit(code)  # everything is written and logged
