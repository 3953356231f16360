"""The ``.parquet`` file format: typed columns, the union of all fields in the order they were first seen.

The spool is read twice: for the types (``type_inference``), and for the rows, which go to the file in row groups
of bounded size. So memory does not grow with the table. Rows that a target had before are read back as
items, and their types are found anew together with the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO

import msgspec

from skitter.errors import ExtraMissingError
from skitter.sinks.type_inference import Column, Kind

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH_ROWS = 2_000
"""Rows converted at once; as Python objects they take many times their size."""
_GROUP_ROWS = 100_000
_GROUP_BYTES = 32 << 20
"""The limits of a row group. Readers skip whole groups, so they should not be small."""

_decode = msgspec.json.Decoder(dict[str, Any]).decode


class ParquetTable:
    """The file format of a ``.parquet`` target."""

    def __init__(self) -> None:
        try:
            import pyarrow.parquet  # noqa: F401  asked for before anything is begun
        except ImportError as error:
            raise ExtraMissingError("a .parquet file", "parquet") from error

    def read(self, file: BinaryIO) -> Iterator[bytes]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        encoder = msgspec.json.Encoder(enc_hook=str)
        try:
            for batch in pq.ParquetFile(file).iter_batches(batch_size=_BATCH_ROWS):
                for row in batch.to_pylist():
                    yield encoder.encode(row) + b"\n"
        except pa.ArrowException as error:
            raise ValueError(f"it is not a Parquet file: {error}") from error

    def render(self, lines: Callable[[], Iterator[bytes]], out: BinaryIO) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = _columns(map(_decode, lines()))
        schema = pa.schema([(name, _arrow_type(column)) for name, column in columns.items()])
        with pq.ParquetWriter(out, schema, compression="zstd") as writer:
            for group in _groups(_batches(map(_decode, lines()), columns, schema)):
                writer.write_table(pa.Table.from_batches(group, schema))


def _columns(records: Iterator[dict[str, Any]]) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    for record in records:
        for name, value in record.items():
            column = columns.get(name)
            if column is None:
                column = columns[name] = Column()
            if value is not None:
                column.see(value)
    return columns


def _arrow_type(column: Column) -> pa.DataType:
    import pyarrow as pa

    kind = column.kind
    if kind is Kind.LIST and column.element is not None:
        return pa.list_(_arrow_type(column.element))
    if kind is Kind.STRUCT:
        return pa.struct([(name, _arrow_type(field)) for name, field in column.fields.items()])
    if kind is Kind.TIME:
        return pa.timestamp("us", tz="UTC")
    return {Kind.BOOL: pa.bool_(), Kind.INT: pa.int64(), Kind.FLOAT: pa.float64(), Kind.TEXT: pa.string()}[kind]


def _batches(
    records: Iterator[dict[str, Any]], columns: dict[str, Column], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    conversions = {name: column.conversion() for name, column in columns.items()}
    while rows := list(islice(records, _BATCH_ROWS)):
        arrays = []
        for field in schema:
            convert = conversions[field.name]
            values = [row.get(field.name) for row in rows]
            arrays.append(pa.array(map(convert, values) if convert else values, field.type))
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _groups(batches: Iterator[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        group.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield group
            group, rows, size = [], 0, 0
    if group:
        yield group
