"""A classic BPF machine, to see what the kernel will decide; also for processors that we do not have."""

import struct
from collections.abc import Callable

_RETURN, _SKIP, _EQUAL, _AT_LEAST, _ANY_BIT = 0x06, 0x05, 0x15, 0x35, 0x45
_LOAD, _LOAD_HALF, _LOAD_BYTE, _AND, _SHIFT_RIGHT = 0x20, 0x28, 0x30, 0x54, 0x74
_SIZES = {_LOAD: 4, _LOAD_HALF: 2, _LOAD_BYTE: 1}


def run(program: bytes, load: Callable[[int, int], int]) -> int:
    """What `program` returns; `load(offset, size)` reads what it is run on."""
    code = list(struct.iter_unpack("HBBI", program))
    at, held = 0, 0
    while True:
        operation, if_true, if_false, value = code[at]
        at += 1
        if operation == _RETURN:
            return int(value)
        if operation == _SKIP:
            at += value
        elif operation in _SIZES:
            held = load(value, _SIZES[operation])
        elif operation == _AND:
            held &= value
        elif operation == _SHIFT_RIGHT:
            held >>= value
        else:
            tests = {_EQUAL: held == value, _AT_LEAST: held >= value, _ANY_BIT: bool(held & value)}
            at += if_true if tests[operation] else if_false


def decide(program: bytes, *, architecture: int, call: int, arguments: tuple[int, ...] = ()) -> int:
    """What a system call filter returns for `call`."""
    padded = (*arguments, *[0] * (6 - len(arguments)))
    data = struct.pack("<iIQ6Q", call, architecture, 0, *padded)
    return run(program, lambda offset, size: int.from_bytes(data[offset : offset + size], "little"))


def receives(program: bytes, *, packet: bytes, transport: bytes) -> bool:
    """Whether a socket filter lets a packet with this IP header and this beginning of TCP or UDP through."""

    def load(offset: int, size: int) -> int:
        header = offset - 0xFFF00000
        data = packet[header:] if header >= 0 else transport[offset:]
        return int.from_bytes(data[:size])

    return run(program, load) != 0
