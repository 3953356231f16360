"""``python -m skitter.app CONFIG``: one worker process, as its supervisor starts it."""

import sys

from skitter.app.child import main

if __name__ == "__main__":
    sys.exit(main())
