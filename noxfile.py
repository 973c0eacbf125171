"""`make matrix`: the tests in every environment that is supported, each a session of nox, and a table of them.

A session whose tests passed at this commit is not run again. `python noxfile.py` writes the table into CONTRIBUTING.md.
"""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import nox

ROOT = Path(__file__).parent
#: One line of JSON for each session, in a file for each commit.
STORE = ROOT / ".matrix"
PYTHONS = ("3.11", "3.12", "3.13")
KERNELS = ("", "Haswell", "Zen", "SkylakeX", "Sandybridge", "Nehalem")
TOOLS = ("hypothesis", "pytest", "pytest-xdist", "polars", "distributed", "build", "setuptools", "wheel", "twine")
#: Numerics, certificates, laws and saving: a part of the suite that takes half a minute.
CHOSEN = (
    "tests/_utils/test_blocks.py",
    "tests/_utils/test_compiled.py",
    "tests/certificate",
    "tests/test_laws.py",
    "tests/saving/test_saving.py",
)
#: Tests that need no torch: the examples of the core's documentation.
LIGHT = ("--noconftest", *(f"implicit_bias/{part}" for part in ("features", "norms", "certificate", "solvers")))
#: Optional parts by the name of their session: what is uninstalled, and the tests.
WITHOUT = {
    "torch": (("torch", "torchvision"), LIGHT),
    "ECOS": (("ecos",), CHOSEN),
    "polars and distributed": (("polars", "distributed"), CHOSEN),
}
BEGIN, END = "<!-- matrix: begin -->", "<!-- matrix: end -->"


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()


def commit() -> str:
    """Return the commit, with a mark if files of the package or tests differ from it."""
    differs = git("status", "--porcelain", "--", "implicit_bias", "tests", "*.txt", "setup.cfg")
    return git("rev-parse", "--short=12", "HEAD") + ("-changed" if differs else "")


def lines() -> dict[str, str]:
    """Return the result of each session of this commit, by name."""
    path = STORE / f"{commit()}.jsonl"
    rows = map(json.loads, path.read_text().splitlines()) if path.exists() else ()
    return {row["environment"]: row["result"] for row in rows}


def passed(name: str) -> bool:
    """True if the tests of a session passed at this commit."""
    result = lines().get(name, "")
    return " passed" in result and " failed" not in result and " error" not in result


def table() -> None:
    """Write the results of this commit into CONTRIBUTING.md, between its two marks."""
    rows = "".join(f"| {name} | {result} |\n" for name, result in sorted(lines().items()))
    text = f"{BEGIN}\nAt commit {commit()}:\n\n| environment | result |\n|---|---|\n{rows}{END}"
    page = ROOT / "CONTRIBUTING.md"
    page.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: text, page.read_text(), flags=re.DOTALL))
    print(text)


nox.options.default_venv_backend = "uv"
nox.options.reuse_venv = "yes"


def install(session: nox.Session, resolution: str) -> None:
    """Install the newest or oldest packages that the requirements allow and that have wheels, and the test tools."""
    pins = Path(session.create_tmp()) / "pins.txt"
    requirements = [str(ROOT / f"requirements-{part}.txt") for part in ("light", "torch")]
    options = ["--quiet", "--only-binary", ":all:", "--resolution", resolution, "--python", str(session.python)]
    session.run("uv", "pip", "compile", *options, "-o", str(pins), *requirements, external=True)
    session.install("-r", str(pins), *TOOLS)
    session.install("--no-deps", "-e", ".")


def tests(session: nox.Session, name: str, arguments: tuple[str, ...], **env: str) -> None:
    """Run the tests, unless they passed at this commit, and store the last line of pytest."""
    if passed(name):
        session.log(f"{name}: passed before")
        return
    threads = env.pop("threads", "1")
    env = {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, **env}
    command = ("python", "-m", "pytest", "-q", "-m", "not long", *arguments)
    begin = time.monotonic()
    output = str(session.run(*command, env=env, silent=True, success_codes=range(256)))
    result = re.sub(r"(, \d+ warnings?)? in [\d.]+s.*", "", output.strip().splitlines()[-1].strip("= "))
    STORE.mkdir(exist_ok=True)
    (STORE / f"{name.replace(' ', '-').replace(',', '')}.log").write_text(output)
    with (STORE / f"{commit()}.jsonl").open("a") as file:
        file.write(
            json.dumps({"environment": name, "result": result, "seconds": round(time.monotonic() - begin)}) + "\n"
        )
    session.log(f"{name}: {result}")
    if not passed(name):
        session.warn(f"{name} failed: see {STORE}")


@nox.session(python=PYTHONS)
@nox.parametrize("packages", ["newest", "oldest"])
def suite(session: nox.Session, packages: str) -> None:
    """The whole suite."""
    install(session, {"newest": "highest", "oldest": "lowest-direct"}[packages])
    tests(session, f"Python {session.python}, {packages} packages", ("-n", "2", "--dist", "worksteal"))


@nox.session(python=PYTHONS[-1])
def kernels(session: nox.Session) -> None:
    """The chosen tests with each kernel of OpenBLAS, on one and two threads."""
    install(session, "highest")
    for kernel in KERNELS:
        for threads in ("1", "2"):
            coretype = {"OPENBLAS_CORETYPE": kernel} if kernel else {}
            name = f"{kernel or 'own'} kernels, {threads} thread{'s' * (threads == '2')}"
            tests(session, name, CHOSEN, threads=threads, **coretype)


@nox.session(python=PYTHONS[0])
@nox.parametrize("part", list(WITHOUT))
def without(session: nox.Session, part: str) -> None:
    """The chosen tests without an optional part."""
    install(session, "highest")
    packages, chosen = WITHOUT[part]
    session.run("uv", "pip", "uninstall", *packages, external=True)
    tests(session, f"without {part}", chosen)


@nox.session(python=PYTHONS[0])
def unwritable(session: nox.Session) -> None:
    """The chosen tests without a writable home or package folder, of which a file takes the place of each cache."""
    install(session, "highest")
    copy = Path(session.create_tmp()) / "copy"
    git("checkout-index", "-a", "-f", f"--prefix={copy}/")
    for module in (copy / "implicit_bias").rglob("__init__.py"):
        (module.parent / "__pycache__").touch()
    with session.chdir(copy):
        home = {name: "/dev/null" for name in ("HOME", "XDG_CACHE_HOME")}
        tests(session, "no writable home or package", ("-p", "no:cacheprovider", *CHOSEN), **home)


if __name__ == "__main__":
    table()
    sys.exit(not all(map(passed, lines())))
