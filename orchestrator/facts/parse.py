"""Makes HostFacts of what the probe printed. A section that cannot be read counts as empty."""

from __future__ import annotations

import json
import re

from orchestrator.facts.host_facts import Gpu, GpuProcess, HostFacts, ModelFiles

_OWNER = re.compile(r'\("(?P<name>[^"]*)",pid=(?P<pid>\d+)')
_LARGEST_CONFIG = 2**20
_LISTEN_STATE = "0A"  # in /proc/net/tcp


def parse_facts(text: str) -> HostFacts:
    """`text` is the standard output of `probe_script.PROBE_SCRIPT`."""
    sections = _sections(text)
    gpus, driver = _nvidia(sections.get("nvidia", []))
    if not gpus:
        gpus, driver = _rocm("\n".join(sections.get("rocm", [])))
    version, error = _docker(sections.get("docker", []))
    listening, containers = _listening(
        sections.get("listening", []), sections.get("containers", [])
    )
    return HostFacts(
        hostname=_first(sections.get("hostname", [])),
        addresses=_addresses(sections.get("addresses", [])),
        reached_at=_reached(_first(sections.get("reached", []))),
        gpus=gpus,
        driver_version=driver,
        docker_version=version,
        docker_error=error,
        cpus=_integer(_first(sections.get("cpus", []))) or 0,
        memory_mib=_memory(sections.get("memory", [])),
        disk_free_mib=_disk(sections.get("disk", [])),
        listening=listening,
        port_containers=containers,
        gpu_processes=_processes(sections.get("nvidia", []), sections.get("nvidia-processes", [])),
        model=_model(sections.get("model", [])),
    )


def is_complete(text: str) -> bool:
    """Whether the probe ran to its end."""
    return text.rstrip().endswith("@end")


def _sections(text: str) -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    current: list[str] = []
    for line in text.splitlines():
        if line.startswith("@"):
            current = sections.setdefault(line[1:].strip(), [])
        elif line.strip():
            current.append(line)
    return sections


def _reached(line: str) -> str | None:
    """The third word of sshd's SSH_CONNECTION is the host's own end of the connection."""
    words = line.split()
    return words[2] if len(words) == 4 else None


def _addresses(lines: list[str]) -> tuple[tuple[str, str], ...]:
    """`2: eth0    inet 10.1.0.11/24 brd ... scope global eth0\\ ...` of `ip -o addr`."""
    found = []
    for line in lines:
        words = line.split()
        if len(words) > 3 and words[2] in ("inet", "inet6"):
            found.append((words[1].partition("@")[0], words[3].partition("/")[0]))
    return tuple(found)


def _nvidia(lines: list[str]) -> tuple[tuple[Gpu, ...], str | None]:
    gpus, driver = [], None
    for line in lines:
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 6 and fields[0].isdigit():
            index, _, name, total, used, driver = fields
            # Unified-memory GPUs (GB10) report [N/A] instead of their memory.
            gpus.append(Gpu(int(index), name, _integer(total) or 0, _integer(used) or 0))
    return tuple(gpus), driver


def _processes(gpu_lines: list[str], lines: list[str]) -> tuple[GpuProcess, ...]:
    index_of = {}
    for line in gpu_lines:
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 6 and fields[0].isdigit():
            index_of[fields[1]] = int(fields[0])
    found = []
    for line in lines:
        fields = [field.strip() for field in line.split(",")]
        if len(fields) == 6 and fields[0] in index_of and fields[1].isdigit():
            uuid, pid, name, used, user, container = fields
            found.append(
                GpuProcess(index_of[uuid], int(pid), name, user, _integer(used) or 0, container)
            )
    return tuple(found)


def _rocm(text: str) -> tuple[tuple[Gpu, ...], str | None]:
    """`rocm-smi --json`: an object per card, whose keys changed their case over versions."""
    start = text.find("{")
    try:
        data = json.loads(text[start:]) if start >= 0 else {}
    except json.JSONDecodeError:
        data = {}
    gpus, driver = [], None
    for card, values in data.items():
        known = {key.lower(): str(value) for key, value in values.items()}
        if card == "system":
            driver = known.get("driver version")
        elif card.startswith("card") and card[4:].isdigit():
            total = _integer(known.get("vram total memory (b)", "")) or 0
            used = _integer(known.get("vram total used memory (b)", "")) or 0
            name = known.get("card series") or known.get("card model") or "AMD GPU"
            gpus.append(Gpu(int(card[4:]), name, total // 2**20, used // 2**20))
    return tuple(sorted(gpus, key=lambda gpu: gpu.index)), driver


def _docker(lines: list[str]) -> tuple[str | None, str | None]:
    status = next((line.split()[1] for line in lines if re.fullmatch(r"status \d+", line)), "1")
    said = [line for line in lines if not re.fullmatch(r"status \d+", line)]
    if status == "0" and said:
        return said[-1].strip(), None
    if status == "124":
        return None, "docker did not answer within 10 s"
    # The client's own version comes first; what matters is said last.
    return None, said[-1].strip() if said else "docker is not installed"


def _memory(lines: list[str]) -> int:
    for line in lines:
        if line.startswith("MemTotal:"):
            return (_integer(line.split()[1]) or 0) // 1024
    return 0


def _disk(lines: list[str]) -> int | None:
    fields = lines[-1].split() if lines else []
    return _integer(fields[3]) if len(fields) >= 6 else None


def _listening(
    lines: list[str], container_lines: list[str]
) -> tuple[tuple[tuple[int, str], ...], tuple[tuple[int, str], ...]]:
    container_of = dict(line.split(" ", 1) for line in container_lines if " " in line)
    owners: dict[int, str] = {}
    containers: dict[int, str] = {}
    for line in lines:
        words = line.split()
        if words[0] == "LISTEN" and len(words) >= 4:
            port = _integer(words[3].rpartition(":")[2])
            owner = _OWNER.search(line)
            if port is None:
                continue
            owners[port] = f"{owner['name']}/{owner['pid']}" if owner else owners.get(port, "")
            if owner and container_of.get(owner["pid"], "").strip():
                containers[port] = container_of[owner["pid"]].strip()
        elif len(words) > 3 and words[3] == _LISTEN_STATE and ":" in words[1]:
            owners.setdefault(int(words[1].rpartition(":")[2], 16), "")
    return tuple(sorted(owners.items())), tuple(sorted(containers.items()))


def _model(lines: list[str]) -> ModelFiles | None:
    """Lines that begin with `path`, `weights` and `config`, the last for each line of the file."""
    found: dict[str, list[str]] = {}
    for line in lines:
        word, _, rest = line.partition(" ")
        found.setdefault(word, []).append(rest)
    if "path" not in found:
        return None
    config = "\n".join(found.get("config", []))
    return ModelFiles(
        path=_first(found["path"]),
        config=config if len(config.encode()) <= _LARGEST_CONFIG else "",
        weights=_integer(_first(found.get("weights", []))) or 0,
    )


def _first(lines: list[str]) -> str:
    return lines[0].strip() if lines else ""


def _integer(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isdigit() else None
