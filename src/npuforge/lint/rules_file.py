"""Rules on the file as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator

from npuforge.lint.findings import Hit, LintRule
from npuforge.lint.subject import Subject
from npuforge.vocab import Severity

MAX_OPSET = 20
RECOMMENDED_OPSETS = (13, 17)
MAX_IR = 9
NEVER = frozenset(
    {
        *("If", "Loop", "Scan", "NonZero", "NonMaxSuppression", "GridSample", "Einsum"),
        *("IF", "WHILE", "CALL_ONCE", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"),
    }
)
"""Operators that ST's front end rejects."""
SENTINEL = (1 << 31) - 1


def _free_batch(subject: Subject) -> Iterator[Hit]:
    for name, axis, label in subject.file.free:
        if axis == 0 and subject.file.format == "onnx":
            yield name, {"label": label}


def _free_shape(subject: Subject) -> Iterator[Hit]:
    for name, axis, label in subject.file.free:
        if axis > 0:
            yield name, {"axis": axis, "label": label}


def _opset(subject: Subject) -> Iterator[Hit]:
    if subject.file.opset > MAX_OPSET:
        yield subject.file.name, {"opset": subject.file.opset, "limit": MAX_OPSET}


def _new_opset(subject: Subject) -> Iterator[Hit]:
    low, high = RECOMMENDED_OPSETS
    opset = subject.file.opset
    if subject.file.format == "onnx" and opset <= MAX_OPSET and not low <= opset <= high:
        yield subject.file.name, {"opset": opset, "low": low, "high": high}


def _ir(subject: Subject) -> Iterator[Hit]:
    if subject.file.ir > MAX_IR:
        yield subject.file.name, {"ir": subject.file.ir, "limit": MAX_IR}


def _unsigned(subject: Subject) -> Iterator[Hit]:
    for name in subject.file.unsigned:
        yield name, {}


def _qoperator(subject: Subject) -> Iterator[Hit]:
    for node in subject.file.nodes:
        if node.op.startswith("QLinear") or node.op in ("ConvInteger", "MatMulInteger"):
            yield node.name, {"op": node.op}


def _never(subject: Subject) -> Iterator[Hit]:
    for node in subject.file.nodes:
        if node.op in NEVER:
            yield node.name, {"op": node.op}


def _allow_zero(subject: Subject) -> Iterator[Hit]:
    for node in subject.file.nodes:
        if node.op == "Reshape" and node.flags.get("allowzero"):
            yield node.name, {}


def _gemm_bias(subject: Subject) -> Iterator[Hit]:
    for node in subject.file.nodes:
        is_bias = node.op == "Gemm" and len(node.computed) > 2 and node.computed[2]
        if is_bias and not node.dequantized[2]:
            yield node.name, {"tensor": node.inputs[2]}


def _clip_bounds(subject: Subject) -> Iterator[Hit]:
    for node in subject.file.nodes:
        if node.op == "Clip" and any(node.dequantized[1:]):
            yield node.name, {}


def _slice_ends(subject: Subject) -> Iterator[Hit]:
    for node in subject.file.nodes:
        odd = [end for end in node.ends if end < 0 or end >= SENTINEL]
        if odd:
            yield node.name, {"end": odd[0]}


def _own_export(subject: Subject) -> Iterator[Hit]:
    if re.search(r"_OE_\d+_\d+_\d+", subject.file.name):
        yield subject.file.name, {}


def _refused(subject: Subject) -> Iterator[Hit]:
    if subject.refusal is not None:
        yield subject.file.name, {"reason": subject.refusal.message, "code": subject.refusal.code}


_ERROR, _WARNING, _INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
LIMITS = "ST Edge AI: quantised model support, operator limits"

RULES: tuple[LintRule, ...] = (
    LintRule("LINT-unreadable", _ERROR, "npuforge's importers", _refused),
    LintRule("LINT-dynamic-shape", _ERROR, LIMITS, _free_shape),
    LintRule("LINT-dynamic-batch", _WARNING, "published case E01", _free_batch),
    LintRule("LINT-opset", _ERROR, "published case E16; " + LIMITS, _opset),
    LintRule("LINT-opset-untried", _INFO, LIMITS, _new_opset),
    LintRule("LINT-ir", _WARNING, "published case E03 (ST Edge AI 2.2)", _ir),
    LintRule("LINT-rejected-operator", _ERROR, "ST Edge AI: supported operators", _never),
    LintRule("LINT-uint8", _ERROR, LIMITS, _unsigned),
    LintRule("LINT-qoperator", _WARNING, LIMITS, _qoperator),
    LintRule("LINT-allowzero", _ERROR, "published case E15", _allow_zero),
    LintRule("LINT-gemm-bias", _ERROR, "published case E04", _gemm_bias),
    LintRule("LINT-clip-bounds", _ERROR, "board reports with ST Edge AI 4.0", _clip_bounds),
    LintRule("LINT-slice-ends", _INFO, "published case E09", _slice_ends),
    LintRule("LINT-own-export", _WARNING, "published case E19", _own_export),
)
