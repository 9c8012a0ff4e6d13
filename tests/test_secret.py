"""A secret shows itself nowhere."""

from __future__ import annotations

import copy
import json
import pickle

import pytest
import yaml
from pydantic import BaseModel

from orchestrator.secret import REDACTED, Secret, is_secret_name, redact

VALUE = "hf_abcdefgh"


class Holder(BaseModel):
    model_config = {"arbitrary_types_allowed": True}
    token: Secret


def test_no_rendering_of_a_secret_holds_its_value() -> None:
    secret = Secret(VALUE)
    holder = Holder(token=secret)
    shown = [
        repr(secret),
        str(secret),
        f"{secret:>30}",
        f"{[secret]}",
        "%s" % secret,  # noqa: UP031 - this form too
        repr(holder),
        holder.model_dump_json(),
        json.dumps({"a": secret}, default=str),
        repr(vars(holder)),
    ]
    assert not any(VALUE in text for text in shown)
    assert secret.reveal() == VALUE


def test_a_secret_cannot_slip_into_yaml_or_json_unseen() -> None:
    with pytest.raises(yaml.YAMLError):
        yaml.safe_dump(Secret(VALUE))
    with pytest.raises(TypeError):
        json.dumps(Secret(VALUE))
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(Secret(VALUE))


def test_secrets_compare_by_value_and_can_be_copied_in_place() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert copy.deepcopy(Holder(token=Secret(VALUE))).token.reveal() == VALUE


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "VLLM_API_KEY", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "token", "x_secret"],
)
def test_names_that_hold_secrets_by_custom(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["VLLM_MAX_TOKENS", "TOKENIZERS_PARALLELISM", "NCCL_DEBUG", "KEY", "CACHE_KEY_SEED"]
)
def test_ordinary_names(name: str) -> None:
    assert not is_secret_name(name)


def test_redaction_replaces_every_occurrence_and_spares_short_values() -> None:
    assert redact(f"a {VALUE} b {VALUE}", [Secret(VALUE)]) == f"a {REDACTED} b {REDACTED}"
    assert redact("1 of 1", [Secret("1")]) == "1 of 1"


def test_a_secret_that_must_be_fetched_is_fetched_once_and_only_when_revealed() -> None:
    calls = []

    def fetch() -> str:
        calls.append("fetched")
        return VALUE

    secret = Secret(fetch)
    assert repr(secret) == f"{secret}" == REDACTED
    assert calls == []
    assert secret.reveal() == secret.reveal() == VALUE
    assert calls == ["fetched"]
