"""The schema of every version: it lives in the log beside the changes, so that both move together."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.compute as pc

from eventsieve.errors import CatalogError, SchemaError
from eventsieve.model.schema import Schema


def schema_to_text(schema: Schema) -> str:
    """Return the schema in the form the log keeps."""
    return json.dumps(schema.to_json(), ensure_ascii=False)


def schema_at(log: pa.Table, version: int) -> Schema:
    """Return the schema in force at a version, from the log's key columns."""
    known = pc.and_(log.column("schema").is_valid(), pc.less_equal(log.column("version"), version))
    texts = log.column("schema").filter(known)
    if len(texts) == 0:
        raise CatalogError(f"the catalog is damaged: it has no schema at version {version}; restore it from a copy")
    try:
        return Schema.from_json(json.loads(texts[-1].as_py()))
    except (ValueError, SchemaError) as cause:
        raise CatalogError(f"the catalog is damaged: its schema is not readable: {cause}") from cause
