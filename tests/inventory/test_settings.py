import pytest

from orchestrator.errors import InputError
from orchestrator.inventory.host import ConnectionSettings
from orchestrator.secret import Secret
from tests.inventory.conftest import Load


def one(load: Load, variables: str) -> ConnectionSettings:
    return load(f"all:\n  hosts:\n    n1: {{{variables}}}\n").hosts["n1"].connection


def test_every_connection_variable_reaches_the_connection(load: Load) -> None:
    assert one(
        load,
        "ansible_host: 192.0.2.1, ansible_port: 2222, ansible_user: ops, "
        "ansible_ssh_private_key_file: /k, ansible_become: yes, ansible_become_user: root, "
        "ansible_password: p, ansible_become_password: q, ansible_connection: ssh, "
        "ansible_ssh_common_args: '-o ProxyJump=\"a,b\" -4', ansible_ssh_extra_args: -v",
    ) == ConnectionSettings(
        kind="ssh",
        address="192.0.2.1",
        port=2222,
        user="ops",
        private_key_file="/k",
        password=Secret("p"),
        become=True,
        become_user="root",
        become_password=Secret("q"),
        common_args=("-o", "ProxyJump=a,b", "-4", "-v"),
    )


def test_the_old_names_of_ansible_count_too(load: Load) -> None:
    assert one(
        load,
        "ansible_ssh_host: h, ansible_ssh_port: '23', ansible_ssh_user: u, ansible_ssh_pass: p",
    ) == ConnectionSettings(address="h", port=23, user="u", password=Secret("p"))


def test_localhost_is_local_only_when_it_says_so_or_is_not_in_the_inventory(load: Load) -> None:
    inventory = load("all: {hosts: {n1: {ansible_host: localhost}}}")
    assert inventory.hosts["n1"].connection.kind == "ssh"
    assert inventory.select("localhost")[0].connection.kind == "local"
    assert "localhost" not in inventory.hosts
    explicit = load("all: {hosts: {localhost: }}")
    assert explicit.select("localhost")[0].connection.kind == "ssh"
    assert one(load, "ansible_connection: local").kind == "local"


def test_an_empty_password_is_refused_when_it_is_used(load: Load) -> None:
    password = one(load, "ansible_password: ''").password
    assert password is not None
    with pytest.raises(InputError, match="ansible_password of host 'n1' is empty"):
        password.reveal()


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ("ansible_connection: docker", "there is no connection 'docker' here"),
        ("ansible_port: 0", "a port is 1 to 65535"),
        ("ansible_port: ssh", "a port is 1 to 65535, not 'ssh'"),
        ("ansible_port: true", "ansible_port is text, not True"),
        ("ansible_host: [a]", "ansible_host is text"),
        ("ansible_become: maybe", "ansible_become is true or false"),
        ("ansible_become: true, ansible_become_method: su", "there is no way 'su'"),
        ("ansible_ssh_common_args: '-o \"x'", "o closing quotation"),
        (
            "orc_runtime: podmam",
            "orc_runtime of host 'n1' is 'podmam': input should be 'docker', 'podman' or",
        ),
        ("orc_volumes: {a: b}", "orc_volumes of host 'n1'"),
        ("orc_volumes: '\"x'", "o closing quotation"),
        ("orc_devices: [1]", "orc_devices of host 'n1'"),
        ("orc_hf_home: [a]", "orc_hf_home of host 'n1'"),
        ("orc_gpus: [0, 0]", "GPU 0 stands there twice"),
        ("orc_gpus: '0-3,2'", "GPU 2 stands there twice"),
        ("orc_gpus: [-1]", "a whole number from 0 up, which -1 is not"),
        ("orc_gpus: [true]", "a whole number from 0 up, which True is not"),
        ("orc_gpus: ['1']", "a whole number from 0 up, which '1' is not"),
        ("orc_gpus: '0,x'", "a whole number from 0 up, which 'x' is not"),
        ("orc_gpus: 3-1", "ends before it begins"),
        ("orc_gpus: 4", "a single one is [0]"),
        ("orc_gpus: {a: 1}", "a list of GPU indices"),
    ],
)
def test_a_wrong_value_is_refused_with_host_and_place(
    load: Load, variables: str, said: str
) -> None:
    inventory = load(f"all:\n  hosts:\n    n1:\n      {{{variables}}}\n    good: \n")
    assert inventory.hosts["good"].name == "good"
    with pytest.raises(InputError) as caught:
        inventory.hosts["n1"]
    assert said in str(caught.value)
    assert "hosts.yml:" in str(caught.value)


@pytest.mark.parametrize(
    ("written", "gpus"),
    [
        ("[0, 1]", (0, 1)),
        ("[3, 1]", (3, 1)),
        ("'0,1,2,3'", (0, 1, 2, 3)),
        ("0-3", (0, 1, 2, 3)),
        ("'0-1, 6-7'", (0, 1, 6, 7)),
        ("[]", ()),
        ("null", None),
        ("'{{ [4, 5] }}'", (4, 5)),
    ],
)
def test_gpus_are_a_list_or_ranges(load: Load, written: str, gpus: tuple[int, ...] | None) -> None:
    inventory = load(f"all: {{hosts: {{n1: {{orc_gpus: {written}}}}}}}")
    assert inventory.hosts["n1"].settings.gpus == gpus


def test_lists_may_be_written_as_words(load: Load) -> None:
    line = "n1 orc_volumes=\"/a:/a:ro '/b c:/b'\" orc_gpus=0,1 orc_env=\"{'A': 1}\""
    inventory = load(line, name="hosts.ini")
    settings = inventory.hosts["n1"].settings
    assert settings.volumes == ("/a:/a:ro", "/b c:/b")
    assert settings.gpus == (0, 1)
    assert settings.env == {"A": "1"}
