"""The "stai" interface of a network on the virtual board: its header and the calls behind it.

Names, order of arguments and what the macros of a tensor mean: published applications and headers
that ST's compiler wrote for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from npuforge.boards.application_network import BoardBuffer, BoardNetwork

_FORMATS = {"FLOAT": "FLOAT32", "BOOL": "BOOL"}


def stai_header(name: str, network: BoardNetwork) -> str:
    """What an application includes as ``stai_NAME.h``: the network's tensors and calls."""
    upper = f"STAI_{name.upper()}"
    lines = [f"#ifndef NPUFORGE_{upper}_H", f"#define NPUFORGE_{upper}_H"]
    lines += ['#include "ll_aton_runtime.h"', '#include "stai.h"', ""]
    for key, value in (
        ("CONTEXT_SIZE", "NPUFORGE_STAI_CONTEXT"), ("CONTEXT_ALIGNMENT", 8),
        ("C_MODEL_NAME", f'"{name}"'), ("ORIGIN_MODEL_NAME", f'"{name}"'),
        ("FLAGS", "(STAI_FLAG_INPUTS | STAI_FLAG_OUTPUTS)"),
        ("WEIGHTS_NUM", 0), ("ACTIVATIONS_NUM", 0), ("STATES_NUM", 0), ("STATES_SIZE", 0),
    ):  # fmt: skip
        lines.append(f"#define {upper}_{key} {value}")
    for role, buffers in (("IN", network.inputs), ("OUT", network.outputs)):
        lines += _arrays(f"{upper}_{role}", role, buffers)
        for number, buffer in enumerate(buffers, 1):
            facts = _facts(buffer, role)
            lines += [f"#define {upper}_{role}_{number}_{k} {v}" for k, v in facts.items()]
    lines += ["", *(f"{head};" for head, _ in _calls(name))]
    lines.append(f"static inline stai_size stai_{name}_get_context_size(void)")
    lines += [f"{{ return {upper}_CONTEXT_SIZE; }}", "", "#endif", ""]
    return "\n".join(lines)


def _arrays(head: str, role: str, buffers: tuple[BoardBuffer, ...]) -> list[str]:
    """The number of tensors, and each of some facts for all of them."""
    all_facts = [_facts(buffer, role) for buffer in buffers]
    plural = (
        ("ALIGNMENT", "ALIGNMENTS"), ("NAME", "NAMES"), ("FORMAT", "FORMATS"),
        ("SIZE", "SIZES"), ("SIZE_BYTES", "SIZES_BYTES"),
    )  # fmt: skip
    lines = [f"#define {head}_NUM ({len(buffers)})"]
    for key, name in plural:
        lines.append(f"#define {head}_{name} {_braces(facts[key] for facts in all_facts)}")
    return lines


def _facts(buffer: BoardBuffer, role: str) -> dict[str, str]:
    """What the header says of a tensor, in macros."""
    batch, height, width, channels = _axes(buffer)
    elements = batch * height * width * channels
    form = _FORMATS.get(buffer.element) or buffer.element.replace("UINT", "U").replace("INT", "S")
    flags = [] if buffer.user else ["PREALLOCATED"]
    flags += ["OVERRIDE"] if role == "OUT" else []
    if len(buffer.shape) > 2:
        flags.append("CHANNEL_FIRST" if buffer.channel_first else "CHANNEL_LAST")
    scaled = buffer.scale != 0
    return {
        "ALIGNMENT": "(32)",
        "NAME": f'"{_plain(buffer.name)}"',
        "FLAGS": f"({' | '.join(f'STAI_FLAG_{flag}' for flag in flags) or 'STAI_FLAG_NONE'})",
        "FORMAT": f"(STAI_FORMAT_{form})",
        "SIZE": f"({elements})",
        "SIZE_BYTES": f"({buffer.size})",
        "CHANNEL": f"({channels})",
        "HEIGHT": f"({height})",
        "WIDTH": f"({width})",
        "BATCH": f"({batch})",
        "RANK": f"({len(buffer.shape) or 1})",
        "SHAPE": _braces(map(str, buffer.shape or (1,))),
        "SCALE_OFFSET_NUM": f"({int(scaled)})",
        "SCALES": _braces([repr(float(buffer.scale))] if scaled else []),
        "OFFSETS": _braces([str(buffer.zero_point)] if scaled else []),
    }


def _axes(buffer: BoardBuffer) -> tuple[int, int, int, int]:
    """Batch, height, width and channels of a tensor as it lies in memory."""
    shape = buffer.shape
    if len(shape) < 3:
        height, width = (1, 1, *shape)[-2:]
        return 1, height, width, 1
    first, second, third = shape[-3:]
    batch = prod(shape[:-3])
    if buffer.channel_first:
        return batch, second, third, first
    return batch, first, second, third


def _braces(items: Iterable[str]) -> str:
    return "{" + ", ".join(items) + "}"


def _plain(text: str) -> str:
    return "".join(c if c.isalnum() or c in "._-/" else "_" for c in text)


def stai_source(name: str, network: BoardNetwork) -> list[str]:
    """Lines of C: the tensors, and the calls, each with the place that it came from."""
    state, upper = f"stai_of_{name}", f"STAI_{name.upper()}"
    lines = [f'#include "made/stai_{name}.h"', f"LL_ATON_DECLARE_NAMED_NN_INTERFACE({name});"]
    for role, buffers in (("IN", network.inputs), ("OUT", network.outputs)):
        for number, buffer in enumerate(buffers, 1):
            head = f"{upper}_{role}_{number}"
            lines.append(f"static const int32_t {head.lower()}_shape[] = {head}_SHAPE;")
            if buffer.scale != 0:
                lines.append(f"static const float {head.lower()}_scale[] = {head}_SCALES;")
                lines.append(f"static const int16_t {head.lower()}_zero[] = {head}_OFFSETS;")
        lines.append(f"static const stai_tensor {upper.lower()}_{role.lower()}[] = {{")
        for number, buffer in enumerate(buffers, 1):
            head = f"{upper}_{role}_{number}"
            scale = [f"{{1, {head.lower()}_{what}}}" for what in ("scale", "zero")]
            given = scale if buffer.scale != 0 else ["{0, NULL}"] * 2
            lines.append(
                f"    {{{head}_SIZE_BYTES, {head}_FLAGS, {head}_FORMAT, "
                f"{{{head}_RANK, {head.lower()}_shape}}, {', '.join(given)}, {head}_NAME}},"
            )
        lines.append("    {0}};")
    lines += [
        f'static vb_stai {state} = {{.name = "{name}", .network = &npuforge_network_{name},',
        f"    .instance = {{&NN_Interface_{name}}}, .inputs = {upper.lower()}_in,",
        f"    .outputs = {upper.lower()}_out}};",
    ]
    for head, body in _calls(name):
        lines.append(f"{head} {{ (void)c; {body.replace('@', '&' + state)} }}")
    return lines


def _calls(name: str) -> list[tuple[str, str]]:
    code, own, extended = "stai_return_code", f"stai_{name}", f"stai_ext_{name}"
    object_ = "stai_network *c"
    return [
        (f"{code} {own}_init({object_})", "return vb_stai_init(@, c, HERE);"),
        (f"{code} {own}_deinit({object_})", "return vb_stai_deinit(@, c, HERE);"),
        (f"{code} {own}_run({object_}, const stai_run_mode mode)",
         "return vb_stai_run(@, c, mode, HERE);"),
        (f"{code} {own}_get_error({object_})", "return (@)->error;"),
        (f"{code} {own}_set_callback({object_}, const stai_event_cb callback, void *cookie)",
         "return vb_stai_set_callback(@, c, callback, cookie);"),
        (f"{code} {own}_get_info({object_}, stai_network_info *info)",
         "return vb_stai_info(@, c, info, HERE);"),
        (f"{code} {own}_get_inputs({object_}, stai_ptr *p, stai_size *n)",
         "return vb_stai_get(@, c, 0, p, n, HERE);"),
        (f"{code} {own}_get_outputs({object_}, stai_ptr *p, stai_size *n)",
         "return vb_stai_get(@, c, 1, p, n, HERE);"),
        (f"{code} {own}_set_inputs({object_}, const stai_ptr *p, const stai_size n)",
         "return vb_stai_set(@, c, 0, p, n, HERE);"),
        (f"{code} {own}_set_outputs({object_}, const stai_ptr *p, const stai_size n)",
         "return vb_stai_set(@, c, 1, p, n, HERE);"),
        *_absent(own, object_),
        (f"{code} {extended}_new_inference({object_})",
         "return vb_stai_new_inference(@, c, HERE);"),
        (f"{code} {extended}_run_continue({object_})", "return vb_stai_continue(@, c, HERE);"),
        (f"{code} {extended}_get_nn_run_status({object_})", "return (@)->status;"),
    ]  # fmt: skip


def _absent(own: str, object_: str) -> list[tuple[str, str]]:
    """Calls about what lies within the network here: none is counted, none can be set."""
    calls = []
    for what, error in (
        ("weights", "WEIGHTS_NUM"), ("activations", "ACTIVATIONS_NUM"), ("states", "STATES_NUM"),
    ):  # fmt: skip
        code = f"STAI_ERROR_NETWORK_INVALID_{error}"
        calls += [
            (f"stai_return_code {own}_get_{what}({object_}, stai_ptr *p, stai_size *n)",
             "(void)p; return vb_stai_none(@, n);"),
            (f"stai_return_code {own}_set_{what}({object_}, const stai_ptr *p, const stai_size n)",
             f"(void)p; return vb_stai_set_none(@, n, {code});"),
        ]  # fmt: skip
    return calls
