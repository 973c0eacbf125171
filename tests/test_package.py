"""The wheel holds the whole package, and nothing else."""

import subprocess
import sys
import zipfile
from pathlib import Path

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
