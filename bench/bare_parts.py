"""The bare parts on a site: bare_parts.py START_URL... MAX_PAGES. See ``skitter.bench.bare_parts``."""

import sys

from skitter.bench.bare_parts import main

sys.exit(main(sys.argv[1:]))
