"""Typed access to foreign JSON documents: every complaint names the file and the field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from npuforge.errors import ModelError

MAX_BYTES = 1 << 28
_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_UNITS = {"BYTES": 1, "KBYTES": 1 << 10, "MBYTES": 1 << 20, "GBYTES": 1 << 30}


@dataclass(frozen=True)
class Fields:
    """An object of a foreign document and where it stands.

    Attributes:
        file: name of the document, for messages.
        where: path of the object inside it, for messages.
        values: the object.
    """

    file: str
    where: str
    values: dict[str, Any]

    def refuse(self, name: str, reason: str) -> ModelError:
        """The error for a field."""
        return ModelError("CMP-001", path=self.file, field=f"{self.where}.{name}", reason=reason)

    def pick(self, *names: str) -> tuple[str, Any]:
        """First spelling that is there, and its value (None when none is)."""
        for name in names:
            if name in self.values:
                return name, self.values[name]
        return names[0], None

    def text(self, *names: str, default: str | None = None) -> str:
        """A string; numbers are taken as they are written. Raises CMP-001."""
        name, value = self.pick(*names)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self.refuse(name, "text expected")
        return str(value)

    def number(self, *names: str, default: float | None = None) -> float:
        """A number, also when written as text. Raises CMP-001."""
        name, value = self.pick(*names)
        if value is None and default is not None:
            return default
        try:
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise ValueError
            if isinstance(value, str) and "x" in value.lower():
                return float(int(value, 0))
            return float(value)
        except (ValueError, OverflowError):
            raise self.refuse(name, "number expected") from None

    def integer(self, *names: str, default: int | None = None) -> int:
        """A whole number, also as decimal or hexadecimal text. Raises CMP-001."""
        name, value = self.pick(*names)
        if value is None and default is not None:
            return default
        try:
            if isinstance(value, str):
                return int(value, 0)
            if isinstance(value, bool) or int(value) != value:
                raise ValueError
            return int(value)
        except (ValueError, TypeError, OverflowError):
            raise self.refuse(name, "whole number expected") from None

    def flag(self, *names: str, default: bool = False) -> bool:
        """A truth value, also as text or 0/1. Raises CMP-001."""
        name, value = self.pick(*names)
        if value is None:
            return default
        if value in (True, "true", "1"):
            return True
        if value in (False, "false", "0"):
            return False
        raise self.refuse(name, "true or false expected")

    def part(self, name: str) -> Fields:
        """A nested object; empty when it is absent. Raises CMP-001."""
        value = self.values.get(name)
        if not isinstance(value, dict | None):
            raise self.refuse(name, "object expected")
        return Fields(self.file, f"{self.where}.{name}", value or {})

    def items(self, name: str) -> tuple[Any, ...]:
        """A list; empty when it is absent. Raises CMP-001."""
        value = self.values.get(name)
        if not isinstance(value, list | None):
            raise self.refuse(name, "list expected")
        return tuple(value or ())

    def parts(self, name: str) -> Iterator[Fields]:
        """The objects of a list. Raises CMP-001."""
        for n, value in enumerate(self.items(name)):
            if not isinstance(value, dict):
                raise self.refuse(f"{name}[{n}]", "object expected")
            yield Fields(self.file, f"{self.where}.{name}[{n}]", value)

    def integers(self, name: str) -> tuple[int, ...]:
        """A list of whole numbers. Raises CMP-001."""
        found = self.items(name)
        if any(isinstance(value, bool) or not isinstance(value, int) for value in found):
            raise self.refuse(name, "whole numbers expected")
        return found

    def numbers(self, name: str) -> tuple[float, ...]:
        """A list of numbers. Raises CMP-001."""
        found = self.items(name)
        if any(isinstance(value, bool) or not isinstance(value, int | float) for value in found):
            raise self.refuse(name, "numbers expected")
        return tuple(float(value) for value in found)

    def bytes(self, name: str) -> int:
        """``{value, magnitude}`` in bytes. Raises CMP-001."""
        part = self.part(name)
        unit = part.text("magnitude", default="BYTES").upper()
        if unit not in _UNITS:
            raise part.refuse("magnitude", f"{unit} is no unit")
        return part.integer("value", default=0) * _UNITS[unit]


def read_json(content: bytes, file: str) -> Fields:
    """A JSON document whose top is an object; ``//`` and ``/* */`` comments are skipped.

    Raises:
        ModelError: CMP-001 when the text is no such document.
    """
    top = Fields(file, "$", {})
    if len(content) > MAX_BYTES:
        raise top.refuse("", f"{len(content)} bytes")
    try:
        text = content.decode("utf-8-sig")
        document = json.loads(_COMMENT.sub(lambda match: match[1] or " ", text))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise top.refuse("", str(error)) from None
    if not isinstance(document, dict):
        raise top.refuse("", "object expected")
    return Fields(file, "$", document)
