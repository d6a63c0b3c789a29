"""The parameters of a pool's rate model and limits, under the names and with the scales of its contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from exporter.ledger import scval
from exporter.ledger.fields import Fields

_NUMBERS = frozenset({scval.BOOL, scval.U32, scval.U64, scval.I128})


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: ``value`` is to be divided by 10^``decimals``; a yes or no is 1 or 0."""

    name: str
    value: int
    decimals: int


def parameters_of(fields: Fields, decimals: Mapping[str, int]) -> Iterator[Parameter]:
    """The fields of a struct that are numbers, in the order of ``decimals``, which has the scale of each.

    One that is missing or no number is left out: nothing is computed from these, they are only shown.
    """
    for name, scale in decimals.items():
        value = fields.get(name)
        if value is not None and value[0] in _NUMBERS:
            yield Parameter(name, int(value[1]), scale)
