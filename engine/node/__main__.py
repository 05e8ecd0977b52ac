"""`python -m engine.node`: started by the supervisor."""

import gc
import logging
import os
import sys

if __name__ == "__main__":
    gc.disable()  # until all is imported, and stays: to look for garbage in it is a seventh of the start
    from engine.node.process import main

    code = main(sys.argv[1:])
    logging.shutdown()
    os._exit(code)  # all is said and written: to give memory back piece by piece would take longer than the rest
