"""What a catalog holds besides models: `taxonomy.yaml`, `strategies/*.yaml`, `kv_store/*.yaml`."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from orchestrator.deployment import RouterPolicy
from orchestrator.recipes.part import Arguments, Environment, Part, PoolMode
from orchestrator.recipes.schema import Companion

DeployType = Literal["single_node", "multi_node", "pd_cluster", "kv_store_lb"]


class Hardware(Part):
    """A kind of host. `vram_gb` is the sum over its GPUs."""

    brand: str
    generation: str
    gpu_count: int = Field(ge=1)
    vram_gb: float
    compute_arch: str | None = None
    display_name: str = ""
    description: str = ""
    multi_node: bool = False
    scalable: bool = True  # whether hosts of this kind can be joined to serve one model
    restricted: bool = False  # only for recipes that name it


class Task(Part):
    id: str
    display_name: str = ""
    description: str = ""


class KvOffloadGroup(Part):
    display_name: str
    label: str | None = None
    order: int = 0
    sub_row_label: str | None = None
    docs_url: str | None = None
    tooltip: str | None = None
    description: str = ""


class KvOffloadOption(Part):
    """A way to offload the KV cache that composes with a serving strategy."""

    display_name: str
    label: str | None = None
    order: int = 0
    group: str | None = None
    description: str = ""
    args: Arguments = ()
    env: Environment = Field(default_factory=dict)
    strategies: tuple[str, ...] = ()
    brands: tuple[str, ...] = ()
    requires_opt_in: bool = False
    install: str | None = None
    docs_url: str | None = None
    companion: Companion | None = None


class Taxonomy(Part):
    hardware_profiles: dict[str, Hardware] = Field(default_factory=dict)
    tasks: tuple[Task, ...] = ()
    strategies: tuple[str, ...] = ()
    kv_offload_groups: dict[str, KvOffloadGroup] = Field(default_factory=dict)
    kv_offload: dict[str, KvOffloadOption] = Field(default_factory=dict)


class HardwareMatch(Part):
    min_gpus: int | None = None
    max_gpus: int | None = None
    multi_node: bool | None = None
    architecture: str | None = None


class StrategyRole(Part):
    """What a strategy gives each process of one pool."""

    vllm_args: Arguments = ()
    env: Environment = Field(default_factory=dict)
    parallelism: PoolMode | None = None
    parallel_flag: str | None = None
    tp: int | None = None


class StrategyRouter(Part):
    policy: RouterPolicy = "round_robin"
    install: str | None = None
    port: int | None = None


class StrategyFile(Part):
    """`strategies/<name>.yaml`."""

    name: str
    deploy_type: DeployType
    display_name: str = ""
    short_label: str | None = None
    orientation: str | None = None
    description: str = ""
    hardware_match: HardwareMatch | None = None
    parallelism: str | None = None
    vllm_args: Arguments = ()
    env: Environment = Field(default_factory=dict)
    parallel_flag: str = "--tensor-parallel-size"
    prefill: StrategyRole | None = None
    decode: StrategyRole | None = None
    router: StrategyRouter | None = None
    remove_args: tuple[str, ...] = ()  # flags that this strategy cannot stand
    kv_offload: bool = True

    def role(self, role: str) -> StrategyRole:
        return {"prefill": self.prefill, "decode": self.decode}.get(role) or StrategyRole()


class KvStoreEngine(Part):
    """What every vLLM instance in front of the store gets."""

    vllm_args: Arguments = ()
    env: Environment = Field(default_factory=dict)
    install: str | dict[str, str] | None = None
    port: int = 8000


class KvStorePool(Part):
    args: Arguments = ()


class KvStorePools(Part):
    prefill: KvStorePool
    decode: KvStorePool


class KvStoreProcess(Part):
    command: str
    description: str = ""
    note: str = ""
    config: dict[str, Any] | None = None


class KvStoreConfig(Part):
    mode: str
    note: str = ""
    template: dict[str, Any] = Field(default_factory=dict)


class KvStoreFile(Part):
    """`kv_store/<name>.yaml`: a shared KV store around any serving strategy."""

    name: str
    deploy_type: Literal["kv_store_lb"]
    display_name: str = ""
    label: str | None = None
    order: int = 0
    description: str = ""
    router: StrategyRouter | None = None
    vllm: KvStoreEngine = KvStoreEngine()
    pd: KvStorePools | None = None
    mooncake_master: KvStoreProcess
    mooncake_store_config: KvStoreProcess | None = None
    mooncake_vllm_config: KvStoreConfig
    min_vllm_version: str | None = None
    default_instances: int = 2
