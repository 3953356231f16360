"""``skitter`` and ``python -m skitter``: what a signal means is settled before anything else is imported.

Until a command has something to finish, SIGINT and SIGTERM end the process at once, with an exit code and without a
word: an exception, wherever it came up, would be reported by the module that was being imported. What a command has
begun is safe against that, as it is against SIGKILL. ``node.shutdown_signals`` and ``cli.bench`` set their own.
"""

import os
import signal
import sys

_STDERR = 2
_SHOW_CURSOR = b"\x1b[?25h"


def _end(number: int, frame: object) -> None:
    del frame
    if "skitter.cli.live_display" in sys.modules:
        os.write(_STDERR, _SHOW_CURSOR)  # the live display hides it
    os._exit(128 + number)


for _number in (signal.SIGINT, signal.SIGTERM):
    # A shell ignores SIGINT for what it runs in the background, and so do we.
    if signal.getsignal(_number) is not signal.SIG_IGN:
        signal.signal(_number, _end)

from skitter.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
