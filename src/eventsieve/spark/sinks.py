"""Where the matches of a stream go: a folder per batch, replaced as a whole, or the terminal."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from eventsieve.errors import DataError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_MARKER: Final = "_eventsieve.json"
_PENDING: Final = "_pending"
"""Readers of a folder pass over names that begin with an underscore."""


class Sink(Protocol):
    """Takes the matches of one batch; taking the same batch again changes nothing."""

    def claim(self, query: str) -> None:
        """Make sure that nothing of another query is overwritten."""

    def write(self, batch: int, rows: DataFrame) -> None: ...


class FileSink:
    """Files in `folder/batch_id=N/`. A batch is written aside and moved into place in one step: exactly once."""

    def __init__(self, spark: SparkSession, form: Literal["parquet", "json"], folder: str) -> None:
        self._spark, self._form, self.folder = spark, form, folder.rstrip("/")
        self._jvm: Any = spark._jvm

    def claim(self, query: str) -> None:
        """Mark the folder as this query's; raise DataError if it is another's, or holds other things."""
        files, root = self._file_system(), self._path("")
        marker = self._path(_MARKER)
        if files.exists(marker):
            owner = json.loads(self._read(marker))["query"]
            if owner != query:
                raise DataError(
                    f"the folder {self.folder} holds the results of another query; name another folder, or go on "
                    "with that query's checkpoint"
                )
            return
        if files.exists(root) and len(files.listStatus(root)):
            raise DataError(f"the folder {self.folder} is not empty; name a new one for the results")
        files.mkdirs(root)
        stream = files.create(marker, False)
        stream.write(bytearray(json.dumps({"query": query}).encode()))
        stream.close()

    def write(self, batch: int, rows: DataFrame) -> None:
        """Put the rows of a batch in place of whatever a former attempt left."""
        files, pending, final = self._file_system(), f"{_PENDING}/{batch}", self._path(f"batch_id={batch}")
        writer = rows.write.mode("overwrite")
        (writer.parquet if self._form == "parquet" else writer.json)(f"{self.folder}/{pending}")
        if files.exists(final):
            files.delete(final, True)
        if not files.rename(self._path(pending), final):
            raise DataError(f"cannot move the results of batch {batch} into {self.folder}")

    def _file_system(self) -> Any:
        """Return Hadoop's file system of the folder: a local one, or whatever its address names."""
        return self._path("").getFileSystem(self._spark._jsparkSession.sessionState().newHadoopConf())

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.folder}/{name}" if name else self.folder)

    def _read(self, path: Any) -> str:
        stream = self._file_system().open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()


class ConsoleSink:
    """JSON lines on standard output."""

    def claim(self, query: str) -> None:
        """Nothing can be overwritten."""

    def write(self, batch: int, rows: DataFrame) -> None:
        """Write every row; a batch that is repeated after a crash is written again."""
        for line in rows.toJSON().toLocalIterator():
            sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def parse_sink(spark: SparkSession, text: str) -> Sink:
    """Read `parquet:DIR`, `json:DIR` or `console`."""
    form, _, folder = text.partition(":")
    if form == "console" and not folder:
        return ConsoleSink()
    if form == "parquet" and folder:
        return FileSink(spark, "parquet", folder)
    if form == "json" and folder:
        return FileSink(spark, "json", folder)
    raise DataError(f"a sink is parquet:DIR, json:DIR, console or kafka:BROKERS/TOPIC, not {text!r}")
