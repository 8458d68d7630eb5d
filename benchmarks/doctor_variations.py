"""Reproduced cases written in other ways: does the right finding still come first or second?"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from common import ROOT, arguments, report

sys.path.insert(0, str(ROOT))

from tests.doctor.case_files import cases
from tests.doctor.variations import VARIATIONS, judge


def main() -> int:
    options = arguments(__doc__ or "")
    rows = []
    missed: list[str] = []
    total = right = 0
    for name, vary in VARIATIONS.items():
        applied = good = 0
        for case in cases():
            with tempfile.TemporaryDirectory() as folder:
                built = case.build(Path(folder))
                before = snapshot(built)
                vary(built)
                if snapshot(built) == before:
                    continue
                applied += 1
                seen = judge(case, built)
                good += seen == ""
                if seen:
                    missed.append(f"{name}: {case.id} {seen}")
        rows.append((name, applied, good, f"{good / max(applied, 1):.1%}"))
        total += applied
        right += good
    facts = {"varied": total, "right": right, "share": f"{right / max(total, 1):.1%}"}
    report("Varied doctor cases", ("variation", "cases", "right", "share"), rows, options.json,
           **facts, missed=missed)  # fmt: skip
    return 0 if right >= 0.95 * total else 1


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file of a folder with its bytes."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


if __name__ == "__main__":
    sys.exit(main())
