"""Every intermediate tensor equal to LiteRT's reference kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from npuforge.importers import load_model, read_model_bytes
from npuforge.numerics import Executor, random_inputs
from npuforge.tasks import load_samples
from npuforge.validate import Comparer, oracle_for

pytest.importorskip("ai_edge_litert")

EXAMPLES = {
    "visual_wake_words": "person.png",
    "image_classification": "cat.png",
    "keyword_spotting": "yes.npy",
    "anomaly_detection": "hum.npy",
}


def compare(model: Path, real_input: Path | None, samples: int) -> None:
    graph = load_model(model)
    executor = Executor(graph, capture=True)
    oracle = oracle_for(graph, read_model_bytes(model))
    rng = np.random.default_rng(11)
    inputs = [random_inputs(graph, rng) for _ in range(samples)]
    if real_input is not None:
        inputs += [dict(s) for s in load_samples([real_input], graph).samples]
    comparer = Comparer(graph)
    for sample in inputs:
        executor.run(sample)
        comparer.add(oracle.tensors(sample, {}), executor.read(executor.activations()))
    result = comparer.result()
    assert result.samples == len(inputs)
    assert result.mismatches == 0, result.first_divergence
    compared = {entry.tensor for entry in result.tensors}
    assert compared == {name for node in graph.nodes for name in node.outputs}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str, example: Callable[[str], Path]) -> None:
    compare(example(name), example(name).parent / EXAMPLES[name], 10)


@pytest.mark.shared
@pytest.mark.parametrize(
    "name",
    [
        "vww_96_int8",
        "kws_ref_model",
        "pretrainedResnet_quant",
        "ad01_int8",
        "person_detect",
        "zoo2__flowers__mobilenet_v1_0.25_96_fft_int8",
        "zoo2__flowers__mobilenet_v2_0.35_128_fft_int8",
    ],
)
def test_published_models(name: str, shared: Path) -> None:
    compare(shared / "models" / f"{name}.tflite", None, 3)


def test_the_default_interpreter_is_no_oracle(example: Callable[[str], Path]) -> None:
    """The comparison can fail: XNNPACK's rounding is found and named."""
    from ai_edge_litert.interpreter import Interpreter

    graph = load_model(example("image_classification"))
    interpreter = Interpreter(model_path=str(example("image_classification")))
    interpreter.allocate_tensors()
    executor = Executor(graph)
    rng = np.random.default_rng(0)
    comparer = Comparer(graph)
    for _ in range(60):
        sample = random_inputs(graph, rng)
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], sample[graph.inputs[0]])
        interpreter.invoke()
        truth = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        name = graph.outputs[0]
        comparer.add({name: truth}, executor.run(sample))
    result = comparer.result()
    assert result.mismatches > 0
    assert result.first_divergence is not None
    assert result.first_divergence.tensor == graph.outputs[0]


def test_tflite_micro_contract(example: Callable[[str], Path]) -> None:
    """Fully connected layers round twice under tflite-micro, once under LiteRT."""
    tflm = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    from npuforge.numerics import with_contract
    from npuforge.vocab import Contract

    graph = load_model(example("image_classification"))
    interpreter = tflm.Interpreter.from_file(str(example("image_classification")))
    ours = Executor(with_contract(graph, Contract.TFLITE_MICRO))
    rng = np.random.default_rng(4)
    for _ in range(20):
        sample = random_inputs(graph, rng)
        interpreter.set_input(sample[graph.inputs[0]], 0)
        interpreter.invoke()
        truth = interpreter.get_output(0)
        assert np.array_equal(ours.run(sample)[graph.outputs[0]], truth)
