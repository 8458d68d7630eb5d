"""`npuforge targets`: the boards and their memories."""

from __future__ import annotations

import typer


def command(
    name: str | None = typer.Argument(
        None, help="Board or its .toml file; all boards when left out."
    ),
    as_json: bool = typer.Option(False, "--json", help="One JSON document on standard output."),
) -> None:
    """List the targets, or show the pools, clocks and units of one."""
    from npuforge import api
    from npuforge.cli.common import console, print_json, print_table
    from npuforge.report import human_bytes, target_document
    from npuforge.targets import load_target

    targets = list(api.iter_targets()) if name is None else [load_target(name)]
    if as_json:
        documents = [target_document(target) for target in targets]
        print_json(documents if name is None else documents[0])
        return
    if name is None:
        print_table(
            "targets",
            ("name", "board", "accelerators", "operating points"),
            [
                (t.name, t.title, ", ".join(t.accelerators), ", ".join(t.operating_points))
                for t in targets
            ],
        )
        return
    target = targets[0]
    console().print(f"{target.name}: {target.title}\n", markup=False)
    print_table(
        "memory pools",
        ("pool", "holds", ">base", ">size", ">width", "reach", "cacheable"),
        [
            (
                pool.name,
                pool.use,
                f"{pool.base:#010x}",
                human_bytes(pool.size),
                f"{8 * pool.width} bit",
                " ".join(pool.reach),
                "yes" if pool.cacheable else "no",
            )
            for pool in target.pools
        ],
    )
    console().print()
    print_table(
        "operating points",
        ("name", ">CPU", ">NPU", ">NPU RAM", ">bus"),
        [
            (
                p.name,
                *(
                    f"{v:g} MHz" if v else "-"
                    for v in (p.cpu_mhz, p.npu_mhz, p.npu_ram_mhz, p.bus_mhz)
                ),
            )
            for p in target.operating_points.values()
        ],
    )
