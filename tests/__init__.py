"""The tests, laid out as the package: that of `norms/group.py` is `norms/test_group.py`."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
