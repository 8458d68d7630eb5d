"""Kernel variants under test: those of the processor, and the others in an emulation.

The emulated ones are the same source files, compiled against SIMDe in place of the compiler's
intrinsics, so that every instruction set runs on every machine that has a C compiler.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np

from npuforge import _native
from npuforge.numerics import PlacedOperand, PlacedStep, View, build_program
from npuforge.numerics.program import ConstantPool

ROOT = Path(__file__).parents[2]
SIMD = ROOT / "native" / "simd"
HEADER = Path(__file__).parent / "emulated" / "intrinsics.h"
EMULATED = ("avx2", "avx_vnni", "avx512", "avx512_vnni", "avx512_vbmi")


def compiler() -> str | None:
    """A C compiler that finds SIMDe."""
    for name in ("gcc", "clang", "cc"):
        found = shutil.which(name)
        if found is None:
            continue
        probe = "#include <simde/x86/avx512/types.h>\n"
        done = subprocess.run(
            [found, "-E", "-xc", "-"], input=probe, capture_output=True, text=True
        )
        if done.returncode == 0:
            return found
    return None


def build(cc: str, name: str) -> Path:
    """The shared library of a variant, kept in build/ under a hash of what it is made from."""
    sources = sorted([*SIMD.glob("*.[ch]"), *(ROOT / "runtime").rglob("*.h"), HEADER])
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    made = ROOT / "build" / "emulated" / f"{name}-{digest}.so"
    if not made.exists():
        made.parent.mkdir(parents=True, exist_ok=True)
        draft = made.with_suffix(f".{os.getpid()}")
        subprocess.run(
            [cc, "-std=c11", "-O1", "-ffp-contract=off", "-Wno-psabi", "-shared", "-fPIC",
             f"-I{ROOT / 'runtime' / 'include'}", f'-DNF_SIMD_INTRINSICS="{HEADER}"',
             str(SIMD / f"{name}.c"), "-o", str(draft)],
            check=True,
        )  # fmt: skip
        draft.replace(made)
    return made


@cache
def emulated() -> tuple[str, ...]:
    """Names of the emulated variants, made known to the extension; none without SIMDe."""
    cc = compiler()
    if cc is None:
        return ()
    for name in EMULATED:
        library = ctypes.CDLL(str(build(cc, name)))
        variant = ctypes.c_char.in_dll(library, f"nf_simd_{name}")
        _native.add_variant(ctypes.addressof(variant))
    return tuple(f"{name} emulated" for name in EMULATED)


@cache
def variants() -> tuple[str, ...]:
    """All variants but the portable one."""
    native = tuple(name for name in _native.variants() if name != "portable")
    return tuple(dict.fromkeys((*native, *emulated())))


def one_step(
    kernel: str, inputs: list[tuple[np.ndarray, View]], constants: list[np.ndarray], y: View,
    params: dict[str, int | float], variant: str, threads: int = 1,
) -> tuple[_native.Program, np.ndarray]:  # fmt: skip
    """Run one kernel call: its program, and all memory of its output, 0xA5 before."""
    pool = ConstantPool()
    operands = [PlacedOperand(1 + i, view.offset, view) for i, (_, view) in enumerate(inputs)]
    for data in constants:
        view = View.dense((data.size,), data.dtype.itemsize)
        operands.append(PlacedOperand(0, pool.add(data), view))
    result = 1 + len(inputs)
    operands.append(PlacedOperand(result, y.offset, y))
    step = PlacedStep(kernel, 0, tuple(operands), params)
    sizes = [x.nbytes for x, _ in inputs] + [y.offset + y.extent + 8]
    program = build_program([step], pool.image(), sizes, variant, threads)
    for i, (x, _) in enumerate(inputs):
        program.space(1 + i)[:] = x.reshape(-1).view(np.uint8)
    program.space(result)[:] = 0xA5
    program.run(0, 1)
    return program, program.space(result).copy()


def both(
    kernel: str, inputs: list[tuple[np.ndarray, View]], constants: list[np.ndarray], y: View,
    params: dict[str, int | float], expect_variant: bool = True,
) -> None:  # fmt: skip
    """Run a step with the portable kernel and with each variant; compare all output memory."""
    results = []
    for variant in ("portable", *variants()):
        program, got = one_step(kernel, inputs, constants, y, params, variant)
        assert program.variants == [variant if expect_variant else "portable"]
        results.append(got)
    for variant, got in zip(variants(), results[1:], strict=True):
        assert np.array_equal(got, results[0]), variant
