"""Tests of the lists of organisations that come with the exporter, and of a reader's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.deployments.networks import NETWORKS
from exporter.errors import ConfigError
from exporter.past.archive.trusted_organisations import trust_of
from tests.past.archive.simulated_archive import trust_document, validators


def test_the_organisations_of_both_public_networks_are_known() -> None:
    """Mainnet has seven organisations of three validators, five of which must sign; testnet one. Both have a date."""
    mainnet, testnet = (trust_of(NETWORKS[name].passphrase) for name in ("mainnet", "testnet"))

    assert (7, 5, {3}) == (len(mainnet.organisations), mainnet.needed, set(map(len, mainnet.organisations.values())))
    assert (1, 1, {3}) == (len(testnet.organisations), testnet.needed, set(map(len, testnet.organisations.values())))
    assert (21, 3) == (len(mainnet.archives), len(testnet.archives))


def test_a_readers_own_list_takes_the_place_of_the_known_one(tmp_path: Path) -> None:
    """A reader's own list is refused by name unless it is of the run's network and can be read."""
    path = tmp_path / "mine.json"
    path.write_bytes(trust_document(validators(2), "Test SDF Network ; September 2015"))

    assert 2 == trust_of(NETWORKS["testnet"].passphrase, path).needed
    with pytest.raises(ConfigError, match=r"mine\.json: it is of the network 'Test SDF"):
        trust_of(NETWORKS["mainnet"].passphrase, path)
    path.write_bytes(b"{}")
    with pytest.raises(ConfigError, match=r"mine\.json: the list of trusted organisations cannot be read"):
        trust_of(NETWORKS["testnet"].passphrase, path)
    with pytest.raises(ConfigError, match=r"nothing\.json: it cannot be read"):
        trust_of(NETWORKS["testnet"].passphrase, tmp_path / "nothing.json")
    path.write_bytes(bytes((1 << 20) + 1))
    with pytest.raises(ConfigError, match="more than the 1,048,576 bytes"):
        trust_of(NETWORKS["testnet"].passphrase, path)
    with pytest.raises(ConfigError, match="no organisations are known to trust on the network 'another'"):
        trust_of("another")
