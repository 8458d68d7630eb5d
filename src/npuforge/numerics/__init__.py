"""The numerics room: arithmetic contracts and the Graph executor."""

from npuforge.numerics.bind_resize import nearest_index
from npuforge.numerics.binding import BINDERS, bind, with_contract
from npuforge.numerics.call import Arg, ConstArg, KernelCall, ScratchArg, TensorArg, View
from npuforge.numerics.executor import (
    Executor,
    check_input,
    first_fit,
    random_inputs,
    run_graph,
    storage_roots,
)
from npuforge.numerics.program import (
    CONST_SPACE,
    ConstantPool,
    PlacedOperand,
    PlacedStep,
    all_cores,
    build_program,
    kernel_table,
    kernel_threads,
    kernel_variant,
    param_words,
)

__all__ = [
    "BINDERS",
    "CONST_SPACE",
    "Arg",
    "ConstArg",
    "ConstantPool",
    "Executor",
    "KernelCall",
    "PlacedOperand",
    "PlacedStep",
    "ScratchArg",
    "TensorArg",
    "View",
    "all_cores",
    "bind",
    "build_program",
    "check_input",
    "first_fit",
    "kernel_table",
    "kernel_threads",
    "kernel_variant",
    "nearest_index",
    "param_words",
    "random_inputs",
    "run_graph",
    "storage_roots",
    "with_contract",
]
