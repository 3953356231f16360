"""Memory that a supervisor shares with its worker processes, as a file descriptor that they inherit."""

from __future__ import annotations

import os


def new_shared_memory(name: str, size_bytes: int) -> int:
    """A file descriptor of so many zeros, to be mapped; no file system has it, and it is gone with its last process."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create(name)
    else:
        # Only where there is no such call: it loads more than all of this.
        import tempfile

        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.truncate(descriptor, size_bytes)
    return descriptor
