"""Reproduced problem cases: is the right finding first or second? Writes the page of the cases."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from common import ROOT, arguments, report, shared_folder

sys.path.insert(0, str(ROOT))

from tests.doctor.case_files import cases

from npuforge.doctor import collect, diagnose
from npuforge.vocab import Severity

PAGE = ROOT / "docs" / "reference" / "doctor_cases.md"
HEAD = """\
# Problem cases the doctor knows

Each row is a reproduction by small files of our own under `tests/doctor/cases/`, after a published
problem; its id is that of the case, with a suffix for a variant (`-log`: decided from a log alone).
The last column is the place of the right finding among all findings. Rows that expect nothing are
correct code or healthy logs and must give neither error nor warning. Written by
`benchmarks/doctor_cases.py`; the test suite runs every row.

| case | what | finding | place |
|---|---|---|---|
"""


_ENTRY = re.compile(
    r"^\*\*([A-Z]\d\d)\*\* `\[[^|\]]*\| *([\w*]+)\]`(.*?)(?=^\*\*[A-Z]\d\d\*\*|\Z)",
    re.MULTILINE | re.DOTALL,
)
_SEEN_IN = re.compile(r"\bW: ([^\n]*?)\. K")


def decidable() -> dict[str, str]:
    """Ids of the case collection that files decide, with how; empty without the collection.

    Those are the cases of decidability static, static* and host, and others that a log shows.
    """
    shared = shared_folder()
    collection = None if shared is None else shared / "reference" / "user_cases.md"
    if collection is None or not collection.is_file():
        return {}
    found = {}
    for match in _ENTRY.finditer(collection.read_text(encoding="utf-8")):
        where = _SEEN_IN.search(match[3])
        if match[2] in ("static", "static*", "host"):
            found[match[1]] = match[2]
        elif where and re.search(r"\blog\b", where[1]):
            found[match[1]] = "log"
    return found


def main() -> int:
    options = arguments(__doc__ or "")
    rows = []
    right = 0
    for case in cases():
        with tempfile.TemporaryDirectory() as folder:
            found = diagnose(collect([case.build(Path(folder))])).findings
        ids = [item.id for item in found]
        if not case.expect:
            good = not [f for f in found if f.severity is not Severity.INFO]
            place = "nothing" if good else "false alarm"
        else:
            places = [ids.index(name) + 1 for name in case.expect if name in ids]
            good = bool(places) and min(places) <= 2
            place = str(min(places)) if places else "missed"
        right += good
        named = next((name for name in case.expect if name in ids), "") or "nothing expected"
        rows.append((case.id, case.title, named, place))
    share = f"{right / len(rows):.1%}"
    facts: dict[str, object] = {"cases": len(rows), "right": right, "share": share}
    wanted = decidable()
    if wanted:
        shown = {row[0].split("-")[0] for row in rows if row[3] in ("1", "2", "nothing")}
        missing = sorted(set(wanted) - shown)
        facts |= {"decidable ids": len(wanted), "without reproduction": " ".join(missing) or "0"}
    report("Doctor cases", ("case", "what", "finding", "place"), rows, options.json, **facts)
    lines = [f"| {a} | {b.replace('|', '/')} | {c} | {d} |" for a, b, c, d in rows]
    tail = f"\n{right} of {len(rows)} rows right ({share}).\n"
    PAGE.write_text(HEAD + "\n".join(lines) + "\n" + tail, encoding="utf-8")
    return 0 if right >= 0.95 * len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
