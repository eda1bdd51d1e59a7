"""The pipeline on Spark; the only room that imports pyspark, and only when it is used."""

from eventsieve.spark.indexing import build_index
from eventsieve.spark.match import match
from eventsieve.spark.session import session
from eventsieve.spark.sinks import ConsoleSink, FileSink
from eventsieve.spark.statistics import profile
from eventsieve.spark.streaming import MatchStream, Progress

__all__ = ["ConsoleSink", "FileSink", "MatchStream", "Progress", "build_index", "match", "profile", "session"]
