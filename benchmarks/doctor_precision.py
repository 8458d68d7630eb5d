"""Errors the doctor reports in a folder of project folders, and how many of them are right.

Every sub-folder of FOLDER is one project. The verdicts were given by reading the code: a table with
project, commit, file, line, id, verdict (right, wrong, undecided) and reason; an error without one
counts as unread. A project of the list `CORRECT` is known to be right and must have no error.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from common import ROOT, csv_rows, report

from npuforge.doctor import collect, diagnose
from npuforge.vocab import Severity

VERDICTS = ROOT / "benchmarks" / "doctor_verdicts.csv"
CORRECT = ("STMicroelectronics+",)
"""Beginnings of the folder names of projects that are known to be right: the vendor's own."""
Key = tuple[str, str, str, str]


def verdicts_of(path: Path) -> dict[Key, str]:
    """Verdict of each error that was read, by project, file, line and id."""
    if not path.is_file():
        return {}
    return {
        (row["project"], row["file"], row["line"], row["id"]): row["verdict"]
        for row in csv_rows(path)
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of project folders")
    parser.add_argument("--verdicts", type=Path, default=VERDICTS, help="table of verdicts")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--list", action="store_true", help="also print every error")
    options = parser.parse_args()
    known = verdicts_of(options.verdicts)
    rows, total, false_in_correct = [], Counter[str](), 0
    for folder in sorted(path for path in options.folder.iterdir() if path.is_dir()):
        begin = time.perf_counter()
        project = collect([folder])
        findings = diagnose(project).findings
        seconds = time.perf_counter() - begin
        errors = [item for item in findings if item.severity is Severity.ERROR]
        count: Counter[str] = Counter()
        for item in errors:
            first = item.evidence[0]
            key = (folder.name, first.file, str(first.line or ""), item.id)
            verdict = known.get(key, "unread")
            count[verdict] += 1
            if options.list:
                print(f"{verdict}\t{folder.name}\t{first.place}\t{item.id}\t{item.words.message}")
        total += count
        if folder.name.startswith(CORRECT):
            false_in_correct += len(errors)
        rows.append(
            (folder.name, len(project.artefacts), len(errors), count["right"], count["wrong"],
             count["undecided"], count["unread"], len(findings) - len(errors), f"{seconds:.1f}")
        )  # fmt: skip
    columns = ("project", "files", "errors", "right", "wrong", "undecided", "unread",
               "other findings", "seconds")  # fmt: skip
    judged = total["right"] + total["wrong"] + total["undecided"]
    share = f"{total['right'] / judged:.1%}" if judged else "-"
    report(
        "Errors in real projects", columns, rows, options.json,
        projects=len(rows), errors=total.total(), right=total["right"], wrong=total["wrong"],
        undecided=total["undecided"], unread=total["unread"], precision=share,
        errors_in_correct_projects=false_in_correct,
    )  # fmt: skip
    return 0 if not false_in_correct and not total["unread"] else 1


if __name__ == "__main__":
    sys.exit(main())
