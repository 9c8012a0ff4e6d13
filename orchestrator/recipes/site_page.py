"""The public site's page for tools: one configuration of a recipe, in Markdown.

The page holds the finished command of one hardware, strategy, variant and set of features, so a
recipe made of it offers just that. What it says of other configurations are links.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.documents import Document, read_text
from orchestrator.errors import InputError
from orchestrator.recipes.arguments import parse, value_of
from orchestrator.recipes.flags import PARALLEL_FLAGS
from orchestrator.recipes.resolved import Argument

_TITLE = re.compile(r"^# (\S+/\S+) — vLLM serving recipe\s*$", re.MULTILINE)
_CONFIGURATION = re.compile(r"^Configuration: (.+)$", re.MULTILINE)
_PART = re.compile(
    r"(hardware|strategy|variant|features)\s+((?:`[^`]*`(?:,\s*)?)+)(?:\s*\(([^)]*)\))?"
)
_NAME = re.compile(r"`([^`]*)`")
_SERVE = re.compile(r"^## Serve\s*$(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"^```(?:bash|sh|shell)?\s*$\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)
_OFFERED = re.compile(r"^- `(hardware|variant|strategy)`: (.+)$", re.MULTILINE)
_IMAGE = re.compile(r"^Docker image: `([^`]+)`", re.MULTILINE)
_VERSION = re.compile(r"Requires vLLM >= ([0-9]+(?:\.[0-9A-Za-z]+)*)")
_EXPORT = re.compile(r"^(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=")


@dataclass(frozen=True, slots=True)
class PageConfiguration:
    """The one configuration that a page holds."""

    hardware: str
    strategy: str
    variant: str
    features: tuple[str, ...]

    def __str__(self) -> str:
        features = ", ".join(self.features) or "none"
        return (
            f"hardware {self.hardware}, strategy {self.strategy}, variant {self.variant},"
            f" features {features}"
        )


def read_site_page(path: Path) -> tuple[str, Document, dict[str, Any], PageConfiguration]:
    """The recipe's name, the document, its data in the schema's form, and its configuration.

    Raises InputError when the file cannot be read or is not such a page.
    """
    text = read_text(path)
    title, configuration = _TITLE.search(text), _CONFIGURATION.search(text)
    serve = _SERVE.search(text)
    codes = _CODE.findall(serve[1]) if serve else []
    commands = [code for code in codes if re.search(r"^\s*(\S+=\S* )*vllm serve ", code, re.M)]
    if title is None or configuration is None or not commands:
        missing = [
            what
            for what, found in (
                ("its title '# org/name — vLLM serving recipe'", title),
                ("a line 'Configuration: ...'", configuration),
                ("a section '## Serve' with a vllm serve command", commands),
            )
            if not found
        ]
        raise InputError(
            "not a page of a recipe: it lacks " + ", and ".join(missing),
            where=str(path),
            hint="such a page is https://recipes.vllm.ai/<org>/<repo>.md",
        )
    chosen, precision = _configuration(configuration[1], str(path))
    if len({command for command in commands if "--headless" not in command}) > 1:
        raise InputError(
            f"the page of {chosen.strategy} holds several kinds of processes",
            where=str(path),
            hint="give the recipe as org/name, or as the site's JSON",
        )
    env, argv = _command(commands[0], str(path))
    data = _as_schema(text, title[1], chosen, precision, env, argv)
    return title[1], Document(path=str(path), text=text, data=data), data, chosen


def _configuration(line: str, where: str) -> tuple[PageConfiguration, str | None]:
    """The names of the configuration line, and the precision behind the variant's name."""
    found = {part[1]: part for part in _PART.finditer(line)}
    missing = [key for key in ("hardware", "strategy", "variant") if key not in found]
    if missing:
        raise InputError(
            f"its line 'Configuration: ...' names no {', '.join(missing)}", where=where
        )
    names = {key: _NAME.findall(part[2]) for key, part in found.items()}
    chosen = PageConfiguration(
        hardware=names["hardware"][0],
        strategy=names["strategy"][0],
        variant=names["variant"][0],
        features=tuple(names.get("features", ())),
    )
    precision = found["variant"][3]
    return chosen, precision.lower() if precision else None


def _command(code: str, where: str) -> tuple[dict[str, str], list[str]]:
    """The environment and the words of the first `vllm serve` in a block of shell."""
    env: dict[str, str] = {}
    for line in code.replace("\\\n", " ").splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise InputError(f"its command cannot be read: {error}", where=where) from None
        while words and (words[0] == "export" or _EXPORT.match(words[0])):
            name, equals, value = words.pop(0).partition("=")
            if equals:
                env[name] = value
        if words[:2] == ["vllm", "serve"] and len(words) > 2:
            return env, words[2:]
    raise InputError("its section '## Serve' has no vllm serve command", where=where)


def _as_schema(
    text: str,
    name: str,
    chosen: PageConfiguration,
    precision: str | None,
    env: dict[str, str],
    argv: list[str],
) -> dict[str, Any]:
    """The command's arguments before the parallel flags are base, those behind are the strategy's.

    The sizes of the parallel flags are the topology's to compute; only the tensor size on one
    node is taken over, as the recipe's recommendation.
    """
    model, *rest = argv
    arguments = parse(rest, "page")
    parallel = [n for n, item in enumerate(arguments) if item.flag in PARALLEL_FLAGS]
    split = parallel[0] if parallel else len(arguments)
    before = _words(arguments[:split])
    behind = _words(arguments[split:])
    offered = {key: _NAME.findall(names.split("(")[0]) for key, names in _OFFERED.findall(text)}
    experts = any(name.endswith(("_tep", "_dep")) for name in offered.get("strategy", ()))
    override: dict[str, Any] = {"extra_args": behind}
    tensor = [value_of(item) for item in arguments if item.flag == "--tensor-parallel-size"]
    if chosen.strategy == "single_node_tp" and tensor and tensor[-1].isdigit():
        override["tp"] = int(tensor[-1])
    image, version = _IMAGE.search(text), _VERSION.search(text)
    description = re.search(r"^> (.+)$", text, re.MULTILINE)
    guide = text.partition("\n## Guide\n")[2].strip()
    return {
        "meta": {
            "title": name.split("/")[-1],
            "description": description[1] if description else "",
            "hardware": {chosen.hardware: "supported"},
            "default_hardware": chosen.hardware,
            "default_variant": chosen.variant,
        },
        "model": {
            "model_id": model,
            "architecture": "moe" if experts else "dense",
            "min_vllm_version": version[1] if version else None,
            "base_args": before,
            "base_env": env,
        },
        "variants": {
            chosen.variant: {
                "precision": precision,
                # The page was rendered for this hardware, so its precision runs there.
                "precision_hardware": {},
                "hardware_overrides": {chosen.hardware: {"docker_image": image[1]}}
                if image
                else {},
            }
        },
        "compatible_strategies": [chosen.strategy],
        "default_strategy": chosen.strategy,
        "strategy_overrides": {chosen.strategy: override},
        "guide": guide,
    }


def _words(arguments: list[Argument]) -> list[str]:
    return [word for item in arguments if item.flag not in PARALLEL_FLAGS for word in item.tokens]


def check_page(configuration: PageConfiguration, where: str, asked: dict[str, str | None]) -> None:
    """Refuse what a page does not hold: `asked` are hardware, strategy, variant and features.

    Raises InputError.
    """
    held = {
        "hardware": configuration.hardware,
        "strategy": configuration.strategy,
        "variant": configuration.variant,
        "features": ", ".join(configuration.features),
    }
    for key, wanted in asked.items():
        if wanted is not None and wanted != held[key]:
            raise InputError(
                f"the page holds one configuration ({configuration}), not {key} {wanted}",
                where=where,
                hint=f"fetch the page again with ?{key}={wanted}, or give the recipe as org/name",
            )
