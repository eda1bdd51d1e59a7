"""The pipeline on Spark; the only room that imports pyspark, and only when it is used."""

from eventsieve.spark.session import session

__all__ = ["session"]
