import numpy as np
import numpy.typing as npt

ABI: int
MAX_OPERANDS: int

def variants() -> list[str]: ...
def add_variant(address: int) -> None: ...
def kernels() -> list[tuple[str, str]]: ...

class Program:
    def __init__(
        self,
        kernels: npt.NDArray[np.int32],
        nodes: npt.NDArray[np.int32],
        operand_start: npt.NDArray[np.int32],
        operands: npt.NDArray[np.int64],
        param_start: npt.NDArray[np.int32],
        params: npt.NDArray[np.int32],
        constants: npt.NDArray[np.uint8],
        space_bytes: list[int],
        variant: str = "",
        threads: int = 1,
    ) -> None: ...
    @property
    def step_count(self) -> int: ...
    @property
    def divided(self) -> int: ...
    @property
    def variants(self) -> list[str]: ...
    def run(self, first: int, count: int) -> None: ...
    def space(self, index: int) -> npt.NDArray[np.uint8]: ...

_U8 = npt.NDArray[np.uint8]
_I16 = npt.NDArray[np.int16]
_I32 = npt.NDArray[np.int32]
_I64 = npt.NDArray[np.int64]

def aton_gather(
    data: _U8, written: _U8, starts: _I64, shape: _I64, check: bool, out: _I32
) -> int: ...
def aton_scatter(data: _U8, written: _U8, starts: _I64, shape: _I64, values: _I32) -> None: ...
def aton_convolve(x: _I16, index: _I32, weights: _I16, shape: _I64, out: _I32) -> None: ...
def aton_requantise(
    sums: _I32,
    carry: _I32 | None,
    in_shift: int,
    out_shift: int,
    round: bool,
    limit: int,
    bits: int,
    out: _I32,
) -> int: ...
def aton_arith(x: _I32, y: _I32 | None, params: _I32, table: _I32, out: _I32) -> int: ...
def count_bins(
    values: npt.NDArray[np.float32], inverse: float, first: int, counts: _I64
) -> int: ...

# size, alignment, first, last, fixed offset or -1, forbidden ranges
_Row = tuple[int, int, int, int, int, list[tuple[int, int]]]

def pack(
    items: list[_Row], capacity: int, node_limit: int, seconds: float = 0.0, threads: int = 1
) -> tuple[str, list[int], int]: ...
def climb(
    items: list[_Row], target: int, tries: int, seconds: float = 0.0
) -> tuple[list[int], int, int]: ...

class NeuralArtConvolution:
    def __init__(
        self,
        weights: npt.NDArray[np.int16],
        depthwise: bool,
        geometry: npt.NDArray[np.int32],
        parts: npt.NDArray[np.int32],
        slices: npt.NDArray[np.int32],
        passes: int,
        stages: npt.NDArray[np.int32],
        gain: npt.NDArray[np.int32],
        offset: npt.NDArray[np.int64],
        portable: bool = False,
    ) -> None: ...
    def run(
        self, x: npt.NDArray[np.int16], y: npt.NDArray[np.int8]
    ) -> tuple[int, int, int, int]: ...
