import json
from pathlib import Path

import pytest

from orchestrator.errors import InputError
from orchestrator.inventory import listing
from orchestrator.secret import Secret
from tests.inventory.conftest import Load


def test_a_lone_expression_keeps_its_type_and_text_stays_text(load: Load) -> None:
    variables = (
        load("""
        all:
          hosts:
            node07.lab:
              number: 7
              text: "007"
              items: [1, "{{ number }}"]
              copy: "{{ number }}"
              copied_text: "{{ text }}"
              copied_items: "{{ items }}"
              mixed: "{{ number }}{{ number }}"
              sum: "{{ number + 1 }}"
              name: "{{ inventory_hostname_short }}-{{ group_names | join('.') }}"
              nested: {deep: ["{{ copy }}"]}
              literal: !unsafe "{{ not a template }}"
              fallback: "{{ nowhere | default('here') }}"
              merged: "{{ {'a': 1} | combine({'b': 2}) }}"
              truth: "{{ 'on' | bool }}"
        """)
        .hosts["node07.lab"]
        .variables
    )
    assert variables["copy"] == 7
    assert variables["copied_text"] == "007"
    assert variables["copied_items"] == [1, 7]
    assert variables["mixed"] == "77"
    assert variables["sum"] == 8
    assert variables["name"] == "node07-ungrouped"
    assert variables["nested"] == {"deep": [7]}
    assert variables["literal"] == "{{ not a template }}"
    assert variables["fallback"] == "here"
    assert variables["truth"] is True
    assert variables["merged"] == {"a": 1, "b": 2}


def test_a_template_reaches_other_hosts_and_groups(load: Load) -> None:
    inventory = load("""
        all:
          children:
            rack:
              hosts:
                head: {ip: "192.0.2.{{ last }}", last: 9}
                worker:
                  to: "{{ hostvars[groups['rack'][0]].ip }}"
                  none: "{{ hostvars['head'].get('absent', 'unset') }}"
                  all_of: "{{ groups['rack'] | map('extract', hostvars) | list | length }}"
    """)
    assert inventory.hosts["worker"].variables["to"] == "192.0.2.9"
    assert inventory.hosts["worker"].variables["none"] == "unset"


@pytest.mark.parametrize(
    ("variables", "wanted", "said"),
    [
        ("a: '{{ b }}', b: '{{ c }}', c: '{{ a }}'", "a", "a -> b -> c -> a"),
        ("a: '{{ a }}'", "a", "a -> a"),
        ("a: '{{ hostvars.n2.b }}', b: '{{ hostvars.n1.a }}'", "a", "n1's a -> n2's b -> n1's a"),
        ("orc_env: {A: '{{ orc_env.B }}', B: '{{ orc_env.A }}'}", "orc_env", "orc_env -> orc_env"),
        ("mode: '{{ mood }}'", "mode", "did you mean 'mode'?"),
        ("a: '{{ b.c }}', b: {}", "a", "has no attribute 'c'"),
        ("a: '{{ [b] }}'", "a", "'b' is undefined"),
        ("a: '{{ b'", "a", "a is no template"),
        ("a: '{{ 1 / 0 }}'", "a", "ZeroDivisionError"),
        ("a: '{{ 1 | nonsense }}'", "a", "No filter named 'nonsense'"),
        ("a: \"{{ ''.__class__.__mro__ }}\"", "a", "cannot be computed"),
        ("a: \"{{ lookup('dig', 'x') }}\"", "a", "there is no lookup 'dig' here"),
        ("a: \"{{ lookup('file', 'absent.txt') }}\"", "a", "there is no "),
        ("a: \"{{ lookup('pipe', 'echo oh >&2; exit 3') }}\"", "a", "exit status 3"),
    ],
)
def test_a_template_that_cannot_be_resolved_says_where_and_why(
    load: Load, variables: str, wanted: str, said: str
) -> None:
    inventory = load(f"all:\n  vars: {{{variables}}}\n  hosts: {{n1: , n2: }}\n")
    with pytest.raises(InputError) as caught:
        inventory.hosts["n1"].variables[wanted]
    assert said in str(caught.value)
    assert "hosts.yml:2" in str(caught.value)


def test_lookups_come_from_the_control_machine_and_are_secret_in_the_environment(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("A_VALUE", "from-env")
    inventory = load(
        """
        all:
          vars:
            indirect: "{{ lookup('env', 'A_VALUE') }}"
            orc_hf_home: "{{ lookup('env', 'A_VALUE') }}/hf"
            orc_env:
              DIRECT: "{{ lookup('env', 'A_VALUE') }}"
              INDIRECT: "x-{{ indirect }}"
              FILE: "{{ lookup('file', 'token.txt') }}"
              PIPE: "{{ lookup('pipe', 'echo piped') }}"
              HF_TOKEN: written-plainly
              OPEN: 1
              FLAG: true
          hosts: {n1: }
        """,
        files={"token.txt": "from-file\n"},
    )
    host = inventory.hosts["n1"]
    env = host.settings.env
    revealed = {k: v.reveal() for k, v in env.items() if isinstance(v, Secret)}
    assert revealed == {
        "DIRECT": "from-env",
        "INDIRECT": "x-from-env",
        "FILE": "from-file",
        "PIPE": "piped",
        "HF_TOKEN": "written-plainly",
    }
    assert (env["OPEN"], env["FLAG"]) == ("1", "true")
    assert host.variables["indirect"] == "from-env"
    assert host.settings.hf_home == "from-env/hf"


def test_a_secret_taints_what_is_made_of_it(load: Load) -> None:
    inventory = load("""
        all:
          vars: {db_password: hunter2-hunter2}
          hosts:
            n1:
              url: "postgres://u:{{ db_password }}@192.0.2.1"
              through: {list: ["{{ url }}"]}
              bad: "{{ db_password | int + nothing }}"
              orc_env: {URL: "{{ url }}"}
    """)
    variables = inventory.hosts["n1"].variables
    assert variables["url"] == Secret("postgres://u:hunter2-hunter2@192.0.2.1")
    assert isinstance(variables["through"]["list"][0], Secret)
    assert isinstance(inventory.hosts["n1"].settings.env["URL"], Secret)


def test_an_error_never_quotes_a_secret(load: Load) -> None:
    inventory = load("""
        all:
          vars: {the_token: hunter2-hunter2}
          hosts:
            n1: {made: "{{ the_token.decode('x') }}", sum: "{{ 1 + the_token }}"}
            n2: {ansible_port: "{{ the_token }}"}
            n3: {orc_gpus: ["{{ the_token }}"]}
            n4: {orc_runtime: "{{ the_token }}"}
            n5: {ansible_become: "{{ the_token }}"}
    """)
    for name in ("made", "sum"):
        with pytest.raises(InputError) as caught:
            inventory.hosts["n1"].variables[name]
        assert "hunter2" not in str(caught.value)
    for host in ("n2", "n3", "n4", "n5"):
        with pytest.raises(InputError) as caught:
            inventory.hosts[host]
        assert "hunter2" not in str(caught.value)
        assert "<secret>" in str(caught.value)


@pytest.mark.parametrize(("value", "state"), [(None, "is not set"), ("", "is empty")])
def test_a_missing_token_stops_only_who_uses_it(
    load: Load, monkeypatch: pytest.MonkeyPatch, value: str | None, state: str
) -> None:
    monkeypatch.delenv("MY_TOKEN", raising=False)
    if value is not None:
        monkeypatch.setenv("MY_TOKEN", value)
    inventory = load("""
        all:
          vars:
            orc_env:
              OPEN: here
              HF_TOKEN: "{{ lookup('env', 'MY_TOKEN') }}"
          hosts: {n1: }
    """)
    assert "n1" in listing.graph(inventory)
    assert listing.host_records(inventory)[0]["settings"]["env"]["HF_TOKEN"] == "<secret>"
    env = inventory.hosts["n1"].settings.env
    assert env["OPEN"] == "here"
    assert list(env) == ["OPEN", "HF_TOKEN"]
    with pytest.raises(InputError) as caught:
        env["HF_TOKEN"]
    assert (
        f"hosts.yml:5: orc_env.HF_TOKEN of host 'n1': the environment variable MY_TOKEN {state}"
        in str(caught.value)
    )
    assert "export MY_TOKEN=" in str(caught.value)


def test_an_unset_variable_may_have_a_default(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UNSET", raising=False)
    inventory = load("""
        all:
          hosts:
            n1:
              a: "{{ lookup('env', 'UNSET') | default('x') }}"
              b: "{{ lookup('env', 'UNSET') | default('y', true) }}"
              c: "{{ lookup('ansible.builtin.env', 'UNSET', default='z') }}"
    """)
    assert dict(inventory.hosts["n1"].variables) == {"a": "x", "b": "y", "c": "z"}


def test_a_command_runs_once_for_all_hosts_and_only_when_it_is_needed(
    load: Load, tmp_path: Path
) -> None:
    inventory = load("""
        all:
          vars:
            ansible_password: "{{ lookup('pipe', 'echo x >> calls; echo sesame') }}"
          hosts: {"n[1:5]": }
    """)
    passwords = [host.connection.password for host in inventory.hosts.values()]
    assert not (tmp_path / "calls").exists()
    assert [p.reveal() for p in passwords if p] == ["sesame"] * 5
    assert (tmp_path / "calls").read_text() == "x\n"


def test_orc_env_alone_is_merged_key_by_key(load: Load) -> None:
    inventory = load(
        """
        all:
          vars: {orc_env: {A: all, B: all, C: all, D: all}, other: {A: all, B: all}}
          children:
            g:
              vars: {orc_env: {B: group, C: group, D: group}}
              hosts: {n1: {orc_env: {C: host, D: host}, other: {A: host}}}
        """,
        files={"host_vars/n1.yml": "orc_env: {D: host_vars}"},
    )
    host = inventory.hosts["n1"]
    assert host.settings.env == {"A": "all", "B": "group", "C": "host", "D": "host_vars"}
    assert host.variables["other"] == {"A": "host"}
    assert inventory.as_written("n1")["orc_env"] == {
        "A": "all",
        "B": "group",
        "C": "host",
        "D": "host_vars",
    }


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("orc_env: [A]", "orc_env is a mapping (NAME: value), not a list"),
        ("orc_env: A=b", "orc_env is a mapping (NAME: value), not text"),
        ("orc_env: {A: [1]}", "orc_env.A: an environment variable is text or a number, not list"),
        ("orc_env: {A: null}", "orc_env.A: an environment variable is text or a number"),
    ],
)
def test_a_wrong_environment_is_refused_at_its_place(load: Load, written: str, said: str) -> None:
    inventory = load(f"all:\n  hosts:\n    n1:\n      {written}\n")
    with pytest.raises(InputError) as caught:
        dict(inventory.hosts["n1"].settings.env)
    assert said in str(caught.value)
    assert "hosts.yml:4" in str(caught.value)


def test_no_listing_and_no_form_of_a_host_shows_a_secret(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_VALUE", "hunter2-env")
    inventory = load(
        """
        all:
          vars:
            ansible_password: hunter2-a
            ansible_become_pass: hunter2-b
            ansible_ssh_private_key_passphrase: hunter2-c
            registry: {user: me, password: hunter2-d, more: {api_key: [hunter2-e]}}
            orc_env:
              HF_TOKEN: hunter2-f
              VLLM_API_KEY: hunter2-g
              X: "{{ lookup('env', 'SOME_VALUE') }}"
          hosts: {n1: }
        """,
    )
    host = inventory.hosts["n1"]
    shown = [
        json.dumps(listing.ansible_list(inventory)),
        json.dumps(listing.host_records(inventory)),
        listing.host_table(inventory),
        listing.graph(inventory),
        repr(host),
        repr(host.connection),
        repr(host.settings),
        repr(dict(host.settings.env)),
        str({name: host.variables[name] for name in host.variables}),
        host.settings.model_dump_json(exclude={"env"}),
    ]
    for text in shown:
        assert "hunter2" not in text
    assert inventory.as_written("n1")["registry"]["user"] == "me"
    assert host.connection.password == Secret("hunter2-a")
    assert host.connection.become_password == Secret("hunter2-b")
    assert host.connection.private_key_passphrase == Secret("hunter2-c")


def test_what_a_secret_is_made_of_is_not_listed_either(load: Load, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    inventory = load(
        f"""
        all:
          vars:
            vault_hf: hunter2-a
            vault_keys: {{x: hunter2-b, y: [hunter2-c]}}
            my_hf: hunter2-d
            part: hunter2-e
            whole: "hf_{{{{ part }}}}"
            registry: {{user: me, word: hunter2-f}}
            by_host: {{n1: hunter2-g}}
            spare: hunter2-i
            ran: "{{{{ lookup('pipe', 'touch {ran}') }}}}"
            unused: plain
            flag: production
            again: [say hunter2-a, {{also: hunter2-d}}]
            password: hunter2-h
            url: https://hub/?key=hunter2-h&x=1
            orc_env:
              HF_TOKEN: "{{{{ vault_hf }}}}"
              A_TOKEN: "{{{{ my_hf }}}}"
              B_TOKEN: "{{{{ whole | trim }}}}"
              C_TOKEN: "{{{{ registry.word if flag == 'production' else '' }}}}"
              D_TOKEN: "{{{{ by_host[inventory_hostname] ~ '' }}}}"
              E_TOKEN: "{{{{ ran }}}}"
              F_TOKEN: "{{{{ nothing | default(spare) }}}}"
              G_TOKEN: "{{{{ orc_env.PLAIN }}}}"
              H_TOKEN: "{{{{ hostvars['n1'].j }}}}"
              PLAIN: hunter2-k
              LEVEL: debug
            j: hunter2-j
          hosts: {{n1: }}
        """,
    )
    shown = inventory.as_written("n1")
    text = json.dumps([shown, listing.ansible_list(inventory), listing.host_records(inventory)])
    assert "hunter2" not in text
    assert not ran.exists()
    assert shown["registry"] == {"user": "me", "word": "<secret>"}
    assert shown["again"] == ["say <secret>", {"also": "<secret>"}]
    assert shown["url"] == "https://hub/?key=<secret>&x=1"
    assert (shown["unused"], shown["flag"]) == ("plain", "production")
    assert shown["orc_env"]["LEVEL"] == "debug"


def test_an_environment_given_elsewhere_may_use_what_the_host_has(load: Load) -> None:
    inventory = load("all: {hosts: {n1: {orc_env: {A: 1, HF_TOKEN: t}, port: 9}}}")
    given = {"B": "{{ orc_env.A }}-{{ port }}", "C": "{{ orc_env.HF_TOKEN }}", "D": "plain"}
    assert inventory.environment("n1", given, "play.yml") == {
        "B": "1-9",
        "C": Secret("t"),
        "D": "plain",
    }
    with pytest.raises(InputError, match=r"play\.yml: env\.B of host 'n1': 'nothing' is undefined"):
        inventory.environment("n1", {"B": "{{ nothing }}"}, "play.yml")
