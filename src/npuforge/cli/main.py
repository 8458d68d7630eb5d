"""Entry point of the command line.

Exit codes: 0 done, 1 a finding or a failure, 2 bad usage (an option, a path, an input array).
"""

from __future__ import annotations

import sys

import typer

from npuforge import __version__
from npuforge.cli.common import print_error
from npuforge.cli.verbs import OTHER_NAMES, VERBS
from npuforge.errors import NpuforgeError

app = typer.Typer(
    help="From a trained network to a validated deployment on a microcontroller with an NPU.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"npuforge {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Options in front of the verb."""


for _name, _command in VERBS.items():
    app.command(_name)(_command)
for _name, _verb in OTHER_NAMES.items():
    app.command(_name, hidden=True)(VERBS[_verb])


def main() -> None:
    """Run the command line and exit the process."""
    try:
        app()
    except NpuforgeError as error:
        print_error(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        # the reader of our output (head, less) has gone; keep Python from flushing into it
        sys.stdout = None
        sys.exit(0)


if __name__ == "__main__":
    main()
