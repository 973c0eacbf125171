"""What a package index shows: the README, whose links lead into the repository, or are text where none is named.

The environment variable REPOSITORY (https://host/owner/name) names it when a release is built.
"""

import os
import re
from pathlib import Path

from setuptools import setup

REPOSITORY = os.environ.get("REPOSITORY", "").rstrip("/")
#: Links and pictures of files, which an index does not have.
LOCAL = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)]+)\)")


def _elsewhere(link: re.Match[str]) -> str:
    picture, text, path = link.groups()
    if not REPOSITORY:
        return "" if picture else text
    return f"{picture}[{text}]({REPOSITORY}/{'raw' if picture else 'blob'}/HEAD/{path})"


pages = {"Source": "", "Changelog": "/blob/HEAD/CHANGELOG.md", "Documentation": "/tree/HEAD/docs/guide"}
setup(
    long_description=LOCAL.sub(_elsewhere, Path(__file__).with_name("README.md").read_text(encoding="utf-8")),
    project_urls={name: REPOSITORY + path for name, path in pages.items()} if REPOSITORY else {},
)
