"""``python -m skitter`` is ``skitter``."""

from __future__ import annotations

import sys

from skitter.cli import main

if __name__ == "__main__":
    sys.exit(main())
