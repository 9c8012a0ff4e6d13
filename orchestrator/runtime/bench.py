"""`vllm bench serve` inside a container: its command line, and the script that runs it there."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from orchestrator.recipes.arguments import flag_value
from orchestrator.secret import Secret

# Runs inside the container, by its `sh`. What the benchmark says goes to stderr, so that stdout
# is its result alone. Ending the `docker exec` on the host ends nothing inside, so the way to end
# it is `INTERRUPT`. The API key that the server was given is the client's as well.
_INSIDE = """
bench() {
  place=$1
  shift
  mkdir "$place" || return 73
  trap 'kill "$child" 2>/dev/null; rm -rf "$place"; exit 143' HUP INT TERM
  [ -z "$VLLM_API_KEY" ] || [ -n "$OPENAI_API_KEY" ] || export OPENAI_API_KEY="$VLLM_API_KEY"
  "$@" --save-result --result-dir "$place" --result-filename result.json >&2 &
  child=$!
  echo $$ >"$place/pid"
  wait "$child"
  status=$?
  [ ! -f "$place/result.json" ] || cat "$place/result.json"
  rm -rf "$place"
  return $status
}
bench "$@"
"""
_INTERRUPT = 'kill "$(cat "$1/pid")"'
INPUT_TOKENS, OUTPUT_TOKENS, PROMPTS, CONCURRENCY = 1024, 128, 100, 32


def bench_command(
    serve: Sequence[str], url: str, served_model: str, more: Sequence[str] = ()
) -> list[str]:
    """The benchmark of a server that was started with `serve`, at `url`.

    Random prompts, of lengths that fit into its --max-model-len; a flag of `more` takes the place
    of ours.
    """
    model = serve[2] if len(serve) > 2 else served_model
    length = flag_value(serve, "--max-model-len") or ""
    longest = int(length) if length.isdigit() else 1 << 30
    ours = {
        "--base-url": url,
        "--model": model,
        "--served-model-name": served_model,
        "--dataset-name": "random",
        "--random-input-len": str(min(INPUT_TOKENS, longest // 2)),
        "--random-output-len": str(min(OUTPUT_TOKENS, longest // 4)),
        "--num-prompts": str(PROMPTS),
        "--max-concurrency": str(CONCURRENCY),
    }
    for flag in ("--tokenizer", "--tokenizer-mode"):
        if value := flag_value(serve, flag):
            ours[flag] = value
    given = {word.partition("=")[0] for word in more}
    words = [word for flag, value in ours.items() if flag not in given for word in (flag, value)]
    switches = ["--ignore-eos", "--disable-tqdm"]
    if flag_value(serve, "--trust-remote-code") == "":
        switches.append("--trust-remote-code")
    return ["vllm", "bench", "serve", *words, *switches, *more]


def inside_words(identifier: str, command: Sequence[str]) -> list[str]:
    """What to run inside the container, by `docker exec` or `docker run`."""
    return ["sh", "-c", _INSIDE, "orc-bench", _place(identifier), *command]


def interrupt_words(identifier: str) -> list[str]:
    """What ends it, inside the same container."""
    return ["sh", "-c", _INTERRUPT, "orc-bench", _place(identifier)]


def _place(identifier: str) -> str:
    return f"/tmp/orc-bench-{identifier}"


def run_words(
    identifier: str,
    deployment: str,
    image: str,
    volumes: Sequence[str],
    command: Sequence[str],
) -> list[str]:
    """`docker run` of the benchmark in a container of its own, which is gone when it ends.

    Its API key is what `with_key` exports, if anything.
    """
    words = ["docker", "run", "--rm", "--init", "--network", "host", "--ipc", "host"]
    words += ["--name", f"bench-{deployment}-{identifier}", "--label", f"orc.bench={deployment}"]
    words += ["--env", "OPENAI_API_KEY"]
    for volume in volumes:
        words += ["--volume", volume]
    shell, *arguments = inside_words(identifier, command)
    return [*words, "--entrypoint", shell, image, *arguments]


def with_key(key: Secret | None) -> str:
    """A script that runs its arguments with the API key in their environment. It goes over
    stdin, so that the key shows in no process list."""
    export = f"export OPENAI_API_KEY={shlex.quote(key.reveal())}\n" if key else ""
    return export + 'exec "$@" </dev/null\n'
