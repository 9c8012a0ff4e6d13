"""Facts out of what the probe prints, and the probe itself on this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

from orchestrator.facts.host_facts import Gpu, GpuProcess, HostFacts, ModelFiles
from orchestrator.facts.parse import is_complete, parse_facts
from orchestrator.facts.probe_script import PROBE_SCRIPT, probe_script
from tests.facts import recorded


def test_a_cpu_host() -> None:
    facts = parse_facts(recorded.CPU_HOST)
    assert facts.hostname == "node01"
    assert facts.interface_of("192.0.2.2") == "eth0"
    assert facts.address_of("bond0.12") == "10.90.0.1"
    assert (facts.docker_version, facts.docker_error) == ("20.10.24+dfsg1", None)
    assert (facts.cpus, facts.memory_mib, facts.disk_free_mib) == (2, 24105, 77126)
    assert facts.gpus == ()


def test_listening_ports_have_their_owners_and_their_containers() -> None:
    facts = parse_facts(recorded.CPU_HOST)
    assert facts.listening == (
        (2024, ""),
        (5000, "docker-registry/9444"),
        (6379, "redis/80"),
        (8000, "vllm/77"),
    )
    assert [port for port, _ in facts.port_containers] == [8000]


def test_nvidia_gpus_and_who_holds_their_memory() -> None:
    facts = parse_facts(recorded.NVIDIA)
    assert facts.gpus == (
        Gpu(0, "NVIDIA H200", 143771, 4),
        Gpu(1, "NVIDIA H200", 143771, 71004),
    )
    assert facts.driver_version == "570.86.15"
    assert facts.gpu_processes == (
        GpuProcess(
            gpu=1,
            pid=4242,
            name="/opt/venv/bin/python3",
            user="mia",
            used_mib=71000,
            container="871c44d1ab6341763e3ccc6b6f35e93fac96a8612c",
        ),
    )


def test_a_gpu_that_does_not_tell_its_memory_is_still_a_gpu() -> None:
    assert parse_facts(recorded.UNIFIED_MEMORY).gpus == (Gpu(0, "NVIDIA GB10", 0, 0),)


def test_amd_gpus_whatever_the_case_of_the_keys() -> None:
    facts = parse_facts(recorded.ROCM)
    assert facts.gpus == (
        Gpu(0, "AMD Instinct MI300X", 196592, 284),
        Gpu(1, "AMD Instinct MI300X", 196592, 0),
    )
    assert facts.driver_version == "6.10.5"


def test_ports_are_known_without_ss() -> None:
    assert parse_facts(recorded.PROC_NET_TCP).listening == ((8000, ""),)


def test_why_docker_does_not_answer_is_kept() -> None:
    facts = parse_facts(recorded.NO_PERMISSION)
    assert facts.docker_version is None
    assert facts.docker_error and facts.docker_error.startswith("permission denied")


def test_an_empty_or_broken_probe_is_seen_as_such() -> None:
    assert not is_complete("@hostname\nnode01\n@addr")
    assert parse_facts("").docker_error == "docker is not installed"
    assert parse_facts("@rocm\n{broken").gpus == ()


def probed(place: Path | None) -> HostFacts:
    script = probe_script(str(place) if place else None)
    result = subprocess.run(["sh"], input=script, text=True, capture_output=True)
    assert is_complete(result.stdout), result.stderr
    return parse_facts(result.stdout)


def test_a_models_config_and_the_size_of_its_weights_are_read(tmp_path: Path) -> None:
    place = tmp_path / "it's a model"
    place.mkdir()
    assert probed(place).model is None
    text = '{"num_hidden_layers": 4,\n\n"x": "\\n@end"}'
    (place / "config.json").write_text(text)
    assert probed(place).model == ModelFiles(str(place), text, 0)
    (place / "consolidated.safetensors").write_bytes(b"123456789")
    assert probed(place).model == ModelFiles(str(place), text, 9)
    for number in (1, 2):
        (place / f"model-0000{number}-of-00002.safetensors").write_bytes(b"12345")
    found = probed(place)
    assert found.model and found.model.weights == 10
    assert probed(None).model is None


def test_a_repository_of_the_hub_cache_is_read_at_its_revision(tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (tmp_path / "refs").mkdir()
    (tmp_path / "refs" / "main").write_text("abc")
    (tmp_path / "blob").write_text("{}")
    (snapshot / "config.json").symlink_to(tmp_path / "blob")
    assert probed(tmp_path).model == ModelFiles(str(snapshot), "{}", 0)


def test_a_models_config_can_tell_nothing_else_and_is_bounded(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}\n@hostname\nevil\npath /evil\n@end\n")
    found = probed(tmp_path)
    assert found.hostname != "evil"
    assert found.model and found.model.path == str(tmp_path)
    assert found.model.config.splitlines() == ["{}", "@hostname", "evil", "path /evil", "@end"]
    (tmp_path / "config.json").write_text(" " * 2**20 + "{}")
    assert probed(tmp_path).model == ModelFiles(str(tmp_path), "", 0)


def test_the_probe_runs_here_and_reads_true() -> None:
    result = subprocess.run(["sh"], input=PROBE_SCRIPT, text=True, capture_output=True)
    assert is_complete(result.stdout), result.stderr
    facts = parse_facts(result.stdout)
    assert facts.hostname and facts.cpus >= 1 and facts.memory_mib > 100
    assert facts.docker_version or facts.docker_error
