"""`python -m tests.fleet up [--hosts 2] | down | status | env`."""

from __future__ import annotations

import argparse
import sys
import time

from tests.fleet.commands import FleetError
from tests.fleet.debian import install_debian_packages, why_not
from tests.fleet.environment import add_kv_transfer, build_environment
from tests.fleet.fleet import Fleet
from tests.fleet.models import write_models
from tests.fleet.record import busy, orphaned, records
from tests.fleet.remove import remove


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fleet", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="make a fleet that stays up until `down`")
    up.add_argument("--hosts", type=int, default=2)
    down = commands.add_parser("down", help="remove the fleet, and what crashed ones left")
    down.add_argument("fleet", nargs="?", help="only this one, by its id")
    commands.add_parser("status", help="say which fleets there are")
    env = commands.add_parser("env", help="install the packages and build the cache, no more")
    env.add_argument("--kv-transfer", action="store_true", help="with Mooncake and NIXL")
    arguments = parser.parse_args()
    try:
        if reason := why_not():
            raise FleetError(reason)
        match arguments.command:
            case "up":
                _up(arguments.hosts)
            case "down":
                _down(arguments.fleet)
            case "status":
                _status()
            case "env":
                _environment(kv_transfer=arguments.kv_transfer)
    except FleetError as error:
        print(f"fleet: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _up(hosts: int) -> None:
    started = time.monotonic()
    fleet = Fleet.up(hosts, keep=True)
    print(f"fleet: {fleet.id} is up with {hosts} hosts after {time.monotonic() - started:.1f} s")
    print(f"  inventory  {fleet.inventory}")
    print(f"  ssh        ssh -F {fleet.ssh_config} {fleet.hosts[0].name}")
    print(f"  docker     DOCKER_HOST={fleet.hosts[0].docker_host} docker ps")
    print(f"  images     {fleet.image}  {fleet.other_image}")
    print(f"  stand-in   {fleet.fast_image}  {fleet.other_fast_image}")
    print(f"  models     {', '.join(f'/models/{p.name}' for p in sorted(fleet.models.iterdir()))}")
    print(f"  tests      ORC_FLEET={fleet.id} python -m pytest -m fleet")
    print(f"  the end    python -m tests.fleet down {fleet.id}")


def _down(only: str | None) -> None:
    """A fleet whose maker still runs is its maker's to take down."""
    known, remains = records()
    if only is not None:
        known = [record for record in known if record.fleet == only]
        remains = [fleet for fleet in remains if fleet == only]
    for record in known:
        if record.owner is not None and not orphaned(record):
            print(f"fleet: left alone, since {busy(record)}")
        else:
            remains.append(record.fleet)
    for fleet in remains:
        started = time.monotonic()
        remove(fleet)
        print(f"fleet: {fleet} is down after {time.monotonic() - started:.1f} s")
    if not remains:
        print("fleet: nothing to take down")


def _status() -> None:
    known, remains = records()
    for record in known:
        fleet = Fleet.attach(record.fleet)
        print(f"{record.fleet}  {'remains of a crash' if orphaned(record) else busy(record)}")
        for host in fleet.hosts:
            state = "up" if host.init.alive else "down"
            print(f"  {host.name}  {' '.join(host.addresses)}  {state}  {host.docker_host}")
        print(f"  inventory {fleet.inventory}")
    for fleet_id in remains:
        print(f"{fleet_id}  remains without a record; `down` removes them")
    if not known and not remains:
        print("fleet: none")


def _environment(*, kv_transfer: bool) -> None:
    install_debian_packages()
    build_environment()
    if kv_transfer:
        add_kv_transfer()
    print(f"fleet: the models are in {write_models()}")


if __name__ == "__main__":
    sys.exit(main())
