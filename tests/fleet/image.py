"""The images that stand for vLLM's: empty but for names; what they run is bind-mounted.

The last of them holds a stand-in for vLLM, which starts in a blink.
"""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from tests.fleet import names
from tests.fleet.cache import VLLM_CACHE, environment_directory
from tests.fleet.environment import VLLM
from tests.fleet.host import Host

# /sbin is a directory of its own: docker puts its init there, and /usr is mounted read-only.
DIRECTORIES = ("dev", "etc", "home", "opt", "proc", "root", "run", "sbin", "sys", "usr", "var")
SHARED_DIRECTORIES = ("tmp", "var/tmp")
LINKS = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"}
FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "sbin/docker-init": "",
}


STANDIN = Path(__file__).parent / "standin" / "vllm"


def push_images(host: Host, registry: str) -> tuple[str, ...]:
    """Import images on a host and push them: real vLLM, the same under another digest, and two
    of the stand-in that differ in nothing but their digests."""
    archive = names.directory(host.fleet) / "image.tar"
    images = (
        f"{registry}/vllm-cpu:{VLLM}",
        f"{registry}/vllm-cpu:{VLLM}-other",
        f"{registry}/vllm-standin:{VLLM}",
        f"{registry}/vllm-standin:{VLLM}-other",
    )
    # Where the hosts see the archive: their /run is a directory of the fleet's.
    inside = host.directory / "run" / "image.tar"
    for image in images:
        _write_root(archive, image)
        archive.rename(inside)
        host.docker("import", *_changes(image), "/run/image.tar", image)
        host.docker("push", "--quiet", image)
        inside.unlink()
    host.docker("rmi", *images)  # so that every host, this one too, has to pull
    return images


def _is_standin(image: str) -> bool:
    return "/vllm-standin:" in image


def _changes(image: str) -> list[str]:
    # The stand-in goes before vLLM; what stands beside vLLM (router, KV store) is the real one.
    commands = ("/opt/bin:" if _is_standin(image) else "") + f"{environment_directory()}/bin"
    changes = [
        # As in vLLM's own images.
        'ENTRYPOINT ["vllm", "serve"]',
        f"ENV PATH={commands}:/usr/local/bin:/usr/bin:/bin",
        "ENV HOME=/root",
        "ENV LANG=C.UTF-8",
        # Beside vLLM's own cache; and no compiler is started only to learn what the CPU can do.
        f"ENV TORCHINDUCTOR_CACHE_DIR={VLLM_CACHE}/inductor",
        "ENV TORCHINDUCTOR_VEC_ISA_OK=1",
        "WORKDIR /root",
        f"LABEL org.opencontainers.image.version={image.rpartition(':')[2]}",
    ]
    return [word for change in changes for word in ("--change", change)]


def _write_root(path: Path, image: str) -> None:
    with tarfile.open(path, "w") as tar:
        for name in (*DIRECTORIES, *SHARED_DIRECTORIES):
            entry = tarfile.TarInfo(name)
            entry.type = tarfile.DIRTYPE
            entry.mode = 0o1777 if name in SHARED_DIRECTORIES else 0o755
            tar.addfile(entry)
        for name, target in LINKS.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
        files = {**FILES, "etc/image": image + "\n"}
        if _is_standin(image):
            files["opt/bin/vllm"] = STANDIN.read_text()
        for name, text in files.items():
            content = text.encode()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755 if "bin/" in name else 0o644
            tar.addfile(entry, io.BytesIO(content))
