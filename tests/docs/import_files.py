"""Imports the files that are named, as modules that are not the program; in a process of its own."""

from __future__ import annotations

import runpy
import sys

for path in sys.argv[1:]:
    runpy.run_path(path, run_name="sample")
