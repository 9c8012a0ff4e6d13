"""`orc logs` on real hosts: merged, chosen, redacted, followed over restarts."""

from __future__ import annotations

import signal
import time
from collections.abc import Generator, Iterator

import pytest

from tests.e2e.conftest import Orc
from tests.e2e.test_containers import run_container
from tests.fleet import Fleet

pytestmark = pytest.mark.fleet

COUNTING = "i=0; while sleep 0.2; do i=$((i+1)); echo rank {rank} line $i; done"


@pytest.fixture(autouse=True)
def clean(fleet: Fleet) -> Iterator[None]:
    for host in fleet.hosts:
        host.docker("pull", "--quiet", fleet.image)
    yield
    fleet.clear()


def say(fleet: Fleet, rank: int, script: str, name: str = "fast") -> str:
    host = f"node0{rank + 1}"
    container = f"orc-{name}-r0-n{rank}"
    return run_container(fleet, host, container, "sh", "-c", script, deployment=name, rank=rank)


def followed(orc: Orc, *words: str) -> Generator[str, None, None]:
    """The output of `orc logs -f` as it comes; Ctrl-C at the end."""
    process = orc.start("logs", "-f", *words)
    try:
        while True:
            assert process.poll() is None, orc.output()
            yield orc.output()
            time.sleep(0.2)
    finally:
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130


def wait_for(output: Iterator[str], *texts: str, seconds: float = 30) -> str:
    deadline = time.monotonic() + seconds
    for shown in output:
        if all(text in shown for text in texts):
            return shown
        assert time.monotonic() < deadline, f"no {texts} in:\n{shown}"
    raise AssertionError


def test_following_goes_on_over_a_restart_without_losing_or_repeating_a_line(
    fleet: Fleet, orc: Orc
) -> None:
    ids = [say(fleet, rank, COUNTING.format(rank=rank)) for rank in (0, 1)]
    output = followed(orc, "fast", "--tail", "1000")
    wait_for(output, "rank 0 line 3", "rank 1 line 3")
    fleet.host("node02").docker("restart", "--time", "0", ids[1])
    time.sleep(1)
    shown = wait_for(output, "rank 0 line 30")
    output.close()
    lines = [line.partition(" | ")[2] for line in shown.splitlines()]
    numbers = [int(line.split()[-1]) for line in lines if line.startswith("rank 1 line")]
    assert numbers.count(1) == 2, "it counts from 1 again after the restart"
    second = len(numbers) - numbers[::-1].index(1) - 1
    assert numbers[:second] == list(range(1, second + 1))
    assert numbers[second:] == list(range(1, len(numbers) - second + 1))


def test_a_container_that_was_replaced_and_one_that_is_new_are_followed(
    fleet: Fleet, orc: Orc
) -> None:
    say(fleet, 0, "echo first life; sleep 600")
    output = followed(orc, "fast")
    wait_for(output, "node01 r0 n0 | first life")
    fleet.host("node01").docker("rm", "--force", "orc-fast-r0-n0")
    say(fleet, 0, "echo second life; sleep 600")
    say(fleet, 1, "echo a new rank; sleep 600")
    wait_for(output, "node01 r0 n0 | second life", "node02 r0 n1 | a new rank")
    output.close()


@pytest.fixture
def one_session(fleet: Fleet) -> Iterator[None]:
    """sshd allows one session on a connection."""
    change = "sed -i 's/^MaxSessions .*/MaxSessions {}/' /etc/ssh/sshd_config; kill -HUP $(cat {})"
    pid = "/run/sshd.pid"
    for host in fleet.hosts:
        host.run(["sh", "-c", change.format(1, pid)])
    yield
    for host in fleet.hosts:
        host.run(["sh", "-c", change.format(100, pid)])


def test_a_dozen_containers_of_a_host_are_followed_in_one_session(
    fleet: Fleet, orc: Orc, one_session: None
) -> None:
    """Lines longer than what a pipe takes at once, and progress bars, arrive as they are."""
    word = "wörtlich "
    long = f"printf '%s' 'rank {{rank}} '; printf '{word}%.0s' $(seq 700); echo end; "
    bars = "printf 'one\\rtwo\\rthree\\n'; "
    for rank in range(12):
        script = f"sleep 3; {long.format(rank=rank)}{bars}{COUNTING.format(rank=rank)}"
        run_container(
            *(fleet, "node01", f"orc-fast-r0-n{rank}", "sh", "-c", script), rank=rank, nodes=12
        )
    output = followed(orc, "fast")
    shown = wait_for(output, *(f"rank {rank} line 4\n" for rank in range(12)))
    texts = [line.partition(" | ")[2] for line in shown.splitlines()]
    for rank in range(12):
        assert texts.count(f"rank {rank} {word * 700}end") == 1
    assert [texts.count(bar) for bar in ("one", "two", "three")] == [12, 12, 12]
    say(fleet, 1, "echo a new one; sleep 600", name="late")
    run_container(fleet, "node01", "orc-fast-r0-n12", "sh", "-c", "echo here; sleep 600", rank=12)
    shown = wait_for(output, "n12 | here")
    counts = [line.partition(" | ")[2] for line in shown.splitlines()]
    for rank in range(12):
        numbers = [int(t.split()[-1]) for t in counts if t.startswith(f"rank {rank} line")]
        assert numbers == list(range(1, len(numbers) + 1))
    output.close()
    left = fleet.host("node01").run(["sh", "-c", "ps ax | grep '[d]ocker logs' || true"])
    assert left.stdout == "", "what followed has ended with orc"


def test_a_rank_that_ends_while_it_is_followed_is_said_and_the_others_go_on(
    fleet: Fleet, orc: Orc
) -> None:
    say(fleet, 0, COUNTING.format(rank=0))
    say(fleet, 1, "echo last words; sleep 1; exit 3")
    output = followed(orc, "fast")
    shown = wait_for(output, "node02: orc-fast-r0-n1 has ended: exited 3")
    count = shown.count("rank 0 line")
    wait_for(output, f"rank 0 line {count + 8}")
    output.close()


def test_grep_chooses_lines_of_the_whole_log_and_tail_counts_what_it_chose(
    fleet: Fleet, orc: Orc
) -> None:
    script = "for i in $(seq 300); do echo line $i; done; echo ERROR [a]; echo ERROR [b]; sleep 600"
    say(fleet, 0, script)
    time.sleep(0.5)

    def lines(*words: str) -> list[str]:
        return [line.partition(" | ")[2] for line in orc("logs", *words).out.splitlines()]

    assert lines("--grep", "line 7") == ["line 7", *(f"line 7{i}" for i in range(10))]
    assert lines("--grep", r"^line \d$") == [f"line {i}" for i in range(1, 10)]
    assert lines("--grep", "ERROR", "--tail", "1") == ["ERROR [b]"]
    assert lines("--grep", "[a]") == [text for text in lines("--tail", "1000") if "a" in text]
    assert lines("--grep", "no such thing") == []


def test_since_is_an_age_or_a_time_of_this_machines_clock(fleet: Fleet, orc: Orc) -> None:
    # The age counts from when orc looks, which on a busy machine comes seconds later.
    say(fleet, 0, "echo old; sleep 8; echo new; sleep 600")
    time.sleep(8.5)
    local = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(time.time() - 6))
    utc = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 6))
    for since in ("7500ms", local, utc):
        shown = orc("logs", "--since", since, TZ="Asia/Kolkata" if since == utc else "").out
        assert "new" in shown and "old" not in shown, since
    assert "old" in orc("logs", "--since", "1h").out


def test_what_the_inventory_keeps_secret_is_not_shown(fleet: Fleet, orc: Orc) -> None:
    more = orc.directory / "secret.yml"
    more.write_text(
        "all: {vars: {orc_env: {HF_TOKEN: hf_written, OTHER: \"{{ lookup('env', 'LOOKED_UP') }}\","
        " GONE: \"{{ lookup('env', 'NOT_EXPORTED') }}\"}}}\n"
    )
    say(fleet, 0, "echo got hf_written and looked-up-value; sleep 600")
    time.sleep(0.5)
    words = ("logs", "-i", str(fleet.inventory), "-i", str(more))
    for form in ((), ("--json",), ("--grep", "got")):
        shown = orc(*words, *form, LOOKED_UP="looked-up-value")
        assert shown.status == 0 and "got <secret> and <secret>" in shown.out, shown.text
