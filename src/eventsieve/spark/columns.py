"""Attributes as Spark columns: which type each takes in a file, and whether a DataFrame's columns fit a schema."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from eventsieve.errors import SchemaError, suggestion
from eventsieve.model.events import Events
from eventsieve.model.schema import Schema
from eventsieve.model.types import AttributeType, Bool, Float, Int, Text, Time

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType


def file_schema(schema: Schema) -> StructType:
    """Return the columns that a file of events is read with, all of them optional."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(name, _spark_type(kind)) for name, kind in schema.items()])


def _spark_type(kind: AttributeType) -> DataType:
    from pyspark.sql import types

    match kind:
        case Float():
            return types.DoubleType()
        case Int():
            return types.LongType()
        case Bool():
            return types.BooleanType()
        case Text():
            return types.StringType()
        case Time():
            # Spark reads a plain number as seconds; other units arrive as numbers and are scaled by the model.
            return types.TimestampType() if kind.unit == "s" else types.LongType()


def schema_of(events: DataFrame, key: Sequence[str]) -> Schema:
    """Return a schema with an attribute for every column that can be matched and is not a key."""
    from pyspark.sql import types

    kinds: list[tuple[type[DataType], AttributeType]] = [
        (types.BooleanType, Bool()),
        (types.IntegralType, Int()),
        (types.FractionalType, Float()),
        (types.StringType, Text()),
        (types.DateType, Time()),
        (types.TimestampType, Time()),
        (types.TimestampNTZType, Time()),
    ]
    found: dict[str, AttributeType] = {}
    for field in events.schema.fields:
        kind = next((kind for spark_type, kind in kinds if isinstance(field.dataType, spark_type)), None)
        if kind is not None and field.name not in key:
            found[field.name] = kind
    return Schema(found)


def attribute_columns(events: DataFrame, schema: Schema) -> list[str]:
    """Return the columns that are attributes; raise SchemaError if there are none, or if one has another type."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    names = [name for name in events.columns if name in schema]
    if not names:
        raise SchemaError(
            f"none of the columns {', '.join(events.columns)} is an attribute; the attributes are "
            f"{', '.join(schema.names)}"
        )
    # The model itself judges the types, on a table without rows.
    fields = StructType([field for field in events.schema.fields if field.name in schema])
    arrow = to_arrow_schema(fields, timezone="UTC")
    Events.from_arrow(schema, arrow.empty_table())
    return names


def key_columns(events: DataFrame, schema: Schema, key: str | Sequence[str] | None) -> list[str]:
    """Return the columns that name an event: the given ones, else all that are no attributes."""
    if key is None:
        found = [name for name in events.columns if name not in schema]
        if not found:
            raise SchemaError(
                "every column is an attribute, so none can name an event by itself; say which ones do with key=..."
            )
        return found
    asked = [key] if isinstance(key, str) else list(key)
    for name in asked:
        if name not in events.columns:
            raise SchemaError(f"no column is named {name!r} to be a key{suggestion(name, events.columns)}")
    return asked


def quoted(name: str) -> Column:
    """Return a column by its very name, dots and all."""
    from pyspark.sql import functions

    return functions.col("`" + name.replace("`", "``") + "`")
