"""Projects with damaged files: the doctor reads what it can and never fails."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from tests.artefacts.spoiling import spoil
from tests.doctor.case_files import Case, cases

from npuforge.artefacts.recognise import Kind
from npuforge.doctor import collect, diagnose
from npuforge.doctor.network_facts import read_facts
from npuforge.doctor.project import Artefact

CASES = tuple(cases())


@settings(max_examples=120, deadline=None)
@given(seed=st.integers(0, 1 << 32), case=st.sampled_from(CASES))
def test_damaged_case(seed: int, case: Case) -> None:
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        where = case.build(Path(folder))
        files = [p for p in sorted(where.rglob("*")) if p.is_file() and p.stat().st_size < 200_000]
        for path in rng.sample(files, min(len(files), rng.choice((1, 2, 9)))):
            path.write_bytes(spoil(path.read_bytes(), rng))
        for finding in diagnose(collect([where])).findings:
            assert finding.words.message


def test_nodes_without_outputs(tmp_path: Path) -> None:
    """Of every operator that a check looks at, beside a sound one that is still found."""
    kinds = ("Constant", "Conv", "MatMul", "QuantizeLinear", "Reshape", "Einsum")
    nodes = [helper.make_node(kind, ["x", "x", "x"], []) for kind in kinds]
    nodes.append(helper.make_node("Einsum", ["x"], ["y"], equation="ij->ji"))
    graph = helper.make_graph(nodes, "g", [], [])
    (tmp_path / "m.onnx").write_bytes(helper.make_model(graph).SerializeToString())
    found = diagnose(collect([tmp_path])).findings
    assert any("Einsum y" in finding.evidence[0].token for finding in found)


@pytest.mark.parametrize("number", ["9" * 5000, "1.5", "1.2.3", ".", "-", "", "1e999", "0x10"])
def test_numbers_of_a_network(number: str, tmp_path: Path) -> None:
    text = (
        f"/* global pool {number} is {number} KB */\n#if LL_ATON_VERSION_MAJOR != {number} || "
        f"LL_ATON_VERSION_MINOR != {number} || LL_ATON_VERSION_MICRO != {number}\n#endif\n"
        f"/* index={number} file postfix=a name=a offset=0x{number} mode size={number} */\n"
        "const LL_Buffer_InfoTypeDef *LL_ATON_Input_Buffers_Info_net(void)\n{\n"
        f'  static const uint32_t s[] = {{ {number} }};\n  {{\n    .name = "in",\n'
        f"    .offset_start = {number},\n    .shape = s,\n    .scale = s,\n"
        "    .offset = s,\n  },\n}\n"
    )
    facts = read_facts(Artefact(tmp_path / "n.c", "n.c", Kind.NETWORK_C, len(text)), text)
    assert facts.name == "net"
