"""The four compiled networks under co-simulation: their CPU side as machine code on an emulated
Cortex-M55, their NPU side in the simulator over shared memory. Every buffer that a CPU step writes
and every output is compared with the simulator running the whole program.
"""

from __future__ import annotations

import time

from common import arguments, report, required_shared_folder

from npuforge import api

NAMES = (
    "mobilenet_v1_025_96", "deeplab_v3_mnv2_320", "movenet_lightning_192", "yolox_nano_480",
)  # fmt: skip


def main() -> None:
    options = arguments(__doc__)
    shared = required_shared_folder()
    rows = []
    for name in NAMES:
        begin = time.perf_counter()
        document = api.aton_cosimulate(shared / "aton" / name, seed=7)
        made = {kind: [row for row in document["buffers"] if row["kind"] == kind]
                for kind in ("cpu step", "output")}  # fmt: skip
        row: list[object] = [name, document["hardware_epochs"], document["handovers"]]
        for kind in ("cpu step", "output"):
            row += [len(made[kind]), sum(item["bytes"] for item in made[kind])]
        rows.append((*row, document["differences"], round(time.perf_counter() - begin)))
        print(rows[-1], flush=True)
    report(
        "compiled networks under co-simulation against the simulator",
        (
            "network", "epochs", "hand-overs", "CPU buffers", "their bytes", "outputs",
            "output bytes", "differing bytes", "seconds",
        ),
        rows,
        options.json,
        networks=len(rows),
        differing=sum(int(str(row[7])) for row in rows),
    )  # fmt: skip


if __name__ == "__main__":
    main()
