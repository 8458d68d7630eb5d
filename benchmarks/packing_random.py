"""Random systems with fixed, forbidden, aliased and multi-memory constraints, each plan verified.

python benchmarks/packing_random.py [--count 10000] [--seed 1]
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from common import report  # noqa: E402
from tests.packing_cases import random_system  # noqa: E402

from npuforge.errors import PlanError  # noqa: E402
from npuforge.memory.pools import pack_rooms  # noqa: E402
from npuforge.memory.verify_packing import verify_rooms  # noqa: E402


def main() -> None:
    """Count what is placed, refused and wrong until enough plans have been verified."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--count", type=int, default=10_000, help="plans to verify")
    parser.add_argument("--seed", type=int, default=1, help="of the instances")
    options = parser.parse_args()
    chance = random.Random(options.seed)
    found: Counter[str] = Counter()
    begin = time.perf_counter()
    while found["plans"] < options.count:
        pieces, rooms = random_system(chance)
        try:
            plan = pack_rooms(pieces, rooms)
        except PlanError as error:
            found[error.code] += 1
            continue
        found["plans"] += 1
        try:
            verify_rooms(pieces, rooms, plan.places)
        except PlanError as error:
            found["violations"] += 1
            print(f"seed {options.seed}, plan {found['plans']}: {error}")
        found["clocks proved least"] += plan.proved
        found["clocks below the bound"] += plan.clocks < plan.least_clocks * (1 - 1e-12)
        found["height not proved"] += not all(p.proved for p in plan.packings.values())
        found["over several memories"] += len(plan.packings) > 1
        found["with views"] += any(piece.view_of for piece in pieces)
        found["with fixed"] += any(piece.span.fixed is not None for piece in pieces)
        found["with forbidden"] += any(piece.span.forbidden for piece in pieces)
    found["violations"] += 0
    report(
        "random systems", ("what", "number"),
        [("MEM-003 contradictory" if k == "MEM-003" else
          "MEM-004 no room" if k == "MEM-004" else k, n) for k, n in sorted(found.items())],
        options.json, seconds=round(time.perf_counter() - begin, 1),
    )  # fmt: skip
    sys.exit(1 if found["violations"] or found["clocks below the bound"] else 0)


if __name__ == "__main__":
    main()
