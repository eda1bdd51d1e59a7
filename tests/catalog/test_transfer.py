"""Bulk import and export: good rows are kept, bad ones named by line, and what is written can be read back."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eventsieve.catalog import Catalog
from eventsieve.errors import DataError
from eventsieve.model.report import LoadWarning

LINES = [
    '{"id": "a", "filter": "price < 10", "owner": "ann", "labels": {"team": "risk"}}',
    '{"id": 7, "filter": "symbol = \'A\'"}',
    "",
    "not json",
    '{"id": "b", "filtre": "price < 10"}',
    '{"id": "a", "filter": "price < 20"}',
    '{"id": "c", "filter": "price <"}',
    '{"id": "d", "filter": "price < 5", "paused": true}',
    '{"id": null, "filter": "price < 5"}',
]
BAD_LINES = [4, 5, 6, 7, 9]


def contents(catalog: Catalog) -> list[dict[str, object]]:
    return catalog.rows().drop_columns(["version", "time"]).to_pylist()


def test_bad_lines_are_reported_and_good_ones_kept(catalog):
    with pytest.warns(LoadWarning):
        report = catalog.import_jsonl(LINES)
    assert (report.added, [problem.line for problem in report.problems]) == (3, BAD_LINES)
    assert "already on line 1" in report.problems[2].reason
    assert catalog.version == 1
    assert set(catalog.subscriptions().ids.tolist()) == {"a", 7}
    assert catalog.rows().column("paused").to_pylist() == [False, False, True]


def test_a_strict_import_refuses_the_whole(catalog):
    with pytest.raises(DataError, match="5 of 8 rows"):
        catalog.import_jsonl(LINES, strict=True)
    assert catalog.version == 0


def test_ids_that_are_there_are_bad_rows_or_replaced(catalog):
    catalog.add("a", "price < 1", owner="ann")
    rows = ['{"id": "a", "filter": "price < 2"}', '{"id": "b", "filter": "price < 3"}']
    with pytest.warns(LoadWarning):
        report = catalog.import_jsonl(rows)
    assert (report.added, report.problems[0].line, report.problems[0].id) == (1, 1, "a")
    catalog.import_jsonl(rows, replace=True)
    subscriptions = catalog.subscriptions()
    assert [subscriptions.text(id) for id in ("a", "b")] == ["price < 2", "price < 3"]
    assert catalog.rows(owner="ann").num_rows == 1


def test_an_import_without_any_good_row_is_no_version(catalog):
    with pytest.warns(LoadWarning):
        assert catalog.import_jsonl(["nothing"]).added == 0
    assert catalog.version == 0


@pytest.mark.parametrize("ids", [["a", "b", "c"], [1, 2, 3], [1, "1", "x"]], ids=["texts", "integers", "mixed"])
@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_an_export_can_be_imported(catalog, tmp_path, ids, format):
    catalog.add(ids[0], "price < 1", owner="ann", labels={"team": "risk"})
    catalog.add(ids[1], "symbol = 'it''s'")
    catalog.add(ids[2], "price < 3")
    catalog.pause(ids[2])
    file = tmp_path / f"export.{format}"
    getattr(catalog, f"export_{format}")(file)
    copy = Catalog.create(tmp_path / "copy", catalog.schema)
    getattr(copy, f"import_{format}")(file, strict=True)
    assert contents(copy) == contents(catalog)


def test_parquet_rows_are_counted_from_one(catalog, tmp_path):
    table = pa.table({"id": [1, 2, None, 2], "filter": ["price < 1", None, "price < 3", "price < 4"]})
    pq.write_table(table, tmp_path / "in.parquet")
    with pytest.warns(LoadWarning):
        report = catalog.import_parquet(tmp_path / "in.parquet")
    assert [problem.line for problem in report.problems] == [2, 3]
    assert set(catalog.subscriptions().ids.tolist()) == {1, 2}


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ({"filter": ["price < 1"]}, "no column 'id'"),
        ({"id": [1]}, "no column 'filter'"),
        ({"id": [1.5], "filter": ["price < 1"]}, "ids are integers or texts"),
        ({"id": [1], "filter": ["price < 1"], "labels": [7]}, "the column 'labels' holds int64"),
    ],
)
def test_parquet_files_of_another_shape_are_refused(catalog, tmp_path, table, reason):
    pq.write_table(pa.table(table), tmp_path / "in.parquet")
    with pytest.raises(DataError, match=reason):
        catalog.import_parquet(tmp_path / "in.parquet")


def test_an_unreadable_parquet_file_is_refused(catalog, tmp_path: Path):
    (tmp_path / "in.parquet").write_text("not Parquet")
    with pytest.raises(DataError, match="cannot read subscriptions"):
        catalog.import_parquet(tmp_path / "in.parquet")


def test_exported_lines_have_only_what_is_set(catalog, tmp_path):
    catalog.add("a", "price < 1")
    catalog.export_jsonl(tmp_path / "out.jsonl")
    assert json.loads((tmp_path / "out.jsonl").read_text()) == {"id": "a", "filter": "price < 1"}
