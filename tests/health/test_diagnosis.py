"""One line of cause out of real log lines; nothing out of a log of a healthy start."""

from __future__ import annotations

import pytest

from orchestrator.health.diagnosis import diagnose

# Lines as docker, vLLM, torch, transformers and huggingface_hub print them.
FAULTS = [
    ("exec /usr/local/bin/vllm: exec format error", "another processor architecture"),
    (
        'docker: Error response from daemon: could not select device driver "" with capabilities: '
        "[[gpu]].",
        "cannot hand GPUs",
    ),
    (
        "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1",
        "cannot hand GPUs",
    ),
    (
        'OCI runtime create failed: exec: "vllm": executable file not found in $PATH: unknown.',
        "no such program",
    ),
    (
        "[FATAL tini (7)] exec vllm failed: No such file or directory",
        "no such program",
    ),
    ("[FATAL tini (7)] exec vllm failed: Exec format error", "another processor architecture"),
    (
        'error gathering device information while adding custom device "/dev/infiniband": '
        "no such file or directory",
        "a device of orc_devices",
    ),
    ("vllm: error: unrecognized arguments: --such-flag 4", "does not accept an argument"),
    (
        "vllm serve: error: argument --max-model-len: expected one argument",
        "does not accept an argument",
    ),
    (
        "huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1-6)",
        "gated",
    ),
    ("Access to model meta-llama/Llama-3.1-8B is restricted.", "gated"),
    (
        "OSError: We couldn't connect to 'https://huggingface.co' to load the files",
        "cannot reach the model hub",
    ),
    (
        "OSError: /models/x does not appear to have a file named config.json.",
        "not where the container looks",
    ),
    (
        "ValueError: Invalid repository ID or local directory specified: '/models/none'.",
        "not where the container looks",
    ),
    (
        "ValueError: The repository /m contains custom code which must be executed to correctly "
        "load the model. Please pass the argument `trust_remote_code=True`",
        "code of its own",
    ),
    (
        "ValueError: Model architectures ['KimiK3ForCausalLM'] are not supported for now.",
        "does not know the model",
    ),
    (
        "ValueError: Total number of attention heads (40) must be divisible by tensor parallel "
        "size (16).",
        "does not divide the model's attention heads",
    ),
    (
        "ValueError: The output_size of gate's and up's weight = 192 is not divisible by weight "
        "quantization block_n = 128.",
        "blocks of the quantised weights",
    ),
    ("ValueError: len(partitions)=3 does not match pp_size=2.", "layer partition"),
    (
        "ValueError: To serve at least one request with the model's max seq len (131072), (17.16 "
        "GiB KV cache is needed, which is larger than the available KV cache memory (9.3 GiB).",
        "no room for one sequence",
    ),
    (
        "ValueError: Free memory on device cuda:0 (3.1/79.2 GiB) on startup is less than desired "
        "GPU memory utilization (0.92, 72.8 GiB).",
        "another process holds memory",
    ),
    (
        "ValueError: No available memory for the cache blocks. Try increasing "
        "`gpu_memory_utilization`",
        "no memory for the KV cache",
    ),
    (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "a GPU ran out of memory",
    ),
    ("OSError: [Errno 28] No space left on device", "a disk of this host is full"),
    ("RuntimeError: DataLoader worker is killed by signal: Bus error.", "shared memory"),
    (
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "GPU driver or GPU",
    ),
    ("RuntimeError: Failed to infer device type, please set", "sees no GPU"),
    ("OSError: [Errno 98] Address already in use", "a port is taken"),
    (
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3384, unhandled "
        "system error",
        "collective communication",
    ),
    (
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 "
        "clients joined.",
        "did not find each other",
    ),
    ("ModuleNotFoundError: No module named 'vllm'", "the image lacks something"),
    ("PermissionError: [Errno 13] Permission denied: '/root/.cache/huggingface'", "may not be"),
]

# Of a start that went well (vLLM 0.32.0, CPU), with the words that trap careless patterns.
HEALTHY = """\
(APIServer pid=6) WARNING 11-30 18:24:40 [system_utils.py:255] Found ulimit of 20000 and failed \
to automatically increase with error current limit exceeds maximum limit. This can cause fd limit \
errors like `OSError: [Errno 24] Too many open files`. Consider increasing with ulimit -n
(APIServer pid=6) INFO 11-30 18:24:41 [utils.py:233] non-default args: {'model_tag': '/m', \
'trust_remote_code': True, 'load_format': 'dummy', 'enforce_eager': True, 'nnodes': 2}
(EngineCore pid=21) INFO 11-30 18:24:59 [core.py:101] Initializing a V1 LLM engine (v0.32.0) with \
config: model='/m', trust_remote_code=False, tensor_parallel_size=2, quantization=None
Triton is installed, but doesn't include CPU backend. Disabling Triton.
(Worker pid=31) INFO 11-30 18:25:29 [parallel_state.py:1208] world_size=2 rank=0 \
distributed_init_method=tcp://10.90.0.11:29501 backend=gloo
(Worker pid=31) INFO 11-30 18:25:29 [cpu_model_runner.py:87] Warming up model for the compilation...
INFO:     Application startup complete.
INFO:     10.90.0.11:35898 - "POST /v1/completions HTTP/1.1" 200 OK
"""


@pytest.mark.parametrize(("line", "cause"), FAULTS, ids=range(len(FAULTS)))
def test_a_known_fault_is_named_with_its_line_and_a_mend(line: str, cause: str) -> None:
    found = diagnose([*HEALTHY.splitlines(), line, "Traceback (most recent call last):"])
    assert found is not None
    assert cause in found.cause
    assert found.line and found.line[:60] in line
    assert found.mend.endswith(".") or "=" in found.mend


def test_a_healthy_log_has_no_cause() -> None:
    assert diagnose(HEALTHY.splitlines()) is None


def test_what_follows_from_a_fault_is_not_taken_for_it() -> None:
    lines = [
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "RuntimeError: [../gloo/transport/tcp/pair.cc:538] Connection closed by peer",
        "RuntimeError: Engine core initialization failed. See root cause above.",
    ]
    found = diagnose(list(reversed(lines)))
    assert found is not None and "GPU ran out of memory" in found.cause


def test_the_kernels_kill_is_told_by_docker_and_not_by_the_log() -> None:
    found = diagnose(HEALTHY.splitlines(), exit_code=137, oom_killed=True)
    assert found is not None and "main memory" in found.cause
    found = diagnose(HEALTHY.splitlines(), exit_code=137)
    assert found is not None and "SIGKILL" in found.cause
    found = diagnose([], exit_code=139)
    assert found is not None and "SIGSEGV" in found.cause


def test_of_an_unknown_fault_the_last_error_is_shown_without_prefix_and_colour() -> None:
    lines = ["(Worker pid=31) \x1b[0;36mValueError: something quite new\x1b[0;0m", '  File "x.py"']
    found = diagnose(lines, exit_code=1)
    assert found is not None
    assert (found.cause, found.line) == ("its last error", "ValueError: something quite new")


def test_an_exception_without_a_message_is_shown_with_the_code_that_raised_it() -> None:
    prefix = "(Worker_PP1 pid=13) ERROR 12-01 15:28:58 [multiproc_executor.py:1063] "
    said = [
        '  File "/vllm/v1/worker/gpu_model_runner.py", line 3174, in sync_tensors',
        "    assert self.intermediate_tensors is not None",
        "           ^^^^^^^^^^^^^^^^^^^^^^^^^",
        "AssertionError",
    ]
    found = diagnose([prefix + line for line in said], ended=False)
    assert found is not None
    assert found.line == "AssertionError at `assert self.intermediate_tensors is not None`"


def test_the_api_servers_pointer_to_a_cause_is_not_the_cause() -> None:
    engine = "RuntimeError: Worker failed with error 'No common block size for 16'"
    pointer = (
        "RuntimeError: Engine core initialization failed. See root cause above. "
        "Failed core proc(s): {}"
    )
    found = diagnose([f"(EngineCore pid=23) {engine}", "(APIServer pid=7)   File x", pointer])
    assert found and found.line == engine
    alone = diagnose([pointer])
    assert alone and alone.line == pointer


def test_nothing_is_made_up_of_an_empty_log() -> None:
    assert diagnose([], exit_code=1) is None
