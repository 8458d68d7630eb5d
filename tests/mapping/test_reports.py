"""Reports of ST's tool and of Vela beside our own tables; several boards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import ROOT
from tests.mapping.test_epochs import Net
from typer.testing import CliRunner

from npuforge import api
from npuforge.artefacts.c_info import read_c_info
from npuforge.artefacts.log_text import log_from_bytes
from npuforge.artefacts.tool_log import read_tool_log
from npuforge.artefacts.vela_report import read_vela_layers
from npuforge.cli.main import app
from npuforge.errors import ModelError, NpuforgeError, UnsupportedError, UsageError
from npuforge.explore.boards import compare_boards
from npuforge.graph import Graph
from npuforge.graph import attrs as at
from npuforge.lowering import BufferKind, lower
from npuforge.mapping import (
    compare_report,
    epochs_of_c_info,
    epochs_of_report,
    map_graph,
    map_to_npu,
    map_with_vela,
    read_compiled,
)
from npuforge.targets import load_target

OLD = """ST Edge AI Core v2.1.0-20194 329b0e98d
Total number of epochs: 5 of which 3 implemented in software
epoch ID   HW/SW/EC Operation (SW only)
epoch 1       EC
epoch 2      -SW-   (       Concat       )
epoch 3      -SW-   (    DepthToSpace    )
epoch 4       HW
epoch 5      -SW-   (  DequantizeLinear  )
"""
NEW = """ST Edge AI Core v4.0.1-20581
Total number of epochs                               8
>> pure software (SW) epochs                         2
>> hybrid epochs (using both software and hardware)  1
>> pure hardware (HW or EC) epochs                   5  (implemented in 2 epoch controller blobs)
| epochs    1 -> 5     |   EC   |                  |
| epoch_6              | Hybrid |      Concat      |
| epoch_7              |   SW   |    Sub(float)    |
| epoch_8              |   SW   |     Softmax      |
"""
VELA = """TFLite_operator,NNG Operator,SRAM Usage,Peak%,Op Cycles,Network%,NPU,SRAM AC,DRAM AC,\
OnFlash AC,OffFlash AC,MAC Count,Network%,Util%,Name
CONV_2D,Conv2DBias,100,50.0,1000.0,90.0,900.0,1,0,0,2,4096,100.0,10.0,n0.out
ADD,Add,50,10.0,20.0,1.0,20.0,1,0,0,0,0,0.0,0.0,fused_by_vela
"""


def _net() -> Graph:
    net = Net((1, 8, 8, 16), zero=3)
    made = net.conv(net.first, 16)
    joined = net.node("concat", [made, net.first, net.conv(made, 8)], (1, 8, 8, 40),
                      at.ConcatAttrs(3))  # fmt: skip
    return net.graph(joined)


def test_old_report() -> None:
    compiled = epochs_of_report(read_tool_log(log_from_bytes(OLD.encode(), "r")))
    assert (compiled.hardware, compiled.hybrid, compiled.software) == (2, 0, 3)
    assert compiled.off_npu == ("Concat", "DepthToSpace", "DequantizeLinear")
    assert compiled.version.startswith("2.1.0")
    assert compiled.release == "2.1"


def test_new_report() -> None:
    compiled = epochs_of_report(read_tool_log(log_from_bytes(NEW.encode(), "r")))
    assert (compiled.hardware, compiled.hybrid, compiled.software) == (5, 1, 2)
    assert compiled.off_npu == ("Concat", "Sub", "Softmax")


TIMES = """ST Edge AI Core v2.2.0-20266 2adc00962
   c_id    m_id   type            dur (ms)        %    CPU cycles                 name
   0       -      epoch (EC)         1.255   64.16%  [  44,649   9,704   3,460 ]  EpochBlock_1 -> 5
   1       -      epoch (HYBRID)     0.107    5.22%  [      65      52  63,931 ]  EpochBlock_6
   2       -      epoch (extra HW.7) 0.101    5.21%  [  14,703  38,136   7,642 ]  EpochBlock_6 (7)
   3       -      epoch (SW)         0.107    5.22%  [      65      52  63,931 ]  EpochBlock_7
   4       -      epoch              0.146   20.00%  [   8,398 105,738   2,599 ]  EpochBlock_8
"""


def test_report_of_times_alone_counts_epochs(tmp_path: Path) -> None:
    path = tmp_path / "network_validate_report.txt"
    path.write_text(TIMES)
    compiled = read_compiled(path)
    # The hardware that a hybrid epoch started is part of it.
    assert (compiled.hardware, compiled.hybrid, compiled.software) == (6, 1, 1)
    assert (compiled.source, compiled.release) == ("times", "2.2")
    graph = _net()
    found = compare_report(graph, map_to_npu(graph), compiled)
    assert found.differences == ()
    model = ROOT / "examples/image_classification/image_classification.tflite"
    shown = CliRunner().invoke(app, ["analyze", str(model), "--st-report", str(path)])
    assert shown.exit_code == 0
    assert "6 / 1 / 1" in " ".join(shown.output.split())
    assert "counted from the times" in " ".join(shown.output.split())
    # Where the report counts as well, its own numbers stand.
    path.write_text(OLD + TIMES)
    assert read_compiled(path).source == "report"


def test_c_info_leaves_out_what_runs_nothing() -> None:
    def node(number: int, mapping: str, kind: str) -> dict[str, object]:
        inner = [{"name": f"N_{number}", "description": f"Node kind={kind}"}]
        return {"id": number, "name": f"epoch_{number}", "mapping": mapping,
                "inputs": [], "outputs": [], "subgraph_nodes": inner}  # fmt: skip

    document = {
        "json_schema_version": "2.0",
        "environment": {"tools": [{"name": "st", "version": "2.2.0", "input_model": {}}]},
        "buffers": [],
        "memory_pools": [],
        "graphs": [{"nodes": [
            node(2, "NODE_EC", "Conv"), node(3, "NODE_SW_HW", "Concat"),
            node(4, "NODE_SW", "Return"), node(5, "NODE_NO_X", "Identity"),
            node(6, "NODE_SW", "Softmax"), node(7, "NODE_HW", "Add"),
        ]}],
    }  # fmt: skip
    compiled = epochs_of_c_info(read_c_info(json.dumps(document).encode()))
    assert (compiled.hardware, compiled.hybrid, compiled.software) == (2, 1, 1)
    assert compiled.off_npu == ("Concat", "Softmax")


def test_report_without_epochs_is_refused() -> None:
    of_a_cpu = {"json_schema_version": "2.0", "environment": {"tools": []}, "buffers": [],
                "memory_pools": [], "graphs": [{"nodes": []}]}  # fmt: skip
    with pytest.raises(UsageError) as refused:
        epochs_of_c_info(read_c_info(json.dumps(of_a_cpu).encode()))
    assert refused.value.code == "NPU-002"
    with pytest.raises(UsageError) as caught:
        epochs_of_report(read_tool_log(log_from_bytes(b"nothing of the kind", "r")))
    assert caught.value.code == "NPU-002"


def test_comparison_explains_every_difference() -> None:
    graph = _net()
    compiled = epochs_of_report(read_tool_log(log_from_bytes(OLD.encode(), "r")))
    found = compare_report(graph, map_to_npu(graph), compiled)
    by_name = {d.operator: d for d in found.differences}
    assert (by_name["Concat"].predicted, by_name["Concat"].compiled) == (1, 1)
    assert by_name["Concat"].why == ""
    for difference in found.differences:
        assert bool(difference.why) == (difference.predicted != difference.compiled)
    assert sum(d.compiled for d in found.differences) == 3


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_hostile_reports(data: bytes) -> None:
    try:
        epochs_of_report(read_tool_log(log_from_bytes(OLD.encode() + data, "r")))
        read_vela_layers(VELA.encode() + data, "v.csv")
    except NpuforgeError:
        pass


def test_vela_rows_become_shares_and_fallbacks() -> None:
    graph = _net()
    mapped = map_with_vela(graph, read_vela_layers(VELA.encode(), "v.csv"))
    assert mapped.node_share == pytest.approx(1 / 3)
    assert 0 < mapped.mac_share < 1
    assert mapped.cycles == 1020
    assert mapped.unknown == ("fused_by_vela",)
    assert {f.op for f in mapped.fallbacks} == {"concat", "conv2d"}
    for fallback in mapped.fallbacks:
        assert fallback.reason
        assert fallback.remedy


@pytest.mark.parametrize(
    "text",
    ["", "a,b\n1,2\n", VELA.replace("Op Cycles", "Cycles"), VELA.replace("1000.0", "many"),
     VELA + "CONV_2D,short\n"],
)  # fmt: skip
def test_vela_report_that_is_none(text: str) -> None:
    with pytest.raises(ModelError) as caught:
        read_vela_layers(text.encode(), "v.csv")
    assert caught.value.code == "VEL-001"


def test_ethos_u_lowers_nothing() -> None:
    from npuforge.accelerators.ethos_u import EthosU

    graph = _net()
    npu = EthosU(read_vela_layers(VELA.encode(), "v.csv"))
    board = load_target("stm32n6570-dk")
    assert npu.place(graph, graph.nodes[0], board) is not None
    assert npu.place(graph, graph.nodes[1], board) is None
    with pytest.raises(UnsupportedError):
        npu.lower(graph, graph.nodes[0])


def test_weights_of_a_linux_part_lie_on_128_bytes() -> None:
    board = load_target("linux-npu-generic")
    graph = _net()
    schedule = lower(graph, map_graph(graph, board), board)
    for buffer in schedule.buffers.values():
        wanted = 128 if buffer.kind is BufferKind.CONSTANT else 64
        assert buffer.alignment == wanted
    assert not board.coherent_dma


def test_boards_side_by_side() -> None:
    names = ("mps3-an547", "linux-npu-generic", "stm32n6570-dk", "nucleo-n657x0-q")
    results = compare_boards(_net(), [load_target(name) for name in names])
    assert [r.target for r in results[:2]] == ["nucleo-n657x0-q", "stm32n6570-dk"] or (
        {r.target for r in results[:2]} == {"nucleo-n657x0-q", "stm32n6570-dk"}
    )
    by_name = {r.target: r for r in results}
    assert by_name["stm32n6570-dk"].node_share is not None
    assert by_name["mps3-an547"].ms is None
    assert by_name["linux-npu-generic"].npu == "npu_generic"
    assert by_name["linux-npu-generic"].external_bytes > 0
    assert all(r.fits for r in results)


def test_a_network_too_large_says_why() -> None:
    net = Net((1, 2048, 2048, 16), zero=3)
    graph = net.graph(net.conv(net.first, 16))
    small = [load_target("nucleo-n657x0-q")]
    (result,) = compare_boards(graph, small)
    assert not result.fits
    assert result.why
    assert result.activation_bytes is None


def test_several_networks_make_one_table(tmp_path: Path, example: object) -> None:
    names = ("visual_wake_words", "keyword_spotting")
    models = [str(example(name)) for name in names]  # type: ignore[operator]
    if not all(Path(model).is_file() for model in models):
        pytest.skip("examples not present")
    broken = tmp_path / "broken.tflite"
    broken.write_bytes(b"no model")
    run = CliRunner()
    good = run.invoke(app, ["analyze", *models, "--json"])
    assert good.exit_code == 0, good.output
    rows = json.loads(good.stdout)["models"]
    assert [Path(row["path"]).stem for row in rows] == list(names)
    for row, model in zip(rows, models, strict=True):
        npu = map_to_npu(api.load_graph(model))
        assert row["board"]["node_share"] == npu.node_share
        assert row["epochs"] == [npu.hardware_epochs, npu.hybrid_epochs, npu.software_epochs]
    bad = run.invoke(app, ["analyze", models[0], str(broken), "--target", "mps3-an547", "--json"])
    assert bad.exit_code == 1
    fine, wrong = json.loads(bad.stdout)["models"]
    assert fine["why"] == ""
    assert fine["epochs"] is None
    assert "broken.tflite" in wrong["why"]
    shown = run.invoke(app, ["analyze", *models])
    assert shown.exit_code == 0
    assert "MAP-npu" in shown.output


def test_command_line(tmp_path: Path, example: object) -> None:
    model = str(example("visual_wake_words"))  # type: ignore[operator]
    if not Path(model).is_file():
        pytest.skip("example not present")
    report, vela = tmp_path / "report.txt", tmp_path / "v.csv"
    report.write_text(OLD, encoding="utf-8")
    vela.write_text(VELA, encoding="utf-8")
    run = CliRunner()
    made = run.invoke(app, ["analyze", model, "--json", "--st-report", str(report), "--vela",
                            str(vela), "--cpu", "softmax", "--cpu", "conv2d"])  # fmt: skip
    assert made.exit_code == 0, made.output
    document = json.loads(made.stdout)
    assert document["choices"]["ms"] > 0
    assert document["st_report"]["compiled"]["software"] == 3
    assert document["vela"]["node_share"] == 0
    boards = run.invoke(app, ["analyze", model, "--target", "all", "--json"])
    assert boards.exit_code == 0, boards.output
    assert len(json.loads(boards.stdout)["boards"]) == len(list(api.iter_targets()))
    for arguments in (["--only-npu", "--cpu", "conv2d"], ["--target", "all"],
                      ["--st-report", str(report), "--vela", str(vela), "-v"]):  # fmt: skip
        shown = run.invoke(app, ["analyze", model, *arguments])
        assert shown.exit_code == (1 if "--only-npu" in arguments else 0), shown.output
    wrong = run.invoke(
        app, ["analyze", model, "--target", "mps3-an547", "--st-report", str(report)]
    )
    assert isinstance(wrong.exception, UsageError)
    assert wrong.exception.code == "NPU-003"
