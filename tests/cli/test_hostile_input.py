"""Hostile and broken input: one clear message with its place, status 1 or 3, never a traceback."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from orchestrator.cli.main import run
from orchestrator.deployment import Deployment

ROOT = Path(__file__).parents[2]
KIMI = ("--recipe", "moonshotai/Kimi-K2.6")
RACK = {
    "all": {
        "vars": {"orc_hardware": "h200", "ansible_user": "ops"},
        "hosts": {
            "n1": {"ansible_host": "10.1.0.11", "orc_address": "10.1.0.11"},
            "n2": {"ansible_host": "10.1.0.12", "orc_address": "10.1.0.12"},
        },
    }
}
ABSURD_NUMBERS = (
    *("9" * 5000, "-" + "9" * 500, "9_" * 500 + "9", "9" * 5000 + ".0"),
    *("0x" + "f" * 6000, "-0x" + "f" * 100, "0" + "7" * 6000, "0b" + "1" * 300),
    *("9" + ":59" * 3000, "9" + ":59" * 100, "{0x" + "f" * 100 + ": 1}"),
)
LAUGHS = "{a: &a [x, x, x, x, x, x, x, x, x], " + ", ".join(
    f"{name}: &{name} [{', '.join(['*' + above] * 9)}]"
    for above, name in zip("abcdefgh", "bcdefghi", strict=True)
) + "}"  # fmt: skip

Refused = Callable[..., str]


@pytest.fixture
def rack(tmp_path: Path) -> str:
    path = tmp_path / "rack.yml"
    path.write_text(yaml.safe_dump(RACK))
    return str(path)


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Refused:
    """Run orc, which must refuse with one message; returns that."""

    def check(*words: str, status: int = 1) -> str:
        assert run([*words]) == status, capsys.readouterr().err
        shown = capsys.readouterr()
        assert "internal error" not in shown.err
        assert "Traceback" not in shown.err
        assert shown.out == ""
        return shown.err

    return check


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("2020-13-45", "cannot be read as timestamp"),
        ("!!int abc", "cannot be read as int"),
        ("!!float abc", "cannot be read as float"),
        ("!!bool abc", "cannot be read as bool"),
        ("!!timestamp abc", "cannot be read as timestamp"),
        *((text, "this number is too large") for text in ABSURD_NUMBERS),
        ("!vault {a: 1}", "expected a scalar"),
        ("[" * 200 + "]" * 200, "nested deeper than 100 levels"),
        (LAUGHS, "aliases (*name) stand for more than 1000000 values"),
    ],
)
def test_a_value_that_is_none_is_refused_at_its_place(
    tmp_path: Path, refused: Refused, value: str, said: str
) -> None:
    path = tmp_path / "i.yml"
    path.write_text(f"all:\n  vars:\n    x: {value}\n  hosts:\n    n1:\n")
    message = refused("plan", "-i", str(path), *KIMI)
    assert said in message
    assert str(path) in message
    assert len(message) < 600


@pytest.mark.parametrize("number", ABSURD_NUMBERS)
def test_an_absurd_number_is_refused_wherever_yaml_is_read(
    tmp_path: Path, rack: str, refused: Refused, number: str
) -> None:
    deployment, playbook, recipe = (tmp_path / name for name in ("d.yml", "p.yml", "r.yaml"))
    deployment.write_text(f"recipe: moonshotai/Kimi-K2.6\nport: {number}\n")
    playbook.write_text(f"- hosts: all\n  tasks:\n  - pause: {{seconds: {number}}}\n")
    recipe.write_text(f"meta: {number}\n")
    fine = tmp_path / "fine.yml"
    fine.write_text("- hosts: all\n  tasks: [{pause: {seconds: 0}}]\n")
    for words, place in (
        (("plan", "-i", rack, "-d", str(deployment)), f"{deployment}:2:"),
        (("play", str(playbook), "-i", rack, "--check"), f"{playbook}:3:"),
        (("play", str(fine), "-i", rack, "--check", "-e", f"x={number}"), "-e x:1:"),
        (("plan", "-i", rack, *KIMI, "--set", f"args.x={number}"), "--set args.x:1:"),
        (("recipes", "show", str(recipe)), f"{recipe}:1:"),
    ):
        message = refused(*words)
        assert "this number is too large; if it is text, put it into quotes" in message
        assert place in message
        assert len(message) < 600


def test_an_absurd_number_in_ini_is_text(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "rack.ini"
    path.write_text("n1 ansible_port=0x" + "f" * 6000 + "\n")
    assert "ansible_port" in refused("plan", "-i", str(path), *KIMI)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"orc_env": {"A": "b\nc"}}, "the value of A holds a line break"),
        ({"orc_env": {"A=B": "c"}}, "'A=B' cannot be the name"),
        ({"orc_env": {"A": "{{ 'x\\ny' }}"}}, "the value of A holds a line break"),
        ({"orc_env": {"A": "x" * 65534}}, "the value of A is too long: 65536 bytes with its name"),
        ({"orc_env": {"A": "{{ 'x' * 65534 }}"}}, "the value of A is too long: 65536 bytes"),
        ({"orc_env": {"HF_TOKEN": "{{ 'x' * 65534 }}"}}, "the value of HF_TOKEN is too long"),
        ({"orc_address": "10.0.0.1; rm -rf /"}, "no spaces, quotes or shell characters"),
        ({"orc_interface": "eth0\nX"}, "no spaces, quotes or shell characters"),
        ({"ansible_host": "$(id)"}, "ansible_host of host 'n1'"),
        ({"ansible_user": "-oProxyCommand=x"}, "ansible_user of host 'n1'"),
        ({"ansible_private_key_file": "~nobody-of-this-name/key"}, "no such home directory"),
        ({"orc_gpu_memory_gb": float("inf")}, "finite number"),
        ({"ansible_group_priority": 1}, ""),
        ({"orc_hardware": "{{ hostvars['nobody'].x }}"}, "there is no host 'nobody'"),
    ],
)
def test_a_host_variable_that_no_host_can_have_is_refused(
    tmp_path: Path, refused: Refused, variables: dict[str, Any], said: str
) -> None:
    path = tmp_path / "i.yml"
    host = {"orc_hardware": "h200", **variables}
    path.write_text(yaml.safe_dump({"all": {"hosts": {"n1": host}}}))
    if said:
        assert said in refused("plan", "-i", str(path), *KIMI)


@pytest.mark.parametrize(
    "text",
    [
        'all: {hosts: {"n\\0": }}',
        'all: {hosts: {"-oProxyCommand": }}',
        'all: {hosts: {"!n1": }}',
        "g: {children: {all: }}",
        "all: {vars: {ansible_group_priority: .inf}}",
    ],
)
def test_a_name_or_tree_that_cannot_be_is_refused(
    tmp_path: Path, refused: Refused, text: str
) -> None:
    path = tmp_path / "i.yml"
    path.write_text(text)
    assert f"{path}:1" in refused("plan", "-i", str(path), *KIMI)


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("args.port=abc", "--port is 1 to 65535"),
        ("args.port=70000", "--port is 1 to 65535"),
        ("args.tensor-parallel-size=x", "--tensor-parallel-size is a whole number"),
        ("args.tensor-parallel-size=0", "--tensor-parallel-size is a whole number"),
        ("args.data-parallel-size=2.5", "--data-parallel-size is a whole number"),
        ("args.a b=1", "'a b' is not the name of an argument"),
        ("args.seed=--node-rank=3", "which vLLM would read as another argument"),
        ("args.middleware=[a, --node-rank, 3]", "the value of middleware is '--node-rank'"),
        ("args.seed=-tp", "which vLLM would read as another argument"),
        ("args.seed=--", "which vLLM would read as another argument"),
        ("args.=1", "'' is not the name of an argument"),
        ("env.A=x\ny", "holds a line break"),
        ("env.A=" + "x" * 65534, "the value of A is too long: 65536 bytes with its name"),
        ("env.A={{ 'x' * 65534 }}", "the value of A is too long: 65536 bytes with its name"),
        ("env.A_TOKEN=" + "x" * 65534, "the value of A_TOKEN is too long"),
        ("env.=x", "'' cannot be the name"),
        ("image=a b", "an image is registry/repository:tag"),
        ("image=$(id)", "an image is registry/repository:tag"),
        ("health.timeout=.inf", "a duration is from 0 up to a year"),
        ("health.timeout=999999999h", "a duration is from 0 up to a year"),
        ("health.timeout=.nan", "a duration is from 0 up to a year"),
        ("health.interval=-1", "a duration is from 0 up to a year"),
        ("health.timeout=0", "health.timeout: more than 0: nothing is healthy in no time"),
        ("health.interval=0ms", "health.interval: more than 0"),
        ("nodes=true", "a number"),
        ("nodes=99999999", "less than or equal to 10000"),
        ("name=\udcff", "no text in UTF-8"),
        ("recipe=" + "a" * 5000, "there is no recipe"),
        ("recipe=" + "a" * 5000 + ".yaml", "File name too long"),
        ("recipe=~nobody-of-this-name/x.yaml", "no such home directory"),
        ("recipe=../../../etc/passwd", "there is no recipe"),
        ("Nope=1", "has no field 'Nope'"),
    ],
)
def test_a_wrong_assignment_is_refused(
    rack: str, refused: Refused, assignment: str, said: str
) -> None:
    message = refused("plan", "-i", rack, *KIMI, "--set", assignment)
    assert said in message
    assert "the command line:1" not in message


@pytest.mark.parametrize("strategy", ["multi_node_tp_pp", "multi_node_tp"])
@pytest.mark.parametrize("flag", ["node-rank", "nnodes", "headless", "master-addr"])
def test_what_only_the_topology_can_know_is_not_taken_and_not_dropped(
    rack: str, refused: Refused, flag: str, strategy: str
) -> None:
    message = refused("plan", "-i", rack, *KIMI, "-s", strategy, "--set", f"args.{flag}=3")
    assert f"--{flag} is worked out for every node" in message


def test_an_abbreviated_layout_is_refused_wherever_arguments_are_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = tmp_path / "here.yml"
    local = {"ansible_connection": "local", "orc_hardware": "h200"}
    here.write_text(yaml.safe_dump({"all": {"vars": local, "hosts": {"n1": None, "n2": None}}}))
    rack = str(here)
    args = {"node-ran": 3}
    chosen: dict[str, Any] = {"recipe": KIMI[1], "strategy": "multi_node_tp", "args": args}
    deployment = tmp_path / "deployment.yml"
    deployment.write_text(yaml.safe_dump(chosen))
    play: dict[str, Any] = {"hosts": "all", "deployment": chosen, "tasks": [{"preflight": None}]}
    playbook = tmp_path / "play.yml"
    playbook.write_text(yaml.safe_dump([play]))
    templated = tmp_path / "templated.yml"
    play |= {"vars": {"more": args}, "deployment": {**chosen, "args": "{{ more }}"}}
    templated.write_text(yaml.safe_dump([play]))
    for words in (
        ("plan", "-i", rack, "-d", str(deployment)),
        ("up", "-i", rack, "-d", str(deployment), "--check"),
        ("plan", "-i", rack, *KIMI, "-s", "multi_node_tp", "--set", "args.node-ran=3"),
        ("recipes", "show", KIMI[1], "--set", "args.node-ran=3"),
        ("play", str(playbook), "-i", rack, "--check"),
        ("play", str(templated), "-i", rack, "--check"),
    ):
        assert run([*words]) == 1
        assert "--node-rank is worked out for every node" in "".join(capsys.readouterr()), words


def test_an_inventory_has_no_arguments_of_vllm(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "i.yml"
    path.write_text("all: {vars: {orc_hardware: h200, orc_args: {node-ran: 3}}, hosts: {n1: }}")
    assert "orc_args" in refused("plan", "-i", str(path), *KIMI)


@pytest.mark.parametrize("pattern", ["", "~" + "(" * 3000, "@/nowhere", "!all", ",,"])
def test_a_limit_that_means_no_host_is_refused(rack: str, refused: Refused, pattern: str) -> None:
    assert refused("plan", "-i", rack, *KIMI, "--limit", pattern).startswith("error: ")


def test_an_unknown_key_that_looks_like_a_type_is_named(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "r.yaml"
    path.write_text("Tensor: 1\nfeatures: {Foo: {Bar: 1}}\n")
    message = refused("recipes", "show", str(path))
    assert "unknown key 'Tensor'" in message
    assert "unknown key 'features.Foo.Bar'" in message


def test_a_line_with_a_secret_is_not_shown(tmp_path: Path, refused: Refused) -> None:
    path = tmp_path / "i.yml"
    path.write_text('all:\n  vars:\n    orc_env:\n      HF_TOKEN: "hf_abcdef" x\n')
    message = refused("plan", "-i", str(path), *KIMI)
    assert f"{path}:4:" in message and "HF_TOKEN" in message
    assert "hf_abc" not in message


def _orc(*words: str, shell: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "orchestrator", *words]
    if shell:
        command = ["bash", "-c", f'set -o pipefail; "$@" {shell}', "bash", *command]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize(
    ("shell", "status"), [("| head -1", 0), (">&-", 0), ("<&-", 0), ("> /dev/full", 1)]
)
def test_an_output_that_is_closed_or_full_is_no_traceback(
    rack: str, shell: str, status: int
) -> None:
    done = _orc("plan", "-i", rack, *KIMI, shell=shell)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr and "internal" not in done.stderr
    assert ("No space left" in done.stderr) == (status == 1)


@pytest.mark.parametrize(
    ("shell", "why"),
    [
        ("| head -1", "Broken pipe"),
        ("--json | head -1", "Broken pipe"),
        ("> /dev/full", "No space left on device"),
        ("2>&1 | head -1", ""),
        (">&-", ""),
    ],
)
def test_a_play_goes_on_when_nobody_reads_what_it_says(
    tmp_path: Path, shell: str, why: str
) -> None:
    """What runs on the hosts is not left half done for the sake of a line that is not read."""
    done = tmp_path / "done"
    playbook = tmp_path / "p.yml"
    wait = [{"run": "sleep 0.2"}] * 3
    play = {"hosts": "localhost", "tasks": [*wait, {"run": f"touch {done}"}]}
    playbook.write_text(yaml.safe_dump([play]))
    inventory = tmp_path / "i.yml"
    inventory.write_text("all: {hosts: {localhost: {ansible_connection: local}}}")
    ended = _orc("play", str(playbook), "-i", str(inventory), shell=shell)
    assert ended.returncode == 0, ended.stderr
    assert done.exists()
    assert "Traceback" not in ended.stderr
    assert f"standard output cannot be written any more: {why}" in ended.stderr or not why


def test_an_encoding_without_the_characters_shows_them_escaped(rack: str) -> None:
    done = _orc("plan", "-i", rack, *KIMI, "--draw", PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and done.stderr == ""


# What takes the place of anything in a document.
_JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=12)
    | st.sampled_from(["{{ x }}", "{% for", "a\nb", "$(id)", "-1", "Foo", "\x1b[31m", "x" * 3000])
    | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=6) | st.integers(), inner, max_size=3)
    ),
    max_leaves=5,
)
_WHOLE_RECIPE = yaml.safe_load((ROOT / "recipes/models/moonshotai/Kimi-K2.6.yaml").read_text())


def _places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    parts: Iterable[tuple[Any, Any]] = data.items() if isinstance(data, dict) else ()
    parts = enumerate(data) if isinstance(data, list) else parts
    return [found for key, part in parts for found in [(*path, key), *_places(part, (*path, key))]]


def _with(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    copied = data.copy()
    copied[path[0]] = _with(data[path[0]], path[1:], value)
    return copied


def _only_says_what_is_wrong(capsys: pytest.CaptureFixture[str], *words: str) -> None:
    status = run([*words])
    err = capsys.readouterr().err
    assert status in (0, 1), err
    assert "internal error" not in err and "Traceback" not in err, err
    assert status == 0 or err.strip()


FUZZ = settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@FUZZ
@given(data=st.data())
def test_no_inventory_makes_an_internal_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: st.DataObject
) -> None:
    whole = {"all": {**RACK["all"], "children": {"g": {"hosts": {"n1": {"orc_gpus": "0-3"}}}}}}
    path = data.draw(st.sampled_from(_places(whole)))
    broken = _with(whole, path, data.draw(_JUNK))
    variable = data.draw(st.sampled_from(["orc_env", "orc_volumes", "ansible_port", "x"]))
    if isinstance(broken.get("all"), dict) and data.draw(st.booleans()):
        broken = _with(broken, ("all",), broken["all"] | {"vars": {variable: data.draw(_JUNK)}})
    file = tmp_path / "i.yml"
    file.write_text(yaml.safe_dump(broken, allow_unicode=True), encoding="utf-8")
    _only_says_what_is_wrong(capsys, "plan", "-i", str(file), *KIMI)
    _only_says_what_is_wrong(capsys, "inventory", "-i", str(file), "--list")


@FUZZ
@given(text=st.text(max_size=60) | st.binary(max_size=60).map(lambda b: b.decode("latin1")))
def test_no_text_as_an_inventory_or_limit_makes_an_internal_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    for suffix in ("yml", "ini"):
        file = tmp_path / f"i.{suffix}"
        file.write_text(text, encoding="utf-8")
        _only_says_what_is_wrong(capsys, "inventory", "-i", str(file), "--list")
    rack = tmp_path / "rack.yml"
    rack.write_text(yaml.safe_dump(RACK))
    _only_says_what_is_wrong(capsys, "plan", "-i", str(rack), *KIMI, f"--limit={text}")
    _only_says_what_is_wrong(capsys, "plan", "-i", str(rack), *KIMI, f"--set={text}")
    _only_says_what_is_wrong(capsys, "recipes", "show", f"--hardware={text}", KIMI[1])


@FUZZ
@given(field=st.sampled_from(sorted(Deployment.model_fields)), value=_JUNK)
def test_no_deployment_makes_an_internal_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], field: str, value: Any
) -> None:
    rack = tmp_path / "rack.yml"
    rack.write_text(yaml.safe_dump(RACK))
    file = tmp_path / "d.yml"
    file.write_text(
        yaml.safe_dump({"recipe": KIMI[1], field: value}, allow_unicode=True), encoding="utf-8"
    )
    _only_says_what_is_wrong(capsys, "plan", "-i", str(rack), "-d", str(file))


@FUZZ
@given(path=st.sampled_from(_places(_WHOLE_RECIPE)), value=_JUNK)
def test_no_recipe_makes_an_internal_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], path: tuple[Any, ...], value: Any
) -> None:
    rack = tmp_path / "rack.yml"
    rack.write_text(yaml.safe_dump(RACK))
    broken = _with(_WHOLE_RECIPE, path, value)
    file = tmp_path / "r.yaml"
    file.write_text(yaml.safe_dump(broken, allow_unicode=True), encoding="utf-8")
    site = tmp_path / "r.json"
    site.write_text(json.dumps(broken, default=str))
    _only_says_what_is_wrong(capsys, "plan", "-i", str(rack), "-r", str(file))
    for recipe in (file, site):
        _only_says_what_is_wrong(capsys, "recipes", "validate", str(recipe))
        _only_says_what_is_wrong(capsys, "recipes", "show", str(recipe))


BLIND = (
    ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
)  # root reads everything by these


@pytest.mark.skipif(bool(BLIND) and shutil.which("setpriv") is None, reason="needs setpriv")
@pytest.mark.parametrize(
    "words",
    [
        ("inventory", "-i", "{}"),
        ("status", "-i", "{}"),
        ("plan", "-i", "localhost,", "-d", "{}"),
        ("plan", "-i", "localhost,", *KIMI, "--recipes", "{}"),
        ("inventory", "-i", "localhost,", "--vault-password-file", "{}"),
        ("recipes", "validate", "{}"),
        ("recipes", "add", "{}", "--recipes", "{}"),
    ],
    ids=lambda words: " ".join(words[:2]) + " " + words[-2],
)
def test_a_file_that_may_not_be_read_is_an_invalid_input(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("all: {hosts: {n1: }}")
    file.chmod(0)
    orc = (*BLIND, sys.executable, "-m", "orchestrator", *(word.format(file) for word in words))
    done = subprocess.run(orc, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert str(file) in done.stderr
    assert "Traceback" not in done.stderr


def test_a_nonsense_age_is_wrong_usage(refused: Refused, rack: str) -> None:
    said = refused("logs", "-i", rack, "--since", "nonsense", status=3)
    assert "--since 'nonsense' is neither a time nor an age" in said
    said = refused("logs", "-i", rack, "--grep", "(", status=3)
    assert "no regular expression" in said
