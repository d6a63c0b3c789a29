"""The promises of every store, checked for each of them, and the rules for keys (exporter/stores/store.py)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from exporter.errors import ConfigError, ImmutableKeyError, LostRaceError, StoreError
from exporter.stores import open_store
from exporter.stores.folder import FolderStore
from exporter.stores.held_store import hold
from exporter.stores.memory import MemoryStore
from exporter.stores.read_once import MAX_REMEMBERED_BYTES, ReadOnce
from exporter.stores.store import Store, StoredObject, Written, in_parallel, read_many
from exporter.stores.tree_sources import StoreSource
from exporter.tree.files import is_key
from tests.s3.clients import SERVERS, store_at, variables_of
from tests.stores.bucket_simulator import BucketSimulator

STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: MemoryStore(),
    "memory over a folder": lambda folder: MemoryStore(FolderStore(folder)),
    "folder": lambda folder: FolderStore(folder / "public"),
    "bucket": lambda _: store_at(variables_of(SERVERS[0])),
    "real bucket": lambda _: store_at(variables_of(SERVERS[1])),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Each kind of store, empty."""
    return STORES[request.param](tmp_path)


def data_of(store: Store, key: str) -> bytes | None:
    stored = store.get(key)
    return None if stored is None else stored.data


def keys_of(store: Store, prefix: str = "") -> list[str]:
    return sorted(info.key for info in store.list(prefix))


def test_an_empty_store_lists_and_deletes_nothing(store: Store) -> None:
    """An empty store has no object, lists none and deletes none."""
    assert None is store.get("v1/assets/index.json")
    assert [] == keys_of(store)
    assert [] == keys_of(store, "v1/pages/")
    store.delete(["v1/assets/index.json"])


def test_a_document_is_written_only_when_its_bytes_change(store: Store) -> None:
    """A document is replaced by other bytes, and not written again when the bytes are the same."""
    outcomes = [store.put("v1/a.json", data) for data in (b"one", b"one", b"two", b"one", b"")]

    assert [True, False, True, True, True] == outcomes
    assert b"" == data_of(store, "v1/a.json")


def test_put_new_never_replaces(store: Store) -> None:
    """An immutable object is written once; other bytes under its key are an error that names it."""
    assert [True, False] == [store.put_new("v1/pages/x.json", b"one") for _ in range(2)]
    for other in (b"two", b"", b"one more"):
        with pytest.raises(ImmutableKeyError, match=r"v1/pages/x\.json"):
            store.put_new("v1/pages/x.json", other)

    assert b"one" == data_of(store, "v1/pages/x.json")


def test_bulk_writes_count(store: Store) -> None:
    """The bulk methods do what the single ones do, and count objects and bytes written and objects unchanged."""
    store.put("b", b"old")
    store.put_new("c", b"same")
    documents = store.put_many(iter([("a", b"12"), ("b", b"345"), ("c", b"same")]))
    immutable = store.put_many(iter([("d", b"6789"), ("c", b"same"), ("d", b"6789")]), immutable=True)

    assert Written(2, 1, 5) == documents
    assert Written(1, 2, 4) == immutable
    assert [b"12", b"345", b"same", b"6789"] == [data_of(store, key) for key in "abcd"]
    with pytest.raises(ImmutableKeyError, match="c already"):
        store.put_many([("e", b"1"), ("c", b"other")], immutable=True)
    with pytest.raises(ImmutableKeyError, match="f already"):
        store.put_many([("f", b"1"), ("f", b"2")], immutable=True)


def test_a_stream_that_fails(store: Store) -> None:
    """An error of the stream of a bulk write comes out of it, and nothing half-written is listed."""

    def stream() -> Iterator[tuple[str, bytes]]:
        yield "a", b"1"
        raise ValueError("rendering failed")

    with pytest.raises(ValueError, match="rendering failed"):
        store.put_many(stream())

    assert keys_of(store) in ([], ["a"])


def test_a_swap_writes_only_over_the_present_etag(store: Store) -> None:
    """Compare-and-swap writes when the etag is the present one, and otherwise leaves the other's bytes alone."""
    first = store.swap("v1/system/status.json", b"1", None)
    with pytest.raises(LostRaceError, match="status"):
        store.swap("v1/system/status.json", b"2", None)
    second = store.swap("v1/system/status.json", b"2", first)
    with pytest.raises(LostRaceError, match="status"):
        store.swap("v1/system/status.json", b"3", first)
    with pytest.raises(LostRaceError, match="other"):
        store.swap("v1/other.json", b"3", first)
    stored = store.get("v1/system/status.json")

    assert stored is not None
    assert (b"2", second) == (stored.data, stored.etag)
    assert first != second


def test_list_by_prefix(store: Store) -> None:
    """A listing has every key that starts with the prefix, with size and time, and no other."""
    began = datetime.now(UTC) - timedelta(seconds=5)
    for key in ("v1/pages/a.json", "v1/pages/ab.json", "v1/pages.json", "v1/x/y/z.json", "index.html"):
        store.put(key, key.encode())
    infos = {info.key: info for info in store.list("")}

    assert ["v1/pages/a.json", "v1/pages/ab.json"] == keys_of(store, "v1/pages/")
    assert ["v1/pages.json", "v1/pages/a.json", "v1/pages/ab.json"] == keys_of(store, "v1/pages")
    assert ["v1/pages/a.json", "v1/pages/ab.json"] == keys_of(store, "v1/pages/a")
    assert [] == keys_of(store, "v2")
    assert {key: len(key) for key in infos} == {key: info.size for key, info in infos.items()}
    assert all(began <= info.modified <= began + timedelta(minutes=5) for info in infos.values())


def test_deleting_skips_keys_without_an_object(store: Store) -> None:
    """Keys that have no object are skipped; while a listing goes on, what it gave may be deleted."""
    for number in range(20):
        store.put(f"v1/pages/{number}.json", b"{}")
    for info in store.list("v1/pages/1"):
        store.delete([info.key])
    assert 9 == len(keys_of(store))
    store.delete(["v1/pages/2.json", "v1/pages/1.json", "v1/none/x.json", "v1/pages/2.json"])

    assert 8 == len(keys_of(store))
    assert store.get("v1/pages/2.json") is None
    assert store.put("v1/pages/1.json", b"again")


def test_one_publisher_at_a_time(store: Store) -> None:
    """A second hold is refused at once, and possible when the first has ended, also by an error."""
    with store.exclusive(), pytest.raises(LostRaceError), store.exclusive():
        pass
    with pytest.raises(KeyError), store.exclusive():
        raise KeyError
    with store.exclusive():
        store.put("a", b"1")
        store.swap("b", b"1", None)

    assert ["a", "b"] == keys_of(store)


def test_a_trial_leaves_nothing_even_beside_a_publisher(store: Store) -> None:
    """Whoever publishes now may be done when the run has read, which is not a failure; a trial leaves nothing."""
    with store.exclusive():
        store.try_writing()
    store.try_writing()
    with store.exclusive():
        pass

    assert [] == keys_of(store)


BAD_KEYS = [
    *("", "/", "/etc/passwd", "..", "../x", "v1/../../x", "v1/./x", "v1//x", "v1/", "v1/%2e%2e/x"),
    *(".hidden", "v1/.tmp-1", "v1/.hidden/x", "C:\\x", "v1\\x", "a b", "a\n", "a\0b", "v1/é"),
    *("x" * 256, "/".join(["x" * 100] * 11)),
]


@pytest.mark.parametrize("key", BAD_KEYS)
def test_keys_that_lead_elsewhere(key: str) -> None:
    """No key is absolute, climbs, hides, or is not plain text."""
    assert not is_key(key)


def test_every_operation_checks_its_key(store: Store) -> None:
    """No operation accepts what is not a key."""
    key = "v1/../../x"
    operations: list[Callable[[], object]] = [
        lambda: store.get(key),
        lambda: store.has(key),
        lambda: store.put(key, b""),
        lambda: store.put_new(key, b""),
        lambda: store.put_many([(key, b"")]),
        lambda: store.put_many([(key, b"")], immutable=True),
        lambda: store.swap(key, b"", None),
        lambda: store.delete([key]),
        lambda: list(store.list(key)),
    ]
    for operation in operations:
        with pytest.raises(StoreError, match="is not a key of the store"):
            operation()

    assert [] == keys_of(store)


def test_dry_run_leaves_the_store_below_alone(tmp_path: Path) -> None:
    """A store in memory over another one reads through to it, and never changes it."""
    below = FolderStore(tmp_path)
    below.put("a", b"1")
    below.put("b", b"2")
    dry = MemoryStore(below)
    etag = dry.get("a").etag  # type: ignore[union-attr]
    dry.swap("a", b"one", etag)
    dry.put("c", b"3")
    dry.delete(["b"])

    assert [b"one", None, b"3"] == [data_of(dry, key) for key in "abc"]
    assert ["a", "c"] == keys_of(dry)
    assert [b"1", b"2", None] == [data_of(below, key) for key in "abc"]
    with pytest.raises(ImmutableKeyError):
        MemoryStore(below).put_new("a", b"other")


@pytest.mark.parametrize("form", ["{}/out", "file://{}/out", "file://localhost{}/out"])
def test_opening_a_folder_makes_nothing_before_the_first_write(tmp_path: Path, form: str) -> None:
    """A path and a file URI open a folder, and nothing is made before the first write."""
    store = open_store(form.format(tmp_path))

    assert str(tmp_path / "out") == store.uri
    assert None is store.get("a")
    assert [] == list(tmp_path.iterdir())
    store.put("a", b"1")
    assert b"1" == (tmp_path / "out" / "a").read_bytes()


NO_BUCKETS = [
    *("s3://", "s3:///prefix", "s3://b", "s3://-bucket", "s3://bucket:9000/x", "s3://[bucket/x"),
    *("s3://bucket//x", "s3://bucket/a//b", "s3://bucket/../x", "s3://bucket/.hidden", "s3://bucket/a b"),
    *("s3://bucket/x?region=eu", "s3://bucket/x#y", "s3://bucket/x?", "s3://bucket" + 7 * f"/{100 * 'x'}"),
    *("s3://arn:aws:s3:eu-west-1:1:accesspoint/x", "s3://AKIDEXAMPLE:hush@bucket/x"),
]
HTTP = ("http://", "https:/", "HTTPS:")


@pytest.mark.parametrize(
    ("uri", "hint"),
    [
        *((uri, r"output\.uri.*s3://bucket/prefix") for uri in NO_BUCKETS),
        *((uri, r"output\.uri") for uri in ("", "  ", "gs://bucket/prefix", "file://host/x", "a\0b")),
        *((uri, "two slashes") for uri in ("s3:/bucket/prefix", "s3:bucket", "S3:/bucket")),
        (" s3://bucket", "nothing before them"),
        *((f"{scheme}example.org/hush", "nothing can be published over HTTP") for scheme in HTTP),
        *((uri, "accepted are the path of a folder") for uri in ("gs:bucket/hush", "file:public")),
    ],
)
def test_a_uri_that_cannot_be_written_to(uri: str, hint: str) -> None:
    """A URI with slashes missing, or of another kind, is refused with what was probably meant, and is not repeated."""
    with pytest.raises(ConfigError, match=hint) as caught:
        open_store(uri)

    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("path", ["./s3:/bucket", "a:b", "s3/bucket", "httpd:8080", "public:2"])
def test_a_colon_alone_makes_no_uri(path: str) -> None:
    """A folder may have a colon in its name."""
    assert str(Path(path).absolute()) == open_store(path).uri


# -- many small things at once ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["work", "stream", "reader"])
def test_an_error_ends_it(where: str) -> None:
    """An error of the work, the stream or the reader ends it when what was begun has ended; the rest never begins."""
    before = set(threading.enumerate())
    stop = threading.Event()
    begun: list[int] = []
    ended: list[int] = []

    def stream() -> Iterator[int]:
        yield from range(50)
        if where == "stream":
            raise KeyError(50)
        yield from range(50, 1000)

    def work(number: int) -> int:
        begun.append(number)
        if where == "work" and number == 50:
            raise KeyError(number)
        stop.wait(0.001)
        ended.append(number)
        return number

    def read() -> None:
        for count, _ in enumerate(in_parallel(stream(), work, workers=4, stop=stop)):
            if where == "reader" and count == 50:
                raise KeyError(count)

    with pytest.raises(KeyError, match="50"):
        read()
    # A generator that its reader left ends when it is collected, which CPython does at once.
    assert stop.is_set()
    assert 80 >= len(begun)
    assert set(begun) - {50} <= set(ended) | {50}
    assert set() == {thread for thread in threading.enumerate() if thread.name.startswith("store")} - before


class DistantStore(MemoryStore):
    """A store that is asked for several objects at once."""

    reads_at_once = 4


@pytest.mark.parametrize("many", [MemoryStore(), DistantStore()], ids=["near", "distant"])
def test_every_object_with_its_key(many: MemoryStore) -> None:
    """Each key comes with its bytes, once, and one that names nothing with None."""
    for number in range(20):
        many.put(f"files/{number}", str(number).encode())
    keys = [f"files/{number}" for number in range(22)]

    found = dict(read_many(many, keys))

    assert sorted(keys) == sorted(found)
    assert [None, None] == [found[key] for key in keys[20:]]
    assert all(stored is None or stored.data == key.removeprefix("files/").encode() for key, stored in found.items())


@pytest.mark.parametrize("around", [ReadOnce, MemoryStore])
def test_a_store_around_another_reads_as_many_objects_at_once(around: Callable[[Store], Store]) -> None:
    """A store that is put around another asks it for as many objects at once as it allows."""
    assert [1, 4] == [around(store).reads_at_once for store in (MemoryStore(), DistantStore())]


@pytest.mark.parametrize(("reads_at_once", "in_callers_thread"), [(1, True), (2, False)])
def test_a_store_that_is_read_one_by_one_has_no_threads(reads_at_once: int, in_callers_thread: bool) -> None:
    """A near store is read in the thread that asks, because another thread would take longer than the read."""
    threads = set[int]()

    class Watched(MemoryStore):
        def get(self, key: str) -> StoredObject | None:
            threads.add(threading.get_ident())
            return super().get(key)

    watched = Watched()
    watched.reads_at_once = reads_at_once
    read = list(read_many(watched, ["files/1", "files/2"]))
    asyncio.run(StoreSource(watched).get("files/1", 10))

    assert [("files/1", None), ("files/2", None)] == sorted(read)
    assert in_callers_thread is (threads == {threading.get_ident()})
    assert in_callers_thread is (threading.get_ident() in threads)


# -- documents that are read once -------------------------------------------------------------------------------------

STATUS, CHANGES, PAGE = "v1/system/status.json", "v1/changes.json", "v1/pages/0123456789abcdefABCD_-.json"


def test_a_document_is_read_once() -> None:
    """A document that was read, missing or written is not asked for again; a page is, each time."""
    bucket = BucketSimulator()
    bucket.put(STATUS, b"1")
    bucket.put(PAGE, b"2")
    bucket.calls.clear()
    once = ReadOnce(bucket)
    contents = [None if (stored := once.get(key)) is None else stored.data for key in (STATUS, CHANGES, PAGE) * 2]
    once.put(CHANGES, b"3")

    assert [b"1", None, b"2"] * 2 == contents
    assert once.get(CHANGES) == bucket.inner.get(CHANGES)
    assert once.has(CHANGES)
    assert [STATUS, CHANGES, PAGE, PAGE] == [call.key for call in bucket.calls if call.operation == "get"]


def test_what_is_large_is_not_remembered() -> None:
    """A large document takes no memory: it is read again by whoever asks again."""
    bucket = BucketSimulator()
    bucket.put(STATUS, b"1" * MAX_REMEMBERED_BYTES)
    bucket.put(CHANGES, b"2" * (MAX_REMEMBERED_BYTES + 1))
    bucket.calls.clear()
    once = ReadOnce(bucket)
    sizes = [len(stored.data) for key in (STATUS, CHANGES) * 2 if (stored := once.get(key))]

    assert [MAX_REMEMBERED_BYTES, MAX_REMEMBERED_BYTES + 1] * 2 == sizes
    assert [STATUS, CHANGES, CHANGES] == [call.key for call in bucket.calls]


def test_what_is_written_in_bulk_swapped_or_deleted_is_not_what_was_read() -> None:
    """After any write the new bytes are read, and after one that failed what is there."""
    store = MemoryStore()
    once = ReadOnce(store)
    assert (None, None) == (once.get(STATUS), once.get(CHANGES))
    once.put_many([(CHANGES, b"1")])
    etag = once.swap(STATUS, b"2", None)
    store.put(STATUS, b"of another")
    assert b"2" == once.get(STATUS).data  # type: ignore[union-attr]
    with pytest.raises(LostRaceError):
        once.swap(STATUS, b"3", etag)
    assert b"of another" == once.get(STATUS).data  # type: ignore[union-attr]
    assert b"1" == once.get(CHANGES).data  # type: ignore[union-attr]
    once.delete([CHANGES])

    assert once.get(CHANGES) is None


def test_a_hold_is_handed_on() -> None:
    """Who has a hold does not ask for another one, and nobody else gets one; afterwards the next one does."""
    store = MemoryStore()
    with hold(store) as held:
        with pytest.raises(AssertionError, match="held already"), held.exclusive():
            pass
        with pytest.raises(LostRaceError), hold(store):
            pass
    with hold(store), pytest.raises(LostRaceError), store.exclusive():
        pass
