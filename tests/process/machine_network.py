"""A network for machines: each has a namespace of its own, whose link to the others can be cut and put back."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


class MachineNetwork:
    """Namespaces on a bridge of this machine, which has `hosts` addresses there."""

    def __init__(self, machines: int, hosts: int) -> None:
        pid = os.getpid()
        self._bridge = f"cr{pid}"
        self._prefix = f"198.{18 + pid % 2}.{pid // 2 % 256}"
        """Of the addresses that are reserved for benchmarks."""
        self._count = machines
        self.addresses = [f"{self._prefix}.{number}" for number in range(1, 1 + hosts)]
        """Those of this machine: the server and the site listen there."""

    def open(self) -> None:
        """Create it. Raises pytest's Skipped where that is not permitted."""
        if os.geteuid() != 0 or shutil.which("ip") is None:
            pytest.skip("network namespaces need root and the program ip")
        try:
            _ip("link", "add", self._bridge, "type", "bridge")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no network namespaces here: {error.stderr!r}")
        # else it takes that of a port, and another one once that link is cut: the other machines know it no more
        _ip("link", "set", self._bridge, "address", "02:00:00:00:00:01")
        for address in self.addresses:
            _ip("address", "add", f"{address}/24", "dev", self._bridge)
        _ip("link", "set", self._bridge, "up")
        for number in range(self._count):
            name = self._name(number)
            _ip("netns", "add", name)
            _ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            _ip("-n", name, "address", "add", f"{self._prefix}.{201 + number}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                _ip("-n", name, "link", "set", device, "up")
            self.join(number)

    def launcher(self, number: int) -> tuple[str, ...]:
        """What runs a command on a machine."""
        return ("ip", "netns", "exec", self._name(number))

    def cut(self, number: int, *, silently: bool) -> None:
        """Cut the link of a machine; `silently`: its packets vanish, and it sees a link that is up."""
        _ip("link", "set", self._name(number), *(["nomaster"] if silently else ["down"]))

    def join(self, number: int) -> None:
        """Put the link of a machine back."""
        _ip("link", "set", self._name(number), "master", self._bridge, "up")

    def close(self) -> None:
        """Delete it, as far as it exists."""
        for number in range(self._count):
            _ip("netns", "delete", self._name(number), check=False)
            _ip("link", "delete", self._name(number), check=False)
        _ip("link", "delete", self._bridge, check=False)

    def _name(self, number: int) -> str:
        """Of a machine's namespace, and of its end on the bridge."""
        return f"{self._bridge}m{number}"


@contextmanager
def machine_network(machines: int, hosts: int) -> Iterator[MachineNetwork]:
    """A network that is deleted at the end."""
    network = MachineNetwork(machines, hosts)
    try:
        network.open()
        yield network
    finally:
        network.close()


def _ip(*arguments: str, check: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=check, capture_output=True)
