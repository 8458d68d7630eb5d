"""Faults in whole applications not written for the cases: is the right finding first or second?"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from common import ROOT, arguments, report

sys.path.insert(0, str(ROOT))

from tests.doctor.rewritten import applications, copy, faults

from npuforge.doctor import collect, diagnose
from npuforge.vocab import Severity


def main() -> int:
    options = arguments(__doc__ or "")
    rows, missed = [], []
    disturbed = 0
    for base in applications():
        with tempfile.TemporaryDirectory() as folder:
            copy(base, Path(folder) / "app")
            findings = diagnose(collect([Path(folder) / "app"])).findings
        disturbed += sum(item.severity is not Severity.INFO for item in findings)
    for fault in faults():
        with tempfile.TemporaryDirectory() as folder:
            project = collect([fault.build(Path(folder) / "app")])
            seen = [item.id for item in diagnose(project).findings]
        place = next((n for n, name in enumerate(seen, 1) if name in fault.expect), 0)
        if not 0 < place <= 2:
            missed.append(f"{fault.base.name}: {fault.name}")
        rows.append((fault.base.name, fault.name, " ".join(fault.expect), place or "-"))
    right = len(rows) - len(missed)
    facts = {
        "faults": len(rows),
        "right": right,
        "share": f"{right / len(rows):.1%}",
        "findings_in_the_correct_applications": disturbed,
    }
    report("Faults in applications in other hands", ("application", "fault", "finding", "place"),
           rows, options.json, **facts, missed=missed)  # fmt: skip
    return 0 if not disturbed and right >= 0.95 * len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
