"""Documents of commands, and errors in them."""

import json
from pathlib import Path

import numpy as np
import pandas as pd

from implicit_bias.cli.execution import execute, plain
from implicit_bias.cli.parsers import Parser


def test_without_memory_the_document_is_an_error(capsys):
    def fails(options):
        raise MemoryError

    parser = Parser()
    parser.set_defaults(run=fails, json=True)
    assert execute(parser.parse_args([])) == 2
    assert "out of memory" in json.loads(capsys.readouterr().out)["error"]


def test_json_knows_no_numpy():
    table = pd.DataFrame({"a": [1, 2], "b": [0.5, np.nan]})
    assert plain(table) == [{"a": 1, "b": 0.5}, {"a": 2, "b": None}]
    assert json.dumps(plain({"n": np.int64(3), "x": (np.float64("inf"), True, None, Path("p"))})) == (
        '{"n": 3, "x": [null, true, null, "p"]}'
    )
