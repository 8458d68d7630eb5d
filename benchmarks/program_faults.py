"""Faults injected into compiled programs, and what finds and names each.

    python benchmarks/program_faults.py --json benchmarks/results/program_faults.json

Structural faults must be found by `check`, wrong numbers by the comparison with the model, in the
epoch that was changed or one that reads from it; a program without fault must have no finding.
The networks of the measurement data state no cache maintenance, programs of other projects do:
those that NPUFORGE_PROGRAMS names (see `compiled_networks.py`) get the structural faults.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from common import ROOT, arguments, report, required_shared_folder
from compiled_networks import programs

sys.path.insert(0, str(ROOT))

from tests.aton.faults import CHECKED, COMPARED, Fault, NoPlaceError

from npuforge.aton.check import check_program
from npuforge.aton.compiled import Compiled
from npuforge.aton.execute import run_program
from npuforge.aton.load import load_compiled
from npuforge.errors import ModelError
from npuforge.importers import load_model
from npuforge.validate.program import compare_with_model


def checked(network: Compiled, fault: Fault) -> tuple[str, str]:
    """Epoch and the codes that `check` gives there or behind; empty when it finds nothing."""
    wrong, epoch = fault(network)
    found = {(f.epoch, f.code) for f in check_program(wrong)}
    here = sorted({code for number, code in found if number == epoch})
    later = sorted({code for number, code in found if number > epoch})
    return str(epoch), " ".join(here) or " ".join(f"{code} (later)" for code in later[:2])


def compared(network: Compiled, model: Path, fault: Fault) -> tuple[str, str]:
    """Epoch and the first buffer outside its bound; empty when none is."""
    wrong, epoch = fault(network)
    graph, rng = load_model(model), np.random.default_rng(1)
    data = {b.name: rng.integers(0, 256, b.size, np.uint8).tobytes() for b in network.inputs}
    try:
        found = compare_with_model(wrong, graph, data)
    except ModelError as error:
        return str(epoch), error.code
    first = next(iter(found.outside), None)
    if first is not None:
        return str(epoch), f"epoch {first.epoch}: {first.outside} outside"
    runs = [run_program(program, data, capture=True).buffers for program in (network, wrong)]
    # a weight or gain of a channel that is zero everywhere changes nothing: no run can show it
    return str(epoch), "no byte differs on this input" if runs[0] == runs[1] else ""


def main() -> int:
    """A row for each fault and network."""
    options = arguments(__doc__ or "")
    own = required_shared_folder() / "aton"
    rows = []
    for title, code, model in programs():
        network = load_compiled(code)
        rows.append((title, "none", "", " ".join(f.code for f in check_program(network))))
        wrong = COMPARED if code.parent == own else {}
        for name, fault in (*CHECKED.items(), *wrong.items()):
            try:
                if name in CHECKED:
                    epoch, found = checked(network, fault)
                else:
                    epoch, found = compared(network, model, fault)
            except NoPlaceError:
                epoch, found = "-", "no place for it"
            rows.append((title, name, epoch, found))
            print(*rows[-1], sep=" | ", file=sys.stderr)
    report("Injected faults", ("network", "fault", "epoch", "found"), rows, options.json)
    missed = [row for row in rows if (row[1] == "none") == bool(row[3])]
    print(f"{len(rows)} programs, {len(missed)} wrong verdicts")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
