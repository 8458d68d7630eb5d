"""The error hierarchy. Every error has a code, a message that names the culprit, and a hint.

The words live in the message catalogue (`npuforge.messages`), not here: an error is raised with a
code and the values its message needs.
"""

from __future__ import annotations

from npuforge.messages import render


class NpuforgeError(Exception):
    """Something npuforge refuses or could not do.

    Attributes:
        code: stable identifier, for example ``IMP-003``; documented in docs/reference/errors.md.
        params: the values that were put into the message.
        detail: raw output of an external tool, kept unchanged, or ``None``.
        exit_code: what the command line returns: 1 for a failure, 2 for bad usage.
    """

    exit_code = 1

    def __init__(self, code: str, /, *, detail: str | None = None, **params: object) -> None:
        self.code = code
        self.params = params
        self.detail = detail
        self.message, self.hint = render(code, params)
        super().__init__(f"{code}: {self.message}")

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.code, self.detail, self.params))


def _rebuild(
    cls: type[NpuforgeError], code: str, detail: str | None, params: dict[str, object]
) -> NpuforgeError:
    return cls(code, detail=detail, **params)


class UsageError(NpuforgeError):
    """The request itself is wrong: an option, a path or an input array."""

    exit_code = 2


class ModelError(NpuforgeError):
    """A model file that cannot be read, or that says something impossible."""


class UnsupportedError(ModelError):
    """A model that is sound but uses something npuforge does not take."""


class GraphError(NpuforgeError):
    """A graph that breaks one of the rules of `npuforge.graph.verify`."""


class PlanError(NpuforgeError):
    """A memory plan that does not exist or breaks a rule."""


class ToolError(NpuforgeError):
    """An external tool that is missing, failed or timed out."""


class ValidationError(NpuforgeError):
    """Results that are not what the reference says."""
