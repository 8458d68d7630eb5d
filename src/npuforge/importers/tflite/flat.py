"""Flatbuffer tables, read in place.

The layout is that of the FlatBuffers internals page: a table begins with the signed distance back
to its vtable, which lists the offset of each field from the table, 0 where the field is absent.
Vectors and strings begin with their number of elements. Whatever leaves the buffer raises
ValueError or struct.error; nothing is copied but what is returned.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

import flatbuffers.table
import numpy as np
import numpy.typing as npt

_U8 = Struct("<B").unpack_from
_I8 = Struct("<b").unpack_from
_U16 = Struct("<H").unpack_from
_I32 = Struct("<i").unpack_from
_U32 = Struct("<I").unpack_from
_U64 = Struct("<Q").unpack_from


KNOWN_FIELDS = 12
"""Fields of a table that can be asked for: the numbers 0 to 11."""


class Buffer:
    """The bytes of a flatbuffer."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.view = memoryview(data)
        self.vtables: dict[int, tuple[int, ...]] = {}

    def root(self) -> Table:
        """The root table."""
        return Table(self, _U32(self.data, 0)[0])

    def vtable(self, at: int) -> tuple[int, ...]:
        """The field offsets of the vtable at a position, KNOWN_FIELDS at least.

        They are kept in `vtables`, because tables share them.
        """
        if at < 0:
            raise ValueError("a vtable lies before the file")
        size: int = _U16(self.data, at)[0]
        count = max((size - 4) // 2, 0)
        fields: tuple[int, ...] = Struct(f"<{count}H").unpack_from(self.data, at + 4)
        fields += (0,) * (KNOWN_FIELDS - count)
        self.vtables[at] = fields
        return fields


class Table:
    """One table. Fields are named by their number in the schema, below KNOWN_FIELDS."""

    __slots__ = ("_buffer", "_fields", "position")

    def __init__(self, buffer: Buffer, position: int) -> None:
        self._buffer = buffer
        self.position = position
        vtable = position - _I32(buffer.data, position)[0]
        fields = buffer.vtables.get(vtable)
        self._fields = buffer.vtable(vtable) if fields is None else fields

    def int8(self, field: int) -> int:
        """A signed byte, 0 by default."""
        at = self._fields[field]
        return _I8(self._buffer.data, self.position + at)[0] if at else 0

    def uint8(self, field: int) -> int:
        """A byte or bool, 0 by default."""
        at = self._fields[field]
        return _U8(self._buffer.data, self.position + at)[0] if at else 0

    def int32(self, field: int, default: int = 0) -> int:
        """A signed word."""
        at = self._fields[field]
        return _I32(self._buffer.data, self.position + at)[0] if at else default

    def uint32(self, field: int) -> int:
        """A word, 0 by default."""
        at = self._fields[field]
        return _U32(self._buffer.data, self.position + at)[0] if at else 0

    def uint64(self, field: int) -> int:
        """Two words, 0 by default."""
        at = self._fields[field]
        return _U64(self._buffer.data, self.position + at)[0] if at else 0

    def has(self, field: int) -> bool:
        """Whether the field is there."""
        return self._fields[field] != 0

    def table(self, field: int) -> Table | None:
        """A table, or the table of a union."""
        at = self._fields[field]
        if not at:
            return None
        at += self.position
        return Table(self._buffer, at + _U32(self._buffer.data, at)[0])

    def _vector(self, field: int, element: int) -> tuple[int, int]:
        """Start and number of elements of a vector of `element` bytes each, (0, 0) when absent."""
        at = self._fields[field]
        if not at:
            return 0, 0
        at += self.position
        data = self._buffer.data
        at += _U32(data, at)[0]
        count: int = _U32(data, at)[0]
        at += 4
        if at + count * element > len(data):
            raise ValueError(f"vector of {count} at {at} leaves the file")
        return at, count

    def table_count(self, field: int) -> int:
        """Entries of a vector of tables, 0 when it is absent; four bytes of the file each."""
        return self._vector(field, 4)[1]

    def tables(self, field: int) -> list[Table]:
        """A vector of tables."""
        buffer = self._buffer
        start, count = self._vector(field, 4)
        offsets = Struct(f"<{count}I").unpack_from(buffer.data, start)
        return [
            Table(buffer, at + offset)
            for at, offset in zip(range(start, start + 4 * count, 4), offsets, strict=True)
        ]

    def bytes(self, field: int) -> memoryview:
        """The bytes of a vector, a view of the file; empty when it is absent."""
        start, count = self._vector(field, 1)
        return self._buffer.view[start : start + count]

    def text(self, field: int) -> str:
        """A string, empty when it is absent."""
        start, count = self._vector(field, 1)
        return self._buffer.data[start : start + count].decode("utf-8", "replace")

    def int32s(self, field: int) -> tuple[int, ...]:
        """A vector of signed words."""
        at = self._fields[field]
        if not at:
            return ()
        at += self.position
        data = self._buffer.data
        at += _U32(data, at)[0]
        count: int = _U32(data, at)[0]
        if count < len(_INT32S):
            return _INT32S[count](data, at + 4)
        if 4 * count > len(data):
            raise ValueError(f"vector of {count} at {at} leaves the file")
        return Struct(f"<{count}i").unpack_from(data, at + 4)

    def float32_array(self, field: int) -> npt.NDArray[np.float32]:
        """A vector of floats, a view of the file where that is aligned."""
        start, count = self._vector(field, 4)
        array = np.frombuffer(self._buffer.data, np.float32, count, start)
        return array if start % 4 == 0 else array.copy()

    def int64_array(self, field: int) -> npt.NDArray[np.int64]:
        """A vector of signed double words, a view of the file where that is aligned."""
        start, count = self._vector(field, 8)
        array = np.frombuffer(self._buffer.data, np.int64, count, start)
        return array if start % 8 == 0 else array.copy()


class OptionTable(flatbuffers.table.Table):  # type: ignore[misc]  # the library is not typed
    """A table for the classes that the schema compiler generated, over a vtable read once."""

    def __init__(self, table: Table) -> None:
        super().__init__(table._buffer.data, table.position)
        self._fields = table._fields

    def Offset(self, vtableOffset: int) -> int:  # noqa: N802, N803
        """Where a field lies from the table's start, 0 when it is absent."""
        number = (vtableOffset - 4) // 2
        return self._fields[number] if number < len(self._fields) else 0

    def Get(self, flags: Any, off: int) -> Any:  # noqa: N802
        """A number of the type of `flags`."""
        return flags.packer_type.unpack_from(self.Bytes, off)[0]


_INT32S = [Struct(f"<{count}i").unpack_from for count in range(9)]
