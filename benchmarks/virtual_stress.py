"""Stress on the virtual board: a single convolution and a detector, then every injected fault."""

from __future__ import annotations

from common import arguments, model_files, report

from npuforge import api

RUNS = (("baseline_conv2d_3x3_int8", 10_000), ("blazeface_front_128", 1_000))


def main() -> None:
    options = arguments(__doc__)
    rows = []
    faults = []
    for name, count in RUNS:
        for path in model_files(name):
            trials = 0 if faults else 1_000
            result, found = api.stress_model(
                path, "stm32n6570-dk", inferences=count, trials=trials, seed=1
            )
            rows.append((name, count, result.failures, f"{100 * result.high:.3f} %"))
            faults = faults or [(f.fault, f.trials, f.caught, f.named) for f in found]
    report("inferences", ("network", "inferences", "failures", "95 % below"), rows, None)
    report("faults", ("fault", "trials", "caught", "named"), faults, options.json, stress=rows)


if __name__ == "__main__":
    main()
