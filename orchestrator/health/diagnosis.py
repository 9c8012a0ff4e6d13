"""Why a start failed, in one line, out of what a rank logged last.

The table is ordered: what causes other faults stands before what follows from them, so the
first row that matches any line is the cause.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The cause, the mend, and the log line that shows it.

    `position` is that line's index in what was read, None where it is no line that shows it. What
    is not `certain` may follow from what another rank of the group said before.
    """

    cause: str
    mend: str
    line: str = ""
    position: int | None = None
    certain: bool = True

    def __str__(self) -> str:
        shown = f" ({self.line})" if self.line else ""
        return f"{self.cause}{shown}. {self.mend}"


class _Rule(NamedTuple):
    pattern: str
    cause: str
    mend: str
    certain: bool = True


_RULES = (
    # the container itself
    _Rule(
        r"[Ee]xec format error",
        "the image is built for another processor architecture than the host's",
        "Use an image for the host's architecture (amd64 or arm64).",
    ),
    _Rule(
        r"could not select device driver|nvidia-container-cli|unknown or invalid runtime name"
        r"|failed to discover GPU vendor|unresolvable CDI devices",
        "docker on this host cannot hand GPUs to containers",
        "Install the NVIDIA Container Toolkit there, `nvidia-ctk runtime configure`, "
        "restart docker.",
    ),
    _Rule(
        r"executable file not found in \$PATH|exec: .*: (not found|no such file or directory)"
        r"|\[FATAL tini .*exec \S+ failed: No such file",
        "the image has no such program",
        "Use an image that holds vLLM, such as vllm/vllm-openai.",
    ),
    _Rule(
        r"error gathering device information|no such file or directory.*/dev/",
        "a device of orc_devices does not exist on this host",
        "Correct orc_devices for this host, or load the driver of the device.",
    ),
    _Rule(
        r"bind source path does not exist|invalid mount config|error mounting",
        "a volume of this host cannot be mounted",
        "Create the directory on the host, or correct orc_volumes or orc_hf_home.",
    ),
    # the command line
    _Rule(
        r"error: unrecognized arguments:|error: argument .*: |error: ambiguous option",
        "vLLM does not accept an argument",
        "Correct it with --set args.NAME=VALUE, or use an image whose vLLM knows it.",
    ),
    _Rule(
        r"Remote engine \d+ must use --headless",
        "a follower serves HTTP where it must be headless",
        "This is a fault of the plan: report it with the output of `orc plan`.",
    ),
    # the model
    _Rule(
        r"GatedRepoError|gated repo|Access to model .* is restricted|401 Client Error",
        "the model is gated, and no token with access to it was given",
        "Set env.HF_TOKEN of the deployment to a token that has been granted access.",
    ),
    _Rule(
        r"RepositoryNotFoundError|404 Client Error|is not a valid model identifier",
        "the hub has no such model, or it needs a token",
        "Correct the model's name, or set env.HF_TOKEN.",
    ),
    _Rule(
        r"LocalEntryNotFoundError|We couldn't connect to|OfflineModeIsEnabled"
        r"|Temporary failure in name resolution|Failed to resolve|Name or service not known",
        "the host cannot reach the model hub",
        "Open the way out, or put the weights on the host: orc_hf_home or orc_volumes.",
    ),
    _Rule(
        r"does not appear to have a file named|No such file or directory: .*(config\.json|safeten)"
        r"|Invalid repository ID or local directory|HFValidationError",
        "the model's files are not where the container looks for them",
        "Mount them on every host: orc_volumes, or orc_hf_home.",
    ),
    _Rule(
        r"contains custom code which must be executed|trust_remote_code=True` in LLM"
        r"|set the option `trust_remote_code=True`",
        "the model brings code of its own, and vLLM was not told to run it",
        "If you trust it: --set args.trust-remote-code=true",
    ),
    _Rule(
        r"Model architectures .* are not supported|does not recognize this architecture"
        r"|does not support .* architecture",
        "the vLLM of this image does not know the model",
        "Use a newer image.",
    ),
    # sizes
    _Rule(
        r"number of attention heads .*divisible by tensor parallel",
        "the tensor-parallel size does not divide the model's attention heads",
        "Choose another --strategy or --set parallel.tensor=N.",
    ),
    _Rule(
        r"not divisible by weight quantization block",
        "the tensor-parallel size cuts through the blocks of the quantised weights",
        "Use fewer tensor-parallel ranks, or expert parallel.",
    ),
    _Rule(
        r"len\(partitions\)|sum\(partitions\)|Invalid partition string",
        "the pipeline's layer partition does not fit the model",
        "Correct layer_partition: as many numbers as stages, with the model's layers as sum.",
    ),
    # memory
    _Rule(
        r"max seq(uence)? len.* KV cache|KV cache is needed, which is larger than",
        "the KV cache has no room for one sequence of the maximum length",
        "Lower --set args.max-model-len=N, or raise args.gpu-memory-utilization.",
    ),
    _Rule(
        r"Free memory on device .* is less than desired",
        "another process holds memory of a GPU",
        "Stop it (nvidia-smi shows it), or lower --set args.gpu-memory-utilization=0.x",
    ),
    _Rule(
        r"is less than desired CPU memory utilization",
        "the host has less free memory than vLLM was told to reserve",
        "Lower VLLM_CPU_KVCACHE_SPACE or --set args.gpu-memory-utilization=0.x",
    ),
    _Rule(
        r"No available memory for the cache blocks",
        "the weights leave no memory for the KV cache",
        "Use more GPUs or a smaller variant, or raise args.gpu-memory-utilization.",
    ),
    _Rule(
        r"OutOfMemoryError|CUDA out of memory|HIP out of memory|CUDA error: out of memory",
        "a GPU ran out of memory",
        "Use more GPUs or a smaller variant, or lower args.max-num-seqs or args.max-model-len.",
    ),
    _Rule(
        r"No space left on device",
        "a disk of this host is full",
        "Make room where docker or the Hugging Face cache lives.",
    ),
    _Rule(
        r"Bus error|unable to open shared memory|insufficient shared memory",
        "shared memory (/dev/shm) ran out",
        "Give the host more /dev/shm; host IPC is used, so the host's own size counts.",
    ),
    # devices and drivers
    _Rule(
        r"driver version is insufficient|forward compatibility was attempted"
        r"|no kernel image is available|PTX was compiled with an unsupported toolchain",
        "the host's GPU driver or GPU is not one that this image was built for",
        "Update the driver, or use an image for its CUDA version.",
    ),
    _Rule(
        r"Failed to infer device type|No CUDA GPUs are available|Found no NVIDIA driver",
        "vLLM sees no GPU in its container",
        "Check nvidia-smi on the host and its container toolkit.",
    ),
    # network
    _Rule(
        r"\[?Errno 98\]?|[Aa]ddress already in use|EADDRINUSE",
        "a port is taken by another process",
        "Choose another one: --port or --set master_port=N.",
    ),
    _Rule(
        r"NCCL error|ncclSystemError|ncclRemoteError|ncclInternalError|unhandled system error"
        r"|Bootstrap : no socket interface found|Gloo connectFullMesh failed",
        "the collective communication between the hosts failed",
        "Check orc_interface and NCCL_IB_HCA of each host, and that all TCP between them is open.",
        certain=False,
    ),
    _Rule(
        r"DistStoreError|DistNetworkError|waiting for clients|client socket has timed out"
        r"|failed to connect to .*(master|store)|Timed out initializing process group",
        "the ranks did not find each other: the head's address was not reached in time",
        "Check that every host reaches the head's orc_address, and that no rank is missing.",
        certain=False,
    ),
    # follow-ups of something that was said before
    _Rule(
        r"ModuleNotFoundError|ImportError|cannot open shared object file",
        "the image lacks something that vLLM needs",
        "Use another image, or one built for this platform.",
    ),
    _Rule(
        r"Permission denied|PermissionError",
        "a file may not be read or written in the container",
        "Check the owner and mode of orc_hf_home and orc_volumes.",
    ),
    _Rule(
        r"Connection (closed|reset) by (remote )?peer|Connection refused|Broken pipe|EOFError",
        "this rank lost its peers",
        "Look at the rank that ended first.",
        certain=False,
    ),
)
_COMPILED = tuple((re.compile(rule.pattern), rule) for rule in _RULES)
_ERROR_LINE = re.compile(r"\b\w*(Error|Exception|ERROR|CRITICAL|FATAL|fatal|panic)\b")
_CHATTER = re.compile(r"^\s*(\(\w+ pid=\d+\)\s*)?(INFO|WARNING|DEBUG)\b")
_PREFIX = re.compile(r"^(\(\w+ pid=\d+\)\s*)?([A-Z]+ [\d-]+ [\d:]+ \[[^\]]+\]\s*)?")  # vLLM's own
_EXCEPTION = re.compile(r"(?:^|\] |\) )[\w.]*(?:Error|Exception)(?::|$)")  # how a traceback ends
_NOISE = re.compile(r"^\s*(File \"|\^|Traceback|raise |return )")
_BARE = re.compile(r"^[\w.]+(Error|Exception)$")  # says nothing without the code that raised it
_UNDERLINE = re.compile(r"[\^~ ]*")
# Of the API server; the engine said why before.
_POINTER = re.compile(r"See root cause above|See stack trace \(above\)")


def diagnose(
    lines: Sequence[str],
    *,
    ended: bool = True,
    exit_code: int | None = None,
    oom_killed: bool = False,
) -> Diagnosis | None:
    """The first cause that the log lines of one rank show; None when they show none.

    `exit_code` and `oom_killed` are its container's. Of what has not `ended`, and fails in a way
    that is not known, only the end of a traceback counts: it may go on after other errors.
    """
    if oom_killed:
        return Diagnosis(
            "the host ran out of main memory and the kernel killed it",
            "Use a host with more memory, or fewer processes there.",
        )
    said = [
        (position, line)
        for position, line in enumerate(map(_uncoloured, lines))
        if not _CHATTER.search(line)
    ]
    for pattern, rule in _COMPILED:
        for position, line in said:
            if pattern.search(line):
                return Diagnosis(rule.cause, rule.mend, _shown(line), position, rule.certain)
    return _by_exit_code(exit_code) or _last_error(said, _ERROR_LINE if ended else _EXCEPTION)


def _by_exit_code(exit_code: int | None) -> Diagnosis | None:
    if exit_code == 137:
        return Diagnosis(
            "it was killed (SIGKILL): by somebody, or by the kernel for memory",
            "Look at `dmesg` of the host for the out-of-memory killer.",
        )
    if exit_code == 139:
        return Diagnosis(
            "it crashed (SIGSEGV)", "Try another image; report it to vLLM with its log."
        )
    return None


def _last_error(said: Sequence[tuple[int, str]], sign: re.Pattern[str]) -> Diagnosis | None:
    errors = [one for one in said if sign.search(one[1]) and not _NOISE.search(one[1])]
    if not errors:
        return None
    position, line = max(errors, key=lambda one: (not _POINTER.search(one[1]), one[0]))
    shown = _shown(line)
    if _BARE.search(shown):
        before = [_shown(other) for place, other in said if place < position]
        code = next((text for text in reversed(before) if not _UNDERLINE.fullmatch(text)), "")
        shown = f"{shown} at `{code}`" if code else shown
    mend = "The log shows more: orc logs."
    return Diagnosis("its last error", mend, shown, position, certain=False)


def _uncoloured(line: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", line)


def _shown(line: str) -> str:
    line = _PREFIX.sub("", line.strip(), count=1)
    return line if len(line) <= 240 else line[:237] + "..."
