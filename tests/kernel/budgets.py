"""Annotations that make reading a value costly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass
class Counted:
    """Counts how often one is made."""

    made: ClassVar[int] = 0

    def __post_init__(self) -> None:
        Counted.made += 1


@dataclass
class Left(Counted):
    inner: Left | Right | Leaf


@dataclass
class Right(Counted):
    inner: Left | Right | Leaf


@dataclass
class Leaf(Counted):
    number: int


@dataclass
class Long:
    x: int
    y: int = 0
