"""Runs in an environment that has vLLM: parses argument lists with vLLM's own parser.

Reads a JSON list of lists (`[MODEL, "--flag", ...]`) on stdin, and writes JSON: vLLM's version,
every option string with the canonical one of its action, what each abbreviation of a long option
means, and the refused lists by position with the parser's message.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys

# vLLM logs to stdout while it is imported; stdout is for the answer alone.
answer = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

import vllm  # noqa: E402
from vllm.entrypoints.launchers.cli_args import make_arg_parser  # noqa: E402
from vllm.utils.argparse_utils import FlexibleArgumentParser  # noqa: E402

parser = make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
refused = {}
for position, words in enumerate(json.load(sys.stdin)):
    message = io.StringIO()
    try:
        with contextlib.redirect_stderr(message):
            parser.parse_args(words)
    except SystemExit:
        refused[position] = message.getvalue().strip()[-600:]
options = [list(action.option_strings) for action in parser._actions if action.option_strings]
abbreviations = {
    option[:length]: sorted({found[0].dest for found in parser._get_option_tuples(option[:length])})
    for option in parser._option_string_actions
    if option.startswith("--")
    for length in range(3, len(option))
    if option[:length] not in parser._option_string_actions
}
named = {word: action.dest for word, action in parser._option_string_actions.items()}
found = {"version": vllm.__version__, "options": options, "named": named}
json.dump({**found, "abbreviations": abbreviations, "refused": refused}, answer)
