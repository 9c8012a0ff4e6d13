"""Making an SSH connection: the way there, retries, the handshake, keepalive."""

from __future__ import annotations

import contextlib
import errno
import logging
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tenacity

from orchestrator.errors import UnreachableError
from orchestrator.transport import host_key_check
from orchestrator.transport.hang_up import hang_up
from orchestrator.transport.ssh_config import SshTarget
from orchestrator.transport.ssh_keys import KeyRing, require
from orchestrator.transport.ssh_login import LoginDropped, log_in

if TYPE_CHECKING:
    import paramiko

# Attempts at 0, 0.5, 1.5, 3.5 and 7.5 s and a bit: long enough for an sshd that restarts or
# drops connections by MaxStartups, short enough for an answer about a dead host.
_ATTEMPTS = 5
_FIRST_PAUSE = 0.5
_JITTER = 0.5
# A host that could not be reached is not tried again at once by each command meant for it, nor a
# jump host for each host behind it; and for a while with one attempt only.
_TRIED_JUST_NOW = 10.0
_TRIED_OF_LATE = 60.0


class ConnectionFailed(UnreachableError):
    """A failure on the way to the host, before anything was refused: another try may help."""


class Hops:
    """The jump hosts of a run: one connection each, whatever the number of hosts behind it."""

    def __init__(self, ring: KeyRing) -> None:
        self._ring = ring
        self._lock = threading.Lock()
        self._hops: dict[SshTarget, _Hop] = {}

    def transport(self, target: SshTarget, interrupted: threading.Event) -> paramiko.Transport:
        """A live connection to the jump host `target`. Raises UnreachableError."""
        with self._lock:
            hop = self._hops.setdefault(target, _Hop())
        with hop.lock:
            if hop.transport and hop.transport.is_active():
                return hop.transport
            try:
                hop.transport = hop.approach.connect(target, self, self._ring, interrupted)
            except UnreachableError as error:
                raise UnreachableError(
                    f"jump host: {error.what}", where=error.where, why=error.why, hint=error.hint
                ) from None
            return hop.transport

    def close(self) -> None:
        """Close all of them; what runs through them ends."""
        with self._lock:
            hops, self._hops = list(self._hops.values()), {}
        for hop in hops:
            if hop.transport:
                hang_up(hop.transport)


class _Hop:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.transport: paramiko.Transport | None = None
        self.approach = Approach()


def timed_out(error: BaseException) -> bool:
    """Whether nothing came back when a channel was opened.

    Of two refusals at the same time paramiko hands out only one as a ChannelException; the
    other one is a plain SSHException, and only its text tells it from a silence.
    """
    return isinstance(error, TimeoutError) or str(error).startswith("Timeout")


class Approach:
    """The way to one host: tried patiently at first, and with little patience once it failed.

    Of a run that ends because a host dropped off, every phase still asks that host for its
    part: its logs, the stop, the history, the lock.
    """

    def __init__(self) -> None:
        self._error: UnreachableError | None = None
        self._failed_at = 0.0

    def connect(
        self, target: SshTarget, hops: Hops, ring: KeyRing, interrupted: threading.Event
    ) -> paramiko.Transport:
        """As `connect`; an attempt that failed within the last 10 s counts as this one's."""
        since = time.monotonic() - self._failed_at
        if self._error and since < _TRIED_JUST_NOW:
            raise self._error
        attempts = 1 if self._error and since < _TRIED_OF_LATE else _ATTEMPTS
        try:
            transport = connect(target, hops, ring, interrupted, attempts)
        except UnreachableError as error:
            if not interrupted.is_set():  # else it was not tried to the end
                self._error, self._failed_at = error, time.monotonic()
            raise
        self._error = None
        return transport


def connect(
    target: SshTarget,
    hops: Hops,
    ring: KeyRing,
    interrupted: threading.Event,
    attempts: int = _ATTEMPTS,
) -> paramiko.Transport:
    """Log in to `target`, trying again when the way there fails. Raises UnreachableError.

    Once `interrupted` is set, there is no further try.
    """
    require(target.chosen_keys, target.place)
    # paramiko reports what it raises on its logger, too, with tracebacks.
    logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(ConnectionFailed),
        stop=tenacity.stop_after_attempt(attempts)
        | tenacity.stop_after_delay(2 * target.connect_timeout)
        | tenacity.stop_when_event_set(interrupted),
        sleep=tenacity.sleep_using_event(interrupted),
        wait=tenacity.wait_exponential(multiplier=_FIRST_PAUSE) + tenacity.wait_random(0, _JITTER),
        reraise=True,
    )
    return retrying(_connect_once, target, hops, ring, interrupted)


def _connect_once(
    target: SshTarget, hops: Hops, ring: KeyRing, interrupted: threading.Event
) -> paramiko.Transport:
    road, describe = _road(target, hops, interrupted)
    transport: paramiko.Transport | None = None
    try:
        known = host_key_check.known_for(target)
        transport = _negotiate(road, target, known, describe)
        passwords = host_key_check.check(transport.get_remote_server_key(), target)
        log_in(transport, target, ring, passwords=passwords)
    except BaseException as error:
        if transport:
            hang_up(transport)
        with contextlib.suppress(Exception):
            hang_up(road)
        if isinstance(error, LoginDropped):
            raise ConnectionFailed(
                "the connection was closed during login",
                where=target.place,
                why=f"sshd hung up on {target.user} before it answered",
                hint=f"look at sshd's log on {target.hostname}",
            ) from None
        raise
    threading.Thread(target=_keep_alive, args=(transport, target), daemon=True).start()
    return transport


def _negotiate(
    road: Any, target: SshTarget, known: list[Any], describe: Callable[[], str]
) -> paramiko.Transport:
    """From a stream to an encrypted one, up to the server's key."""
    import paramiko

    try:
        transport = paramiko.Transport(road)
        transport.banner_timeout = target.connect_timeout
        transport.handshake_timeout = max(15.0, target.connect_timeout)
        transport.use_compression(target.compression)
        security = transport.get_security_options()
        for ours, theirs in (("ciphers", "ciphers"), ("digests", "macs"), ("kex", "kexalgorithms")):
            _restrict(security, ours, target.algorithms.get(theirs))
        _restrict(security, "key_types", target.algorithms.get("hostkeyalgorithms"))
        security.key_types = host_key_check.preferred_types(known, tuple(security.key_types))
        transport.start_client(timeout=target.connect_timeout + transport.handshake_timeout)
        return transport
    except paramiko.ssh_exception.IncompatiblePeer as error:
        raise UnreachableError(
            "no common algorithm",
            where=target.place,
            why=str(error),
            hint="allow a current algorithm in the host's sshd_config",
        ) from None
    except (paramiko.SSHException, EOFError, OSError) as error:
        detail = describe() or _handshake_reason(error)
        raise ConnectionFailed(
            "the connection was closed before SSH began"
            if not isinstance(error, TimeoutError)
            else "SSH did not begin in time",
            where=target.place,
            why=detail,
            hint=f"is it an sshd that listens on port {target.port}? Is MaxStartups reached?",
        ) from None


def _handshake_reason(error: BaseException) -> str:
    return str(error) or "the server hung up"


def _restrict(security: Any, name: str, allowed: tuple[str, ...] | None) -> None:
    """Keep to what ssh's configuration allows, as far as paramiko has any of it."""
    kept = tuple(item for item in getattr(security, name) if not allowed or item in allowed)
    if kept:
        setattr(security, name, kept)


def _road(
    target: SshTarget, hops: Hops, interrupted: threading.Event
) -> tuple[Any, Callable[[], str]]:
    """A stream to the host's sshd, and a way to ask what else is known of its failure."""
    if target.hop:
        return _through(target, hops, interrupted), lambda: ""
    if target.proxy_command:
        return _by_command(target)
    return _direct(target), lambda: ""


def _direct(target: SshTarget) -> socket.socket:
    try:
        found = socket.getaddrinfo(target.hostname, target.port, target.family, socket.SOCK_STREAM)
    except socket.gaierror as error:
        kind = ConnectionFailed if error.errno == socket.EAI_AGAIN else UnreachableError
        raise kind(
            f"unknown host name {target.hostname!r}",
            where=target.place,
            why=error.strerror,
            hint="correct ansible_host, or HostName in ~/.ssh/config",
        ) from None
    failure: OSError | None = None
    for family, kind_, protocol, _, address in found:
        stream = socket.socket(family, kind_, protocol)
        try:
            stream.settimeout(target.connect_timeout)
            if target.bind_address:
                stream.bind((target.bind_address, 0))
            stream.connect(address)
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return stream
        except OSError as error:
            stream.close()
            failure = error
    assert failure is not None
    raise _failed(failure, target)


def _failed(error: OSError, target: SshTarget) -> ConnectionFailed:
    port = target.port
    if isinstance(error, TimeoutError):
        what = f"no answer within {target.connect_timeout:g} s"
        hint = "is the host up, its address right, and the port open in the firewall?"
    elif isinstance(error, ConnectionRefusedError):
        what = "connection refused"
        hint = f"is sshd running there and listening on port {port}? See ansible_port"
    elif error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        what = "no route to the host"
        hint = "is the host up? Does it take a VPN or a ProxyJump to get there?"
    else:
        what = "cannot connect"
        hint = "correct ansible_host and ansible_port"
    return ConnectionFailed(what, where=target.place, why=error.strerror or str(error), hint=hint)


def _through(target: SshTarget, hops: Hops, interrupted: threading.Event) -> paramiko.Channel:
    import paramiko

    assert target.hop
    try:
        transport = hops.transport(target.hop, interrupted)
    except UnreachableError as error:
        raise UnreachableError(
            f"its jump host {target.hop.place} cannot be reached",
            where=target.place,
            why=f"{error.what}: {error.why}" if error.why else error.what,
            hint=error.hint,
        ) from None
    try:
        return transport.open_channel(
            "direct-tcpip",
            (target.hostname, target.port),
            ("127.0.0.1", 0),
            timeout=target.connect_timeout,
        )
    except paramiko.ChannelException as error:
        if error.code == 1:
            raise UnreachableError(
                f"the jump host {target.hop.place} does not let connections through",
                where=target.place,
                why=error.text,
                hint="allow it there with AllowTcpForwarding and PermitOpen in sshd_config",
            ) from None
        raise ConnectionFailed(
            f"not reachable from the jump host {target.hop.place}",
            where=target.place,
            why=error.text,
            hint="is the host up, and its address right as seen from the jump host?",
        ) from None
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise ConnectionFailed(
            f"no answer through the jump host {target.hop.place}",
            where=target.place,
            why=str(error),
            hint="is the host up, and its address right as seen from the jump host?",
        ) from None


def _by_command(target: SshTarget) -> tuple[socket.socket, Callable[[], str]]:
    """ProxyCommand: its stdin and stdout are the stream."""
    assert target.proxy_command
    ours, theirs = socket.socketpair()
    said = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the command
    with theirs:
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {target.proxy_command}"],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=said,
            start_new_session=True,  # Ctrl-C must not cut the line before we have hung up
        )

    def describe() -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1)
        said.seek(0)
        text = said.read(2000).decode(errors="replace").strip()
        status = process.poll()
        ended = f" ended with status {status}" if status else ""
        return f"ProxyCommand `{target.proxy_command}`{ended}: {text or 'it said nothing'}"

    threading.Thread(target=process.wait, daemon=True).start()  # leave no zombie
    return ours, describe


def _keep_alive(transport: paramiko.Transport, target: SshTarget) -> None:
    """Ask for an answer now and then; without one in time, the connection is closed.

    Whoever waits on it then sees it break, rather than waiting for TCP, which takes a quarter
    of an hour, or for ever through a jump host. paramiko's own keepalive asks for no answer.
    """
    while transport.is_active():
        began = time.monotonic()
        while time.monotonic() - began < target.keepalive_interval:
            time.sleep(min(1.0, target.keepalive_interval))
            if not transport.is_active():
                return
        timer = threading.Timer(target.keepalive_limit, transport.close)
        timer.daemon = True
        timer.start()
        with contextlib.suppress(Exception):
            transport.global_request("keepalive@openssh.com", wait=True)
        timer.cancel()
