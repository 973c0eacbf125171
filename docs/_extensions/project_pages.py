"""The pages about the project, made from the files at the top level: CITATION.cff and CHANGELOG.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TOP = Path(__file__).parent.parent.parent

CITE = """\
# How to cite

This software:

```{citation}
```

The theory is that of S. Lippl, L. F. Abbott and S. Chung, *The Implicit Bias of Gradient Descent on Generalized Gated
Linear Networks* (2022); please cite it as well.
"""


def write(path: Path, text: str) -> None:
    """Write a page; left alone where it is the same already."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def setup(app: Any) -> dict[str, bool]:
    """Write both pages before Sphinx looks for sources."""
    pages = Path(app.srcdir)
    citation, changelog = TOP / "CITATION.cff", TOP / "CHANGELOG.md"
    block = f"yaml\n{citation.read_text()}" if citation.exists() else "text\nThere is no CITATION.cff yet.\n"
    write(pages / "cite.md", CITE.replace("{citation}\n", block))
    changes = (
        "```{include} ../CHANGELOG.md\n```\n" if changelog.exists() else "# Changelog\n\nNothing is released yet.\n"
    )
    write(pages / "changelog.md", changes)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
