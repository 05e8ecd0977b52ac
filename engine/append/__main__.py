"""`python -m engine.append`: the appender process."""

import sys

from engine.append.process import main

sys.exit(main(sys.argv[1:]))
