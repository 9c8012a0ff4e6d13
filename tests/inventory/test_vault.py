"""The vault texts here were made by ansible-vault; their password is `pw`."""

import json
from pathlib import Path

import pytest

from orchestrator import Inventory
from orchestrator.errors import InputError
from orchestrator.inventory import listing
from orchestrator.inventory.vault import Vault, read_passwords
from orchestrator.secret import Secret

TOP_SECRET = """$ANSIBLE_VAULT;1.1;AES256
61366236626363636536303762396365373531303136343666306261616430656534616165626237
3263633566356236663133613935303232653964313333370a636530633337353737623832663165
65643564613636653439633235633265353032666161313433653866303062306336353762396337
6539646635366339650a613163626339663930663464303930333265313033613435316237336662
6565
"""
LABELLED = """$ANSIBLE_VAULT;1.2;AES256;prod
33303663333734613337386163303538666237643036393133336630306333383663303433363231
3066356632363863613866616536643232336136636430610a376662613936356139623365373665
36653464343133313837666463323639386435316139616265313565376462393265383237333339
6434393335363133650a303934363465663265666334613261623062623835336133306439666230
3833
"""
VARIABLE_FILE = """$ANSIBLE_VAULT;1.1;AES256
35626662356232346439666264376430383234363165393361366133376665333636346561623935
3066386364653531376338353330646234396132623839340a343562383963623866396139346664
62666431643635303265626135343531663234386462636630623730323338316262666631323163
6661383463373135660a343564633530643436653939393233633536353561373832666533356161
63623039363335653833326238356338316537366430306236636535353262653638326162313365
30316265343463666236396236356233643632386334643236336165663264326133613934383839
666539373163343232323237316333353631
"""  # vaulted: file-secret, orc_env: {IN_VAULT: env-secret}
PASSWORD = Secret("pw")


@pytest.fixture
def vaulted(tmp_path: Path) -> Path:
    """An inventory with a vaulted password, a vaulted environment value and a vaulted file."""
    text = TOP_SECRET.replace("\n", "\n          ")
    (tmp_path / "hosts.yml").write_text(
        f"""all:
  hosts:
    n1:
      ansible_user: !vault |
          {text}
      ansible_password: !vault |
          {text}
      made: "x-{{{{ vaulted }}}}"
      orc_env:
        PLAIN: 1
        INLINE: !vault |
          {text}
"""
    )
    (tmp_path / "group_vars").mkdir()
    (tmp_path / "group_vars/all.yml").write_text(VARIABLE_FILE)
    (tmp_path / "password").write_text("pw\n")
    return tmp_path


def test_both_formats_of_ansible_vault_are_read() -> None:
    assert Vault((PASSWORD,)).decrypt(TOP_SECRET, "here") == "top-secret"
    assert Vault((PASSWORD,)).decrypt(LABELLED, "here") == "labelled-ü"
    assert Vault((Secret("other"), PASSWORD)).decrypt(TOP_SECRET, "here") == "top-secret"


@pytest.mark.parametrize(
    ("text", "passwords", "said"),
    [
        (TOP_SECRET, (), "no vault password was given"),
        (TOP_SECRET, (Secret("wrong"),), "the vault password does not fit"),
        (TOP_SECRET[:-6], (PASSWORD,), "the vault password does not fit"),
        (TOP_SECRET.replace("6136", "zz36"), (PASSWORD,), "damaged"),
        ("$ANSIBLE_VAULT;1.1;AES256\n6161\n", (PASSWORD,), "damaged"),
        (TOP_SECRET.replace("AES256", "AES"), (PASSWORD,), "format 1.1 with AES cannot be read"),
        ("not a vault", (PASSWORD,), "begins with $ANSIBLE_VAULT"),
    ],
)
def test_what_cannot_be_decrypted_is_said_so(
    text: str, passwords: tuple[Secret, ...], said: str
) -> None:
    with pytest.raises(InputError) as caught:
        Vault(passwords).decrypt(text, "hosts.yml:3")
    assert said in str(caught.value)
    assert "hosts.yml:3" in str(caught.value)


def test_vaulted_values_are_decrypted_where_they_are_used_and_shown_nowhere(vaulted: Path) -> None:
    inventory = Inventory.load(vaulted / "hosts.yml", vault_password_files=[vaulted / "password"])
    host = inventory.hosts["n1"]
    assert host.connection.user == "top-secret"
    assert host.connection.password == Secret("top-secret")
    assert host.settings.env == {
        "PLAIN": "1",
        "INLINE": Secret("top-secret"),
        "IN_VAULT": Secret("env-secret"),
    }
    assert host.variables["vaulted"] == Secret("file-secret")
    assert host.variables["made"] == Secret("x-file-secret")
    listed = json.dumps(listing.ansible_list(inventory))
    assert "-secret" not in listed
    assert listed.count("<secret>") == 5


def test_a_vaulted_value_needs_a_password_only_when_it_is_used(tmp_path: Path) -> None:
    text = TOP_SECRET.replace("\n", "\n        ")
    (tmp_path / "hosts.yml").write_text(
        f"all:\n  hosts:\n    n1:\n      ansible_password: !vault |\n        {text}\n"
    )
    inventory = Inventory.load(tmp_path / "hosts.yml")
    password = inventory.hosts["n1"].connection.password
    assert password is not None
    with pytest.raises(InputError) as caught:
        password.reveal()
    assert "hosts.yml:4: Ansible Vault encrypted this" in str(caught.value)
    assert "--vault-password-file" in str(caught.value)


def test_the_environment_names_the_password_file(
    vaulted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(vaulted / "password"))
    assert Inventory.load(vaulted / "hosts.yml").hosts["n1"].connection.user == "top-secret"


def test_a_password_file_that_is_executable_is_run(tmp_path: Path) -> None:
    script = tmp_path / "ask"
    script.write_text("#!/bin/sh\necho p''w\n")
    script.chmod(0o700)
    assert read_passwords([script], {}) == (PASSWORD,)
    script.write_text("#!/bin/sh\nexit 3\n")
    with pytest.raises(InputError, match="exit status 3"):
        read_passwords([script], {})


def test_a_password_that_cannot_be_had_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such vault password file"):
        read_passwords([tmp_path / "missing"], {})
    (tmp_path / "blank").write_text("\n")
    with pytest.raises(InputError, match="the vault password is empty"):
        read_passwords([tmp_path / "blank"], {})
