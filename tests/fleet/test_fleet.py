"""The fleet is tested like a product: a test that relies on it must be able to."""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Iterator

import pytest
import yaml

from tests.fleet import Fleet, Host
from tests.fleet.commands import FleetError, run


@pytest.fixture
def cleared(fleet: Fleet) -> Iterator[Fleet]:
    """The fleet, with whatever the test left on it removed and mended."""
    yield fleet
    fleet.clear()


def ssh(fleet: Fleet, host: str, *command: str) -> str:
    return run(["ssh", "-F", fleet.ssh_config, host, *command]).stdout.strip()


def sleeper(fleet: Fleet, host: Host, name: str = "sleeper") -> int:
    """Start a container that sleeps; return the pid of what sleeps in it."""
    words = ["--network", "host", "--init", "--volume", "/usr:/usr:ro", "--entrypoint", "sleep"]
    host.docker("run", "--detach", "--name", name, *words, fleet.image, "1000")
    [pid] = [process.pid for process in fleet.processes(host) if process.command[0] == "sleep"]
    return pid


def test_ssh_reaches_every_host_by_its_key_and_shows_its_own_name(fleet: Fleet) -> None:
    assert [ssh(fleet, host.name, "hostname") for host in fleet.hosts] == ["node01", "node02"]


def test_the_inventory_says_how_to_reach_the_hosts_without_the_ssh_config(fleet: Fleet) -> None:
    tree = yaml.safe_load(fleet.inventory.read_text())["all"]
    words = tree["vars"]["ansible_ssh_common_args"].split()
    key = tree["vars"]["ansible_ssh_private_key_file"]
    for name, host in tree["hosts"].items():
        to = f"root@{host['ansible_host']}"
        client = ["ssh", "-F", "none", "-o", "BatchMode=yes", *words, "-i", key, to]
        assert run([*client, "hostname"]).stdout.strip() == name


def test_a_host_has_its_own_files_network_memory_and_processes(fleet: Fleet) -> None:
    first, second = fleet.hosts
    for path in ("/etc/only-here", "/root/only-here", "/tmp/only-here", "/dev/shm/only-here"):
        first.run(["touch", path])
        assert second.run(["test", "-e", path], check=False).returncode != 0
        assert run(["test", "-e", path], check=False).returncode != 0
        first.run(["rm", path])
    assert first.run(["ls", "/sys/class/net"]).stdout.split() == ["eth0", "lo"]
    assert "node02" not in first.run(["ps", "axww"]).stdout


def test_a_host_does_not_see_the_fleets_keys(fleet: Fleet) -> None:
    assert fleet.key.exists()
    assert fleet.hosts[0].run(["test", "-e", fleet.key], check=False).returncode != 0


def test_secrets_are_readable_by_root_alone(fleet: Fleet) -> None:
    assert fleet.key.stat().st_mode & 0o077 == 0
    assert fleet.files.directory.stat().st_mode & 0o077 == 0


def test_every_host_pulls_the_same_digest_and_another_for_the_other_tag(cleared: Fleet) -> None:
    digests: dict[str, set[str]] = {cleared.image: set(), cleared.other_image: set()}
    for host in cleared.hosts:
        for image, seen in digests.items():
            ssh(cleared, host.name, "docker", "pull", "--quiet", image)
            shown = ssh(cleared, host.name, "docker", "image", "inspect", image)
            seen.update(json.loads(shown)[0]["RepoDigests"])
    assert [len(seen) for seen in digests.values()] == [1, 1]
    assert digests[cleared.image] != digests[cleared.other_image]


def test_the_image_finds_vllm_and_python_on_its_path(cleared: Fleet) -> None:
    mounts = yaml.safe_load(cleared.inventory.read_text())["all"]["vars"]["orc_volumes"]
    options = [word for mount in mounts for word in ("--volume", mount)]
    command = ["docker", "run", "--rm", "--network=host", "--ipc=host", "--init", *options]
    say = ["-c", "'import vllm; print(vllm.__version__)'"]
    for host in cleared.hosts:
        out = ssh(cleared, host.name, *command, "--entrypoint=python3", cleared.image, *say)
        assert out.splitlines()[-1] == "0.32.0"
        models = [*command, "--entrypoint=ls", cleared.image, "/models/tiny-llama"]
        assert "config.json" in ssh(cleared, host.name, *models)


def test_processes_of_a_host_are_those_in_its_own_containers(cleared: Fleet) -> None:
    first, second = cleared.hosts
    pid = sleeper(cleared, first)
    assert cleared.processes(second) == []
    cleared.kill(pid)
    first.wait_for("exit", lambda: cleared.containers(first)[0].state == "exited")
    assert cleared.containers(first)[0].exit_code == 137
    assert cleared.processes(first) == []


def test_kill_refuses_a_process_that_is_not_the_fleets(fleet: Fleet) -> None:
    stranger = subprocess.Popen(["sleep", "1000"])
    try:
        with pytest.raises(FleetError, match=f"process {stranger.pid} is not on this fleet"):
            fleet.kill(stranger.pid)
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_a_link_that_is_down_cuts_a_host_off_until_it_is_up_again(cleared: Fleet) -> None:
    host = cleared.hosts[1]
    cleared.link_down(host)
    with pytest.raises(OSError):
        socket.create_connection((host.address, 22), timeout=2)
    assert host.run(["ip", "-br", "address", "show", "eth0"]).stdout.count(host.address) == 1
    cleared.link_up(host)
    socket.create_connection((host.address, 22), timeout=5).close()


def test_dockerd_stops_with_its_containers_and_crashes_without_them(cleared: Fleet) -> None:
    host = cleared.hosts[0]
    sleeper(cleared, host, "stopped")
    cleared.stop_dockerd(host)
    assert cleared.processes(host) == []
    with pytest.raises(FleetError, match="Cannot connect to the Docker daemon"):
        cleared.containers(host)
    cleared.start_dockerd(host)
    sleeper(cleared, host, "survivor")
    cleared.stop_dockerd(host, crash=True)
    assert cleared.processes(host) != []
    cleared.start_dockerd(host)
    assert [container.name for container in cleared.containers(host)] == ["stopped", "survivor"]


def test_sshd_can_be_stopped_and_started(cleared: Fleet) -> None:
    host = cleared.hosts[0]
    cleared.stop_sshd(host)
    with pytest.raises(FleetError, match="Connection refused"):
        ssh(cleared, host.name, "true")
    cleared.start_sshd(host)
    assert ssh(cleared, host.name, "hostname") == host.name


def test_the_target_of_a_jump_chain_is_reached_over_both_jump_hosts(jump_chain: Fleet) -> None:
    target = jump_chain.host("target")
    assert ssh(jump_chain, "target", "hostname") == "target"
    came_from = ssh(jump_chain, "target", "echo $SSH_CONNECTION").split()[0]
    assert came_from == jump_chain.host("jump2").addresses[1]
    assert target.run(["ip", "-4", "-br", "address", "show", "eth0"]).stdout.count("10.90.") == 1


def test_no_host_of_a_jump_chain_is_on_a_network_of_the_control_machine_but_the_first(
    jump_chain: Fleet,
) -> None:
    for host in jump_chain.hosts:
        on_link = run(["ip", "route", "get", host.address], check=False).stdout
        assert (f"dev orc-{jump_chain.id}-" in on_link) == (host.name == "jump1")
