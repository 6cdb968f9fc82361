"""A progress display with room for a note."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.progress import Progress
from rich.text import Text


class NotedProgress(Progress):
    """Progress bars with the last note of each task below them, since a terminal has little room beside a bar."""

    def get_renderables(self) -> Iterator[RenderableType]:
        """See Progress.get_renderables."""
        yield from super().get_renderables()
        yield from (Text(f"  {note}") for task in self.tasks if (note := task.fields["note"]))
