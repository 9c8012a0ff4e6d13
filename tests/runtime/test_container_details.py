"""What a container was started with, as it leaves the host: no secret among it."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import pytest

from orchestrator.runtime.container_details import details_script, parse_details
from orchestrator.secret import Secret

SALT = "00ff00ff"
CONTAINER = {
    "id": "c1",
    "image_id": "sha256:1",
    "host": {"NetworkMode": "host", "Memory": 0, "RestartPolicy": {"Name": "no"}},
    "config": {"StopTimeout": 60},
}
ENVIRONMENT = (
    "HF_TOKEN=hf_secret value",
    "MODE=a=b c",
    "PROXY=http://u:hf_secret@p:1",
    "EMPTY=",
    "PATH=/bin",
)


@pytest.fixture
def printed(tmp_path: Path) -> str:
    """What the script prints beside a docker that has one container."""
    docker = tmp_path / "docker"
    env = "".join(f"{line}\n" for line in ENVIRONMENT)
    docker.write_text(
        f"""#!/bin/sh
case "$*" in
  "ps "*) echo c1 ;;
  *"image inspect"*Labels*) echo '@image-labels {{"a": "b"}}' ;;
  *"image inspect"*Env*) echo PATH=/bin ;;
  *"image inspect"*" vllm:1") echo sha256:1 ;;
  *"image inspect"*) exit 1 ;;
  *@container*) echo '@container {json.dumps(CONTAINER)}' ;;
  *Env*) cat <<'E'
{env}E
  ;;
  *) echo sha256:1 ;;
esac
"""
    )
    docker.chmod(0o755)
    script = details_script("kimi", SALT, ["MODE", "PROXY"], ["vllm:1", "absent:1"])
    done = subprocess.run(
        ["sh", "-s", "--", *script.arguments],
        input=script.text,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_only_digests_of_variables_that_the_plan_does_not_show_leave_the_host(printed: str) -> None:
    assert "hf_secret" not in printed
    details = parse_details(printed)
    found = details.containers["c1"]
    assert sorted(found.env) == ["EMPTY", "HF_TOKEN", "MODE", "PROXY"]  # PATH is the image's
    assert found.env["HF_TOKEN"].text is None
    assert found.env["MODE"].text == "a=b c"
    assert found.env["PROXY"].text is None  # the plan shows it, but here it holds a login
    assert details.images == {"vllm:1": "sha256:1"}
    assert found.image_labels == {"a": "b"}
    assert found.options.scalars == {"network": "host", "restart": "no", "stop-timeout": "60"}


def test_a_secret_is_compared_by_its_salted_digest(printed: str) -> None:
    found = parse_details(printed).containers["c1"]
    before = f"{SALT}HF_TOKEN="
    assert found.env["HF_TOKEN"].digest == Secret("hf_secret value").digest(before)
    assert found.env["HF_TOKEN"].digest != Secret("hf_other value").digest(before)
    text = f"{SALT}MODE=a=b c"
    assert found.env["MODE"].digest == hashlib.sha256(text.encode()).hexdigest()


def test_the_salt_is_in_no_process_list(printed: str) -> None:
    script = details_script("kimi", SALT, [], [])
    assert SALT in script.text
    assert not any(SALT in word for word in script.arguments)
    with pytest.raises(ValueError, match="salt"):
        details_script("kimi", "0; rm -rf /", [], [])
