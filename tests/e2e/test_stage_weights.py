"""`stage_weights` on real hosts, with the real client of the hub; only the hub is a small one."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.e2e.conftest import Orc, Outcome
from tests.fleet import Fleet

SHA = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_aVerySecretToken"
FILES = {
    "config.json": b'{"model_type": "tiny"}\n',
    "model.safetensors": bytes(range(256)) * 20_000,
    "pytorch_model.bin": b"what nobody needs" * 1000,
}
SNAPSHOT = f"/root/hf/hub/models--acme--tiny/snapshots/{SHA}"


@dataclass
class Hub:
    """The part of the hub's protocol that a download needs; it wants a token."""

    server: ThreadingHTTPServer
    asked: list[str] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])


@pytest.fixture
def hub() -> Iterator[Hub]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            one.asked.append(f"{self.command} {path}")
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                self.answer(401, b"{}", {})
            elif path.startswith("/api/models/acme/tiny/tree/"):
                tree = [
                    {"type": "file", "path": n, "size": len(c), "oid": SHA}
                    for n, c in FILES.items()
                ]
                self.answer(200, json.dumps(tree).encode(), {})
            elif path.startswith("/api/models/acme/tiny"):
                siblings = [{"rfilename": n, "size": len(c)} for n, c in FILES.items()]
                info = {"id": "acme/tiny", "sha": SHA, "siblings": siblings}
                self.answer(200, json.dumps(info).encode(), {})
            elif (name := path.rsplit("/", 1)[-1]) in FILES:
                tag = hashlib.sha256(FILES[name]).hexdigest()
                self.answer(200, FILES[name], {"ETag": f'"{tag}"', "X-Repo-Commit": SHA})
            else:
                self.answer(404, b"{}", {})

        def answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for header, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(header, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing on the terminal."""

    one = Hub(ThreadingHTTPServer(("0.0.0.0", 0), Handler))
    threading.Thread(target=one.server.serve_forever, daemon=True).start()
    yield one
    one.server.shutdown()


Stage = Callable[..., Outcome]


@pytest.fixture
def stage(fleet: Fleet, orc: Orc, tmp_path: Path) -> Iterator[Stage]:
    """Stages `acme/tiny` on two hosts, from a hub at an address."""

    def staged(endpoint: str, *more: str) -> Outcome:
        env = {"HF_ENDPOINT": endpoint, "HF_HUB_OFFLINE": "0", "HF_TOKEN": TOKEN}
        extra = {"all": {"vars": {"orc_hf_home": "/root/hf", "orc_env": env}}}
        (tmp_path / "hub.yml").write_text(json.dumps(extra))
        play = [
            {
                "deployment": {
                    **{"recipe": "orc/tiny-llama", "name": "staged", "replicas": 2},
                    "image": fleet.image,
                },
                "tasks": [
                    {"preflight": {}},
                    {"pull_image": {}},
                    {"stage_weights": {"models": ["acme/tiny", "/models/tiny-llama"]}},
                ],
            }
        ]
        (tmp_path / "stage.yml").write_text(json.dumps(play))
        files = ("-i", str(fleet.inventory), "-i", str(tmp_path / "hub.yml"))
        return orc("play", str(tmp_path / "stage.yml"), *files, "--json", *more)

    yield staged
    for host in fleet.hosts:
        host.run(["rm", "-rf", "/root/hf"])


def results(outcome: Outcome) -> dict[str, tuple[str, str]]:
    return {
        event["host"]: (event["kind"], event["message"])
        for event in outcome.events()
        if event.get("task") == "stage_weights" and event["kind"] in ("ok", "changed", "failed")
    }


def test_weights_are_fetched_once_and_what_is_there_is_left(
    fleet: Fleet, hub: Hub, stage: Stage
) -> None:
    address = f"http://{fleet.fast_image.partition(':')[0]}:{hub.port}"
    first = stage(address)
    text = "acme/tiny fetched; /models/tiny-llama is there"
    assert results(first) == dict.fromkeys(("node01", "node02"), ("changed", text)), first.text
    for host in fleet.hosts:
        listed = host.run(["ls", SNAPSHOT]).stdout.split()
        assert listed == ["config.json", "model.safetensors"]
        size = host.run(["stat", "-L", "-c", "%s", f"{SNAPSHOT}/model.safetensors"]).stdout
        assert int(size) == len(FILES["model.safetensors"])
        assert fleet.containers(host) == []
    assert TOKEN not in first.text

    hub.asked.clear()
    second = stage(address)
    text = "acme/tiny is there; /models/tiny-llama is there"
    assert results(second) == dict.fromkeys(("node01", "node02"), ("ok", text)), second.text
    assert not [line for line in hub.asked if line.startswith("GET /acme")]

    without = stage("http://127.0.0.1:9")
    assert without.status == 0, without.text
    assert all("in part at least" in message for _, message in results(without).values())
    warnings = [e["message"] for e in without.events() if e["kind"] == "warning"]
    assert any("the hub cannot be asked" in message for message in warnings)


def test_a_hub_that_cannot_be_reached_is_said_and_check_asks_none(
    fleet: Fleet, stage: Stage
) -> None:
    checked = stage("http://127.0.0.1:9", "--check")
    assert {kind for kind, _ in results(checked).values()} == {"ok"}
    failed = stage("http://127.0.0.1:9")
    assert failed.status == 2, failed.text
    for kind, message in results(failed).values():
        assert kind == "failed" and "make the hub reachable" in message
    assert all(fleet.containers(host) == [] for host in fleet.hosts)
