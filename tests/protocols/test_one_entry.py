"""One entry never costs more than its pool: every entry of every protocol, changed in every way."""

from __future__ import annotations

import pytest

from exporter.localnet.player import RecordedNetwork
from exporter.protocols import PROTOCOLS
from tests.protocols.one_entry import ANOTHER, sweep

DEFAULTS: dict[str, tuple[str, ...]] = {
    "k2": ("(APARAMS,", "(Balance,", "(RDEBTCEIL,", "instance.BVR", "instance.OU", "instance.PAUSED", "instance.VS1"),
    "peridot": (
        "(AdminFeeScaled)",
        "(BoostedUnderly",
        "(BoostedVault)",
        "(InterestModel)",
        "(ManagedCash)",
        "(Pause",
        "(ReserveFactorS",
        "(TotalAdminFees)",
        "(TotalReserves)",
        "instance.(TotalSupply)",
        "(BorrowCap)",
        "(LiquidationInc",
        "(MarketCF,",
        "(Peridottroller)",
        "(SupplyCap)",
        "(SupportedMarke",
    ),
    "slender": ("instance.(ProtocolFeeVau", "instance.(TokenSupply"),
    "xoxno": ("(Hub,", "(Spoke,", "(SpokeAsset,", "(SpokeUsage,"),
}
"""What may be missing: the contract itself then has another number, and so has the row. Where that is not so, the
reader has to say that the pool is unread, and the name has no place here."""

SHARED: dict[str, tuple[str, ...]] = {
    "alula": ("(AllPools)", "instance."),
    "blend": ("ResList", "instance."),
    "k2": ("RLIST", "RCOUNT", "instance."),
    "peridot": (
        "(SupportedMarke",
        "(Oracle",
        "(LiquidationInc",
        "(PeridotToken",
        "(Pause",
        "(JumpMultiplier",
        "(Kink",
        "(MultiplierPerY",
        "(BaseRatePerYea",
        "instance.",
    ),
    "slender": ("instance.(Reserves)", "instance.(PoolConfig)", "instance.(Pause)"),
    "xoxno": ("instance.",),
}
"""What several pools hang on; whatever becomes of another entry costs one pool at the most."""


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["of each name", "each"])
@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_one_entry(protocol: str, every: bool) -> None:
    """Whatever becomes of one entry, each row is the same or unread with a reason; none is lost, and no run stops.

    A market that may lack pools, or has none, is named in a notice. The reason is what happened, and names the field. A
    field that is added, as by an upgrade, costs nothing.
    """
    swept = sweep(RecordedNetwork(), protocol, every=every)

    kinds = {kind for kind, _ in swept.counts}
    assert {"absent", "archived", "unknown kind", "wrong type", "field less", "field more", ANOTHER} == kinds
    assert swept.changes > (20 if every else 10) * len(kinds)
    assert [] == swept.stopped
    assert [] == swept.lost
    assert ("field more", "unread") not in swept.counts
    assert set() == {what for what in swept.dear if what != "instance" and not what.startswith(SHARED[protocol])}
    excused = (*DEFAULTS.get(protocol, ()), "instance.(ReserveAssetKe")  # whose value is called by its type
    assert [] == [item for item in swept.odd if not item[1].startswith(excused)]
    silent = {
        change: columns
        for change, columns in swept.changed.items()
        if change[0] not in ("absent", "field less") or not change[1].startswith(DEFAULTS.get(protocol, ("-",)))
    }
    assert {} == silent
