"""Kinds of values that the payload tests carry."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import (
    TYPE_CHECKING,
    Generic,
    NamedTuple,
    NewType,
    NotRequired,
    TypedDict,
    TypeVar,
)

if TYPE_CHECKING:
    from fractions import Fraction

T = TypeVar("T")
OrderId = NewType("OrderId", int)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Word(enum.StrEnum):
    YES = "yes"


class Level(enum.IntEnum):
    LOW = 1


class Right(enum.Flag):
    READ = 1
    WRITE = 2


class Shape(enum.Enum):
    SQUARE = (4, "square")


@dataclass(frozen=True)
class Line:
    sku: str
    price: Decimal
    count: int = 1


@dataclass
class Receipt:
    number: str
    lines: list[Line]
    paid_at: datetime | None = None
    total: int = field(init=False, default=0)


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)


@dataclass
class Box(Generic[T]):
    inside: T


@dataclass
class Picky:
    number: int

    def __post_init__(self):
        if self.number > 3:
            raise RuntimeError("too much")


class Point(NamedTuple):
    x: int
    y: float = 0.0


class Address(TypedDict):
    town: str
    zip: NotRequired[str]


@dataclass
class Hidden:
    part: Fraction
