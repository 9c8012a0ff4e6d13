"""What the README says of names and defaults is what the models say."""

from __future__ import annotations

from tests.readme_tables import MARKED, README, TABLES, written


def test_the_tables_are_those_of_the_models() -> None:
    text = README.read_text()
    assert [found[2] for found in MARKED.finditer(text)] == list(TABLES)
    assert written(text) == text, "run python -m tests.readme_tables"


def test_every_variable_and_every_field_is_in_them() -> None:
    assert "| `orc_gpus` |" in TABLES["orc_variables"]
    assert "| `health.timeout` | `2700.0` |" in TABLES["deployment"]
    assert "| `router.port` | `30000` |" in TABLES["deployment"]
