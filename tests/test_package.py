"""The wheel holds the whole package, and nothing else."""

import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import implicit_bias

ROOT = Path(__file__).parent.parent


def test_the_wheel_is_complete(tmp_path):
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = tmp_path.glob("implicit_bias-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    kinds = ("*.py", "*.html")
    sources = {str(path.relative_to(ROOT)) for kind in kinds for path in (ROOT / "implicit_bias").rglob(kind)}
    assert sources | {"implicit_bias/py.typed"} == {name for name in names if name.startswith("implicit_bias/")}


def fresh(code):
    """What a new interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    return done.stdout.split()


def test_public_names_are_loaded_when_the_first_is_used():
    loaded = 'print(*(name in sys.modules for name in ("torch", "cvxpy")), os.environ["OMP_WAIT_POLICY"])'
    assert fresh(f"import os, sys, implicit_bias; {loaded}") == ["False", "False", "PASSIVE"]
    assert fresh(f"import os, sys; from implicit_bias import solve; {loaded}") == ["True", "True", "PASSIVE"]
    assert fresh("import implicit_bias; print(implicit_bias.networks.__name__)") == ["implicit_bias.networks"]
    assert fresh("from implicit_bias import *; print(solve.__name__, svm_gln.__name__)") == ["solve", "svm_gln"]
    assert "solve" in fresh("import implicit_bias; print(*dir(implicit_bias))")


def test_an_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = implicit_bias.nonsense
    with pytest.raises(ImportError, match="nonsense"):
        from implicit_bias import nonsense  # noqa: F401


def test_the_version_stands_in_one_place():
    number = re.escape(implicit_bias.__version__)
    assert subprocess.run(
        [sys.executable, "-c", "from setuptools import setup; setup()", "--version"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split() == [implicit_bias.__version__]  # fmt: skip
    holders = [p.name for p in (ROOT / "implicit_bias").rglob("*.py") if re.search(f'"{number}"', p.read_text())]
    assert holders == ["version.py"]
