"""Signatures taken out of their armor, changed, and put back."""

import base64
import random


def blob_of(armored: str) -> bytes:
    """What is in an armor."""
    return base64.b64decode("".join(armored.splitlines()[1:-1]))


def armor(blob: bytes, columns: int = 70) -> str:
    """An armor around any bytes."""
    body = base64.b64encode(blob).decode()
    lines = [body[start : start + columns] for start in range(0, len(body), columns)]
    return "\n".join(["-----BEGIN SSH SIGNATURE-----", *lines, "-----END SSH SIGNATURE-----", ""])


def mutated(dice: random.Random, data: bytes) -> bytes:
    """Bytes put in, taken out, replaced, repeated or turned around, in one to three places."""
    for _ in range(dice.choice((1, 1, 2, 3))):
        start = dice.randrange(len(data))
        stop = min(len(data), start + dice.choice((1, 1, 1, 4, 32)))
        piece = data[start:stop]
        other = dice.randbytes(len(piece))
        changed = dice.choice((other, b"", piece + piece, piece + other, piece[::-1]))
        data = data[:start] + changed + data[stop:] or b"\0"
    return data
