"""The image and the device flags of a container, by the brand of the hardware."""

from __future__ import annotations

from orchestrator.recipes.resolved import HardwareProfile
from orchestrator.recipes.schema import BrandImages, CudaImages, DockerImage, Recipe, Variant

_RELEASE = {
    "nvidia": "vllm/vllm-openai:latest",
    "amd": "vllm/vllm-openai-rocm:latest",
    "tpu": "vllm/vllm-tpu:latest",
    "intel": "vllm/vllm-openai-cpu:latest-x86_64",
    "xpu": "vllm/vllm-openai-xpu:latest",
}
_NIGHTLY = _RELEASE | {
    "nvidia": "vllm/vllm-openai:nightly",
    "amd": "vllm/vllm-openai-rocm:nightly",
    "tpu": "vllm/vllm-tpu:nightly",
}

# What a container must be given to reach its devices (vLLM's installation guides by backend).
_NPU_MOUNTS = (
    "/usr/local/Ascend/driver:/usr/local/Ascend/driver",
    "/etc/ascend_install.info:/etc/ascend_install.info",
    "/usr/local/dcmi:/usr/local/dcmi",
    "/usr/local/bin/npu-smi:/usr/local/bin/npu-smi",
)


def image_brand(hardware: HardwareProfile) -> str:
    """The key under which a recipe's `docker_image` holds the image for this hardware."""
    if hardware.generation == "tpu":
        return "tpu"
    if hardware.brand == "AMD":
        return "amd"
    if hardware.generation in {"cpu", "xpu"} or hardware.brand == "Intel":
        return "intel"
    return "nvidia"


def image(recipe: Recipe, variant: Variant, hardware: HardwareProfile) -> str:
    """The image: of the variant on this exact hardware, the variant's, the model's, the brand's."""
    exact = variant.hardware_overrides.get(hardware.name)
    if exact is not None and exact.docker_image:
        return exact.docker_image
    brand = image_brand(hardware)
    for declared in (variant.docker_image, recipe.model.docker_image):
        found = _of_brand(declared, brand)
        if found:
            return found
    defaults = _NIGHTLY if recipe.model.nightly_required else _RELEASE
    return defaults["xpu" if hardware.generation == "xpu" else brand]


def _of_brand(declared: DockerImage | None, brand: str) -> str | None:
    """A plain image, or one by CUDA version, is for NVIDIA only."""
    found: str | CudaImages | None
    if isinstance(declared, BrandImages):
        by_brand = {
            "nvidia": declared.nvidia,
            "amd": declared.amd,
            "tpu": declared.tpu,
            "intel": declared.intel,
        }
        found = by_brand[brand]
    else:
        found = declared if brand == "nvidia" else None
    return found.preferred if isinstance(found, CudaImages) else found


def device_flags(hardware: HardwareProfile) -> tuple[str, ...]:
    """The flags of `docker run` that give a container all of a host's devices."""
    if hardware.generation == "tpu":
        return ("--privileged", "--network", "host", "-v", "/dev/shm:/dev/shm")
    if hardware.brand == "AMD":
        return (
            "--device=/dev/kfd",
            "--device=/dev/dri",
            "--security-opt",
            "seccomp=unconfined",
            "--group-add",
            "video",
        )
    if hardware.generation == "xpu":
        by_path = "/dev/dri/by-path:/dev/dri/by-path"
        return ("--device", "/dev/dri", "-v", by_path, "--shm-size", "16g")
    if hardware.generation == "npu":
        nodes = [f"/dev/davinci{number}" for number in range(hardware.gpu_count)]
        nodes += ["/dev/davinci_manager", "/dev/hisi_hdc"]
        flags = [word for node in nodes for word in ("--device", node)]
        return (*flags, *(word for mount in _NPU_MOUNTS for word in ("-v", mount)))
    if hardware.generation == "cpu" or hardware.brand in {"Intel", "CPU"}:
        return ("--shm-size", "16g")
    return ("--gpus", "all")
