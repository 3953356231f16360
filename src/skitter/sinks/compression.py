"""Compression of output files: none, gzip or Zstandard.

Compressed pieces can be appended: each piece is a gzip member or a Zstandard frame of its own, and readers
of both formats read a sequence of them as one file. So a file can be cut back between any two pieces.
"""

from __future__ import annotations

import io
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, BinaryIO, Protocol

from skitter.errors import ExtraMissingError

if TYPE_CHECKING:
    from types import ModuleType

    from _typeshed import ReadableBuffer, WriteableBuffer

_CHUNK = 1 << 20
_GZIP = 31
"""zlib's name for the gzip format with its largest window."""


class Compression(Protocol):
    """The interface of a compression; ``suffix`` follows the suffix of the file format."""

    suffix: str

    def pack(self, data: bytes) -> bytes:
        """Compress ``data`` to one complete piece."""
        ...

    def packed(self, out: BinaryIO) -> AbstractContextManager[BinaryIO]:
        """Open a file that writes one compressed piece to ``out``, complete when the context ends."""
        ...

    def unpack(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Decompress a whole file. Raises ValueError for another format or an incomplete piece."""
        ...


class Plain:
    """No compression."""

    suffix = ""

    def pack(self, data: bytes) -> bytes:
        return data

    def packed(self, out: BinaryIO) -> AbstractContextManager[BinaryIO]:
        return nullcontext(out)

    def unpack(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        yield from chunks


class Gzip:
    """Gzip compression, one member for each piece."""

    suffix = ".gz"

    def __init__(self, level: int = 6) -> None:
        self._level = level

    def pack(self, data: bytes) -> bytes:
        packer = zlib.compressobj(level=self._level, wbits=_GZIP)
        return packer.compress(data) + packer.flush()

    def packed(self, out: BinaryIO) -> AbstractContextManager[BinaryIO]:
        packer = zlib.compressobj(level=self._level, wbits=_GZIP)
        return _through(out, packer.compress, packer.flush)

    def unpack(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        unpacker, inside = zlib.decompressobj(wbits=_GZIP), False
        try:
            for chunk in chunks:
                data = chunk
                while data:
                    yield unpacker.decompress(data, _CHUNK)
                    data, inside = unpacker.unconsumed_tail, True
                    if unpacker.eof:
                        data, unpacker, inside = unpacker.unused_data, zlib.decompressobj(wbits=_GZIP), False
        except zlib.error as error:
            raise ValueError("it is not a complete gzip file") from error
        if inside:
            raise ValueError("it is not a complete gzip file")


class Zstandard:
    """Zstandard compression, one frame for each piece, by the standard library's module or its backport."""

    suffix = ".zst"

    def __init__(self) -> None:
        self._zstd = _zstd()

    def pack(self, data: bytes) -> bytes:
        packed: bytes = self._zstd.compress(data)
        return packed

    def packed(self, out: BinaryIO) -> AbstractContextManager[BinaryIO]:
        packer = self._zstd.ZstdCompressor()
        return _through(out, packer.compress, packer.flush)

    def unpack(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        unpacker, inside = self._zstd.ZstdDecompressor(), False
        try:
            for chunk in chunks:
                data = chunk
                while data or not (unpacker.needs_input or unpacker.eof):
                    yield unpacker.decompress(data, _CHUNK)
                    data, inside = b"", True
                    if unpacker.eof:
                        data, unpacker, inside = unpacker.unused_data, self._zstd.ZstdDecompressor(), False
        except self._zstd.ZstdError as error:
            raise ValueError("it is not a complete Zstandard file") from error
        if inside:
            raise ValueError("it is not a complete Zstandard file")


def _zstd() -> ModuleType:
    if sys.version_info >= (3, 14):
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]

        return zstd
    try:
        from backports import zstd
    except ImportError as error:
        raise ExtraMissingError("a .zst file", "zstd") from error
    return zstd


COMPRESSIONS: dict[str, Callable[[], Compression]] = {"": Plain, ".gz": Gzip, ".zst": Zstandard}


def chunks_of(file: BinaryIO) -> Iterator[bytes]:
    """Read a file in chunks."""
    while chunk := file.read(_CHUNK):
        yield chunk


def unpacked(file: BinaryIO, compression: Compression) -> BinaryIO:
    """Open a compressed file for sequential reading; reads raise ValueError as ``unpack`` does."""
    return io.BufferedReader(_Unpacked(compression.unpack(chunks_of(file))), _CHUNK)


@contextmanager
def _through(out: BinaryIO, each: Callable[[ReadableBuffer], bytes], last: Callable[[], bytes]) -> Iterator[BinaryIO]:
    with io.BufferedWriter(_Through(out, each), _CHUNK) as file:
        yield file
    out.write(last())


class _Through(io.RawIOBase):
    """A raw writer that passes data through ``each``."""

    def __init__(self, out: BinaryIO, each: Callable[[ReadableBuffer], bytes]) -> None:
        self._out, self._each = out, each

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer) -> int:
        self._out.write(self._each(data))
        return memoryview(data).nbytes


class _Unpacked(io.RawIOBase):
    """A raw reader of an iterator of pieces."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        view = memoryview(buffer).cast("B")
        size = min(len(view), len(self._rest))
        view[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size
