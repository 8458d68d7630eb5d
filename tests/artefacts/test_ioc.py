"""CubeMX projects: what is read, and that nothing in a file can stop the reader."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npuforge.artefacts.ioc import IocPool, read_ioc

PROJECT = r"""#MicroXplorer Configuration settings - do not modify
Appli.IPs=CORTEX_M55_S,NVIC1\:I,CACHEAXI,RAMCFG,STMicroelectronics.X-CUBE-AI.10.2.0_Appli\:I
EXTMEM_MANAGER.RefParam_LRUN_SRC_size=0x00046CD0
FREERTOS.Tasks01=mainTask,24,256,StartMain,Default,NULL,Dynamic,NULL,NULL;netTask,8,2048,Net,Default
FSBL.IPs=RCC\:I,XSPI2,EXTMEM_MANAGER
Mcu.Context0=FSBL
Mcu.Context1=Appli
Mcu.ContextNb=2
Mcu.Family=STM32N6
Mcu.UserName=STM32N657X0HxQ
NVIC1.NPU0_IRQn=true\:5\:0\:false\:false\:true\:false\:true\:true
NVIC1.USART1_IRQn=false\:0\:0\:false\:false\:true\:false\:true\:true
ProjectManager.FirmwarePackage=STM32Cube FW_N6 V1.2.0
ProjectManager.HeapSize=FSBL-0x200,Appli-0x800
ProjectManager.StackSize=4096
RCC.CpuClockFreq_Value=600000000
RCC.SYSCCLKFreq_VALUE=3.0E8
RIF.RIFAWARE.GPIO\ Feature\ PA0\ Cid=RIF_CID_1
STMicroelectronics.X-CUBE-AI.10.2.0_Appli.memoryPool4name=npuRAM4
STMicroelectronics.X-CUBE-AI.10.2.0_Appli.memoryPool4size=448
STMicroelectronics.X-CUBE-AI.10.2.0_Appli.memoryPool4start=0x34270000
STMicroelectronics.X-CUBE-AI.10.2.0_Appli.memoryPool4used-bfefcf7da8271eb10adfdf146306633e5=12.0
STMicroelectronics.X-CUBE-AI.10.2.0_Appli.memoryPool5name=half
STMicroelectronics.X-CUBE-AI.10.2.0_Appli.useInputAllocation=true
STMicroelectronics.X-CUBE-AI.10.2.0_Appli.useOutputAllocation=false
board=STM32N6570-DK
"""


def test_project() -> None:
    ioc = read_ioc(PROJECT)
    assert (ioc.mcu, ioc.family, ioc.board) == ("STM32N657X0HxQ", "STM32N6", "STM32N6570-DK")
    assert ioc.firmware == "1.2.0"
    assert ioc.contexts == ("FSBL", "Appli")
    assert ioc.peripherals["FSBL"] == ("RCC", "XSPI2", "EXTMEM_MANAGER")
    assert "CACHEAXI" in ioc.peripherals["Appli"]
    assert ioc.clocks == {"cpu": 600_000_000, "npu": 300_000_000}
    assert (ioc.ai_version, ioc.ai_context) == ("10.2.0", "Appli")
    assert ioc.pools == (IocPool("npuRAM4", 0x34270000, 448 << 10, 12 << 10),)
    assert (ioc.user_inputs, ioc.user_outputs) == (False, True)
    assert ioc.heap == {"FSBL": 0x200, "Appli": 0x800}
    assert ioc.stack == {"": 4096}
    assert ioc.copy_size == 0x46CD0
    assert ioc.tasks == {"StartMain": 1024, "Net": 8192}
    assert ioc.interrupts == ("NPU0_IRQn",)
    assert ioc.line("Mcu.Family") == 9
    assert ioc.setting("RCC.SYSCCLKFreq_VALUE") == "RCC.SYSCCLKFreq_VALUE=3.0E8"
    assert ioc.values["RIF.RIFAWARE.GPIO Feature PA0 Cid"] == "RIF_CID_1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "=",
        "Mcu.ContextNb=99999999999999999999",
        "RCC.CpuClockFreq_Value=fast\nEXTMEM_MANAGER.RefParam_LRUN_SRC_size=0x",
        "board=custom\nMcu.Name=X\n" + "k" * 100_000 + "=v",
        "FREERTOS.Tasks01=a,b,c\nProjectManager.HeapSize=,,-\nRCC.SYSCCLKFreq_VALUE=1e999",
    ],
)
def test_nothing_stops_the_reader(text: str) -> None:
    ioc = read_ioc(text)
    assert (ioc.board, ioc.clocks, ioc.copy_size, ioc.tasks) == ("", {}, None, {})


@settings(max_examples=150, deadline=None)
@given(st.text(st.sampled_from("=\\:,;-_.0x9aMcuRAITasks\n# "), max_size=300))
def test_any_text(text: str) -> None:
    read_ioc(text)
    read_ioc(PROJECT + text)
