"""The released files are complete, load lazily, and state one version."""

import re
import runpy
import subprocess
import sys
import tarfile
import zipfile

import pytest

import implicit_bias
from tests import ROOT


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return a folder with the source distribution, and the wheel that is built from it."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_wheel_holds_the_package_only(built):
    (wheel,) = built.glob("implicit_bias-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    kinds = ("*.py", "*.pyi", "*.html", "*.toml")
    sources = {str(path.relative_to(ROOT)) for kind in kinds for path in (ROOT / "implicit_bias").rglob(kind)}
    assert sources | {"implicit_bias/py.typed"} == {name for name in names if ".dist-info/" not in name}
    (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
    assert "implicit-bias = implicit_bias.cli.main:main" in zipfile.ZipFile(wheel).read(entry_points).decode()
    assert any(name.endswith("licenses/LICENSE") for name in names)


def members(sdist):
    with tarfile.open(sdist) as archive:
        return {name.partition("/")[2] for name in archive.getnames()}


def test_source_distribution_holds_tracked_files(built):
    (sdist,) = built.glob("implicit_bias-*.tar.gz")
    names = members(sdist)
    for name in ("LICENSE", "CHANGELOG.md", "CITATION.cff", "tests/test_package.py", "scripts/compare_gln.py",
                 "docs/conf.py", "docs/guide/start.md", "data/paper/cells.csv"):  # fmt: skip
        assert name in names
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode == 0 and (ROOT / ".git").exists():
        tracked = {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}
        assert tracked - names == {".gitignore"} & tracked
    for made in ("docs/_build", "docs/api", "docs/auto_gallery", "results", ".venv", "data/MNIST"):
        assert not any(name.startswith(made) for name in names), made


def test_twine_check_passes(built):
    files = [str(path) for path in sorted(built.iterdir())]
    done = subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *files], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


def test_linked_files_are_distributed(built):
    (sdist,) = built.glob("implicit_bias-*.tar.gz")
    names = members(sdist)
    for page in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        links = re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / page).read_text())
        assert {link for link in links if "://" not in link} <= names


def test_index_page_has_no_links_to_files(built, monkeypatch):
    """Links to files become text, or links into the repository if REPOSITORY is set."""
    (wheel,) = built.glob("implicit_bias-*.whl")
    archive = zipfile.ZipFile(wheel)
    (place,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    text = archive.read(place).decode()
    assert "max-margin classifier" in text
    assert all("://" in link for link in re.findall(r"\]\(([^)]+)\)", text))
    given = {}
    monkeypatch.setattr("setuptools.setup", lambda **options: given.update(options))
    monkeypatch.setenv("REPOSITORY", "https://example.org/us/it/")
    runpy.run_path(str(ROOT / "setup.py"))
    assert "(https://example.org/us/it/blob/HEAD/docs/errata.md)" in given["long_description"]
    assert "(https://example.org/us/it/raw/HEAD/docs/figures/index/descents.png)" in given["long_description"]
    assert given["project_urls"]["Source"] == "https://example.org/us/it"


def test_a_release_names_the_repository(tmp_path):
    place = "https://example.org/us/it"
    shown = {"README.md": f"In a clone of [this repository]({place}), with", "docs/index.md": f"clone of {place}; for"}
    shown |= {"CITATION.cff": f"\nrepository-code: {place}\n"}
    (tmp_path / "docs").mkdir()
    for name in shown:
        (tmp_path / name).write_text((ROOT / name).read_text())
    for address in ("https://example.org/fork", "https://example.org/us/it/"):
        subprocess.run([sys.executable, ROOT / ".ci/address", address, tmp_path], check=True)
    assert all((tmp_path / name).read_text().count(text) == 1 for name, text in shown.items())


def test_citation_and_changelog_name_the_version():
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^version: (.*)$", citation, flags=re.M).group(1) == implicit_bias.__version__
    assert implicit_bias.__version__ in (ROOT / "CHANGELOG.md").read_text()


def fresh(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


#: Packages that take a good part of a second or more to load, and public names in an order in which each needs those of
#: the names before it and the ones that stand beside it.
HEAVY = ("torch", "cvxpy", "sklearn", "pandas", "scipy.stats", "scipy.optimize", "matplotlib", "tqdm", "torchvision")
NEEDED = {
    "GatedFeatures load_binary GroupLasso ExpressionNorm MarginProblem solve certify": set(),
    "HyperplaneGates svm_gln": {"sklearn", "pandas", "scipy.stats", "scipy.optimize"},
    "GLNClassifier GatedReLUClassifier": {"sklearn"},
    "MarginProgram": {"cvxpy"},
    "train": {"torch", "tqdm"},
}


def test_name_loads_only_packages_it_needs():
    code = f"""
import os, sys, implicit_bias
print(os.environ["OMP_WAIT_POLICY"])
for names in {list(NEEDED)}:
    for name in names.split():
        getattr(implicit_bias, name)
    print(*(name for name in {HEAVY} if name in sys.modules))
"""
    first, *found = fresh(code).splitlines()
    assert first == "PASSIVE"
    allowed = set()
    for (names, needed), loaded in zip(NEEDED.items(), found, strict=True):
        allowed |= needed
        assert set(loaded.split()) <= allowed, names
    assert {"torch", "cvxpy"} <= set(loaded.split())


def test_native_solve_loads_neither_cvxpy_nor_torch():
    code = """
import sys
from implicit_bias import Frobenius, GatedFeatures, MarginProblem, solve
found = solve(MarginProblem(GatedFeatures([[2.0], [-1.0]]), [1, -1], Frobenius()))
print(found.status.name, {"cvxpy", "torch"} & set(sys.modules))
"""
    assert fresh(code).split() == ["OPTIMAL", "set()"]


def test_dir_and_star_import():
    brought = {}
    exec("from implicit_bias import *", brought)
    assert brought.keys() - {"__builtins__"} == set(implicit_bias.__all__) <= set(dir(implicit_bias))


def test_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="nonsense"):
        _ = implicit_bias.nonsense
    with pytest.raises(ImportError, match="nonsense"):
        from implicit_bias import nonsense  # noqa: F401


def test_version_is_stated_once():
    number = re.escape(implicit_bias.__version__)
    assert subprocess.run(
        [sys.executable, "-c", "from setuptools import setup; setup()", "--version"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split() == [implicit_bias.__version__]  # fmt: skip
    holders = [p.name for p in (ROOT / "implicit_bias").rglob("*.py") if re.search(f'"{number}"', p.read_text())]
    assert holders == ["version.py"]
