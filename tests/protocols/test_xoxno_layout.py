"""How XOXNO's entries are found and decoded, and what is refused."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from exporter.deployments import deployments_of
from exporter.errors import DecodeError
from exporter.ledger.codec import scval
from exporter.ledger.codec.scval_encode import address, string, symbol, u32, u64
from exporter.protocols.base import Parameter
from exporter.protocols.xoxno import layout
from exporter.protocols.xoxno.layout import HubAsset
from tests.judges.xoxno_judge import RAY
from tests.protocols.made_ledger import Written, account, contract, entry_of, instance
from tests.protocols.xoxno_ledger import CODE, JUDGED, PARAMETERS, controller, flag, parameters, pool_id, state

XLM = "CAS3J7GYLGXMF6TDJBBYYSE3HQ6BBSMLNUQ34T6TZMYMW2EVH34XOWMA"
MAINNET_POOL = "CBXRNDQMAJFG4VUKMKFEMFS75UUXE2SPSNV4LEEFCSNBCN66PYRWBKXO"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        pytest.param(
            layout.parameters_key,
            "AAAABgAAAAFvFo4MAkpuVopiikYWX+0pcmpPk2vFkIUUmhE33n4jYAAAABAAAAABAAAAAgAAAA8AAAAGUGFyYW1zAAAAAAARAAAAAQAA"
            "AAIAAAAPAAAABWFzc2V0AAAAAAAAEgAAAAEltPzYWa7C+mNIQ4xImzw8EMmLbSG+T9PLMMtolT75dwAAAA8AAAAGaHViX2lkAAAAAAAD"
            "AAAAAQAAAAE=",
            id="Params",
        ),
        pytest.param(
            layout.state_key,
            "AAAABgAAAAFvFo4MAkpuVopiikYWX+0pcmpPk2vFkIUUmhE33n4jYAAAABAAAAABAAAAAgAAAA8AAAAFU3RhdGUAAAAAAAARAAAAAQAA"
            "AAIAAAAPAAAABWFzc2V0AAAAAAAAEgAAAAEltPzYWa7C+mNIQ4xImzw8EMmLbSG+T9PLMMtolT75dwAAAA8AAAAGaHViX2lkAAAAAAAD"
            "AAAAAQAAAAE=",
            id="State",
        ),
    ],
)
def test_keys(key: Any, expected: str) -> None:
    """The keys of XLM in hub 1 on mainnet are those of stellar-sdk's own encoding, byte for byte."""
    assert base64.b64decode(expected) == key(MAINNET_POOL, HubAsset(1, XLM))


def test_pool_ids() -> None:
    """A pool id is the hub's number and the token, and comes back as such."""
    assert f"12-{XLM}" == HubAsset(12, XLM).pool
    assert HubAsset(12, XLM) == layout.hub_asset(f"12-{XLM}")


@pytest.mark.parametrize(
    "text",
    [
        "", "1", XLM, f"-{XLM}", f"1-{XLM[:-1]}", f"1-{XLM[:-1]}B", f"01-{XLM}", f"+1-{XLM}", f"1 -{XLM}", f"1-{XLM}-",
        f"4294967296-{XLM}", f"{'9' * 5_000}-{XLM}", f"\N{ARABIC-INDIC DIGIT ONE}-{XLM}", f"1-{account('a')}",
    ],
)  # fmt: skip
def test_other_pool_ids(text: str) -> None:
    """Only the one spelling of a hub's 32-bit number and a contract is a pool id."""
    with pytest.raises(DecodeError, match="no pool of XOXNO"):
        layout.hub_asset(text)


def test_every_listed_pool_is_one() -> None:
    """XOXNO's 31 hub markets are listed for mainnet, each id of its own token and once."""
    (mainnet,) = (item for item in deployments_of("mainnet") if item.protocol == "xoxno")
    (testnet,) = (item for item in deployments_of("testnet") if item.protocol == "xoxno")
    pools = [layout.hub_asset(pool.pool) for pool in mainnet.pools]

    assert [pool.token for pool in pools] == [pool.token for pool in mainnet.pools]
    assert {1: 7, 2: 13, 3: 11} == {hub: sum(pool.hub == hub for pool in pools) for hub in (1, 2, 3)}
    assert 31 == len(set(pools)) == len({pool.token for pool in pools})
    assert set(mainnet.markets) == {pool.market for pool in mainnet.pools}
    assert [18, 18, 18] == [pool.decimals for pool in mainnet.pools if pool.decimals == 18]
    assert HubAsset(1, XLM) in pools
    assert [MAINNET_POOL] == list(mainnet.addresses("pool"))
    assert 1 == len(mainnet.addresses("price_aggregator"))
    assert ("CCXRWJ6S", ()) == (testnet.markets[0][:8], testnet.pools)


def test_controller() -> None:
    """A controller says where its pools are; its keys may be variants or bare symbols."""
    found = layout.decode_controller(entry_of(controller("A")))
    bare = [(symbol("Pool"), address(contract("A pool"))), (u32(7), u32(7))]
    other = layout.decode_controller(entry_of(instance(contract("A"), bare, CODE)))

    assert (contract("A pool"), CODE.hex(), "active") == (found.pool, found.wasm_hash, found.status)
    assert contract("A pool") == other.pool


@pytest.mark.parametrize(("paused", "status"), [(flag(True), "paused"), (flag(False), "active"), (u32(1), "active")])
def test_paused(paused: scval.ScVal, status: str) -> None:
    """A controller that says that it is paused is."""
    assert status == layout.decode_controller(entry_of(controller("A", storage={"Paused": paused}))).status


def test_no_controller() -> None:
    """An account that should hold the pools is refused, with the field."""
    with pytest.raises(DecodeError, match="field Pool is no contract"):
        layout.decode_controller(entry_of(controller("A", storage={"Pool": address(account("a"))})))


def test_entries() -> None:
    """Numbers come by field name, the parameters that are shown with their scales; further fields do not matter."""
    found = layout.decode_parameters(entry_of(parameters("A", 1, "USDC", added_later=string("x"))))
    numbers = found.numbers | layout.decode_state(entry_of(state("A", 1, "USDC", added_later=u32(1))))

    assert JUDGED == numbers
    assert contract("USDC") == found.token
    assert set(layout.PARAMETERS) | set(layout.STATE) == set(numbers)
    assert {Parameter(name, value, 27) for name, value in PARAMETERS.items()} | {
        Parameter("reserve_factor", 1_500, 4),
        Parameter("flashloan_fee", 9, 4),
        Parameter("is_flashloanable", 1, 0),
    } == set(found.shown)


def hash_of(instance_entry: Written, *pools: tuple[int, str, Written | None]) -> str:
    """The configuration hash of a controller with parameters."""
    decoded = layout.decode_controller(entry_of(instance_entry))
    return layout.config_hash(
        decoded,
        [(layout.hub_asset(pool_id(hub, token)), item and entry_of(item)) for hub, token, item in pools],
    )


class TestConfigHash:
    """The hash changes if and only if the configuration does."""

    USDC = (1, "USDC", parameters("A", 1, "USDC"))
    XLM = (2, "XLM", parameters("A", 2, "XLM"))

    @pytest.mark.parametrize(
        "other",
        [
            (controller("A", "B pool"), USDC),
            (controller("A", storage={"LastHubId": u32(4)}), USDC),
            (controller("A"), (1, "USDC", parameters("A", 1, "USDC", slope1=31 * 10**24))),
            (controller("A"), (1, "USDC", parameters("A", 1, "USDC", flashloan_fee=u32(10)))),
            (controller("A"), (1, "USDC", parameters("A", 1, "USDC", added_later=u32(10)))),
            (controller("A"), (2, "USDC", parameters("A", 2, "USDC"))),
            (controller("A"), (1, "USDC", None)),
            (controller("A"), USDC, XLM),
            (controller("A"),),
        ],
    )
    def test_changes(self, other: tuple[Any, ...]) -> None:
        """Another pool contract, hub, parameter or pool is another configuration."""
        assert hash_of(controller("A"), self.USDC) != hash_of(*other)

    @pytest.mark.parametrize("key", layout.CONFIGURATION)
    def test_every_key_of_the_controller(self, key: str) -> None:
        """Each key that the controller's code writes to its instance is configuration; so is whether it is there.

        common/src/types/controller.rs:649, ControllerKey, and the pausable module's own key.
        """
        value: scval.ScVal = address(contract("other")) if key == "Pool" else u32(9)
        assert hash_of(controller("A"), self.USDC) != hash_of(controller("A", storage={key: value}), self.USDC)

    def test_what_is_state(self) -> None:
        """Keys that the controller does not write as configuration change nothing, nor does the order of the pools."""
        more = controller("A", storage={"AccountCounter": u64(99), "Owner": address(contract("owner"))})

        assert hash_of(controller("A"), self.USDC) == hash_of(more, self.USDC)
        in_order, backwards = (self.USDC, self.XLM), (self.XLM, self.USDC)
        assert hash_of(controller("A"), *in_order) == hash_of(controller("A"), *backwards)


def test_indexes_may_be_at_their_bounds() -> None:
    """The lowest and the highest index that the contract can hold are read."""
    found = layout.decode_state(entry_of(state("A", 1, "USDC", supply_index=1, borrow_index=10**36)))

    assert (1, 10**36, 500 * RAY) == (found["supply_index"], found["borrow_index"], found["borrowed"])
