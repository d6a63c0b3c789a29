"""The parameters of a pool's rate model and limits, under the names and with the scales of its contract."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from exporter.ledger.codec import scval
from exporter.ledger.codec.fields import Fields

_LARGEST = {scval.BOOL: None, scval.U32: 2**32 - 1, scval.U64: 2**64 - 1, scval.I128: 2**127 - 1}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: ``value`` is to be divided by 10^``decimals``; a yes or no is 1 or 0.

    With ``no_limit`` the contract takes this value to mean that there is no limit.
    """

    name: str
    value: int
    decimals: int
    no_limit: bool = False


def parameters_of(fields: Fields, decimals: Mapping[str, int]) -> Iterator[Parameter]:
    """The fields of a struct that are numbers, in the order of ``decimals``, which has the scale of each.

    One that is missing or no number is left out: nothing is computed from these, they are only shown. The largest
    number that there is of its kind limits nothing.
    """
    for name, scale in decimals.items():
        value = fields.get(name)
        if value is not None and value[0] in _LARGEST:
            yield Parameter(name, int(value[1]), scale, no_limit=value[1] == _LARGEST[value[0]])
