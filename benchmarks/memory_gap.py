"""Expected, linked and run: the memory of generated firmware, and whether the ledger is `size`'s.

python benchmarks/memory_gap.py
"""

from __future__ import annotations

from common import arguments, model_files, report

from npuforge import api

EXAMPLES = ("keyword_spotting", "image_classification", "visual_wake_words", "anomaly_detection")
SHARED = ("blazeface_front_128", "person_detect", "micro_speech_quantized", "snn_100_2_V2")
TARGET = "stm32n6570-dk"


def main() -> None:
    """Build, account for and run every network."""
    options = arguments(__doc__ or "")
    rows = []
    exact = 0
    files = model_files(*EXAMPLES, *SHARED)
    for path in files:
        found = api.measure_memory(path, TARGET)
        parts = found.breakdown
        arena = found.run.arenas
        linked = sum(area.nbytes for area in arena)
        sizes = found.ledger.sizes
        exact += found.exact
        rows.append(
            (
                path.name,
                parts.tensors,
                " ".join(f"{name} {value:+d}" for name, value in parts.terms if value) or "none",
                parts.planned,
                linked,
                sum(area.high for area in arena),
                sum(area.touched for area in arena),
                found.stack_reserved,
                found.run.stack.high,
                f"{sizes.text} {sizes.data} {sizes.bss}",
                "{} {} {}".format(*found.printed),
                "yes" if found.exact else "NO",
            )
        )
    report(
        "memory of generated firmware, bytes",
        ("network", "tensors alive", "and", "planned", "linked", "run up to", "run touched",
         "stack kept", "stack run", "ledger text data bss", "size prints", "equal"),
        rows, options.json, networks=len(files), ledger_equal=exact,
    )  # fmt: skip


if __name__ == "__main__":
    main()
