"""The systemd unit of `orc watch`: it survives reboots, and is started again when it ends."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from orchestrator.errors import InputError


def unit_text(arguments: Sequence[str], environment: Path, *, user: bool) -> str:
    """The unit that runs `orc` with `arguments`.

    `environment` is a file that the user may make, mode 0600, for what is secret: VLLM_API_KEY,
    and what the inventory looks up.
    """
    command = " ".join(_word(word) for word in (sys.executable, "-m", "orchestrator", *arguments))
    wanted = "default.target" if user else "multi-user.target"
    return f"""\
[Unit]
Description=orc watch: restarts vLLM groups whole
Wants=network-online.target
After=network-online.target

[Service]
ExecStart={command}
WorkingDirectory={str(Path.cwd()).replace("%", "%%")}
EnvironmentFile=-{environment}
Restart=always
RestartSec=10
TimeoutStopSec=120

[Install]
WantedBy={wanted}
"""


def unit_name(deployment: str | None) -> str:
    return f"orc-watch-{deployment}.service" if deployment else "orc-watch.service"


def unit_places(*, user: bool) -> tuple[Path, Path]:
    """Where units go, and where the environment's file is looked for: the system's as root, else
    the user's own."""
    if not user:
        return Path("/etc/systemd/system"), Path("/etc/orc/watch.env")
    home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    return home / "systemd" / "user", home / "orc" / "watch.env"


def write_unit(path: Path, text: str) -> None:
    """Raises InputError when it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror}",
            hint="--print-unit prints the unit, to put where you want it",
        ) from None


def next_commands(name: str, *, user: bool) -> list[str]:
    """What to run once the unit is written."""
    systemctl = "systemctl --user" if user else "systemctl"
    commands = [f"{systemctl} daemon-reload", f"{systemctl} enable --now {name}"]
    return [*commands, "loginctl enable-linger"] if user else commands


def _word(text: str) -> str:
    """A word of ExecStart: systemd takes \\, quotes, % and $ for its own (systemd.service(5))."""
    for special, written in (("\\", "\\\\"), ('"', '\\"'), ("%", "%%"), ("$", "$$")):
        text = text.replace(special, written)
    return f'"{text}"' if not text or set(text) & set(" \t'\";\\") else text
