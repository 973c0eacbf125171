"""Help, completion and scripts know every command and option."""

import json
import runpy
import subprocess
import sys
from types import ModuleType

import pytest

from implicit_bias import __version__
from implicit_bias.cli.main import COMMANDS, whole_parser
from tests import ROOT
from tests.cli.commands import posix, process, run

#: The script of each command that has one.
SCRIPTS = {
    "compare gln": "compare_gln",
    "compare relu": "compare_relu",
    "compare shallow-gln": "compare_shallow_gln",
    "solve": "solve_margin_problem",
    "reproduce paper": "reproduce_paper",
    "reproduce galu": "reproduce_galu",
    "reproduce localization": "reproduce_localization",
    "reproduce gram": "reproduce_gram",
    "reproduce best": "reproduce_best",
    "reproduce classes": "reproduce_classes",
    "reproduce scale": "reproduce_scale",
    "reproduce deeper": "reproduce_deeper",
    "reproduce optimisers": "reproduce_optimisers",
    "reproduce limit": "limit_of_gradient_descent",
}


#: Packages without which help is there in a fraction of a second.
HEAVY = {"torch", "cvxpy", "pandas", "scipy", "sklearn", "matplotlib", "tqdm"}
LIGHT = [["--help"], ["--version"], ["compare", "--help"], ["nonsense"]]
LIGHT += [[*command.split(), "--help"] for command in COMMANDS]


def test_help_and_version_load_nothing_heavy():
    code = f"""
import sys
from contextlib import suppress
from implicit_bias.cli.main import main
for arguments in {LIGHT}:
    with suppress(SystemExit):
        main(arguments)
    print(arguments, {HEAVY} & set(sys.modules), file=sys.stderr)
"""
    done = process("-c", code, command=[sys.executable])
    assert [line for line in done.stderr.splitlines() if line[0] == "["] == [f"{words} set()" for words in LIGHT]


def test_the_version_is_printed():
    assert process("--version").stdout == f"implicit-bias {__version__}\n"


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command(command):
    code, text, _ = run(*command.split(), "--help")
    assert (code, "examples:" in text) == (0, True)
    assert "exit codes:" in text
    assert f"implicit-bias {command}" in text
    assert "None" not in text


@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_of_the_help_parse(command):
    lines = run(*command.split(), "--help").stdout.split("examples:\n")[1].split("\n\n")[0].splitlines()
    for line in lines:
        words = line.split("#")[0].split(">")[0].split()
        assert words[0] == "implicit-bias"
        assert callable(whole_parser().parse_args(words[1:]).run)


def test_every_script_is_listed():
    assert sorted(SCRIPTS.values()) == sorted(path.stem for path in (ROOT / "scripts").glob("*.py"))


@pytest.mark.parametrize("command", SCRIPTS)
def test_scripts_and_commands_take_the_same_options(command, monkeypatch, capsys):
    script = str(ROOT / "scripts" / f"{SCRIPTS[command]}.py")
    monkeypatch.setattr(sys, "argv", [script, "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(script, run_name="__main__")
    assert end.value.code == 0
    texts = (capsys.readouterr().out, run(*command.split(), "--help").stdout)
    of_script, of_command = (text.split("options:\n")[1].split("\n\n")[0] for text in texts)
    assert of_script == of_command


#: What CONTRIBUTING asks of a new command.
NEW_COMMAND = """
from implicit_bias.cli.execution import Output

def declare(parser, command):
    parser.explain("Solve a small problem.", [("--C 1", "at this price")])
    parser.add_argument("--C", type=float, default=2.0, help="price of slack")
    parser.set_defaults(run=work)

def work(options):
    from implicit_bias import ConstantGate, solve, svm_gln
    found = solve(svm_gln([[2.0], [-2.0]], [1, -1], ConstantGate(), options.C))
    print(found.status.name)
    return Output(0, {"objective": found.objective}, "solve a larger one")
"""


@pytest.fixture
def new_command(monkeypatch):
    module = ModuleType("implicit_bias.cli.small")
    exec(NEW_COMMAND, vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(COMMANDS, "small", ("solve a small problem", "small"))


def test_help_json_and_completion_of_a_new_command(new_command):
    assert "price of slack (default: 2.0)" in run("small", "--help").stdout
    assert "solve a small problem" in run("--help").stdout
    assert run("small").stdout == "OPTIMAL\nwrote no file; next: solve a larger one\n"
    assert json.loads(run("small", "--json").stdout)["objective"] == pytest.approx(0.5, rel=1e-5)
    assert "small" in run("completion", "bash").stdout
    assert run("small", "--C", "-1", "--json").returncode == 2


def completed(script, *words):
    """Return the completions that bash offers after these words, the last of which is being typed."""
    typed = " ".join(f"'{word}'" for word in words)
    ask = f"""
        source {script}
        function=$(complete -p implicit-bias | sed 's/.* -F \\([^ ]*\\) .*/\\1/')
        COMP_WORDS=({typed}); COMP_CWORD={len(words) - 1}
        $function implicit-bias '{words[-1]}' '{words[-2]}'
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    return [word.strip() for word in done.stdout.split()]


@posix
def test_bash_completes_commands_options_and_values(tmp_path):
    script = tmp_path / "completion"
    script.write_text(run("completion", "bash").stdout)
    assert set(completed(script, "implicit-bias", "")) >= {"compare", "solve", "reproduce", "info", "completion"}
    assert completed(script, "implicit-bias", "compare", "s") == ["shallow-gln"]
    assert completed(script, "implicit-bias", "compare", "gln", "--mom") == ["--momentum"]
    assert completed(script, "implicit-bias", "solve", "--solver", "E") == ["ECOS"]
    assert completed(script, "implicit-bias", "reproduce", "paper", "--dataset", "f") == ["fashion-mnist"]
    assert completed(script, "implicit-bias", "solve", "--formulation", "svm-r") == ["svm-rc"]
    assert completed(script, "implicit-bias", "reproduce", "galu", "--figure", "nor") == ["norms"]
    assert completed(script, "implicit-bias", "reproduce", "paper", "--figure", "4") == ["4"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_scripts_that_name_every_option(shell):
    code, text, _ = run("completion", shell)
    assert code == 0
    for word in ("implicit-bias", "shallow-gln", "momentum", "max-seconds", "CLARABEL", "fashion-mnist"):
        assert word in text
