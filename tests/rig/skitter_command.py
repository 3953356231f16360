"""Stands for the command ``skitter`` where a shell starts it: the command is a fork of the server of ``fork_server``.

``python -I -S skitter_command.py SOCKET WORDS`` passes its descriptors, folder and environment on, forwards signals,
and ends with the exit code of the command. The command is killed if this process is killed. It imports as little as it
can: a new interpreter is what the tests avoid.
"""

import _signal as signal
import _socket as socket
import marshal
import os
import sys
from struct import Struct

STATUS = Struct("!i")
FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT)


def main(path: str, words: list[str]) -> int:
    mask = os.umask(0)
    request = {
        "program": "skitter",
        "words": words,
        "descriptors": [0, 1, 2],
        "session": True,
        "safe_path": True,
        "tied": True,
        "folder": os.getcwd(),  # noqa: PTH109  pathlib takes longer to import than all of this
        "umask": mask,
        "limits": {},
        "environment": dict(os.environ),
    }
    data = marshal.dumps(request)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    own = Struct("3i").pack(0, 1, 2)
    connection.sendmsg([Struct("!I").pack(len(data))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, own)])
    connection.sendall(data)
    (pid,) = STATUS.unpack(connection.recv(STATUS.size, socket.MSG_WAITALL))

    def forward(number: int, frame: object) -> None:
        os.kill(pid, number)

    for number in FORWARDED:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, forward)
    told = connection.recv(STATUS.size, socket.MSG_WAITALL)
    code = STATUS.unpack(told)[0] if told else -signal.SIGKILL
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
