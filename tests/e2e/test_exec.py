"""`orc exec` on real hosts: argument by argument, host by host, inside containers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.conftest import Orc, impatient
from tests.e2e.test_containers import run_container
from tests.fleet import Fleet

pytestmark = pytest.mark.fleet


@pytest.fixture(scope="module", autouse=True)
def clean(fleet: Fleet, orc: Orc) -> Iterator[None]:
    for host in fleet.hosts:
        host.docker("pull", "--quiet", fleet.fast_image)
    for number in (1, 2):
        run_container(fleet, f"node0{number}", f"orc-fast-r0-n{number - 1}", rank=number - 1)
    yield
    fleet.clear()


def test_every_host_answers_with_its_name_before_each_line(orc: Orc) -> None:
    done = orc("exec", "all", "--", "printf", "a\\nb\\n")
    assert done.status == 0, done.text
    assert sorted(done.out.splitlines()) == [
        *("node01 | a", "node01 | b", "node02 | a", "node02 | b"),
    ]
    assert orc("exec", "all:!node01", "--", "hostname").out == "node02 | node02\n"


def test_words_are_the_commands_own_and_no_shell_reads_them(orc: Orc) -> None:
    odd = "$HOME `id` \"quoted\" 'x' ; false | * -v"
    done = orc("exec", "node01", "--", "printf", "%s\\n", odd, "--json", "")
    assert done.out.splitlines() == [f"node01 | {odd}", "node01 | --json", "node01 | "]


def test_one_that_fails_is_named_and_the_others_are_shown(orc: Orc) -> None:
    done = orc("exec", "all", "--", "sh", "-c", "hostname; [ $(hostname) = node01 ]")
    assert done.status == 2
    assert sorted(done.out.splitlines()) == ["node01 | node01", "node02 | node02"]
    assert done.err == "node02: exit status 1\n"
    script = "echo out; echo err >&2; exit 3"
    document = orc("exec", "all", "--json", "--", "sh", "-c", script).json()
    assert document["exit_status"] == 2
    assert document["results"][0] == {
        "host": "node01", "container": None, "exit_status": 3,
        "stdout": "out\n", "stderr": "err\n", "error": None,
    }  # fmt: skip
    assert orc("exec", "all", "--", "no-such-program").status == 2


def test_inside_the_containers_of_a_deployment(fleet: Fleet, orc: Orc) -> None:
    words = ("exec", "--in", "fast", "all")
    done = orc(*words, "--", "sh", "-c", "echo pid $(cat /proc/1/comm)")
    assert done.status == 0, done.text
    assert sorted(done.out.splitlines()) == [
        *("node01 r0 n0 | pid docker-init", "node02 r0 n1 | pid docker-init"),
    ]
    assert orc(*words, "--rank", "1", "--", "true").out == ""
    assert "node02 r0 n1 | would run docker exec" in orc(*words, "-C", "--", "true").out
    missing = orc("exec", "--in", "fats", "all", "--", "true")
    assert missing.status == 2 and "did you mean 'fast'?" in missing.err
    assert orc("exec", "all", "--rank", "0", "--", "true").status == 3
    fleet.host("node02").docker("kill", "orc-fast-r0-n1")
    fleet.host("node02").run(["sleep", "0.5"])
    done = orc(*words, "--", "echo", "here")
    assert done.status == 2
    assert done.out == "node01 r0 n0 | here\n"
    assert "orc-fast-r0-n1 does not run: exited 137" in done.err


def test_a_host_that_is_not_reached_is_4_and_one_that_hangs_is_ended(
    fleet: Fleet, orc: Orc
) -> None:
    done = orc("exec", "node01", "--timeout", "1", "--", "sleep", "999")
    assert done.status == 2
    assert "took more than 1 s" in done.err
    fleet.link_down("node02")
    try:
        done = impatient(orc)("exec", "all", "--", "hostname")
    finally:
        fleet.link_up("node02")
    assert done.status == 4
    assert done.out == "node01 | node01\n" and "node02" in done.err


def test_a_secret_of_the_inventory_is_not_shown(fleet: Fleet, orc: Orc) -> None:
    more = orc.directory / "secret.yml"
    more.write_text("all: {vars: {orc_env: {HF_TOKEN: hf_written_down}}}\n")
    words = ("exec", "-i", str(fleet.inventory), "-i", str(more), "node01")
    for form in ((), ("--json",)):
        assert "got <secret>" in orc(*words, *form, "--", "echo", "got hf_written_down").out
