"""What the README and the errata show, runs and shows it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.S)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_the_readme_examples_run(block, capsys):
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    assert "OPTIMAL" in capsys.readouterr().out


def test_the_readme_names_only_what_exists():
    for path in set(re.findall(r"(?:docs|scripts)/[\w./]+\.\w+", README)):
        assert (ROOT / path).is_file(), path


def erratum(name):
    command = [sys.executable, str(ROOT / "docs" / "errata" / f"{name}.py")]
    text = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    return [[float(number) for number in re.findall(r"\d+\.\d+", line)] for line in text.splitlines()]


def test_the_published_square_root_is_none():
    for brute, correct, published in erratum("square_root"):
        assert brute == pytest.approx(correct, abs=2e-6)
        assert abs(published - brute) > 0.1 * brute


def test_column_major_groups_have_another_optimum():
    (units,), (mixed,) = erratum("grouping")
    assert abs(units - mixed) > 1e-3 * units


def test_lost_cutoffs_inflate_the_inconsistency():
    (own,), (lost,) = erratum("lost_cutoffs")
    assert lost > 1.5 * own
