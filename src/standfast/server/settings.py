"""The section ``[server]`` of the settings."""

import ipaddress
from typing import Self

import msgspec

from standfast.settings import Settings, SettingsSection, check_host_name, refuse


class ServerSettings(SettingsSection, frozen=True, kw_only=True):
    """Which names a server answers to, and which proxies it believes."""

    host_names: tuple[str, ...] = ()
    """The names that ``standfast serve`` is reached by, such as ``memory.example.com``, besides those of this
    machine.
    """

    trusted_proxies: tuple[str, ...] = ()
    """Addresses or networks (``10.0.0.0/8``) of proxies whose ``X-Forwarded-For`` says where a request came
    from.
    """

    def check(self, settings: Settings) -> None:
        """Refuse what is no host name or network, and a host name of one of the further stores."""
        if not set(settings.stores).isdisjoint(self.host_names):
            refuse("stores", "a host name of it is in server.host_names too, which are those of `store`")
        for host in self.host_names:
            check_host_name("server.host_names", host)
        for network in self.trusted_proxies:
            try:
                ipaddress.ip_network(network)
            except ValueError as error:
                refuse("server.trusted_proxies", f"{error}; give an address or a network such as 10.0.0.0/8")

    def of_further_store(self, host: str) -> Self:
        """A further store is reached by its own host name only."""
        return msgspec.structs.replace(self, host_names=(host,))
