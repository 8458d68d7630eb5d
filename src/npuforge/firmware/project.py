"""The C project: generated network, runtime, board support, linker script, build files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from npuforge import __version__, _native
from npuforge.firmware.flash_layout import FlashLayout
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


@dataclass(frozen=True)
class Machine:
    """One thing a project is linked for.

    Attributes:
        folder: its start-up code, port and linker script.
        name: target.
        programs: programs that are linked for it, each with its sources.
        flashed: whether images for a flash are made of them.
    """

    folder: str
    name: str
    programs: Mapping[str, tuple[str, ...]]
    flashed: bool = False


def emulated(folder: str, machine: Target) -> Machine:
    """The emulated machine, with the programs that talk to the PC by semihosting."""
    tested = ("app/known_answer.c", "app/self_test.c", "app/setup.c")
    programs = {"known_answer": tested, "validate": ("app/validate.c", "app/setup.c")}
    return Machine(folder, machine.name, programs)


def machine_files(
    networks: Sequence[Network], machine: Target, folder: str, title: str
) -> dict[str, bytes]:
    """Start-up code, port, memories and linker script of an emulated machine.

    Raises:
        PlanError: the plans do not fit the machine.
    """
    sections = place_sections([(n.name, n.plan) for n in networks], machine)
    return {
        f"{folder}/link.ld": linker_script(sections, machine, title).encode(),
        f"{folder}/memory.h": memory_header(machine).encode(),
        f"{folder}/memory.c": memory_source(sections, machine).encode(),
        **template_files(folder, machine.name),
        **template_files("app", "emulated"),
    }


def shared_files() -> dict[str, bytes]:
    """What every project has: runtime, set-up, self test and toolchain."""
    files = template_files("app", "app") | template_files("cmake", "cmake")
    runtime = runtime_folder()
    for path in sorted(runtime.rglob("*.[ch]")):
        files[f"runtime/{path.relative_to(runtime).as_posix()}"] = path.read_bytes()
    return files


def rendered(template: str, **values: object) -> bytes:
    """A template with its values."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES), undefined=StrictUndefined, keep_trailing_newline=True
    )
    return environment.get_template(template).render(version=__version__, **values).encode()


def build_files(
    networks: Sequence[Network],
    machines: Sequence[Machine],
    title: str,
    flash: FlashLayout | None = None,
    loader: str = "",
) -> dict[str, bytes]:
    """CMake's files of a project; the networks are compiled once and linked for each machine.

    Args:
        networks: of the project.
        machines: what it is linked for.
        title: first comment line.
        flash: where the images of a flashed machine go.
        loader: file name of the programmer's loader for that flash.
    """
    cmake = rendered(
        "CMakeLists.txt.j2",
        title=title,
        project=networks[0].name,
        networks=[network.name for network in networks],
        machines=machines,
        small=SMALL_SOURCES,
        flash=flash,
        loader=loader,
    )
    presets = rendered("CMakePresets.json.j2", machines=machines)
    return {"CMakeLists.txt": cmake, "CMakePresets.json": presets}


def project_files(
    networks: Sequence[Network], answers: Sequence[KnownAnswer], machine: Target, title: str
) -> dict[str, bytes]:
    """All files of a firmware project for an emulated machine by relative path.

    Args:
        networks: what to deploy; their plans may be for a board that `machine` emulates.
        answers: one known answer a network.
        machine: target the project is linked for.
        title: heading of generated files.

    Raises:
        PlanError: the plans do not fit the machine.
    """
    readme = rendered(
        "README.md.j2", title=title, machine=machine.name, networks=[n.name for n in networks]
    )
    return {
        **machine_files(networks, machine, "board", title),
        **network_files(networks, answers),
        **shared_files(),
        **build_files(networks, [emulated("board", machine)], title),
        "README.md": readme,
    }
