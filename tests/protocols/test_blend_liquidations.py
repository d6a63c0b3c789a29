"""Events of Blend's pools about auctions, bad debt and claims; tests/host compares v2 with the deployed code."""

from __future__ import annotations

import pytest

from exporter.errors import DecodeError
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import VOID, address, i128, struct_map, symbol, u32, vec
from exporter.ledger.events import ContractEvent
from exporter.protocols.base import Liquidation
from exporter.protocols.blend.liquidations import liquidations_in
from tests.protocols.made_ledger import account, contract

POOL, USDC, XLM, LP = (contract(label) for label in ("pool", "USDC", "XLM", "LP"))
USER, FILLER = account("user"), account("filler")
BACKSTOP = contract("backstop")


def amounts(**held: int) -> ScVal:
    tokens = {"usdc": USDC, "xlm": XLM, "lp": LP}
    return (17, tuple((address(tokens[name]), i128(amount)) for name, amount in held.items()))


AUCTION = struct_map({"bid": amounts(usdc=70, xlm=5), "block": u32(1_000), "lot": amounts(xlm=900)})
OF_USER = Liquidation("new_auction", "user_liquidation", USER)


def said(topics: tuple[ScVal, ...], value: ScVal) -> list[Liquidation]:
    return list(liquidations_in(ContractEvent(POOL, 7, topics, value)))


def rows(common: Liquidation) -> list[Liquidation]:
    """A row for each token of `AUCTION`."""
    parts = [("bid", USDC, 70), ("bid", XLM, 5), ("lot", XLM, 900)]
    return [common._replace(side=side, token_address=token, amount=amount) for side, token, amount in parts]


@pytest.mark.parametrize(
    ("topics", "value", "expected"),
    [
        # v2
        (("new_auction", u32(0), USER), vec(u32(60), AUCTION), rows(OF_USER._replace(percent=60))),
        (
            ("fill_auction", u32(1), BACKSTOP),
            vec(address(FILLER), i128(100), AUCTION),
            rows(Liquidation("fill_auction", "bad_debt", BACKSTOP, FILLER, 100)),
        ),
        (("delete_auction", u32(0), USER), VOID, [Liquidation("delete_auction", "user_liquidation", USER)]),
        (("bad_debt", USER, USDC), i128(12), [Liquidation("bad_debt", user=USER, token_address=USDC, amount=12)]),
        (("defaulted_debt", USDC), i128(12), [Liquidation("defaulted_debt", token_address=USDC, amount=12)]),
        # precept, v0.1.1 with the user
        (
            ("defaulted_debt", USER, USDC),
            i128(12),
            [Liquidation("defaulted_debt", user=USER, token_address=USDC, amount=12)],
        ),
        (("debt_setoff", USDC), vec(i128(9), i128(12)), [Liquidation("debt_setoff", token_address=USDC, amount=12)]),
        (
            ("debt_setoff", USER, USDC),
            vec(i128(9), i128(12)),
            [Liquidation("debt_setoff", user=USER, token_address=USDC, amount=12)],
        ),
        (("claim", USER), vec(vec(u32(1), u32(6)), i128(12)), [Liquidation("claim", user=USER, amount=12)]),
        # v1
        (("new_liquidation_auction", USER), AUCTION, rows(OF_USER)),
        (("new_auction", u32(2)), AUCTION, rows(Liquidation("new_auction", "interest"))),
        (
            ("fill_auction", USER, u32(0)),
            vec(address(FILLER), i128(40)),
            [Liquidation("fill_auction", "user_liquidation", USER, FILLER, 40)],
        ),
        (("delete_liquidation_auction", USER), VOID, [Liquidation("delete_auction", "user_liquidation", USER)]),
        (
            ("bad_debt", USER),
            vec(address(USDC), i128(9)),
            [Liquidation("bad_debt", None, USER, None, None, None, USDC, 9)],
        ),
        # others
        (("supply", USDC, USER), vec(i128(1), i128(1)), []),
    ],
)
def test_what_an_event_says(topics: tuple[ScVal | str, ...], value: ScVal, expected: list[Liquidation]) -> None:
    """Each form of both generations gives a row for each token, or one without."""
    name, *others = topics
    encoded = [address(item) if isinstance(item, str) else item for item in others]

    assert expected == said((symbol(str(name)), *encoded), value)
    assert [] == said((), VOID)  # an event without a name


@pytest.mark.parametrize(
    ("topics", "value"),
    [
        ((symbol("new_auction"), u32(3), address(USER)), vec(u32(60), AUCTION)),
        ((symbol("new_auction"), address(USER)), AUCTION),
        ((symbol("new_auction"), u32(0), address(USER)), vec(u32(60), struct_map({"block": u32(1)}))),
        ((symbol("new_auction"), u32(0), address(USER)), vec(u32(60), struct_map({"bid": AUCTION, "lot": AUCTION}))),
        ((symbol("bad_debt"), address(USER), address(USDC)), vec()),
        ((symbol("defaulted_debt"), u32(1)), i128(1)),
        ((symbol("defaulted_debt"), *(address(each) for each in (USER, USER, USDC))), i128(1)),
        ((symbol("debt_setoff"), address(USDC)), i128(1)),
        ((symbol("claim"), address(USER)), vec(vec(u32(1)))),
    ],
)
def test_an_event_of_another_form(topics: tuple[ScVal, ...], value: ScVal) -> None:
    """An event of another form is refused with a `DecodeError`, which costs that event."""
    with pytest.raises(DecodeError):
        said(topics, value)
