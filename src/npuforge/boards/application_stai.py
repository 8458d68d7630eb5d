"""The "stai" interface of a network on the virtual board: its header and the calls behind it.

Names and order of arguments: published applications and the interface's public header.
"""

from __future__ import annotations

from npuforge.boards.application_network import BoardNetwork


def stai_header(name: str, network: BoardNetwork) -> str:
    """What an application includes as ``stai_NAME.h``: counts, sizes and calls of the network."""
    upper = f"STAI_{name.upper()}"
    lines = [f"#ifndef NPUFORGE_{upper}_H", f"#define NPUFORGE_{upper}_H", '#include "stai.h"', ""]
    lines += [f"#define {upper}_CONTEXT_SIZE NPUFORGE_STAI_CONTEXT"]
    for role, buffers in (("IN", network.inputs), ("OUT", network.outputs)):
        lines.append(f"#define {upper}_{role}_NUM ({len(buffers)})")
        lines += [
            f"#define {upper}_{role}_{i}_SIZE_BYTES ({buffer.size})"
            for i, buffer in enumerate(buffers, 1)
        ]
    lines += ["", *(f"{head};" for head, _ in _calls(name)), "", "#endif", ""]
    return "\n".join(lines)


def stai_source(name: str) -> list[str]:
    """Lines of C: the calls, each with the place that it came from."""
    state = f"stai_of_{name}"
    lines = [
        f"LL_ATON_DECLARE_NAMED_NN_INTERFACE({name});",
        f'static vb_stai {state} = {{.name = "{name}", .network = &npuforge_network_{name},',
        f"    .instance = {{&NN_Interface_{name}}}}};",
    ]
    for head, body in _calls(name):
        lines.append(f"{head} {{ (void)c; {body.replace('@', '&' + state)} }}")
    return lines


def _calls(name: str) -> list[tuple[str, str]]:
    code, own, extended = "stai_return_code", f"stai_{name}", f"stai_ext_{name}"
    object_ = "stai_network *c"
    return [
        (f"{code} {own}_init({object_})", "return vb_stai_init(@, c, HERE);"),
        (f"{code} {own}_deinit({object_})", "return vb_stai_deinit(@);"),
        (f"{code} {own}_run({object_}, stai_run_mode mode)", "return vb_stai_run(@, mode, HERE);"),
        (f"{code} {own}_get_error({object_})", "return (@)->error;"),
        (f"{code} {own}_get_info({object_}, stai_network_info *info)",
         "return vb_stai_info(@, info);"),
        (f"{code} {own}_get_inputs({object_}, stai_ptr *p, stai_size *n)",
         "return vb_stai_get(@, 0, p, n, HERE);"),
        (f"{code} {own}_get_outputs({object_}, stai_ptr *p, stai_size *n)",
         "return vb_stai_get(@, 1, p, n, HERE);"),
        (f"{code} {own}_set_inputs({object_}, const stai_ptr *p, const stai_size n)",
         "return vb_stai_set(@, 0, p, n, HERE);"),
        (f"{code} {own}_set_outputs({object_}, const stai_ptr *p, const stai_size n)",
         "return vb_stai_set(@, 1, p, n, HERE);"),
        (f"{code} {extended}_new_inference({object_})",
         "return vb_stai_new_inference(@, HERE);"),
        (f"{code} {extended}_run_continue({object_})", "return vb_stai_continue(@, HERE);"),
        (f"{code} {extended}_get_nn_run_status({object_})", "return (@)->status;"),
    ]  # fmt: skip
