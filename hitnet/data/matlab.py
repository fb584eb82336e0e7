"""MATLAB 5 files as SVHN and affNIST use them: arrays of numbers, and structs of such arrays.

scipy's reader lets damaged files end the process (a segmentation fault), so this one reads what is needed and no more.
"""

import math
import struct
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from hitnet.data.announced import check_announced

Array = npt.NDArray[Any]
Struct = dict[str, Array]

HEADER = 128  # bytes; the last two tell the order of bytes
ORDERS = {b"IM": "<", b"MI": ">"}
MATRIX, PACKED = 14, 15  # kinds of elements
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
# Classes of matrices; the numbers may be stored in fewer bytes.
STRUCT = 2
NUMERIC = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}


def read_mat(file: BinaryIO, name: str) -> dict[str, Array | Struct]:
    """The variables of a file by name; those that are neither numbers nor a struct of numbers are left out."""
    content = memoryview(file.read())
    try:
        order = ORDERS[bytes(content[HEADER - 2 : HEADER])]
        found: dict[str, Array | Struct] = {}
        for kind, part in _elements(content[HEADER:], order):
            if kind == PACKED:
                part = _unpack(part, order, name)
            variable, value = _read_matrix(part, order)
            if value is not None:
                found[variable] = value
        return found
    except (ValueError, LookupError, struct.error, zlib.error) as error:
        raise ValueError(f"{name} is not a complete .mat file ({error})") from error


def _elements(content: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """The elements that lie one after the other: yields (kind, content)."""
    at = 0
    while at < len(content):
        kind, size = struct.unpack_from(f"{order}II", content, at)
        start, room = at + 8, len(content) - at - 8
        if kind >> 16:  # a small one: its size is in the upper half, its content in place of the size
            kind, size, start, room = kind & 0xFFFF, kind >> 16, at + 4, 4
        if size > room:
            raise ValueError(f"an element of {size} bytes where {room} are left")
        yield kind, content[start : start + size]
        at = start + size if kind == PACKED else start + size + -(start + size - at) % 8


def _unpack(content: memoryview, order: str, name: str) -> memoryview:
    """The matrix in a packed element, which announces its size first."""
    unpacker = zlib.decompressobj()
    kind, size = struct.unpack(f"{order}II", unpacker.decompress(content, 8))
    check_announced(name, size)
    if kind != MATRIX or size == 0:
        raise ValueError(f"expected a packed matrix, got kind {kind} of {size} bytes")
    matrix = unpacker.decompress(unpacker.unconsumed_tail, size)
    if len(matrix) != size:
        raise ValueError(f"a packed matrix announces {size} bytes, got {len(matrix)}")
    return memoryview(matrix)


def _read_matrix(content: memoryview, order: str, *, nested: bool = False) -> tuple[str, Array | Struct | None]:
    """(name, value) of a matrix; no value if it is of another class, or a struct inside a struct."""
    (_, flags), (_, sides), (_, name), *parts = _elements(content, order)
    kind = int(np.frombuffer(flags, f"{order}u4")[0]) & 0xFF
    shape = np.frombuffer(sides, f"{order}i4").tolist()
    value: Array | Struct | None = None
    if kind in NUMERIC:
        value = _read_numbers(*parts[0], shape, order).astype(NUMERIC[kind])  # a copy, which may be written to
    elif kind == STRUCT and math.prod(shape) == 1 and not nested:
        (_, length), (_, names), *fields = parts
        letters = int(np.frombuffer(length, f"{order}i4")[0])
        if letters < 1 or len(names) != letters * len(fields):
            raise ValueError(f"a struct of {len(fields)} fields with {len(names)} letters for their names")
        value = {}
        for place, (_, field) in enumerate(fields):
            field_name = bytes(names[place * letters : (place + 1) * letters]).partition(b"\0")[0].decode("latin-1")
            _, numbers = _read_matrix(field, order, nested=True) if len(field) else ("", None)
            if isinstance(numbers, np.ndarray):
                value[field_name] = numbers
    return bytes(name).decode("latin-1"), value


def _read_numbers(stored: int, content: memoryview, shape: list[int], order: str) -> Array:
    numbers = np.frombuffer(content, order + STORED[stored])
    if min(shape, default=0) < 0 or len(numbers) != math.prod(shape):
        raise ValueError(f"a matrix announces {shape}, got {len(numbers)} numbers")
    return numbers.reshape(shape, order="F")
