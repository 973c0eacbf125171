"""The code behind a stored result: what is inside of its digest, what is outside, and what a change does to it."""

import sys
from dataclasses import replace
from functools import partial

import pytest

from implicit_bias import InputError
from implicit_bias.experiments.galu.norms import EXPERIMENT
from implicit_bias.experiments.paper import gln, relu, shallow_gln
from implicit_bias.experiments.paper.study import VERSIONS, run_cell
from implicit_bias.experiments.runner.digests import Closure, closure_of, code_version, digest

STUDIES = [gln.STUDY, relu.STUDY, shallow_gln.STUDY]
#: A package: `rows` reaches lower and, in a function, late; `draw` reaches art; `inner` is reached through its package.
FILES = {
    "__init__.py": "from toy.version import NUMBER\nimport os\nos.environ.setdefault('TOY', '1')\n",
    "version.py": "NUMBER = 1\n",
    "art.py": "COLOUR = 'blue'\n",
    "lower.py": "from toy.deep.inner import f\nfrom toy.deep import g\n\n\ndef half(x):\n    return f(x) / 2\n",
    "late.py": "VALUE = 3\n",
    "deep/__init__.py": "from .inner import g\nfrom . import aside\nfrom toy.art import COLOUR\n",
    "deep/inner.py": "def f(x):\n    return x\n\n\ndef g(x):\n    return x\n",
    "deep/aside.py": "UNUSED = 1\n",
    "figure.py": '''"""A figure."""
from toy.art import COLOUR
from toy.lower import half

STEPS = 3


def rows(settings: dict) -> list:
    """The rows."""
    from toy import late
    return [half(STEPS) + late.VALUE]  # why


def draw(table):
    steps = COLOUR
    return steps


EXPERIMENT = (rows, draw)
''',
}


def closure(tmp_path, changes=(), name="rows"):
    folder = tmp_path / str(len(list(tmp_path.iterdir()))) / "toy"
    for path, text in (FILES | dict(changes)).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    found = Closure(folder)
    found.begin("toy.figure", name, folder / "figure.py")
    return found


def test_the_closure_is_what_a_function_reaches(tmp_path):
    parts = closure(tmp_path).parts
    assert set(parts) == {"toy", "toy.figure", "toy.lower", "toy.late", "toy.deep", "toy.deep.inner"}
    assert set(closure(tmp_path, name="draw").parts) == {"toy", "toy.figure", "toy.art"}
    assert "toy.late" in closure(tmp_path, name="EXPERIMENT").parts


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("figure.py", "A figure.", "Another."),
        ("figure.py", "  # why", ""),
        ("figure.py", "settings: dict", "settings: object"),
        ("figure.py", "steps = COLOUR", "steps = COLOUR.upper()"),
        ("figure.py", "import COLOUR\n", "import COLOUR, COLOUR as PAINT\n"),
        ("art.py", "blue", "red"),
        ("version.py", "1", "2"),
        ("deep/aside.py", "1", "2"),
    ],
)
def test_what_makes_no_results_leaves_the_digest(tmp_path, file, old, new):
    assert old in FILES[file]
    changed = closure(tmp_path, {file: FILES[file].replace(old, new)})
    assert changed.dump() == closure(tmp_path).dump()


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("figure.py", "STEPS = 3", "STEPS = 4"),
        ("figure.py", "return [half", "return [-half"),
        ("lower.py", "/ 2", "/ 3"),
        ("late.py", "3", "4"),
        ("deep/inner.py", "return x\n\n\ndef g", "return -x\n\n\ndef g"),
        ("deep/__init__.py", ".inner import g", ".inner import f as g"),
        ("__init__.py", "'1'", "'2'"),
    ],
)
def test_what_makes_results_changes_the_digest(tmp_path, file, old, new):
    assert old in FILES[file]
    changed = closure(tmp_path, {file: FILES[file].replace(old, new)})
    assert changed.dump() != closure(tmp_path).dump()


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_the_papers_cells_stand_on_all_that_makes_them(study):
    inside = {name.removeprefix("implicit_bias.") for name in closure_of(run_cell, study.rows).parts}
    used = {"checks", "comparison", "constraints", "datasets", "datasets.images", "datasets.task", "features"}
    used |= {"experiments.published", "experiments.study", "formulations", "gates", "kernel_features", "networks"}
    used |= {"networks.base", "norms", "problems", "solvers", "solvers.certificate", "solvers.conic.native"}
    used |= {"solvers.conic.interior_point", "solvers.conic.newton", "solvers.farkas", "training", "updates"}
    assert used <= inside
    for outside in ("plots", "paper_figures", "limit", "estimators", "command_line", "version", "public", "theory"):
        assert not any(name.split(".")[0] == outside for name in inside)
    arranging = ("store", "sweep", "engines", "collect", "digests", "jobs", "report", "findings", "paper", "galu")
    assert not inside & {f"experiments.{name}" for name in arranging}


def modules_run(work):
    """The modules of this package whose functions are called meanwhile."""
    seen = set()

    def note(frame, event, argument):
        if event == "call" and frame.f_code.co_name != "<module>":
            seen.add(frame.f_globals.get("__name__", ""))

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return {name for name in seen if name.startswith("implicit_bias.")}


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_no_code_runs_for_a_cell_that_is_not_in_its_digest(study):
    lists = {"contexts": (4,), "units": (1,)} if study.name == "compare_shallow_gln" else {"units": (4,)}
    config = replace(study.defaults, train_size=(60,), seeds=(1,), steps=40, versions=VERSIONS, **lists)
    run = modules_run(lambda: run_cell(study, config, config.cells()[0]))
    assert {"implicit_bias.training.sgd", "implicit_bias.margin.solvers.judge"} <= run
    assert run <= set(closure_of(run_cell, study.rows).parts)


def test_a_figures_own_drawing_is_outside():
    parts = closure_of(EXPERIMENT.rows).parts
    assert "implicit_bias.gates.hyperplanes" in parts
    assert "implicit_bias.experiments.runner.experiment" not in parts
    assert len(code_version(EXPERIMENT.rows)) == 12


def test_functions_of_other_places_count_too():
    def local(settings):
        return digest(settings)

    assert {__name__, "implicit_bias.experiments.runner.digests"} <= set(closure_of(local).parts)
    assert code_version(local) != code_version(EXPERIMENT.rows)


def test_a_function_without_a_file_is_refused():
    with pytest.raises(InputError, match="has no source file; let a plain function"):
        code_version(partial(digest, 3))
