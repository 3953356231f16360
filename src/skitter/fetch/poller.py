"""Pollers that pass ready sockets from the event loop to libcurl's ``socket_action``.

libcurl asks for a socket to be watched when a transfer begins and to be forgotten when it ends, twice
a request. Through the loop's ``add_reader`` that costs a handle, a callback and a system call each
time: 36-50 us a request in all, measured with 64 in flight on loopback. A private epoll set that the
loop watches as one single file costs 25, and serves all ready sockets in one step of the loop.
``LoopPoller`` is for systems without epoll.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import sys
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import Protocol

import pycurl

Act = Callable[[int, int], object]
"""``CurlMulti.socket_action``: a socket and what is ready on it."""


class Poller(Protocol):
    """``watch`` is libcurl's M_SOCKETFUNCTION; ``done`` is called after each round of ``act``."""

    def watch(self, what: int, fd: int, _multi: object, _data: object) -> None: ...

    def rest(self, fds: AbstractSet[int]) -> None:
        """Poll the sockets that were resting, and do not poll these until the next call. A poller may ignore it."""
        ...

    def sockets(self) -> list[int]:
        """The descriptors that libcurl wants to have watched. Asked by another thread."""
        ...

    def close(self) -> None: ...


MakePoller = Callable[[asyncio.AbstractEventLoop, Act, Callable[[], None]], Poller]


class LoopPoller:
    """One reader and one writer of the loop per socket."""

    def __init__(self, loop: asyncio.AbstractEventLoop, act: Act, done: Callable[[], None]) -> None:
        self._loop = loop
        self._act = act
        self._done = done
        self._watched: dict[int, int] = {}

    def watch(self, what: int, fd: int, _multi: object, _data: object) -> None:
        before = self._watched.pop(fd, 0)
        wanted = 0 if what == pycurl.POLL_REMOVE else what
        if wanted:
            self._watched[fd] = wanted
        if wanted & ~before & pycurl.POLL_IN:
            self._loop.add_reader(fd, self._ready, fd, pycurl.CSELECT_IN)
        elif before & ~wanted & pycurl.POLL_IN:
            self._loop.remove_reader(fd)
        if wanted & ~before & pycurl.POLL_OUT:
            self._loop.add_writer(fd, self._ready, fd, pycurl.CSELECT_OUT)
        elif before & ~wanted & pycurl.POLL_OUT:
            self._loop.remove_writer(fd)

    def _ready(self, fd: int, event: int) -> None:
        self._act(fd, event)
        self._done()

    def rest(self, fds: AbstractSet[int]) -> None:
        pass

    def sockets(self) -> list[int]:
        return list(self._watched)

    def close(self) -> None:
        for fd in list(self._watched):
            self.watch(pycurl.POLL_REMOVE, fd, None, None)


if sys.platform == "linux":
    _EPOLL_EVENTS = {
        pycurl.POLL_IN: select.EPOLLIN,
        pycurl.POLL_OUT: select.EPOLLOUT,
        pycurl.POLL_INOUT: select.EPOLLIN | select.EPOLLOUT,
        pycurl.POLL_NONE: 0,
    }

    def _selected(events: int) -> int:
        # An error or a hang-up is found by reading: libcurl then tells what happened.
        return (pycurl.CSELECT_IN if events & ~select.EPOLLOUT else 0) | (
            pycurl.CSELECT_OUT if events & select.EPOLLOUT else 0
        )

    class EpollPoller:
        """All sockets in one epoll set, and the set in the loop."""

        def __init__(self, loop: asyncio.AbstractEventLoop, act: Act, done: Callable[[], None]) -> None:
            self._loop = loop
            self._act = act
            self._done = done
            self._epoll = select.epoll()
            self._watched: dict[int, int] = {}
            # Resting sockets are in a second epoll set, which the loop does not watch.
            self._resting_epoll = select.epoll()
            self._resting: set[int] = set()
            loop.add_reader(self._epoll.fileno(), self._ready)

        def watch(self, what: int, fd: int, _multi: object, _data: object) -> None:
            if what == pycurl.POLL_REMOVE:
                self._watched.pop(fd, None)
                try:
                    if fd in self._resting:
                        self._resting.discard(fd)
                        self._resting_epoll.unregister(fd)
                    else:
                        self._epoll.unregister(fd)
                except OSError:
                    pass  # closed already: the kernel has removed it
                return
            events = _EPOLL_EVENTS[what]
            is_known, self._watched[fd] = fd in self._watched, events
            if is_known:
                try:
                    (self._resting_epoll if fd in self._resting else self._epoll).modify(fd, events)
                    return
                except FileNotFoundError:
                    self._resting.discard(fd)  # closed unannounced, and its number given to a new socket
            self._epoll.register(fd, events)

        def _ready(self) -> None:
            self._serve(self._epoll)

        def rest(self, fds: AbstractSet[int]) -> None:
            if self._resting:
                self._serve(self._resting_epoll)
            for fd in self._resting - fds:
                self._move(fd, self._resting_epoll, self._epoll)
            for fd in fds - self._resting:
                if fd in self._watched:
                    self._move(fd, self._epoll, self._resting_epoll)
            self._resting &= fds
            self._resting |= fds & self._watched.keys()

        def sockets(self) -> list[int]:
            return list(self._watched)

        def _move(self, fd: int, old: select.epoll, new: select.epoll) -> None:
            # Closed unannounced: the kernel has forgotten it, and libcurl will say so.
            with contextlib.suppress(OSError):
                old.unregister(fd)
                new.register(fd, self._watched[fd])

        def _serve(self, ready: select.epoll) -> None:
            act, watched = self._act, self._watched
            for fd, events in ready.poll(0):
                # An earlier one of this round may have ended it. A new socket of the same number would get a
                # false alarm, which libcurl bears.
                if fd in watched:
                    act(fd, _CSELECT.get(events) or _selected(events))
            self._done()

        def close(self) -> None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._resting_epoll.close()
            self._watched.clear()

    _CSELECT = {select.EPOLLIN: pycurl.CSELECT_IN, select.EPOLLOUT: pycurl.CSELECT_OUT}

    SystemPoller: MakePoller = EpollPoller
else:
    SystemPoller = LoopPoller
