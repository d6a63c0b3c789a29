"""Peridot's vaults from entries: totals where no cash is boosted."""

from __future__ import annotations

from exporter.ledger.codec import scval
from exporter.ledger.codec.scval import ScVal
from exporter.ledger.codec.scval_encode import address, i128, symbol, u64, vec
from tests.ledger.storage_rules.stored import NOW, Stored, by_variant
from tests.protocols.made_ledger import contract

VAULT = contract("a vault")


def u128(value: int) -> ScVal:
    return (scval.U128, value)


def vault(cash: int | None = 500, *, boosted: bool = False) -> Stored:
    """A vault that lends 300, with 20 set aside."""
    stored = Stored()
    stored.deploy(VAULT, by_variant(TotalSupply=i128(77)))
    entries = {
        "UnderlyingToken": address(contract("a token")),
        "BorrowIndex": u128(10**18),
        "TotalBorrowed": u128(300),
        "LastUpdateTime": u64(NOW),
        "TotalReserves": u128(15),
        "TotalAdminFees": u128(5),
    }
    entries |= {} if cash is None else {"ManagedCash": u128(cash)}
    entries |= {"BoostedVault": address(contract("boosted"))} if boosted else {}
    for name, value in entries.items():
        stored.put(VAULT, vec(symbol(name)), value)
    return stored


def test_the_totals_of_a_vault() -> None:
    """Suppliers own cash and what is lent less what is set aside; what is lent cannot be paid out."""
    functions = ("get_total_ptokens", "get_total_borrowed", "get_total_underlying", "get_available_liquidity")

    assert [u128(77), u128(300), u128(780), u128(480)] == [vault().value(VAULT, function) for function in functions]
    assert u128(0) == vault(cash=10).value(VAULT, "get_available_liquidity")


def test_what_is_not_in_the_vaults_entries() -> None:
    """Boosted cash is worth what another contract says, and a vault that has not counted its cash says nothing."""
    assert "not from storage: the vault has boosted its cash" in vault(boosted=True).error(
        VAULT, "get_available_liquidity"
    )
    assert "not from storage: the vault has not counted its cash yet" == vault(cash=None).error(
        VAULT, "get_total_underlying"
    )
