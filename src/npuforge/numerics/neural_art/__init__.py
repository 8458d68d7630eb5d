"""The contract neural_art: a Graph computed as the NPU of STM32N6 computes it."""

from npuforge.numerics.neural_art.choices import ConvChoice, Form, Grade
from npuforge.numerics.neural_art.executor import (
    CONTRACTS,
    NeuralArtExecutor,
    StageCounts,
    form_of,
    grade,
    node_constants,
    runs_on_npu,
    with_neural_art,
)
from npuforge.numerics.neural_art.requant import (
    AverageConstants,
    ConvConstants,
    SumConstants,
    average_constants,
    conv_constants,
    sum_constants,
)

__all__ = [
    "CONTRACTS",
    "AverageConstants",
    "ConvChoice",
    "ConvConstants",
    "Form",
    "Grade",
    "NeuralArtExecutor",
    "StageCounts",
    "SumConstants",
    "average_constants",
    "conv_constants",
    "form_of",
    "grade",
    "node_constants",
    "runs_on_npu",
    "sum_constants",
    "with_neural_art",
]
