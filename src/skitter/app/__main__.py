"""``python -m skitter.app CONFIG``: one worker process, as its supervisor starts it."""

import gc
import io
import signal
import sys

if __name__ == "__main__":
    gc.disable()  # until ``settle_process``
    # Ctrl-C reaches the whole process group, also while we import; only the supervisor decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # The supervisor has blocked it for the time before this line.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

    if isinstance(sys.stdout, io.TextIOWrapper):
        # What a spider prints is seen when it is printed, whole lines at a time, also where it goes to a pipe.
        sys.stdout.reconfigure(line_buffering=True)

    from skitter.app.worker_main import main

    sys.exit(main())
