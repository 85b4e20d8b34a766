"""A sandbox reaches the loopback ports, Unix sockets, devices and folders it is given, and none beside them."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from foregate.agent.sandbox.plan import GivenAccess
from tests.agent.sandbox.network_world import Ran, give, run_served
from tests.agent.sandbox.place import PATH, Place

PYTHON = shutil.which("python3", path=PATH)
pytestmark = pytest.mark.skipif(PYTHON is None, reason="no system Python that a sandbox can show")
SCRIPT = """
import os, socket, stat, sys
def ask(family, address):
    with socket.socket(family) as s:
        s.settimeout(240)
        s.connect(address)
        s.sendall(bytes(300_000))
        s.shutdown(socket.SHUT_WR)
        return b''.join(iter(lambda: s.recv(65536), b'')).decode()
try:
    print(eval(sys.argv[1]))
except OSError as error:
    print(type(error).__name__)
"""


class Service:
    """Says how much it was sent once that has ended."""

    def __init__(self, listener: socket.socket) -> None:
        self.listener, self.connections = listener, 0
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection = self.listener.accept()[0]
                self.connections += 1
                with connection, suppress(OSError):
                    total = 0
                    while data := connection.recv(65536):
                        total += len(data)
                    connection.sendall(f"got {total}".encode())

    def end(self) -> None:
        with suppress(OSError):  # a test may have ended it before
            self.listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self.listener.close()


class Services:
    """Services at a port of loopback, of IPv4 and IPv6, and at two sockets, one under an abstract name."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.path = folder / "service.sock"
        listeners = {"port": socket.create_server(("127.0.0.1", 0)), "other": socket.create_server(("127.0.0.1", 0))}
        if socket.has_ipv6:
            listeners["six"] = socket.create_server(("::1", 0), family=socket.AF_INET6)
        for name, address in (("socket", str(self.path)), ("abstract", f"\0foregate-{os.getpid()}")):
            listeners[name] = socket.socket(socket.AF_UNIX)
            listeners[name].bind(address)
            listeners[name].listen()
        self.path.chmod(0o777)
        self.all = {name: Service(listener) for name, listener in listeners.items()}
        for service in self.all.values():
            stack.callback(service.end)

    def port(self, name: str) -> int:
        return int(self.all[name].listener.getsockname()[1])


@pytest.fixture
def services(place: Place) -> Iterator[Services]:
    folder = place.base / "services"
    folder.mkdir(mode=0o755)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder)
        yield Services(stack, folder)


def do(place: Place, access: GivenAccess, expression: str) -> Ran:
    """Evaluate an expression of the script above in a sandbox."""
    ran = run_served(place, access, PYTHON or "", "-c", SCRIPT, expression)
    assert ran.code == 0, ran.err
    return ran


@pytest.mark.parametrize("name", ["port", "six"])
def test_a_port_that_is_given_is_that_of_the_machine(place: Place, services: Services, name: str) -> None:
    port = services.port(name)
    ran = do(place, give(ports=[port]), f"ask(socket.AF_INET, ('127.0.0.1', {port}))")
    assert (ran.out, ran.traffic.notes, ran.traffic.sent) == ("got 300000\n", (), 0)


def test_another_port_is_not(place: Place, services: Services) -> None:
    access = give(ports=[services.port("port")])
    ran = do(place, access, f"ask(socket.AF_INET, ('127.0.0.1', {services.port('other')}))")
    assert (ran.out, services.all["other"].connections) == ("ConnectionRefusedError\n", 0)


def test_a_port_at_which_nobody_listens_is_told(place: Place, services: Services) -> None:
    port = services.port("port")
    services.all["port"].listener.shutdown(socket.SHUT_RDWR)
    ran = do(place, give(ports=[port]), f"ask(socket.AF_INET, ('127.0.0.1', {port}))")
    assert "got" not in ran.out
    assert ran.traffic.notes == (f"nothing listens at port {port} of this machine",)


def test_a_port_can_be_given_that_hosts_are_reached_at(place: Place, services: Services) -> None:
    port = services.port("port")
    access = give(ports=[port], network="open", remote_ports=[port])
    assert do(place, access, f"ask(socket.AF_INET, ('127.0.0.1', {port}))").out == "got 300000\n"


def test_a_socket_that_is_given_is_found_at_its_path(place: Place, services: Services) -> None:
    ran = do(place, give(sockets=[str(services.path)]), f"ask(socket.AF_UNIX, {str(services.path)!r})")
    assert (ran.out, ran.traffic.notes) == ("got 300000\n", ())


def test_no_socket_is_reached_where_none_is_given(place: Place, services: Services) -> None:
    ran = do(place, give(ports=[services.port("port")]), f"ask(socket.AF_UNIX, {str(services.path)!r})")
    assert (ran.out, services.all["socket"].connections) == ("PermissionError\n", 0)


def test_who_is_given_a_socket_reaches_no_other_by_path_or_abstract_name(place: Place, services: Services) -> None:
    inside = place.workspace / "other.sock"
    with ExitStack() as stack:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(inside))
        listener.listen()
        stack.callback(inside.unlink)
        other = Service(listener)
        stack.callback(other.end)
        inside.chmod(0o777)
        access = give(sockets=[str(services.path)])
        for address in (str(inside), f"\0foregate-{os.getpid()}", str(services.path.parent / "none")):
            ran = do(place, access, f"ask(socket.AF_UNIX, {address!r})")
            assert ran.out in ("ConnectionRefusedError\n", "FileNotFoundError\n")
        assert (other.connections, services.all["abstract"].connections) == (0, 0)


def test_nothing_of_how_a_socket_is_given_is_seen(place: Place, services: Services) -> None:
    folders = f"os.listdir('/tmp'), os.listdir({str(services.path.parent)!r})"
    ran = do(place, give(sockets=[str(services.path)]), folders)
    assert "listener" not in ran.out
    assert "['service.sock']" in ran.out


def test_a_device_that_is_given_is_there_and_no_other(place: Place) -> None:
    seen = "stat.S_ISCHR(os.stat('/dev/tty').st_mode), os.path.exists('/dev/ptmx')"
    assert do(place, give(devices=["/dev/tty"]), seen).out == "(True, False)\n"


def test_a_device_may_lie_in_a_folder_of_devices(place: Place) -> None:
    device = "/dev/net/tun"
    if not Path(device).exists():
        pytest.skip(f"no {device} here")
    assert do(place, give(devices=[device]), f"stat.S_ISCHR(os.stat({device!r}).st_mode)").out == "True\n"


@pytest.fixture
def folder(place: Place) -> Iterator[Path]:
    """A folder of HOME with a file, a secret one, and a neighbour."""
    made = place.home / ".cache" / "tool"
    made.mkdir(parents=True)
    (made / "kept").write_text("kept")
    (made / ".env").write_text("TOKEN=1")
    (made.parent / "neighbour").write_text("neighbour")
    if place.user is not None:
        for path in (made.parent, made, *made.rglob("*")):
            os.chown(path, place.user, place.user)
    yield made
    shutil.rmtree(made.parent)


def test_a_folder_of_home_that_is_given_can_be_written_and_its_secrets_stay_hidden(place: Place, folder: Path) -> None:
    line = "cd ~/.cache/tool && cat kept && echo new > new; cat .env; echo more > ../x; ls -A .. ~"
    process = place.run_inside("sh", "-c", line, access=give(folders=[str(folder)]), masks=[str(folder / ".env")])
    assert (folder / "new").read_text() == "new\n"
    assert process.stdout.startswith("kept")
    assert "TOKEN" not in process.stdout
    assert "neighbour" not in process.stdout
    assert not (folder.parent / "x").exists()


def test_a_folder_of_home_that_is_not_given_is_not_there(place: Place, folder: Path) -> None:
    assert place.run_inside("ls", "-A", str(place.home)).stdout == ""


def test_setuid_programs_raise_nobody_in_a_folder_that_is_given(place: Place, folder: Path) -> None:
    ran = place.run_inside("cat", "/proc/self/mountinfo", access=give(folders=[str(folder)]))
    (options,) = [line.split()[5] for line in ran.stdout.splitlines() if line.split()[4] == str(folder)]
    assert {"rw", "nosuid", "nodev"} <= set(options.split(","))
