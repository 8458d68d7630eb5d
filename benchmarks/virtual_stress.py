"""Stress on the virtual board: sound inferences, every injected fault, rates of driver faults."""

from __future__ import annotations

from common import arguments, model_files, report

from npuforge import api
from npuforge.boards.virtual_board import PAGE_FAULTS
from npuforge.vocab import DriverFault, MachineProfile

RUNS = (("baseline_conv2d_3x3_int8", 10_000), ("blazeface_front_128", 1_000))
TRIALS = 1_000
BOARD = "stm32n6570-dk"


def main() -> None:
    options = arguments(__doc__)
    rows = []
    faults = []
    rates = []
    for name, count in RUNS:
        for path in model_files(name):
            for profile in MachineProfile:
                trials = TRIALS if name == RUNS[0][0] else 0
                result, found = api.stress_model(
                    path, BOARD, inferences=count, trials=trials, seed=1, profile=profile
                )
                below = f"{100 * result.high:.3f} %"
                rows.append((name, str(profile), count, result.failures, below))
                faults += [(str(profile), f.fault, f.trials, f.caught, f.named) for f in found]
    for path in model_files(RUNS[0][0]):
        for fault in DriverFault:
            profile = MachineProfile.LINUX if fault in PAGE_FAULTS else MachineProfile.MCU
            result, _ = api.stress_model(
                path, BOARD, inferences=TRIALS, seed=1, profile=profile, driver_fault=fault
            )
            rates.append((str(fault), str(profile), TRIALS, result.failures, result.wrong))
    columns = ("network", "profile", "inferences", "failures", "95 % below")
    report("inferences", columns, rows, None)
    columns = ("driver fault", "profile", "inferences", "rule broken", "wrong result")
    report("rates", columns, rates, None)
    columns = ("profile", "fault", "trials", "caught", "named")
    report("faults", columns, faults, options.json, stress=rows, rates=rates)


if __name__ == "__main__":
    main()
