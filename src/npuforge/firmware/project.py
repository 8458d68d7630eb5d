"""The C project: generated network, runtime, board support, linker script, build files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from npuforge import __version__, _native
from npuforge.firmware.memory_table import memory_header, memory_source
from npuforge.firmware.network import (
    Network,
    network_header,
    network_source,
    networks_header,
    networks_source,
    weights_assembly,
)
from npuforge.graph import Array
from npuforge.memory.linker import linker_script, place_sections
from npuforge.targets import Target

_TEMPLATES = Path(__file__).parent / "templates"

SMALL_SOURCES = ("buffer", "exec", "network", "registry", "runtime", "stage", "status")
"""Sources of the runtime that are no kernels."""


@dataclass(frozen=True, eq=False)
class KnownAnswer:
    """An input of a network and the outputs the host computed for it."""

    inputs: Mapping[str, Array]
    outputs: Mapping[str, Array]

    def image(self, network: Network) -> bytes:
        """Inputs and outputs one after the other, as the firmware holds them."""
        inputs = [self.inputs[name].tobytes() for name in network.graph.inputs]
        return b"".join(inputs + [self.outputs[name].tobytes() for name in network.graph.outputs])


def runtime_folder() -> Path:
    """Where the C sources of the runtime are: beside the extension that was built from them."""
    return Path(_native.__file__).parent / "runtime"


def template_files(folder: str, source: str) -> dict[str, bytes]:
    """Files that are the same in every project: those of one template folder, put into `folder`."""
    return {f"{folder}/{p.name}": p.read_bytes() for p in sorted((_TEMPLATES / source).iterdir())}


def network_files(networks: Sequence[Network], answers: Sequence[KnownAnswer]) -> dict[str, bytes]:
    """Generated code, weights and known answers of networks, by path in a project."""
    files = {
        "network/networks.h": networks_header().encode(),
        "network/networks.c": networks_source(networks).encode(),
    }
    for network, answer in zip(networks, answers, strict=True):
        base = f"network/{network.name}"
        files[f"{base}.h"] = network_header(network).encode()
        files[f"{base}.c"] = network_source(network).encode()
        files[f"{base}_weights.S"] = weights_assembly(network).encode()
        files[f"{base}_weights.bin"] = network.plan.image.tobytes()
        files[f"{base}_answer.bin"] = answer.image(network)
    return files


def project_files(
    networks: Sequence[Network], answers: Sequence[KnownAnswer], machine: Target, title: str
) -> dict[str, bytes]:
    """All files of a firmware project by relative path.

    Args:
        networks: what to deploy; their plans may be for a board that `machine` emulates.
        answers: one known answer a network.
        machine: target the project is linked for.
        title: heading of generated files.

    Raises:
        PlanError: the plans do not fit the machine.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    sections = place_sections([(n.name, n.plan) for n in networks], machine)
    files: dict[str, bytes] = {
        "board/link.ld": linker_script(sections, machine, title).encode(),
        "board/memory.h": memory_header(machine).encode(),
        "board/memory.c": memory_source(sections, machine).encode(),
        **network_files(networks, answers),
    }
    for folder, source in (("board", machine.name), ("app", "app"), ("cmake", "cmake")):
        files.update(template_files(folder, source))
    runtime = runtime_folder()
    for path in sorted(runtime.rglob("*.[ch]")):
        files[f"runtime/{path.relative_to(runtime).as_posix()}"] = path.read_bytes()
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True
    )
    values = {
        "title": title,
        "version": __version__,
        "project": networks[0].name,
        "networks": [network.name for network in networks],
        "machine": machine.name,
        "small": SMALL_SOURCES,
    }
    for name in ("CMakeLists.txt", "README.md"):
        files[name] = environment.get_template(f"{name}.j2").render(values).encode()
    return files
