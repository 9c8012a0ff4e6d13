"""Every argument list that any test of this run planned is accepted by vLLM's own parser."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.fleet.debian import install_debian_packages
from tests.fleet.environment import build_environment
from tests.planned import PLANNED

PARSE = """
import json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

parser = make_arg_parser(FlexibleArgumentParser())
refused = []
for argv in json.load(sys.stdin):
    try:
        parser.parse_args(argv[2:])
    except SystemExit:
        refused.append(argv)
json.dump(refused, sys.stdout)
"""


@pytest.mark.fleet
@pytest.mark.last
def test_every_planned_argument_list_is_accepted_by_vllm(fleet_machine: None) -> None:
    assert PLANNED, "no test of this run planned anything: run them all"
    install_debian_packages()
    python = build_environment() / "bin" / "python"
    lists = sorted(argv for argv in PLANNED if argv[:2] == ("vllm", "serve"))
    done = subprocess.run(
        [python, "-c", PARSE],
        input=json.dumps(lists),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    refused = json.loads(done.stdout.splitlines()[-1])
    assert refused == [], done.stderr[-4000:]
