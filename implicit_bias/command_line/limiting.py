"""The work of `implicit-bias reproduce limit`: networks driven to the limit of descent, against the solution."""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

from implicit_bias.command_line.execution import Outcome
from implicit_bias.command_line.sweeps import computed, ended
from implicit_bias.experiments.limit.config import LimitConfig
from implicit_bias.experiments.limit.study import lines, titled
from implicit_bias.experiments.limit.verdicts import ends
from implicit_bias.experiments.runner.results import require_replaceable, write_alone
from implicit_bias.ground.threads import one_thread

RECORD = "limit.json"


def limit(options: Namespace) -> Outcome:
    """Run the study and write its files."""
    values = {name: value for name, value in vars(options).items() if name in LimitConfig.__dataclass_fields__}
    out = Path(options.out)
    experiment = titled(LimitConfig(**values))
    require_replaceable(out / RECORD, experiment)
    with one_thread():
        (found,) = computed([experiment], options, out)
    found = replace(found, record=found.record | {"results": ends(found.table).to_dict("records")})
    print(lines(found.table))
    code = 130 if found.record["end"] == "interrupted" else 0
    return ended([found], write_alone(found, out, RECORD), found.record, code)
