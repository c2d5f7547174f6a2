"""Tables as files: csv, csv.gz or parquet, by the name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from .files import check_ending, replacing

_ENDINGS: Final = (".csv", ".csv.gz", ".parquet")


def check_table(path: Path) -> None:
    """Refuses a file name that says no format of a table.

    Raises:
        OutputError: It ends in none of the known ways.
    """
    check_ending(path, *_ENDINGS)


def write_table(table: pa.Table, path: Path) -> None:
    """Writes a table, whole or not at all.

    Raises:
        OutputError: Another ending, or the folder cannot be written to.
    """
    check_table(path)
    with replacing(path) as temporary:
        if path.name.endswith(".parquet"):
            pyarrow.parquet.write_table(table, temporary)
        elif path.name.endswith(".csv.gz"):
            with pa.CompressedOutputStream(str(temporary), "gzip") as stream:
                pyarrow.csv.write_csv(table, stream)
        else:
            pyarrow.csv.write_csv(table, temporary)
