"""A template or lookup that would take all memory or all time is refused, and at its place."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from orchestrator.errors import InputError
from orchestrator.inventory import pipe
from orchestrator.play.variables import Variables
from tests.inventory.conftest import Load

TOO_LARGE = [
    "{{ 'a' * 9999999999 }}",
    "{{ 9999999999 * 'a' }}",
    "{{ [1] * 9999999999 }}",
    "{{ [[[[[[1] * 60] * 60] * 60] * 60] * 60] * 60 }}",
    "{{ '{:>9999999999}'.format(1) }}",
    "{{ '{:>00000000009999999999}'.format(1) }}",
    "{{ '{:.{}f}'.format(1.0, 999999999) }}",
    "{{ '{a:>9999999999}'.format_map({'a': 1}) }}",
    "{{ '%9999999999d' % 1 }}",
    "{{ '%(a).9999999999f' % {'a': 1} }}",
    "{{ '%*d' % (999999999, 1) }}",
    "{{ '%9999999999d' | format(1) }}",
    "{{ 10 ** 99999999999 }}",
    "{{ 10 ** 300 }}",
    "{{ (10 ** 50) * (10 ** 50) }}",
    "{{ ('f' * 5000) | int(base=16) }}",
    "{{ 'a' | center(9999999999) }}",
    "{{ ['a'] | map('center', 9999999999) | list }}",
    "{{ 'a' | indent(9999999999, true) }}",
    "{{ 'a'.ljust(9999999999) }}",
    "{{ 'a'.zfill(width=9999999999) if false else 'a'.zfill(9999999999) }}",
    "{{ (5).to_bytes(9999999999, 'big') }}",
    "{{ [1] | batch(9999999999, 'x') | list }}",
    "{{ 1 | round(999999999) }}",
    "{{ [1] | tojson(indent=99999999999) }}",
    "{{ ('a' * 1000000) | replace('a', 'b' * 1000) }}",
    "{{ ('a' * 1000000).replace('a', 'b' * 1000) }}",
    "{{ ('a' * 1000000) | regex_replace('a', 'b' * 1000) }}",
    "{{ range(100000) | join('b' * 1000) }}",
    "{% set a = 'a' * 9000000 %}{{ a ~ a }}",
    "{% set a = 'a' * 9000000 %}{{ a + a }}",
    "{% for i in range(99999) %}{% for j in range(99999) %}aaaa{% endfor %}{% endfor %}",
]


@pytest.mark.parametrize("template", TOO_LARGE)
def test_a_template_that_makes_too_much_is_refused_at_its_place(load: Load, template: str) -> None:
    inventory = load(f'all:\n  vars:\n    big: "{template}"\n  hosts: {{n1: }}\n')
    with pytest.raises(InputError) as caught:
        inventory.hosts["n1"].variables["big"]
    assert "big: the template makes more than 16 MiB" in str(caught.value)
    assert "hosts.yml:3" in str(caught.value)
    with pytest.raises(InputError, match=r"play.yml:7: .*the template makes more than 16 MiB"):
        Variables("play.yml:7").fill(template)


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{{ 'ab' * 3 }}", "ababab"),
        ("{{ [1, 2] * 2 + [3] }}", [1, 2, 1, 2, 3]),
        ("{{ 2 ** 10 - 2 ** -1 }}", 1023.5),
        ("{{ (-2) ** 255 }}", -(2**255)),
        ("{{ 7 % 4 }}", 3),
        ("{{ '%s-%03d-%(a)s' if false else '%s-%03d' % ('a', 3) }}", "a-003"),
        ("{{ '%(a)s' % {'a': 5} }}", "5"),
        ("{{ '%s: %s' | format('a', 1) }}", "a: 1"),
        ("{{ '{:>5}|{x}'.format(1, x=[2]) }}", "    1|[2]"),
        ("{{ '{a}'.format_map({'a': 1}) }}", "1"),
        ("{{ 'a' ~ 1 ~ [2] }}", "a1[2]"),
        ("{{ 'abc' | regex_replace('(b)', 'x\\\\1') }}", "axbc"),
        ("{{ [3, 1] | map('string') | join(', ') }}", "3, 1"),
        ("{{ [{'a': 1}, {'a': 2}] | join('-', attribute='a') }}", "1-2"),
        ("{{ {'a': [1]} | to_json(indent=1) | replace('\\n', '') }}", '{ "a": [  1 ]}'),
        ("{{ 'a' | center(5) }}", "  a  "),
        ("{{ [1, 2, 3] | batch(2) | list }}", [[1, 2], [3]]),
        ("{% set t %}{{ 'x' * 2 }}{% endset %}{{ t }}", "xx"),
        ("{{ '{\"a\": 12}' | from_json }}", {"a": 12}),
    ],
)
def test_what_stays_small_is_as_ever(template: str, value: object) -> None:
    assert Variables("play.yml:7").fill(template) == value


def test_a_file_of_a_lookup_is_a_file_and_of_bounded_size(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * (1024 * 1024 + 1))
    (tmp_path / "small").write_bytes(b"text\r\n")
    os.mkfifo(tmp_path / "fifo")
    os.mkfifo(tmp_path / "endless")
    variables = Variables("play.yml:7", tmp_path)
    for name, said in (("/dev/zero", "is a device, not a file"), ("big", "is bigger than 1 MiB")):
        with pytest.raises(InputError, match=f"play.yml:7: .*{name} {said}"):
            variables.fill(f"{{{{ lookup('file', '{name}') }}}}")
    assert variables.fill("{{ lookup('file', 'small') }}") == "text"
    writer = threading.Thread(target=(tmp_path / "fifo").write_text, args=("piped\n",))
    writer.start()
    assert variables.fill("{{ lookup('file', 'fifo') }}") == "piped"
    writer.join()
    with subprocess.Popen(["sh", "-c", "exec yes >endless"], cwd=tmp_path) as endless:
        with pytest.raises(InputError, match="endless is bigger than 1 MiB"):
            variables.fill("{{ lookup('file', 'endless') }}")
        endless.kill()


@pytest.mark.parametrize("command", ["sleep 999", "sleep 999; true", "exec >&- 2>&-; sleep 999"])
def test_a_command_of_a_lookup_has_a_time_limit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    monkeypatch.setattr(pipe, "TIMEOUT", 1.0)
    monkeypatch.setattr(pipe, "QUIET", 0.1)
    with pytest.raises(InputError, match=r"lookup\('pipe'\): (sleep|exec) took more than 1 s"):
        Variables("play.yml:7").fill(f"{{{{ lookup('pipe', '{command}') }}}}")
    if "exec" not in command:
        assert capsys.readouterr().err == "waiting for sleep, of a lookup('pipe')\n"


def test_the_output_of_a_command_of_a_lookup_is_bounded() -> None:
    with pytest.raises(InputError, match="yes says more than 1 MiB"):
        Variables("play.yml:7").fill("{{ lookup('pipe', 'yes') }}")
    script = "import sys; sys.stderr.write('e' * 3000000 + chr(10) + 'why'); sys.exit(3)"
    words = f'{sys.executable} -c "{script}"'
    with pytest.raises(InputError, match="exit status 3") as caught:
        Variables("play.yml:7").fill("{{ lookup('pipe', words) }}".replace("words", repr(words)))
    assert "why: why" in str(caught.value)
