"""A secret is in nothing that orc prints, and is refused where it would reach a command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestrator.cli.main import run

VALUE = "s3kr1tvalue"
KIMI = ("--recipe", "moonshotai/Kimi-K2.6")
LOOKUP = "{{ lookup('env', 'ORC_TEST_VALUE') }}"
SHOWN = (
    ("plan",),
    ("plan", "--json"),
    ("plan", "--draw"),
    ("plan", "--svg", "-"),
    ("plan", "-vv"),
    ("inventory", "--list"),
    ("inventory", "--host", "n1"),
)


def inventory(tmp_path: Path, **variables: Any) -> str:
    path = tmp_path / "i.yml"
    host = {"orc_hardware": "h200", "ansible_host": "10.1.0.11", **variables}
    path.write_text(yaml.safe_dump({"all": {"hosts": {"n1": host}}}))
    return str(path)


@pytest.mark.parametrize("command", SHOWN, ids=" ".join)
@pytest.mark.parametrize(
    "env",
    [
        *(
            {name: VALUE}
            for name in ("HF_TOKEN", "DB_PASS", "PGPASSWORD", "GITHUB_PAT", "VLLM_API_KEYS")
        ),
        {"hfToken": VALUE},
        {"HTTPS_PROXY": f"http://user:{VALUE}@proxy:3128"},
        {"FOO": LOOKUP},
        {"FOO": f"x{LOOKUP}x"},
    ],
    ids=str,
)
def test_an_environment_value_is_never_shown(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: tuple[str, ...],
    env: dict[str, str],
) -> None:
    monkeypatch.setenv("ORC_TEST_VALUE", VALUE)
    path = inventory(tmp_path, orc_env=env)
    more = KIMI if command[0] == "plan" else ()
    assert run([command[0], "-i", path, *more, *command[1:]]) == 0
    shown = capsys.readouterr()
    assert VALUE not in shown.out + shown.err


@pytest.mark.parametrize(
    "variables",
    [
        {"orc_container_args": ["-e", f"HF_TOKEN={VALUE}"]},
        {"orc_container_args": [f"--env=FOO={VALUE}"]},
        {"orc_container_args": f"-eFOO={VALUE}"},
        {"orc_container_args": ["--label", f"hf.token={VALUE}"]},
        {"orc_container_args": ["--label=orc.deployment=other"]},
        {"orc_container_args": ["--name", "x"]},
        {"orc_volumes": ["{{ ansible_password }}:/x"], "ansible_password": VALUE},
        {"orc_hardware": "{{ my_token }}", "my_token": VALUE},
    ],
    ids=str,
)
def test_a_secret_in_the_containers_options_is_refused_and_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], variables: dict[str, Any]
) -> None:
    assert run(["plan", "-i", inventory(tmp_path, **variables), *KIMI]) == 1
    shown = capsys.readouterr()
    assert "orc_" in shown.err and "i.yml:" in shown.err
    assert "internal" not in shown.err
    assert VALUE not in shown.out + shown.err


@pytest.mark.parametrize(
    "command", [("plan",), ("recipes", "show"), ("recipes", "show", "--explain")]
)
@pytest.mark.parametrize(
    "assignment",
    [
        "args.api-key=" + VALUE,
        "args.--api_key=" + VALUE,
        "args.ssl-keyfile-password=" + VALUE,
        f'args.kv-transfer-config={{"extra": [{{"api_key": "{VALUE}"}}]}}',
        "args.kv.token=" + VALUE,
        f"args.served-model-name=[a, --api-key, {VALUE}]",
        f"env={{HF_TOKEN: [{VALUE}]}}",
        "env=HF_TOKEN=" + VALUE,
        "token=" + VALUE,
        "args.api-key=[" + VALUE,
    ],
)  # fmt: skip
def test_a_secret_in_arguments_is_refused_and_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...], assignment: str
) -> None:
    place = ("-i", inventory(tmp_path), *KIMI) if command == ("plan",) else (KIMI[1],)
    assert run([*command, *place, "--set", assignment]) == 1
    shown = capsys.readouterr()
    assert VALUE not in shown.out + shown.err
    assert "internal" not in shown.err


@pytest.mark.parametrize(
    "words",
    [
        '-o ProxyCommand="sshpass -p {} ssh -W %h:%p jump"',
        "-o ProxyCommand='sshpass -v -p{} ssh -W %h:%p jump'",
        "-o ProxyCommand='connect --password {} %h %p'",
        "-o ProxyCommand='connect --password=\"{} x\" %h %p'",
        "-o ProxyCommand='plink -pw {} %h'",
        "-o ProxyCommand='nc --proxy http://me:{}@proxy:3128 %h %p'",
    ],
)
@pytest.mark.parametrize("form", [("--list",), ("--host", "n1"), ("--json",)], ids=" ".join)
def test_a_password_in_the_arguments_of_ssh_is_redacted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, form: tuple[str, ...]
) -> None:
    path = inventory(tmp_path, ansible_ssh_common_args=words.format(VALUE))
    assert run(["inventory", "-i", path, *form]) == 0
    shown = capsys.readouterr()
    assert VALUE not in shown.out + shown.err
    assert "<secret>" in shown.out


@pytest.mark.parametrize(
    "words", ["-o ProxyJump=ops@jump:2222 -p 22", "-o ProxyCommand='ssh -p 22 -W %h:%p jump'"]
)
def test_arguments_of_ssh_that_hold_no_password_are_shown_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str
) -> None:
    path = inventory(tmp_path, ansible_ssh_common_args=words)
    assert run(["inventory", "-i", path, "--list"]) == 0
    assert json.loads(capsys.readouterr().out)["_meta"]["hostvars"]["n1"][
        "ansible_ssh_common_args"
    ] == words  # fmt: skip


@pytest.mark.parametrize(
    "command",
    [
        f"curl -fsu me:{VALUE} http://127.0.0.1:9/",
        f"TOKEN={VALUE} false",
        f"false --token {VALUE}",
        f"echo no {VALUE} here >&2; exit 3",
        f"no-such-program {VALUE}",
    ],
)
def test_a_command_of_a_lookup_that_fails_is_not_quoted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    path = inventory(tmp_path, orc_env={"HF_TOKEN": f'{{{{ lookup("pipe", "{command}") }}}}'})
    assert run(["plan", "-i", path, *KIMI]) == 1
    shown = capsys.readouterr()
    assert VALUE not in shown.out + shown.err
    assert "lookup('pipe'): exit status" in shown.err
    assert "i.yml:" in shown.err
