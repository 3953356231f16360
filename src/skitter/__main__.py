"""Entry point of ``skitter`` and ``python -m skitter``; sets signal handlers before anything else is imported.

Until a command has work to finish, SIGINT and SIGTERM end the process at once, with an exit code and no message: a
KeyboardInterrupt could be raised inside any import and be reported from there. Work that has begun is as safe as
under SIGKILL. ``node.shutdown_signals`` and ``cli.bench`` set their own handlers.
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
    # A shell sets SIGINT to ignored for background commands; keep that.
    if signal.getsignal(_number) is not signal.SIG_IGN:
        signal.signal(_number, _end)

from skitter.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main())
