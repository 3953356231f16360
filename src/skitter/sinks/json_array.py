"""The ``.json`` file format: one array of objects, each on its own line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import msgspec

_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_decode_objects = msgspec.json.Decoder(list[dict[str, Any]]).decode


class JsonArray:
    """The file format of a ``.json`` target."""

    def read(self, file: BinaryIO) -> Iterator[bytes]:
        try:
            first, second = file.readline(), file.readline()
            if first == b"[\n" and second.startswith(b"{") and second.endswith((b"},\n", b"}\n")):
                # Written by us: line by line, so that memory does not grow with the file.
                yield from self._own(second, file)
                return
            # Written by another program: at once, for want of a parser that reads in pieces.
            whole = first + second + file.read()
            for record in _decode_objects(whole) if whole.strip() else ():
                yield msgspec.json.encode(record) + b"\n"
        except msgspec.DecodeError as error:
            raise ValueError(f"it is not a single list of objects: {error}") from error

    @staticmethod
    def _own(line: bytes, rest: BinaryIO) -> Iterator[bytes]:
        # Objects stay as they are, byte for byte; decoding only proves that they are objects.
        while line.endswith(b",\n"):
            _decode_object(line[:-2])
            yield line[:-2] + b"\n"
            line = rest.readline()
        if line.startswith(b"{"):
            _decode_object(line)
            yield line
            line = rest.readline()
        if line.strip() != b"]" or rest.read(1):
            raise ValueError("it is not a single list of objects")

    def render(self, lines: Callable[[], Iterator[bytes]], out: BinaryIO) -> None:
        before = b"[\n"
        for line in lines():
            out.write(before + line[:-1])
            before = b",\n"
        out.write(b"[]\n" if before == b"[\n" else b"\n]\n")
