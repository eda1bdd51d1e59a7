"""The open cache saves time and nothing else: with it, without it, or with a broken one, the answer is the same."""

from __future__ import annotations

import pytest

from eventsieve.catalog import Catalog
from eventsieve.index.index import build
from eventsieve.model.schema import Schema
from eventsieve.model.types import Float, Int, Text

EVENTS = [{"price": 3.5, "symbol": "S3"}, {"price": 40, "symbol": "S1"}, {"symbol": "S7"}, {"price": 2, "volume": 3}]


def filled(path, count=200) -> Catalog:
    catalog = Catalog.create(path, Schema({"price": Float(), "symbol": Text(), "volume": Int()}))
    lines = (f'{{"id": {n}, "filter": "price < {n} OR symbol = \'S{n % 9}\'"}}' for n in range(count))
    catalog.import_jsonl(lines, strict=True)
    return catalog


def answers(catalog: Catalog, version: int | None = None) -> list[list[object]]:
    index = build(catalog.subscriptions(version=version))
    return [sorted(index.match(event), key=str) for event in EVENTS]


def cache_files(catalog: Catalog) -> list[str]:
    return sorted(file.name for file in (catalog.path / "_eventsieve" / "open").glob("*"))


def without_cache(catalog: Catalog) -> None:
    for file in (catalog.path / "_eventsieve" / "open").glob("*"):
        file.unlink()


def changed(catalog: Catalog) -> None:
    with catalog.edit() as edit:
        edit.remove(3)
        edit.pause(4)
        edit.replace(5, "symbol = 'S1' AND price > 7")
        edit.add("new", "volume = 3")


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    """How openings came to their subscriptions: by compiling everything, or so many changes."""
    import eventsieve.catalog.catalog as module

    ways: list[str] = []
    load, apply = module.load_rows, module.apply_changes
    monkeypatch.setattr(module, "load_rows", lambda *given: (ways.append("everything"), load(*given))[1])
    monkeypatch.setattr(
        module, "apply_changes", lambda subs, changes: (ways.append(f"{len(changes)} changes"), apply(subs, changes))[1]
    )
    return ways


def test_an_import_into_an_empty_catalog_is_not_parsed_again(tmp_path, opened):
    catalog = filled(tmp_path / "c")
    assert len(Catalog.open(catalog.path).subscriptions()) == 200
    assert opened == ["0 changes"]


def test_only_what_changed_since_is_parsed(tmp_path, opened):
    catalog = filled(tmp_path / "c")
    changed(catalog)
    with_cache = answers(Catalog.open(catalog.path))
    assert opened == ["4 changes"]
    without_cache(catalog)
    assert answers(Catalog.open(catalog.path)) == with_cache


def test_a_grown_schema_keeps_the_cache(tmp_path, opened):
    catalog = filled(tmp_path / "c")
    before = answers(catalog)
    catalog.grow_schema({"country": Text()})
    catalog.add("more", "country = 'X'")
    again = Catalog.open(catalog.path)
    assert answers(again) == before
    assert build(again.subscriptions()).match({"country": "X"}) == ["more"]
    assert opened == ["0 changes", "1 changes", "1 changes"]


def test_many_changes_are_compiled_at_once(tmp_path, monkeypatch, opened):
    monkeypatch.setattr("eventsieve.catalog.catalog._FEW_CHANGES", 3)
    catalog = filled(tmp_path / "c")
    changed(catalog)
    by_everything = answers(catalog)
    assert opened == ["everything"]
    monkeypatch.undo()
    assert answers(catalog) == by_everything


def test_an_older_version_than_the_cached_one_is_right(tmp_path, monkeypatch):
    monkeypatch.setattr("eventsieve.catalog.catalog._WORTH_CACHING", 1)
    catalog = Catalog.create(tmp_path / "c", Schema({"price": Float(), "symbol": Text(), "volume": Int()}))
    catalog.add("first", "price < 100")
    old = answers(catalog, 1)
    changed_later = catalog.replace("first", "price > 100")
    catalog.subscriptions()
    assert any(name.startswith(f"{changed_later:020d}") for name in cache_files(catalog))
    assert answers(Catalog.open(catalog.path), 1) == old


@pytest.mark.parametrize("damage", [b"", b"garbage", None])
def test_a_damaged_cache_file_counts_as_absent(tmp_path, damage):
    catalog = filled(tmp_path / "c")
    expected = answers(catalog)
    for file in (catalog.path / "_eventsieve" / "open").glob("*"):
        content = file.read_bytes()
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 0xFF]) + content[middle + 1 :]
        file.write_bytes(flipped if damage is None else damage)
    assert answers(Catalog.open(catalog.path)) == expected


def test_a_catalog_made_anew_in_the_same_folder_does_not_see_the_old_cache(tmp_path):
    old = filled(tmp_path / "old")
    new = Catalog.create(tmp_path / "new", old.schema)
    new.add("only", "price < 1")
    target = new.path / "_eventsieve" / "open"
    target.mkdir(parents=True)
    for file in (old.path / "_eventsieve" / "open").glob("*"):
        (target / file.name).write_bytes(file.read_bytes())
    assert Catalog.open(new.path).subscriptions().ids.tolist() == ["only"]


def test_few_cache_files_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("eventsieve.catalog.catalog._WORTH_CACHING", 1)
    catalog = filled(tmp_path / "c", count=5)
    for number in range(4):
        catalog.add(f"more{number}", "price < 1")
        catalog.subscriptions()
    assert len(cache_files(catalog)) == 2
