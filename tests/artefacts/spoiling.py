"""Damage as files get it: cut, garbled, doubled, shuffled, with bytes nobody expects."""

from __future__ import annotations

import random

PIECES = (
    b"", b"\x00", b"\xff", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\n\n", b"\t", b"\\", b'"', b"'",
    b"{", b"}", b"(", b")", b"[", b"]", b"/*", b"*/", b"//", b"#if", b"#endif\n", b",", b";", b"=",
    b"0", b"-1", b"0x", b"08", b"1e999", b"-1e999", b"nan", b"inf", b"1.2.3",
    b"99999999999999999999",
    b"0xffffffffffffffffffffffff", b"18446744073709551616", b"\xe4\xb8\xad",
    b"\xc2\xb2", b"\xd9\xa3",
    b"null", b"true", b"[]", b"{}", b"%s", b"9" * 5000, b"(" * 400, b"\x1b[31m", b"\xe2\x80\xa8",
)  # fmt: skip


def spoil(data: bytes, rng: random.Random) -> bytes:
    """A damaged copy; never much longer than the original."""
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        at = rng.randrange(len(out) + 1)
        to = min(len(out), at + rng.choice((1, 2, 4, 16, 200)))
        kind = rng.randrange(9)
        if kind == 0:
            del out[at:]
        elif kind == 1:
            del out[:at]
        elif kind == 2:
            del out[at:to]
        elif kind == 3:
            out[at:at] = out[at:to]
        elif kind == 4:
            out[at:to] = bytes(rng.randrange(256) for _ in range(to - at))
        elif kind == 5 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 6:
            out[at:to] = rng.choice(PIECES)
        elif kind == 7:
            out = _number(out, rng)
        else:
            line = out.split(b"\n")
            rng.shuffle(line)
            out = bytearray(b"\n".join(line))
    return bytes(out[: len(data) + 20_000])


def _number(out: bytearray, rng: random.Random) -> bytearray:
    """One of the numbers replaced."""
    places = [at for at, byte in enumerate(out) if 48 <= byte < 58]
    if places:
        at = rng.choice(places)
        end = at
        while end < len(out) and (chr(out[end]).isalnum() or out[end] == 46):
            end += 1
        out[at:end] = rng.choice(
            (b"0", b"-1", b"08", b"99999999999999999999", b"1e999", b"x", b"", b"9" * 5000)
        )
    return out
