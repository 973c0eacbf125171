"""The directive `status-table`: every `Status` with its remedy, read from the code."""

from __future__ import annotations

from typing import Any

from sphinx.util.docutils import SphinxDirective

from implicit_bias import Status


class StatusTable(SphinxDirective):
    """A list-table of names and remedies; in a MyST page it stands within `eval-rst`."""

    def run(self) -> list[Any]:
        """Parse the table."""
        lines = [".. list-table::", "   :header-rows: 1", "   :widths: 25 75", "", "   * - Status", "     - its text"]
        for status in Status:
            lines += [f"   * - ``{status.name}``", f"     - {status.value}"]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Any) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("status-table", StatusTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
