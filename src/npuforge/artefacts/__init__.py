"""Readers of foreign formats: bytes in, frozen dataclasses out, no judgement."""
