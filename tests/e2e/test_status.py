"""`orc status` on real hosts: load, GPUs, and looking again and again."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.e2e.conftest import TINY, Orc, impatient
from tests.fleet import Fleet

pytestmark = pytest.mark.fleet


@pytest.fixture(scope="module", autouse=True)
def pair(fleet: Fleet, orc: Orc) -> Iterator[None]:
    words = (*TINY, "--strategy", "multi_node_tp", "--nodes", "2", "--name", "pair")
    up = orc("up", *words, "--image", fleet.fast_image, "--set", "env.STANDIN_TOKEN_SECONDS=0.02")
    assert up.status == 0, up.text
    yield
    fleet.clear()


@contextmanager
def requests(fleet: Fleet, number: int) -> Iterator[None]:
    """So many completions at once, one after the other, while the context is open."""
    url = f"http://{fleet.host('node01').address}:8000/v1/completions"
    body = {"model": "/models/tiny-llama", "prompt": "Hello", "max_tokens": 20}
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            httpx.post(url, json=body, timeout=30)

    threads = [threading.Thread(target=work) for _ in range(number)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_the_load_of_an_endpoint_is_shown_with_its_rate(fleet: Fleet, orc: Orc) -> None:
    with requests(fleet, 4):
        for _ in range(10):  # a busy machine may be between two requests of each
            document = orc("status", "pair", "--json").json()
            (endpoint,) = document["deployments"][0]["replicas"][0]["endpoints"]
            load = endpoint["load"]
            if load["running"] and load["generation_tokens_per_second"] > 20:
                break
        text = orc("status", "pair").out
    assert 1 <= load["running"] <= 4 and load["waiting"] == 0
    assert load["kv_cache"] == pytest.approx(load["running"] / 100)
    # Four at once with 50 tokens a second each; on a busy machine it is less.
    assert 20 < load["generation_tokens_per_second"] <= 210
    assert 1.0 <= load["seconds"] < 3
    assert "running, 0 waiting, KV cache" in text and "tokens/s over 1" in text
    quiet = orc("status", "pair", "--json").json()
    (endpoint,) = quiet["deployments"][0]["replicas"][0]["endpoints"]
    assert endpoint["load"]["generation_tokens_per_second"] == 0.0, "its own completion counts not"


def test_the_gpus_of_a_host_are_asked_in_the_same_look(fleet: Fleet, orc: Orc) -> None:
    """There is no GPU here: a stand-in for nvidia-smi, and a rank that says it was given two."""
    host = fleet.host("node01")
    script = "#!/bin/sh\nprintf '0, 1024, 81920, 50\\n1, 2048, 81920, 70\\n2, 5, 6, 7\\n'\n"
    place = "/usr/local/bin/nvidia-smi"
    host.run(["sh", "-c", f"cat >{place}; chmod +x {place}"], stdin=script)
    labels = ("deployment=gpus", "replica=0", "rank=0", "nodes=1", "role=head", "gpus=0,1")
    given = [word for label in labels for word in ("--label", f"orc.{label}")]
    host.docker(
        "run",
        "--detach",
        "--name",
        "orc-gpus-r0-n0",
        *given,
        "--network",
        "host",
        "--volume",
        "/usr:/usr:ro",
        "--entrypoint",
        "sleep",
        fleet.fast_image,
        "600",
    )
    try:
        document, text = orc("status", "gpus", "--json").json(), orc("status", "gpus").out
    finally:
        host.run(["rm", place])
        host.docker("rm", "--force", "orc-gpus-r0-n0")
    (rank,) = document["deployments"][0]["replicas"][0]["ranks"]
    assert rank["gpus"] == [
        {"index": 0, "used_mib": 1024, "memory_mib": 81920, "busy_percent": 50},
        {"index": 1, "used_mib": 2048, "memory_mib": 81920, "busy_percent": 70},
    ]
    assert "2 GPUs 3 of 160 GiB, 60 % busy" in text


def test_a_restart_of_one_rank_is_noted_without_a_plan(fleet: Fleet, orc: Orc) -> None:
    fleet.host("node02").docker("rename", "orc-pair-r0-n1", "mine")
    try:
        shown = orc("status", "pair").out
    finally:
        fleet.host("node02").docker("rename", "mine", "orc-pair-r0-n1")
    assert "note: mine on node02 does not have the name that orc gave it" in shown


def test_watching_without_a_terminal_is_lines_until_ctrl_c(fleet: Fleet, orc: Orc) -> None:
    process = orc.start("status", "pair", "--watch", "--interval", "0.5")
    orc.wait_for_output("replica 0  healthy")
    deadline = time.monotonic() + 30
    while orc.output().count("replica 0  healthy") < 3:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert "\x1b" not in orc.output()
    assert "Traceback" not in orc.output()


def test_watching_as_json_is_a_document_on_each_line(fleet: Fleet, orc: Orc) -> None:
    process = orc.start("status", "--watch", "--interval", "0.5", "--json")
    orc.wait_for_output("\n")
    time.sleep(3)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    lines = [line for line in orc.output().splitlines() if line.startswith("{")]
    assert len(lines) >= 2
    assert all(json.loads(line)["deployments"][0]["name"] == "pair" for line in lines)


def test_watching_on_a_terminal_redraws_and_gives_the_screen_back(fleet: Fleet, orc: Orc) -> None:
    main, side = pty.openpty()
    process = subprocess.Popen(
        orc._command(("status", "pair", "--watch", "--interval", "0.5")),
        cwd=orc.directory,
        env={**orc._environment({}), "TERM": "xterm", "COLUMNS": "100", "LINES": "30"},
        stdin=side, stdout=side, stderr=side,
    )  # fmt: skip
    os.close(side)
    shown = b""
    deadline = time.monotonic() + 30
    while shown.count(b"healthy") < 2 and time.monotonic() < deadline:
        shown += os.read(main, 65536)
    process.send_signal(signal.SIGINT)
    while True:
        try:
            data = os.read(main, 65536)
        except OSError:
            break
        if not data:
            break
        shown += data
    assert process.wait(20) == 130
    assert b"\x1b[?1049h" in shown and b"\x1b[?1049l" in shown  # the other screen, and back
    assert b"interrupted" in shown and b"Traceback" not in shown


def test_a_host_that_is_cut_off_while_one_watches_is_said_and_comes_back(
    fleet: Fleet, orc: Orc
) -> None:
    orc = impatient(orc)
    process = orc.start("status", "pair", "--watch", "--interval", "1")
    orc.wait_for_output("replica 0  healthy")
    fleet.link_down("node02")
    try:
        orc.wait_for_output("node02: unknown:", seconds=90)
    finally:
        fleet.link_up("node02")
    before = orc.output().count("replica 0  healthy")
    deadline = time.monotonic() + 60
    while orc.output().count("replica 0  healthy") <= before:
        assert time.monotonic() < deadline, orc.output()[-2000:]
        time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
