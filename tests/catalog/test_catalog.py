"""What a catalog promises: every change a version, every version readable, edits all or nothing."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eventsieve.catalog import Catalog
from eventsieve.errors import CatalogError, DataError, FilterError, SchemaError
from eventsieve.index.index import build
from eventsieve.model.schema import Schema
from eventsieve.model.types import Float, Int, Text


def ids(catalog: Catalog, version: int | None = None) -> set[object]:
    return set(catalog.subscriptions(version=version).ids.tolist())


def test_a_new_catalog_is_version_zero_and_empty(catalog):
    assert catalog.version == 0
    assert len(catalog.subscriptions()) == 0
    assert list(catalog.schema) == ["price", "symbol"]


def test_every_change_is_a_version_and_every_version_can_be_read(catalog):
    assert catalog.add("a", "price < 10") == 1
    assert catalog.add("b", "price > 10") == 2
    assert catalog.replace("a", "price < 5") == 3
    assert catalog.remove("b") == 4
    assert [ids(catalog, version) for version in range(5)] == [set(), {"a"}, {"a", "b"}, {"a", "b"}, {"a"}]
    assert catalog.subscriptions(version=2).text("a") == "price < 10"
    assert catalog.subscriptions().text("a") == "price < 5"


def test_ids_keep_their_type(catalog):
    catalog.add(7, "price < 10")
    catalog.add("7", "price > 10")
    again = Catalog.open(catalog.path)
    assert ids(again) == {7, "7"}
    assert again.subscriptions().text(7) == "price < 10"
    assert again.remove("7") == 3
    assert ids(again) == {7}


def test_what_is_opened_matches(catalog):
    catalog.add("cheap", "price < 10 AND symbol = 'A'")
    catalog.add("other", "symbol != 'A'")
    index = build(Catalog.open(catalog.path).subscriptions())
    assert index.match({"price": 3, "symbol": "A"}) == ["cheap"]
    assert index.match({"price": 3, "symbol": "Z"}) == ["other"]


def test_paused_subscriptions_are_kept_but_not_matched(catalog):
    catalog.add("a", "price < 10", owner="ann")
    catalog.pause("a")
    assert ids(catalog) == set()
    assert catalog.rows().column("paused").to_pylist() == [True]
    catalog.replace("a", "price < 20")
    assert ids(catalog) == set()
    catalog.resume("a")
    assert catalog.subscriptions().text("a") == "price < 20"


def test_owner_and_labels_select_and_survive_a_replace(catalog):
    catalog.add("a", "price < 10", owner="ann", labels={"team": "risk", "tier": "1"})
    catalog.add("b", "price < 10", owner="bob", labels={"team": "risk"})
    catalog.add("c", "price < 10")
    catalog.replace("a", "price < 11")
    assert set(catalog.subscriptions(owner="ann").ids.tolist()) == {"a"}
    assert set(catalog.subscriptions(labels={"team": "risk"}).ids.tolist()) == {"a", "b"}
    assert set(catalog.subscriptions(labels={"team": "risk", "tier": "1"}).ids.tolist()) == {"a"}
    catalog.replace("a", "price < 12", owner="", labels={})
    row = catalog.rows().to_pylist()[0]
    assert (row["owner"], row["labels"]) == (None, [])


def test_a_subscription_added_again_has_nothing_of_the_old_one(catalog):
    catalog.add("a", "price < 10", owner="ann", labels={"team": "risk"})
    catalog.pause("a")
    catalog.remove("a")
    catalog.add("a", "price < 10")
    row = catalog.rows().to_pylist()[0]
    assert (row["owner"], row["labels"], row["paused"]) == (None, None, False)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda catalog: catalog.add("a", "price < 1"), "cannot add 'a': it is active"),
        (lambda catalog: catalog.replace("z", "price < 1"), "cannot replace 'z': it is not in the catalog"),
        (lambda catalog: catalog.remove("z"), "cannot remove 'z': it is not in the catalog"),
        (lambda catalog: catalog.pause("z"), "cannot pause 'z': it is not in the catalog"),
        (lambda catalog: catalog.resume("a"), "cannot resume 'a': it is active"),
    ],
)
def test_changes_that_do_not_fit_the_state_are_refused(catalog, change, reason):
    catalog.add("a", "price < 10")
    with pytest.raises(CatalogError, match=reason):
        change(catalog)
    assert catalog.version == 1


@pytest.mark.parametrize("id", ["", True, 1.5, None, 2**63])
def test_ids_that_are_none_are_refused(catalog, id):
    with pytest.raises(DataError):
        catalog.add(id, "price < 10")


def test_bad_filters_owners_and_labels_are_refused_where_they_are_given(catalog):
    with pytest.raises(FilterError, match="did you mean 'price'"):
        catalog.add("a", "prise < 10")
    with pytest.raises(DataError, match="owner"):
        catalog.add("a", "price < 10", owner=7)
    with pytest.raises(DataError, match="label"):
        catalog.add("a", "price < 10", labels={"team": 7})
    assert catalog.version == 0


def test_a_grouped_edit_is_one_version(catalog):
    catalog.add("old", "price < 10")
    with catalog.edit(author="ann") as edit:
        edit.remove("old")
        edit.add("old", "price < 11")
        edit.add("new", "price < 12")
        edit.pause("new")
    assert edit.version == catalog.version == 2
    assert ids(catalog) == {"old"}
    newest = catalog.history(limit=1)[0]
    assert newest.author == "ann"
    assert newest.operations == {"add": 2, "remove": 1, "pause": 1}


def test_a_grouped_edit_with_one_misfit_changes_nothing(catalog):
    catalog.add("a", "price < 10")
    with pytest.raises(CatalogError, match="cannot add 'a'"):
        _misfitting_edit(catalog)
    assert catalog.version == 1


def _misfitting_edit(catalog):
    with catalog.edit() as edit:
        edit.add("b", "price < 10")
        edit.add("a", "price < 10")


def _broken_edit(catalog):
    with catalog.edit() as edit:
        edit.add("b", "price < 10")
        raise KeyError("something else went wrong")


def test_a_grouped_edit_that_is_left_by_an_error_changes_nothing(catalog):
    with pytest.raises(KeyError):
        _broken_edit(catalog)
    assert catalog.version == 0


def test_an_empty_edit_is_no_version(catalog):
    with catalog.edit() as edit:
        pass
    assert (edit.version, catalog.version) == (None, 0)


def test_net_changes_between_versions_are_what_matching_sees(catalog):
    for id in ("kept", "changed", "gone", "paused"):
        catalog.add(id, "price < 10")
    before = catalog.version
    catalog.replace("changed", "price < 20")
    catalog.remove("gone")
    catalog.pause("paused")
    catalog.add("new", "price < 30")
    catalog.add("brief", "price < 40")
    catalog.remove("brief")
    found = {row["id_text"]: (row["change"], row["filter"]) for row in catalog.changes(before).to_pylist()}
    assert found == {
        "changed": ("replaced", "price < 20"),
        "gone": ("removed", None),
        "paused": ("removed", None),
        "new": ("added", "price < 30"),
    }
    catalog.resume("paused")
    assert catalog.changes(catalog.version - 1).to_pylist() == [
        {"change": "added", "id_number": None, "id_text": "paused", "filter": "price < 10"}
    ]
    assert len(catalog.changes(before, before)) == 0


def test_changes_go_forward_between_versions_that_exist(catalog):
    catalog.add("a", "price < 10")
    with pytest.raises(CatalogError, match="older version to a newer one"):
        catalog.changes(1, 0)
    with pytest.raises(CatalogError, match="no version 5"):
        catalog.changes(0, 5)
    with pytest.raises(CatalogError, match="no version -1"):
        catalog.rows(-1)


def test_the_schema_grows_and_every_version_has_its_own(catalog):
    catalog.add("a", "price < 10")
    with pytest.raises(FilterError):
        catalog.add("b", "volume > 5")
    assert catalog.grow_schema({"volume": Int(0, 100)}) == 2
    catalog.add("b", "volume > 5")
    assert list(catalog.schema_at(1)) == ["price", "symbol"]
    assert list(Catalog.open(catalog.path).schema) == ["price", "symbol", "volume"]
    assert ids(catalog) == {"a", "b"}
    with pytest.raises(SchemaError, match="cannot become"):
        catalog.grow_schema({"price": Text()})


def test_two_writers_that_grow_the_schema_both_get_their_attribute(catalog):
    other = Catalog.open(catalog.path)
    with catalog.edit() as edit:
        edit.grow_schema({"volume": Int()})
        other.grow_schema({"country": Text()})
    assert list(catalog.schema) == ["price", "symbol", "country", "volume"]


def test_history_says_when_by_whom_and_what(catalog):
    started = datetime.now(UTC)
    catalog.add("a", "price < 10", author="ann")
    catalog.pause("a", author="bob")
    newest, before, first = catalog.history()
    assert (newest.version, newest.author, newest.operations) == (2, "bob", {"pause": 1})
    assert (before.version, before.author, before.operations) == (1, "ann", {"add": 1})
    assert first.operations == {"schema": 1}
    assert started <= before.time <= newest.time


def test_compaction_loses_no_version(catalog):
    for number in range(5):
        catalog.add(number, f"price < {number + 1}")
    catalog.remove(0)
    before = [catalog.rows(version).to_pylist() for version in range(7)]
    catalog.compact()
    again = Catalog.open(catalog.path)
    assert [again.rows(version).to_pylist() for version in range(7)] == before
    again.add(9, "price < 9")
    assert len(again.subscriptions()) == 5


def test_merges_that_overlap_show_no_row_twice(catalog):
    for number in range(5):
        catalog.add(number, f"price < {number + 1}")
    before = catalog.rows().to_pylist()
    overlapping = [Catalog.open(catalog.path) for _ in range(2)]
    for each in overlapping:
        each._log.compact(1 << 20)
    again = Catalog.open(catalog.path)
    assert again.rows().to_pylist() == before
    assert sum(entry.operations.get("add", 0) for entry in again.history()) == 5


def test_many_small_edits_leave_few_files(catalog, monkeypatch):
    monkeypatch.setattr("eventsieve.catalog.catalog._MERGE_EVERY", 8)
    for number in range(30):
        catalog.add(number, f"price < {number + 1}")
    again = Catalog.open(catalog.path)
    assert len(again.subscriptions()) == 30
    assert again._log.n_files <= 9


OPERATION = st.tuples(
    st.sampled_from(["add", "replace", "remove", "pause", "resume"]),
    st.sampled_from([1, 2, "1", "x"]),
    st.integers(1, 99),
)


@given(st.lists(st.lists(OPERATION, max_size=4), max_size=5))
def test_any_sequence_of_edits_gives_the_state_of_a_plain_dictionary(tmp_path_factory, edits):
    """The definition: a dict per version of id -> [filter, paused], with edits that do not fit left out whole."""
    catalog = Catalog.create(tmp_path_factory.mktemp("any") / "catalog", Schema({"price": Float()}))
    states: list[dict[object, list[object]]] = [{}]
    for operations in edits:
        expected = _applied(states[-1], operations)
        try:
            with catalog.edit() as edit:
                for operation, id, number in operations:
                    more = (f"price < {number}",) if operation in ("add", "replace") else ()
                    getattr(edit, operation)(id, *more)
        except CatalogError:
            assert expected is None
        else:
            assert expected is not None
            if operations:
                states.append(expected)
    assert catalog.version == len(states) - 1
    for version, state in enumerate(states):
        subscriptions = catalog.subscriptions(version=version)
        active = {id: text for id, (text, paused) in state.items() if not paused}
        assert {id: subscriptions.text(id) for id in subscriptions.ids.tolist()} == active


def _applied(state, operations):
    new = {id: list(value) for id, value in state.items()}
    for operation, id, number in operations:
        if operation == "add" and id not in new:
            new[id] = [f"price < {number}", False]
        elif operation == "replace" and id in new:
            new[id][0] = f"price < {number}"
        elif operation == "remove" and id in new:
            del new[id]
        elif operation in ("pause", "resume") and id in new and new[id][1] == (operation == "resume"):
            new[id][1] = operation == "pause"
        else:
            return None
    return new
