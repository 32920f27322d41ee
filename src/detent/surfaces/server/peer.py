"""The program at the other end of a request's connection, where the kernel of this machine knows it."""

import ipaddress
from typing import Any

from detent.host.process_origin import Origin, can_know, origin_of_connection, user_of_connection


def ends_of(scope: Any) -> tuple[tuple[str, int], tuple[str, int]] | None:
    """Both ends of a connection: the client's and ours."""
    client, server = scope.get("client"), scope.get("server")
    if not client or not server or not isinstance(server[1], int):
        return None
    return (str(client[0]), int(client[1])), (str(server[0]), int(server[1]))


def is_loopback(address: str) -> bool:
    """Whether an address is only reached from this machine."""
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def is_from_here(scope: Any) -> bool:
    """Whether a request comes from this machine, over whichever of its addresses."""
    ends = ends_of(scope)
    return ends is not None and (is_loopback(ends[0][0]) or ends[0][0] == ends[1][0])


def find_origin(scope: Any) -> Origin:
    """Whether a step has started the program that asks; a person where that cannot be known at all."""
    ends = ends_of(scope)
    if not can_know() or ends is None:
        return "person"  # docs/security.md: on such a system this cannot be known
    return origin_of_connection(*ends)


def find_uid(scope: Any) -> int | None:
    """The user whose program asks; None where the kernel does not say."""
    ends = ends_of(scope)
    if not can_know() or ends is None:
        return None
    uid = user_of_connection(*ends)
    return None if uid < 0 else uid
