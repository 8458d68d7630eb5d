"""The contract neural_art: a Graph computed as the NPU of STM32N6 computes it."""

from npuforge.numerics.neural_art.choices import ConvChoice, Form, Grade, bounds
from npuforge.numerics.neural_art.convolution import (
    ConvLayer,
    Convolver,
    conv_layer,
    node_constants,
)
from npuforge.numerics.neural_art.executor import NeuralArtExecutor
from npuforge.numerics.neural_art.pointwise import float_bilinear, function_table
from npuforge.numerics.neural_art.record import Choices, StageCounts
from npuforge.numerics.neural_art.requant import (
    AverageConstants,
    ConvConstants,
    ProductConstants,
    ScaleConstants,
    SumConstants,
    average_constants,
    conv_constants,
    product_constants,
    scale_constants,
    sum_constants,
)
from npuforge.numerics.neural_art.rules import (
    CONTRACTS,
    CONV_OPS,
    FUNCTION_ERROR,
    FUNCTION_OPS,
    Unit,
    form_of,
    grade,
    has_rule,
    unit_of,
    with_neural_art,
)

__all__ = [
    "CONTRACTS",
    "CONV_OPS",
    "FUNCTION_ERROR",
    "FUNCTION_OPS",
    "AverageConstants",
    "Choices",
    "ConvChoice",
    "ConvConstants",
    "ConvLayer",
    "Convolver",
    "Form",
    "Grade",
    "NeuralArtExecutor",
    "ProductConstants",
    "ScaleConstants",
    "StageCounts",
    "SumConstants",
    "Unit",
    "average_constants",
    "bounds",
    "conv_constants",
    "conv_layer",
    "float_bilinear",
    "form_of",
    "function_table",
    "grade",
    "has_rule",
    "node_constants",
    "product_constants",
    "scale_constants",
    "sum_constants",
    "unit_of",
    "with_neural_art",
]
