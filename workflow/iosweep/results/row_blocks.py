"""Blocks: the rows of some points with all that merge has to know of them, as Arrow has them and as bytes.

A block goes from the process that judges to the one that writes tables, and from one merge to the next (row_cache).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from iosweep.histogram import FACTOR
from iosweep.own_rate import OwnRate
from iosweep.results import repeated
from iosweep.results.checks import CHECKS
from iosweep.results.columns import arrow_schema, result_columns
from iosweep.results.committed import Result
from iosweep.results.judging import Judged
from iosweep.results.origins import Origins
from iosweep.results.series_columns import HISTOGRAM_COLUMNS, PART_COLUMNS, SERIES_COLUMNS
from iosweep.results.table_writer import ListRows, arrays

#: The values of a row of parts.parquet after its key. dataclasses.astuple takes 40 times as long.
_own_values = attrgetter(*(field.name for field in fields(OwnRate)))


class Unreadable(ValueError):
    """Bytes are no whole block."""


class Head(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a row that counts says to be compared with other repetitions: see precision.Headline."""

    phase: str
    confirms: bool
    figure: float | None
    hosts: str | None
    job: str | None


#: Of a row: what it says of itself; True where it was measured and does not count, False where it was not measured.
Known = Head | bool


class Sizes(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How many rows of each table of a block are a point's."""

    rows: int = 0
    findings: int = 0  # rows that have findings
    series: int = 0
    parts: int = 0
    histograms: int = 0


class Stored(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A repetition of a point: its number, whether it counts, and how many rows it has."""

    number: int
    counts: bool
    rows: int


class PointState(msgspec.Struct, array_like=True, frozen=True):
    """What is known of a point besides its rows. results: of `repetitions`, packed, because few plans ask for them.

    asked, files: hashes of what its rows were made of (row_cache); the other names are those of `Judged`.
    """

    id: str
    repetitions: tuple[Stored, ...]
    heads: tuple[Known, ...]
    results: bytes
    origins: Origins
    sizes: Sizes
    aside: tuple[str, ...] = ()
    damaged: dict[str, str] = {}
    replaced: dict[str, str] = {}
    memory: dict[str, int | None] = {}
    asked: bytes = b""
    files: bytes = b""

    @property
    def clean(self) -> bool:
        """Whether nothing of the point is damaged."""
        return not self.damaged and not self.replaced


class Main(NamedTuple):
    """Rows of the results, in the order of the points. findings: outcome and evidence of each of CHECKS, for each row
    that was measured."""

    rows: pa.RecordBatch
    findings: pa.RecordBatch


class Companions(NamedTuple):
    """Rows of the companion tables, in the order of the points."""

    series: pa.RecordBatch
    parts: pa.RecordBatch
    histograms: pa.RecordBatch


@dataclass(frozen=True)
class Block:
    """The states of some points, and their rows."""

    points: Sequence[PointState]
    main: Main
    companions: Companions


_FINDINGS = pa.schema([pa.field("outcome", pa.string()), pa.field("evidence", pa.string())])
_results_encoder = msgspec.msgpack.Encoder()
_results_decoder = msgspec.msgpack.Decoder(tuple[Result, ...])
_states_decoder = msgspec.msgpack.Decoder(tuple[PointState, ...])


@cache
def _schemas() -> Sequence[pa.Schema]:
    columns = (SERIES_COLUMNS, PART_COLUMNS, HISTOGRAM_COLUMNS)
    return [arrow_schema(result_columns()), _FINDINGS, *map(arrow_schema, columns)]


def results(state: PointState) -> dict[int, Result]:
    """repetition -> result of a point."""
    return {result.repetition: result for result in _results_decoder.decode(state.results)}


def made(judged: Sequence[Judged], memory: Mapping[str, int | None]) -> Block:
    """The block of some points. memory: key of a node's facts -> bytes of its memory."""
    rows_schema = _schemas()[0]
    rows = [row for one in judged for row in one.rows]
    found = [finding for row in rows for _, finding in row.findings]
    series, histograms = ListRows(SERIES_COLUMNS), ListRows(HISTOGRAM_COLUMNS)
    parts: list[tuple[Any, ...]] = []
    states = []
    for one in judged:
        before = (len(series), len(parts), len(histograms))
        for aside in one.asides:
            for each in aside.series:
                series.append(
                    (*aside.key, each.host, each.worker, each.name, each.begin_s, each.interval_s), each.values
                )
            parts += [(*aside.key, *_own_values(part)) for part in aside.parts]
            if latencies := aside.latencies:
                histograms.append((*aside.key, latencies.lowest_s, FACTOR), latencies.counts)
        after = (len(series), len(parts), len(histograms))
        more = (now - then for now, then in zip(after, before, strict=True))
        states.append(_state(one, Sizes(len(one.rows), sum(bool(row.findings) for row in one.rows), *more), memory))
    main = Main(
        _batch([tuple(map(row.values.get, rows_schema.names)) for row in rows], rows_schema),
        _batch([finding[:2] for finding in found], _FINDINGS),
    )
    return Block(states, main, Companions(series.batch(), _batch(parts, _schemas()[3]), histograms.batch()))


def _batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    found = arrays(rows, list(schema)) if rows else [pa.array([], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(found, schema=schema)


def _state(judged: Judged, sizes: Sizes, memory: Mapping[str, int | None]) -> PointState:
    return PointState(
        judged.point.id,
        tuple(Stored(one.result.repetition, one.counts, one.rows) for one in judged.repetitions),
        tuple(_known(row) for row in judged.rows),
        _results_encoder.encode([one.result for one in judged.repetitions]),
        judged.origins,
        sizes,
        tuple(judged.aside),
        dict(judged.damaged),
        dict(judged.replaced),
        {key: memory.get(key) for key in judged.origins.rows},
    )


def _known(row: repeated.Row) -> Known:
    if not row.findings:
        return False
    said = repeated.headline(row)
    return Head(said.phase, said.confirms, said.figure, *said.ran) if said else True


class Span(NamedTuple):
    """Where the rows of a point begin in the tables of its block."""

    rows: int = 0
    findings: int = 0
    series: int = 0
    parts: int = 0
    histograms: int = 0

    def after(self, sizes: Sizes) -> Span:
        """Where those of the next point begin."""
        return Span(
            self.rows + sizes.rows,
            self.findings + sizes.findings,
            self.series + sizes.series,
            self.parts + sizes.parts,
            self.histograms + sizes.histograms,
        )


def spans(points: Sequence[PointState]) -> Iterator[tuple[PointState, Span]]:
    """The points of a block, with where their rows begin."""
    at = Span()
    for state in points:
        yield state, at
        at = at.after(state.sizes)


def main_part(main: Main, begin: Span, end: Span) -> Main:
    """The rows between two places."""
    checks = len(CHECKS)
    return Main(
        main.rows.slice(begin.rows, end.rows - begin.rows),
        main.findings.slice(begin.findings * checks, (end.findings - begin.findings) * checks),
    )


def companions_part(companions: Companions, begin: Span, end: Span) -> Companions:
    """The rows between two places."""
    return Companions(
        companions.series.slice(begin.series, end.series - begin.series),
        companions.parts.slice(begin.parts, end.parts - begin.parts),
        companions.histograms.slice(begin.histograms, end.histograms - begin.histograms),
    )


# As bytes: the states, then the tables, each with a hash in front, so that states are read alone.

_LENGTH = struct.Struct("<Q")
_HASH_BYTES = 32
#: Bytes that tell where the states end.
HEAD_BYTES = _LENGTH.size


def encoded(block: Block) -> bytes:
    """A block as bytes."""
    pieces = []
    for table in (*block.main, *block.companions):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_batch(table)
        pieces.append(sink.getvalue())
    tables = b"".join(each for piece in pieces for each in (_LENGTH.pack(len(piece)), piece))
    return encoded_states(block.points) + hashlib.sha256(tables).digest() + tables


def encoded_states(points: Sequence[PointState]) -> bytes:
    """The first part of `encoded`."""
    states = msgspec.msgpack.encode(points)
    return _LENGTH.pack(len(states)) + hashlib.sha256(states).digest() + states


def states_end(data: bytes) -> int:
    """Where the tables begin in the bytes of a block, of which the first are enough."""
    if len(data) < _LENGTH.size:
        raise Unreadable("it is cut")
    (length,) = _LENGTH.unpack_from(data)
    return int(length) + _LENGTH.size + _HASH_BYTES


def decoded_states(data: bytes | memoryview) -> tuple[PointState, ...]:
    """The states of the bytes up to `states_end`. Raises Unreadable."""
    view = memoryview(data)[_LENGTH.size :]
    try:
        return _states_decoder.decode(_whole(view))
    except msgspec.DecodeError as error:
        raise Unreadable(str(error)) from None


def decoded_tables(data: bytes | memoryview) -> tuple[Main, Companions]:
    """The tables of the bytes behind `states_end`. Raises Unreadable."""
    try:
        rows, findings, *others = _pieces(_whole(memoryview(data)))
        # the rows of the results are held until those of all points are there, and must not hold the others with them
        tables = [bytes(rows), bytes(findings), *others]
        found = [pa.ipc.open_stream(pa.py_buffer(table)).read_next_batch() for table in tables]
    except (pa.ArrowException, StopIteration, ValueError) as error:
        raise Unreadable(str(error)) from None
    if [table.schema for table in found] != _schemas():
        raise Unreadable("its tables have other columns")
    return Main(*found[:2]), Companions(*found[2:])


def _whole(view: memoryview) -> memoryview:
    """What is behind a hash. Raises Unreadable where the hash is another one."""
    if hashlib.sha256(view[_HASH_BYTES:]).digest() != view[:_HASH_BYTES]:
        raise Unreadable("its content is not what its hash says")
    return view[_HASH_BYTES:]


def _pieces(body: memoryview) -> Iterator[memoryview]:
    position = 0
    while position < len(body):
        (length,) = _LENGTH.unpack_from(body, position)
        position += _LENGTH.size + length
        yield body[position - length : position]


def joined(parts: Sequence[tuple[Sequence[PointState], Main, Companions]]) -> Block:
    """Several blocks, or parts of blocks, as one."""

    def together(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        table = pa.Table.from_batches(batches).combine_chunks()
        found = table.to_batches()
        return found[0] if found else batches[0].slice(0, 0)

    points = [state for states, _, _ in parts for state in states]
    main = Main(*(together(tables) for tables in zip(*(main for _, main, _ in parts), strict=True)))
    others = Companions(*(together(tables) for tables in zip(*(own for _, _, own in parts), strict=True)))
    return Block(points, main, others)
