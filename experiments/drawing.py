"""What every progress bar does with `with`."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.progress import Progress


class Drawing:
    """Draws for the time of a block; what it draws is made by the class that derives from it."""

    _progress: Progress

    def __enter__(self) -> Self:
        """Starts drawing."""
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stops drawing."""
        self._progress.stop()
