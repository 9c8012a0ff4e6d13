"""How `orc` answers one who calls it for the first time, or as one calls ansible and vLLM."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator import __version__
from orchestrator.cli.main import run

PLAN = ["plan", "-i", "rack.yml", "-r", "openai/gpt-oss-120b"]


def orc(*words: str, **env: str) -> str:
    """What a process of its own prints, which must be no error."""
    done = subprocess.run(
        [sys.executable, "-m", "orchestrator", *words],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | env,
    )
    assert done.stderr == ""
    return done.stdout


def complete(*words: str, **env: str) -> list[str]:
    """What bash is offered for the last of `words`."""
    line = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    return orc(_ORC_COMPLETE="complete_bash", **line, **env).split()


@pytest.fixture(autouse=True)
def _no_inventory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ORC_INVENTORY", raising=False)
    monkeypatch.delenv("ANSIBLE_INVENTORY", raising=False)


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"orc {__version__}\n"


@pytest.mark.parametrize("words", [["-h"], ["plan", "-h"], ["recipes", "add", "-h"]])
def test_the_short_help_option_works_everywhere(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 0
    assert capsys.readouterr().out.startswith("Usage: orc")


@pytest.mark.parametrize("words", [[], ["recipes"], ["lock"]])
def test_every_command_is_told_whole_on_a_line_of_80(words: list[str]) -> None:
    commands = orc(*words, "--help", COLUMNS="80").partition("Commands:\n")[2]
    assert commands and "..." not in commands


@pytest.mark.parametrize("words", [[], ["recipes"]])
def test_without_a_command_the_help_is_shown_and_no_error(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 3
    captured = capsys.readouterr()
    assert captured.out + captured.err and "error" not in captured.err


HABITS = {
    **{"apply": "up", "deploy": "up", "start": "up", "rm": "down", "delete": "down"},
    **{"stop": "down", "ps": "status", "get": "status", "ping": "check", "version": "--version"},
}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["paln"], "error: no such command 'paln'. Did you mean 'plan'?\n  do:  `orc --help`"),
        (["plan"], "error: missing option '-i' / '--inventory' (env var: 'ORC_INVENTORY')\n"),
        (["plan"], "`orc plan --help` shows how it is called"),
        (["up", "-i", "x", "--pull", "now"], "'--pull': 'now' is not one of 'always', 'missing'"),
        ([*PLAN, "-e", "a=b"], "error: no such option: -e\n  do:  --set KEY=VALUE"),
        ([*PLAN, "--ask-vault-pass"], "--vault-password-file takes a file"),
        (["status", "-i", "rack.yml", "-u", "me"], "set ansible_user in the inventory"),
        ([*PLAN, "--max-model-len", "9"], "--set args.max-model-len=VALUE"),
        *(
            ([command, "-i", "x", "org/model"], "the recipe is given with --recipe org/model;")
            for command in ("plan", "up", "check", "diff")
        ),
        (["plan", "-i", "x", "a/b", "c"], "the recipe is given with --recipe a/b;"),
        (["plan", "-i", "x", "d.yml"], "given with -d d.yml, a recipe with --recipe d.yml"),
        *(
            ([word, "-i", "x"], f"error: no such command '{word}'\n  do:  it is `orc {here}`;")
            for word, here in HABITS.items()
        ),
    ],
)
def test_wrong_usage_is_an_error_that_says_what_to_do(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(words) == 3
    captured = capsys.readouterr()
    assert said in captured.err
    assert captured.out == ""


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("max-model-len", "an argument of vLLM is args.NAME: --set args.max-model-len=VALUE"),
        ("replica", "did you mean 'replicas'?"),
    ],
)
def test_a_field_that_no_deployment_has_is_answered_with_the_right_one(
    key: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*PLAN, "--set", f"{key}=1234"]) == 1
    err = capsys.readouterr().err
    assert f"error: --set {key}: a deployment has no field" in err
    assert hint in err and "1234" not in err  # the value may be a secret


def test_a_secret_among_the_arguments_is_refused_and_nothing_else_is_said_of_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run([*PLAN, "--set", "args.api-key=sk-not-to-be-shown"]) == 1
    err = capsys.readouterr().err
    assert "error: the command line: args: --api-key would put a secret on a command line" in err
    assert "not a mapping" not in err and "sk-not" not in err


def test_a_flag_that_is_wrong_is_said_without_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*PLAN, "--port", "99999"]) == 1
    assert capsys.readouterr().err.startswith("error: the command line: port: ")


@pytest.mark.parametrize("words", [["-vv"], ["-v", "-v"], ["--verbose", "-v"]])
def test_verbose_given_twice_in_any_form_shows_the_traceback(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["recipes", "show", "no/such", *words]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_the_inventories_that_ansible_uses_are_used(
    tmp_path: Path,
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_text(f"host-{name}\n")
    both = f"{tmp_path / 'one'},{tmp_path / 'two'}"
    shown = orc("inventory", ANSIBLE_INVENTORY=both)
    assert "host-one" in shown and "host-two" in shown
    shown = orc("inventory", ANSIBLE_INVENTORY=both, ORC_INVENTORY=str(tmp_path / "two"))
    assert "host-one" not in shown and "host-two" in shown


def test_the_shell_completes_commands_recipes_strategies_and_hardware(tmp_path: Path) -> None:
    assert complete("orc", "pl") == ["plan", "play"]
    assert complete("orc", "plan", "-r", "moonshotai/Kimi-K2.") == ["moonshotai/Kimi-K2.6"]
    assert complete("orc", "recipes", "show", "openai/gpt-oss-2") == ["openai/gpt-oss-20b"]
    assert complete("orc", "up", "-s", "multi_node_tp_p") == ["multi_node_tp_pp"]
    assert complete("orc", "recipes", "list", "--hardware", "h20") == ["h20", "h200"]
    assert complete("orc", "plan", "-r", "moon", ORC_RECIPES=str(tmp_path / "none")) == []


def test_too_few_hosts_for_what_the_recipe_recommends_says_whose_choice_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = tmp_path / "one.ini"
    one.write_text("node01 orc_hardware=h100\n")
    plan = ["plan", "-i", str(one), "-r", "moonshotai/Kimi-K2.6"]
    why = "  why: no strategy was named, and on h100 the recipe recommends multi_node_"
    assert run(plan) == 1
    assert why in capsys.readouterr().err
    assert run([*plan, "-s", "multi_node_tp_pp"]) == 1
    assert "why:" not in capsys.readouterr().err


def test_the_deployment_file_of_the_readme_can_be_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    inventory, deployment = (part.split("```")[0] for part in readme.split("```yaml\n")[1:3])
    (tmp_path / "rack.yml").write_text(inventory)
    (tmp_path / "kimi.yml").write_text(deployment)
    monkeypatch.setenv("HF_TOKEN", "hf_not_to_be_shown")
    words = ["plan", "-i", str(tmp_path / "rack.yml"), "-d", str(tmp_path / "kimi.yml")]
    assert run(words) == 0
    out = capsys.readouterr().out
    assert "1 replica x 2 nodes, tensor 8, pipeline 2" in out
    assert "--max-model-len 131072" in out and "hf_not_to_be_shown" not in out
