"""`python -m engine.node`: started by the supervisor."""

import sys

from engine.node.process import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
