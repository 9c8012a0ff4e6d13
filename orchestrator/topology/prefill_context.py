"""What prefill context parallel (PCP) needs of a model and of the other arguments.

vLLM finds out in every worker, after the weights are loaded. Read in 0.32.0: PCPManager
.validate_config, VllmConfig._get_v1_model_runner_unsupported_features, NixlConnector.__init__,
and for AMD RocmPlatform.check_and_update_config.
"""

from __future__ import annotations

from orchestrator.errors import PlanError
from orchestrator.recipes.arguments import json_of
from orchestrator.recipes.kv_transfer import kv_connectors
from orchestrator.recipes.resolved import CommandParts, ModelShape
from orchestrator.topology.layout import Sizes

_WITHOUT = "leave parallel.prefill_context out"
_MODES = ("NONE", "PIECEWISE", "FULL")  # CUDAGraphMode by number
_DEFAULT_MODE = "FULL_AND_PIECEWISE"
_MODE_OF_LEVEL = {"0": "NONE", "1": "PIECEWISE"}  # --optimization-level


def is_latent(shape: ModelShape, parts: CommandParts) -> bool | None:
    """Whether vLLM runs multi-head latent attention (MLA); None: not known."""
    if str(parts.env.get("VLLM_MLA_DISABLE", "0")) not in ("", "0"):
        return False
    if shape.kv_latent is not None:
        return True
    return None if shape.kv_heads in (None, 1) else False


def graph_mode(parts: CommandParts) -> str:
    """The CUDA graph mode that the arguments lead to, by its name."""
    if parts.has("--enforce-eager"):
        return "NONE"
    mode = json_of(parts.arguments, "--compilation-config").get("cudagraph_mode")
    if mode is None:
        return _MODE_OF_LEVEL.get(parts.value("--optimization-level") or "", _DEFAULT_MODE)
    text = str(mode).upper()
    return _MODES[int(text)] if text in ("0", "1", "2") else text


def check_prefill_context(
    parts: CommandParts, sizes: Sizes, shape: ModelShape, model: str, *, amd: bool = False
) -> None:
    """Refuse prefill context parallel where vLLM has none. Unknown facts (None) check nothing.

    Raises PlanError with what stands in its way.
    """
    if sizes.prefill_context == 1:
        return
    asked = f"prefill context {sizes.prefill_context}"
    if is_latent(shape, parts) is False:
        raise PlanError(
            f"{asked} of {model}, which has no multi-head latent attention",
            why="vLLM has prefill context parallel for such models only",
            hint=_WITHOUT,
        )
    if shape.multimodal and not _text_only(parts):
        raise PlanError(
            f"{asked} of {model}, which takes images or other media",
            why="vLLM has prefill context parallel for text alone",
            hint=f"args: {{language-model-only: true}} serves its text alone; or {_WITHOUT}",
        )
    _check_runner(parts, asked)
    _check_speculation(parts, asked)
    _check_decode_context(parts, sizes, shape, model)
    _check_graphs(parts, sizes, shape, model, amd=amd)
    _check_transfer(parts, sizes, asked)


def _text_only(parts: CommandParts) -> bool:
    """Whether no input but text is taken: all of the limits given are 0, or the model's half."""
    if parts.has("--language-model-only"):
        return True
    limits = json_of(parts.arguments, "--limit-mm-per-prompt")
    return bool(limits) and not any(limits.values())


def _check_runner(parts: CommandParts, asked: str) -> None:
    if str(parts.env.get("VLLM_USE_V2_MODEL_RUNNER", "1")) in ("0", "false", "False"):
        raise PlanError(
            f"{asked} with VLLM_USE_V2_MODEL_RUNNER=0",
            why="only vLLM's model runner V2 has prefill context parallel",
            hint=f"leave VLLM_USE_V2_MODEL_RUNNER out, or {_WITHOUT}",
        )
    if parts.has("--enable-lora"):
        raise PlanError(
            f"{asked} does not go with --enable-lora",
            hint=f"leave --enable-lora out, or {_WITHOUT}",
        )


def _check_speculation(parts: CommandParts, asked: str) -> None:
    said = json_of(parts.arguments, "--speculative-config")
    method = str(said.get("method") or "a draft model")
    if not said or method == "dspark" or method == "mtp" or method.endswith("_mtp"):
        return
    raise PlanError(
        f"{asked} does not go with speculative decoding by {method}",
        why="vLLM has it beside mtp and dspark only",
        hint=f'speculative-config with "method": "mtp" where the model has it, or {_WITHOUT}',
    )


def _check_decode_context(parts: CommandParts, sizes: Sizes, shape: ModelShape, model: str) -> None:
    if sizes.decode_context == 1:
        return
    both = f"prefill context {sizes.prefill_context} with decode context {sizes.decode_context}"
    if shape.sparse_attention is False:
        raise PlanError(
            f"{both} of {model}, whose attention is not sparse",
            why="vLLM has both together for sparse latent attention only (vllm#53573)",
            hint="leave parallel.decode_context or parallel.prefill_context out",
        )
    backend = parts.value("--dcp-comm-backend")
    if backend not in (None, "ag_rs"):
        raise PlanError(
            f"{both} does not go with --dcp-comm-backend {backend}",
            hint="args: {dcp-comm-backend: ag_rs}, which is the default",
        )


def _check_graphs(
    parts: CommandParts, sizes: Sizes, shape: ModelShape, model: str, *, amd: bool
) -> None:
    """Sparse attention without decode context parallel takes no CUDA graphs at all.

    On AMD vLLM itself makes FULL to PIECEWISE.
    """
    mode = graph_mode(parts)
    if shape.sparse_attention and sizes.decode_context == 1 and mode != "NONE":
        raise PlanError(
            f"prefill context {sizes.prefill_context} of {model}, whose attention is sparse, "
            f"with CUDA graphs ({mode})",
            why="vLLM has no CUDA graphs for that yet",
            hint="args: {enforce-eager: true}, or compilation-config: {cudagraph_mode: NONE}",
        )
    if mode == "FULL" and not amd:
        raise PlanError(
            f"prefill context {sizes.prefill_context} with cudagraph_mode FULL",
            why="vLLM captures full CUDA graphs of decoding alone there",
            hint="cudagraph_mode: FULL_DECODE_ONLY, FULL_AND_PIECEWISE, PIECEWISE or NONE",
        )


def _check_transfer(parts: CommandParts, sizes: Sizes, asked: str) -> None:
    """NIXL sends from prefill context ranks, but receives into none."""
    connectors = kv_connectors(parts.arguments)
    if "NixlConnector" not in connectors:
        return
    role = connectors["NixlConnector"]
    if role != "kv_producer":
        raise PlanError(
            f"{asked} of an engine that receives KV cache ({role})",
            why="NixlConnector has prefill context parallel on the prefill side only",
            hint=f"{_WITHOUT}: it would be both pools'",
        )
    context = sizes.decode_context
    if context > 1 and (sizes.tensor > 1 or context != sizes.prefill_context):
        raise PlanError(
            f"{asked} with decode context {context} and tensor {sizes.tensor} under prefill/decode",
            why="NixlConnector takes both with tensor 1 and of the same size only",
            hint=f"tensor: 1 and decode_context: {sizes.prefill_context}",
        )
