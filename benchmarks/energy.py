"""Predicted against published energy of an inference on STM32N6 boards.

Board rows are USB-meter readings above a busy idle board, the core row is the supply of the core.
Only counts of these networks are published, so the estimate takes MAC count and published time.
The two constants of the board level are fitted without the row (leave one out), and its interval is
the conformal 80 % quantile of the other rows' residuals; the core row took part in no fit, and its
interval is the shipped one.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from common import arguments, csv_rows, report, required_shared_folder

from npuforge.cost.calibrate import spread_of
from npuforge.cost.energy import EnergyConstants, Level, energy_from_counts, load_energy

WHY = {
    "O016": "block-diagonal matrices: about a weight a MAC, and weight bytes are not published; "
    "with 730 kB from flash at 27.5 pJ it would be 29 uJ",
    "O017": "7 mW above idle for 3.1 ms, less than any other row: mostly control, and the fit "
    "gives control what the shorter networks take",
}
TINY_YOLO_MACS = 777_482_634
"""tiny_yolo_v2_224 in compile reports of the same network."""


def _fit(rows: list[dict[str, str]], start: EnergyConstants) -> EnergyConstants:
    """mac_pj and busy_mw that make log ratios smallest on average, by a grid."""
    best, lowest = start, float("inf")
    for mac in np.geomspace(2, 12, 60):
        for busy in np.geomspace(2, 30, 40):
            trial = replace(start, mac_pj=float(mac), busy_mw=float(busy))
            error = [abs(np.log(_board(r, trial) / float(r["energy_uj_per_inf"]))) for r in rows]
            if sum(error) < lowest:
                best, lowest = trial, sum(error)
    return best


def _board(row: dict[str, str], constants: EnergyConstants) -> float:
    return energy_from_counts(
        float(row["macc"]), float(row["inference_ms"]), Level.BOARD, constants=constants
    ).uj


def _spread(factors: np.ndarray) -> float:
    """Factor of the 80 % interval; every row is a network of its own."""
    rows = [str(number) for number in range(len(factors))]
    return float(np.exp(spread_of(factors, np.ones(len(factors)), rows)))


def main() -> None:
    options = arguments(__doc__ or "")
    shared = required_shared_folder()
    rows = [
        r for r in csv_rows(shared / "groundtruth/other_measured.csv")
        if r["quality"] == "ok" and r["energy_uj_per_inf"] and not r["kind"].startswith("power")
    ]  # fmt: skip
    shipped = load_energy()
    board = [r for r in rows if "board" in r["kind"]]
    without = [_board(r, _fit([o for o in board if o is not r], shipped)) for r in board]
    factors = np.array([float(r["energy_uj_per_inf"]) for r in board]) / np.array(without)
    table, inside, ratios = [], [], []
    for r in rows:
        measured = float(r["energy_uj_per_inf"])
        if r in board:
            others = np.arange(len(board)) != board.index(r)
            uj, spread = without[board.index(r)], _spread(factors[others])
        else:
            macs = float(r["macc"] or TINY_YOLO_MACS)
            uj = energy_from_counts(macs, float(r["inference_ms"]), Level.CORE).uj
            spread = shipped.core_spread
        held = uj / spread <= measured <= uj * spread
        inside.append(held)
        ratios.append(uj / measured)
        table.append(
            (r["row_id"], r["model"][:34], "board above idle" if r in board else "core supply",
             f"{measured:.0f}", f"{uj:.0f}", f"{uj / measured:.2f}",
             f"{uj / spread:.0f}..{uj * spread:.0f}",
             "" if held else f"outside: {WHY.get(r['row_id'], '')}")
        )  # fmt: skip
    error = np.abs(np.array(ratios) - 1)
    full = _fit(board, shipped)
    report(
        "Energy of an inference, predicted against published",
        ("row", "network", "level", "measured uJ", "predicted uJ", "ratio", "80 %", ""),
        table,
        options.json,
        rows_used=len(rows),
        inside_interval=f"{sum(inside)} of {len(inside)}",
        median_error=round(float(np.median(error)), 3),
        spread_of_all_board_rows=round(_spread(factors), 3),
        fit_to_all_board_rows=f"{full.mac_pj:.2f} pJ a MAC, {full.busy_mw:.1f} mW",
    )


if __name__ == "__main__":
    main()
