"""The examples of the README, the guide and the errata run, and print what these pages show."""

import contextlib
import itertools
import re
import runpy
import shlex
import sys
from importlib import import_module

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from implicit_bias import GLNClassifier
from implicit_bias.cli.main import whole_parser
from tests import ROOT
from tests.cli.commands import run
from tests.cli.test_help import SCRIPTS
from tests.public import MODULES

README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", README, flags=re.S)


@pytest.mark.parametrize(("block", "text"), BLOCKS, ids=range(len(BLOCKS)))
def test_readme_example_prints_its_output(block, text, capsys):
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})
    printed = capsys.readouterr().out
    assert text or "OPTIMAL" in printed
    assert not text or agree(text, printed), f"README.md prints\n{printed}"


def test_the_errors_of_the_first_page_are_means_over_ten_splits():
    X, y = load_digits(return_X_y=True)
    models = LogisticRegression(), SVC(), GLNClassifier(units=100, C=0.1, random_state=1)
    splits = [train_test_split(X / 16, y % 2, random_state=seed) for seed in range(10)]
    accuracies = [[model.fit(A, a).score(B, b) for A, B, a, b in splits] for model in models]
    shown = re.findall(r"([\d.]+) %", README.partition("Over ten random splits")[2])[: len(models)]
    assert list(map(float, shown)) == pytest.approx([100 * (1 - np.mean(row)) for row in accuracies], abs=0.051)


def test_readme_names_existing_files():
    for path in set(re.findall(r"(?:docs|scripts)/[\w./]+\.\w+", README)):
        assert (ROOT / path).is_file(), path


PAGES = [path for folder in (".", "docs", "docs/guide", "data") for path in sorted((ROOT / folder).glob("*.md"))]
#: What Sphinx makes: the reference, and the gallery of `docs/gallery`.
MADE = re.compile(r"api/|auto_gallery/(?:index|(\w+/)(?:images/sphx_glr_)?(plot_\w+?)(?:_\d+)?\.(?:rst|png))")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page):
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", re.sub(r"```.*?```", "", page.read_text(), flags=re.S)):
        name, _, place = link.partition("#")
        if made := MADE.search(name):
            assert not made[2] or (ROOT / "docs" / "gallery" / f"{made[1]}{made[2]}.py").is_file(), link
            continue
        target = page.parent / name if name else page
        assert target.is_file(), link
        headings = re.findall(r"^#+ (.+)$", target.read_text(), flags=re.M) if place else []
        slugs = [re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-")) for heading in headings]
        assert not place or place in slugs, link


def test_gallery_scripts_import_public_names():
    names = {(module, name) for module in MODULES for name in import_module(f"implicit_bias{module}").__all__}
    for path in (ROOT / "docs" / "gallery").glob("*/plot_*.py"):
        text = path.read_text()
        for module, imported in re.findall(r"^from implicit_bias(\S*) import (\([^)]*\)|.*)$", text, flags=re.M):
            assert {(module, name) for name in re.findall(r"\w+", imported)} <= names, path.name
        assert path.parent.name != "atlas" or len(text.splitlines()) <= 70, path.name


def test_numbers_of_the_atlas_are_printed_by_its_scripts():
    rows = (ROOT / "docs" / "gallery" / "atlas" / "GALLERY_HEADER.rst").read_text().splitlines()
    for script in sorted((ROOT / "docs" / "auto_gallery" / "atlas").glob("plot_*.rst")) or pytest.skip("run make docs"):
        own = [row for row in rows if f"/{script.stem}>" in row]
        assert own, script.stem
        assert set(re.findall(r"\d+\.\d+", " ".join(own))) <= set(re.findall(r"\d+\.\d+", script.read_text())), own


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_have_the_options_shown(page):
    names = {script: command for command, script in SCRIPTS.items()}
    shown = re.sub(r"\\\n", " ", page.read_text())
    for script, words in re.findall(r"(?:implicit-bias|scripts/(\w+)\.py)((?: +[^\s`#]+)*)", shown):
        command = shlex.split(f"{names.get(script, '')} {words.rstrip('.,;:)…')}")
        if any(word.startswith("--") for word in command) and not command[0].isupper():
            with contextlib.suppress(SystemExit):
                whole_parser().parse_args(command)


OTHERS = ("best", "classes", "deeper", "dynamics", "galu", "gram_formulas", "localization", "pathways")
GUIDE = [*sorted((ROOT / "docs" / "guide").glob("*.md")), *(ROOT / "docs" / f"{page}.md" for page in OTHERS)]
FENCES = re.compile(r"^```(python|bash|text)\n(.*?)^```$", flags=re.S | re.M)
NUMBER = re.compile(r"\d+(?:\.(\d+))?(?:e([-+]\d+))?")
#: Relative accuracy of certified optima, which may show more digits.
OPTIMA = 1e-6
#: What differs from machine to machine, and what rounding alone decides.
VOLATILE = re.compile(r"\d+ iterations?(, [\d.]+ s)?|(gap|Farkas residual) [\d.]+e[-+]\d+")


def output_of(kind, code, namespace, page, capsys):
    """Return what a block of a page prints: Python in its `namespace`, `implicit-bias` as `run` does, else None."""
    if kind == "python":
        exec(compile(code, page, "exec"), namespace)
        return capsys.readouterr().out
    if not code.startswith("implicit-bias "):
        return None
    done = run(*shlex.split(code)[1:])
    assert done.returncode == 0, done.stderr
    return done.stdout


def agree(shown, printed):
    """True if two outputs have the same words and numbers up to the last digit shown, without the volatile parts."""
    shown, printed = (VOLATILE.sub("", text) for text in (shown, printed))
    words = [NUMBER.sub("#", text).split() for text in (shown, printed)]
    numbers = zip(NUMBER.finditer(shown), NUMBER.finditer(printed), strict=False)
    units = ((one[0], other[0], 10.0 ** (int(one[2] or 0) - len(one[1] or ""))) for one, other in numbers)
    return words[0] == words[1] and all(
        float(one) == pytest.approx(float(other), rel=OPTIMA, abs=1.01 * unit) for one, other, unit in units
    )


@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.stem)
def test_guide_prints_what_it_shows(page, capsys, tmp_path, monkeypatch):
    """Blocks of a page run in order, and each text block agrees with the output of the block before it."""
    monkeypatch.chdir(tmp_path)
    namespace, printed = {"__name__": page.stem}, None
    for kind, text in FENCES.findall(page.read_text()):
        if kind != "text":
            printed = output_of(kind, text, namespace, page.name, capsys)
        elif printed is not None:
            assert agree(text, printed), f"{page.name} prints\n{printed}"


@pytest.fixture
def erratum(monkeypatch, capsys):
    """Return a function from the name of an erratum's script to the decimal numbers in each line that it prints."""

    def numbers(name, *arguments):
        script = str(ROOT / "docs" / "errata" / f"{name}.py")
        monkeypatch.setattr(sys, "argv", [script, *arguments])
        runpy.run_path(script, run_name="__main__")
        printed = capsys.readouterr().out.splitlines()
        return [[float(number) for number in re.findall(r"-?\d+\.\d+", line)] for line in printed]

    return numbers


def test_published_square_root_is_wrong(erratum):
    for brute, correct, published in erratum("square_root"):
        assert brute == pytest.approx(correct, abs=2e-6)
        assert abs(published - brute) > 0.1 * brute


def test_column_major_groups_change_the_optimum(erratum):
    (units,), (mixed,) = erratum("grouping")
    assert abs(units - mixed) > 1e-3 * units


def test_lost_cutoffs_inflate_the_inconsistency(erratum):
    (own,), (lost,), shares = erratum("lost_cutoffs")
    assert lost > 1.5 * own
    # Medians over all images do not halve the training samples.
    assert shares[0] < 50 < shares[1]


def test_readout_bias_is_trained_and_changes_predictions(erratum):
    biases, changed = zip(*erratum("readout_bias"), strict=True)
    assert min(map(abs, biases)) > 0.1
    assert max(changed) > 0.2


def test_lemma_b11_holds_and_eq_83_has_the_wrong_sign(erratum):
    *rows, (cosine,) = erratum("exponential_tail")
    angles = [row[1] for row in rows]
    assert angles == sorted(angles, reverse=True)
    assert angles[-1] == 0
    assert cosine == -1.0


def test_definition_b10_of_the_logistic_and_the_exponential_loss():
    """−ℓ′ of the logistic loss is within (1 ± e^(−u)) e^(−u), with slope at most 1/4; e^(−u) has no largest slope."""
    u = np.linspace(-15, 15, 301)
    gradient = 1 / (1 + np.exp(u))
    assert (gradient <= np.exp(-u) * (1 + np.exp(-u))).all()
    assert (gradient >= np.exp(-u) * (1 - np.exp(-u))).all()
    slopes = [np.abs(np.diff(values) / np.diff(u)) for values in (gradient, np.exp(-u))]
    assert slopes[0].max() <= 1 / 4 < 1e6 < slopes[1].max()


def test_published_loss_has_no_gradient_at_a_saturated_sigmoid(capsys):
    runpy.run_path(str(ROOT / "docs" / "errata" / "saturated_sigmoid.py"))
    lines = (line.split(":") for line in capsys.readouterr().out.splitlines())
    rows = {float(output): [float(value) for value in values.split(",")] for output, values in lines}
    assert (rows[-120][:2], rows[120][2:]) == ([0, -1], [0, 1])
    assert [-rows[output][0] for output in (-30, -40)] == pytest.approx([0.094, 4e-6], rel=0.1)
    assert all(rows[output][i] == pytest.approx(rows[output][i + 1], rel=1e-3) for output in (-10, 10) for i in (0, 2))


def test_closed_form_of_gln_norm_is_too_large(erratum):
    for definition, *closed, ratio in erratum("gln_norm"):
        assert closed == pytest.approx([2**0.5 * definition] * 2, rel=1e-5)
        assert ratio == pytest.approx(2**0.5, rel=1e-5)


def test_lowest_degree_decides_the_limit(erratum):
    *descent, first, second = erratum("two_degrees")
    for earlier, later in itertools.pairwise(descent):
        assert later[2] >= earlier[2]
        assert later[3] < earlier[3]
    assert descent[-1] == pytest.approx([0.5**0.5, 0.5**0.5, 0.5**0.5, 0], abs=3e-3)
    assert first[-1] == second[-1] == 0


def test_zero_unit_keeps_descent_from_the_optimum(erratum):
    drawn, zero = erratum("zero_unit")
    assert max(drawn[0], zero[0]) < 0.01
    assert drawn[1] < 1.001 < 1.05 < zero[1]


@pytest.mark.mnist
@pytest.mark.long
def test_numbers_of_errata_on_mnist(erratum, mnist_root):
    page = " ".join((ROOT / "docs" / "errata.md").read_text().split())
    (own,), (lost,), (low, high) = erratum("lost_cutoffs", "mnist")
    assert f"{lost:.2f} % instead of {own:.2f} %" in page
    assert f"{low} to {high} % of the training samples" in page
    (a, u), (b, v), (c, w) = erratum("readout_bias", "mnist")
    assert f"the bias is {a:.3f}, {b:.3f} and {c:.3f} after training. Without it {u:.2f}, {v:.2f} and {w:.2f} %" in page
    found = erratum("zero_outputs")
    assert all(simulated == published for _, simulated, published in found)
    assert all(f"{found[i][2]:.5f} as published instead of {found[i][0]:.5f}" in page for i in (1, 4))
    orthonormal, gaussian = erratum("random_contexts")[-2:]
    assert round(orthonormal[-1], 1) == round(gaussian[-1], 1)
    apart = max(abs(one - other) for one, other in zip(orthonormal, gaussian, strict=True))
    assert f"the mean error is {gaussian[-1]:.1f} % with both kinds" in page
    assert f"differences of single draws are up to {apart:.1f} points" in page
