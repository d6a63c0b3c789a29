"""The objects of a lake: their names, what is in them, and what is wrong with them."""

from __future__ import annotations

import os
import re
import struct
import threading
import tracemalloc
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest

from exporter.errors import ConfigError, DecodeError
from exporter.past.lake.objects import CONFIG, Batch, Lake, LakeConfig, decode_config, open_batch

if TYPE_CHECKING:
    from obstore.store import ObjectStore


def made_object(first: int, last: int, content: bytes = b"meta") -> bytes:
    raw = struct.pack(">III", first, last, last - first + 1) + content
    return bytes(pa.compress(raw, codec="zstd", asbytes=True))


def made_lake(folder: Path, config: LakeConfig, ledgers: range, ending: str = ".xdr.zst") -> Path:
    """A lake with one object for each batch of these ledgers."""
    for first in ledgers[:: config.ledgers_per_batch]:
        path = folder / (config.key_of(first) + ending)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made_object(first, first + config.ledgers_per_batch - 1))
    (folder / CONFIG).write_text(
        f'{{"networkPassphrase": "made", "version": "1.0", "compression": "zstd", "ledgersPerBatch": '
        f'{config.ledgers_per_batch}, "batchesPerPartition": {config.batches_per_partition}}}'
    )
    return folder


@pytest.mark.parametrize(
    ("per_batch", "per_partition", "ledger", "key"),
    [
        (1, 64_000, 53_312_000, "FCD285FF--53312000-53375999/FCD285FF--53312000"),
        (1, 64_000, 982_180, "FFF159FF--960000-1023999/FFF1035B--982180"),
        (1, 1, 5, "FFFFFFFA--5"),
        (64, 10, 700, "FFFFFD7F--640-1279/FFFFFD7F--640-703"),
        (64, 1, 65, "FFFFFFBF--64-127"),
    ],
)
def test_a_ledgers_key_follows_from_the_sizes_alone(per_batch: int, per_partition: int, ledger: int, key: str) -> None:
    """The key of a ledger follows from the sizes alone; the first two are those of real lakes."""
    assert key == LakeConfig("made", per_batch, per_partition).key_of(ledger)


@pytest.mark.parametrize(("sizes", "ending"), [((1, 10), ".xdr.zst"), ((4, 3), ".xdr.zstd"), ((8, 1), ".xdr.zst")])
def test_every_ledger_is_given_once(tmp_path: Path, sizes: tuple[int, int], ending: str) -> None:
    """Batches come in order whatever their size, partition and ending."""
    config = LakeConfig("made", *sizes)
    lake = Lake.open(str(made_lake(tmp_path, config, range(96, 192), ending)))

    batches = list(lake.batches(100, 150))

    assert "made" == lake.config.network_passphrase
    assert [first for first, _ in batches] == list(range(100 - 100 % sizes[0], 151, sizes[0]))
    assert {b"meta"} == {batch.metas for _, batch in batches if isinstance(batch, Batch)}


def test_a_gap_is_named(tmp_path: Path) -> None:
    """A missing object is named by its key, and the others are given."""
    config = LakeConfig("made", 4, 3)
    made_lake(tmp_path, config, range(96, 192))
    (tmp_path / (config.key_of(120) + ".xdr.zst")).unlink()
    lake = Lake.open(str(tmp_path))

    found = dict(lake.batches(112, 130))

    assert [112, 116, 120, 124, 128] == list(found)
    assert [120] == [first for first, batch in found.items() if isinstance(batch, DecodeError)]
    assert re.search(r"no object .*--120-123\.xdr\.zst", str(found[120]))
    with pytest.raises(DecodeError, match="no object"):
        lake.batch_of(121)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no zstd at all", "is damaged"),
        (made_object(96, 96)[:-3], "is damaged|holds"),
        (made_object(97, 97), "holds 1 ledgers from 97 to 97, not those from 96 to 96"),
        (bytes(pa.compress(b"short", codec="zstd", asbytes=True)), "holds"),
        (b"", "holds"),
    ],
)
def test_a_damaged_object_is_named(content: bytes, message: str) -> None:
    """An object that is not the batch that its key says is refused by its key."""
    with pytest.raises(DecodeError, match=f"the-key.*({message})"):
        open_batch("the-key", content, 96, 96)


class _Counted:
    """A place of objects: after a failure it gives each, and counts the bytes that were given and not used up."""

    def __init__(self, objects: dict[str, bytes], failing: str = "") -> None:
        self.objects, self._failing = objects, {failing}
        self.held = self.most = 0
        self._lock = threading.Lock()

    def get(self, key: str) -> Any:
        if key not in self.objects:
            raise FileNotFoundError(key)
        return SimpleNamespace(meta={"size": len(self.objects[key])}, bytes=lambda: self._given(key))

    def _given(self, key: str) -> bytes:
        with self._lock:
            if key in self._failing:
                self._failing.remove(key)
                raise OSError("the connection broke")
            self.held += len(self.objects[key])
            self.most = max(self.most, self.held)
        return self.objects[key]


def test_objects_fetched_ahead_have_bounded_room() -> None:
    """Objects are fetched ahead in their order, as many as have room by the last one's size, and at least one."""
    config = LakeConfig("made", 1, 1)
    content = {ledger: os.urandom(5_000 if ledger == 30 else 1_000) for ledger in range(10, 50)}
    objects = {config.key_of(ledger) + ".xdr.zst": made_object(ledger, ledger, content[ledger]) for ledger in content}
    sizes = {ledger: len(objects[config.key_of(ledger) + ".xdr.zst"]) for ledger in content}
    store = _Counted(objects, failing=config.key_of(20) + ".xdr.zst")
    lake = Lake(cast("ObjectStore", store), config, "made")

    for first, batch in lake.batches(10, 49, ahead_bytes=3_500):
        assert isinstance(batch, Batch)
        assert content[first] == batch.metas
        store.held -= sizes[first]

    assert 0 == store.held
    assert 3_000 < store.most <= sizes[30] + 3 * sizes[10]  # the one that is read, and those behind it
    assert 10 == next(lake.batches(10, 49, ahead_bytes=1))[0]


def test_an_object_that_unpacks_to_much_takes_little_memory() -> None:
    """Some kB that unpack to 256 MiB are refused at the bound of one ledger."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        for _ in range(16):
            stream.write(bytes(2**24))
    bomb = sink.getvalue().to_pybytes()
    assert 2**16 > len(bomb)
    tracemalloc.start()
    with pytest.raises(DecodeError, match="more than 67,108,864 bytes when decompressed"):
        open_batch("the-key", bomb, 10, 10)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert 2**26 < most < 2**27


def test_a_lake_without_configuration(tmp_path: Path) -> None:
    """A folder without .config.json needs one to be given; anything that is not a lake is refused."""
    with pytest.raises(ConfigError, match="--lake-config"):
        Lake.open(str(tmp_path))
    with pytest.raises(ConfigError, match="is not a folder"):
        Lake.open(str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match="ftp:// is not an address of a lake"):
        Lake.open("ftp://example.org/lake")
    for bad in (b"{", b'{"networkPassphrase": "x", "ledgersPerBatch": 0, "batchesPerPartition": 1}', b"[" * 10_000):
        with pytest.raises(ConfigError, match=r"\.config\.json cannot be used"):
            decode_config(bad, "a lake")
    given = LakeConfig("made", 1, 10)
    made_lake(tmp_path, given, range(10, 20))
    (tmp_path / CONFIG).unlink()

    assert [12] == [first for first, _ in Lake.open(str(tmp_path), given).batches(12, 12)]


def test_the_real_lake(real_data: Path) -> None:
    """The objects of testnet's lake are found by its own .config.json."""
    folder = real_data / "lake" / "testnet"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    lake = Lake.open(str(folder))

    assert "Test SDF Network ; September 2015" == lake.config.network_passphrase
    assert [997, 998, 999] == [batch.first for _, batch in lake.batches(997, 999) if isinstance(batch, Batch)]
