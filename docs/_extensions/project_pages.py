"""Pages about the project: made from files at the top level, or written apart from the guide."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes

TOP = Path(__file__).parent.parent.parent

CITE = """\
# How to cite

This software:

```{citation}
```

The theory is that of S. Lippl, L. F. Abbott and S. Chung, *The Implicit Bias of Gradient Descent on Generalized Gated
Linear Networks* (2022); please cite it as well.
"""


def citation() -> str:
    """Return the page on citing."""
    file = TOP / "CITATION.cff"
    return CITE.replace("{citation}\n", f"yaml\n{file.read_text().rstrip()}\n" if file.exists() else "text\nnone yet\n")


def top(name: str, otherwise: str) -> str:
    """Return a file of the top level as a page: links to pages of the guide are kept, other links become text."""
    file = TOP / name
    if not file.exists():
        return otherwise
    text = re.sub(r"\]\(docs/", "](", file.read_text())
    return re.sub(r"\[([^\]]+)\]\((?!https?:|#)(?![\w/]+\.md)[^)]*\)|\[([^\]]+)\]\([A-Z]+\.md\)", r"\1\2", text)


def plain_links(app: Any, name: str, source: list[str]) -> None:
    """Turn links to files of the top level into text, in place."""
    source[0] = re.sub(r"\[([^\]]+)\]\(\.\./[A-Z]+\.md[^)]*\)", r"\1", source[0])


def link_pictures(app: Any, doctree: Any, name: str) -> None:
    """Link pictures without a target to their full size, and small ones of the gallery to their examples."""
    for image in list(doctree.findall(nodes.image)):
        linked = isinstance(image.parent, nodes.reference) or Path(image["uri"]).parent.name == "thumb"
        if not linked and image["uri"] in app.env.images:
            place = "../" * name.count("/") + f"_images/{app.env.images[image['uri']][1]}"
            image.replace_self(nodes.reference("", "", image.deepcopy(), refuri=place, internal=True))


def setup(app: Any) -> dict[str, bool]:
    """Connect to Sphinx; write the pages before it looks for sources, unless they are unchanged."""
    pages = {
        "cite.md": citation(),
        "changelog.md": top("CHANGELOG.md", "# Changelog\n\nNothing is released yet.\n"),
        "contributing.md": top("CONTRIBUTING.md", "# Contributing\n\n`make test` runs lint, types and tests.\n"),
    }
    for name, text in pages.items():
        page = Path(app.srcdir) / name
        if not page.exists() or page.read_text() != text:
            page.write_text(text)
    app.connect("source-read", plain_links)
    app.connect("doctree-resolved", link_pictures)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
