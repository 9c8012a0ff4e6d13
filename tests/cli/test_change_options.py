"""The command line as it stands in locks and histories."""

from __future__ import annotations

import pytest

from orchestrator.cli.change_options import duration, shown_command
from orchestrator.errors import UsageError


@pytest.mark.parametrize(
    "words",
    [
        ["--set", "env.HF_TOKEN=hunter2hunter2"],
        ["--set=env.HF_TOKEN=hunter2hunter2"],
        ["--set", "env.PROXY=http://me:hunter2hunter2@proxy:3128"],
        ["--set", "env.MY_API_KEY=hunter2hunter2"],
        ["http://me:hunter2hunter2@proxy:3128"],
    ],
)
def test_no_secret_is_shown(words: list[str]) -> None:
    shown = shown_command(["up", *words, "--name", "kimi"])
    assert "hunter2" not in shown
    assert shown.startswith("orc up ") and shown.endswith(" --name kimi")
    assert "<secret>" in shown


def test_what_is_no_secret_is_shown_as_it_was_typed() -> None:
    words = ["up", "--set", "args.max-model-len=131072", "--name", "kimi", "--set", "env.A=b c"]
    assert (
        shown_command(words)
        == "orc up --set args.max-model-len=131072 --name kimi --set 'env.A=b c'"
    )


def test_a_wrong_duration_names_its_option() -> None:
    assert duration("--lock-timeout", "10m") == 600.0
    with pytest.raises(UsageError, match="--lock-timeout soon: a duration is"):
        duration("--lock-timeout", "soon")
