"""Every bound of the house, in one place, with the relations between them asserted.

A limit that nobody can find is a surprise in production; a limit that contradicts another is a bug. Units come
last in each name.
"""

from typing import Final

# Canonical JSON (json-v1). Changing one of these changes what can be hashed, so it needs a new version name.
SAFE_INTEGER: Final = 2**53 - 1
FLOAT_DECIMALS: Final = 6
MAX_DEPTH_LEVELS: Final = 128
MAX_VALUE_BYTES: Final = 1 << 20

# Names that users choose: ids, namespaces, subjects, tags.
MAX_NAME_CHARS: Final = 256
MAX_TAGS: Final = 256

# `memory.read`.
DEFAULT_MAX_ITEMS: Final = 50
DEFAULT_HALF_LIFE_DAYS: Final = 30
MAX_HALF_LIFE_DAYS: Final = 1_000_000
MAX_PACKAGE_BYTES: Final = 1 << 32
READ_CHUNK_BYTES: Final = 1 << 16
BLOCK_BYTES: Final = 1 << 16
MAX_LEARNT_SHAPES: Final = 8
MAX_TAG_SETS: Final = 4_096
MAX_KNOWN_REFS: Final = 1_024
MAX_FOLLOWED_SNAPSHOTS: Final = 10_000
MAX_TOLD_FAULTS: Final = 100

# Commits and their recovery.
MAX_COMMIT_WRITES: Final = 10_000
MAX_GROUP_COMMITS: Final = 64
MAX_COMPANY_SECONDS: Final = 0.001
LEASE_SECONDS: Final = 30.0
LEASE_RENEW_SECONDS: Final = 10.0
MAX_BUSY_SECONDS: Final = 30.0
MAX_RECONNECT_SECONDS: Final = 10.0
MAX_IDLE_READERS: Final = 8
MAX_ATTEMPTS: Final = 5
SCAN_PAGE_RECORDS: Final = 1_000

assert SAFE_INTEGER == (1 << 53) - 1, "json-v1 numbers are IEEE 754 doubles"
assert 10**FLOAT_DECIMALS < SAFE_INTEGER, "a rounded fraction must still be exact"
assert MAX_DEPTH_LEVELS < 254, "orjson stops at 254 levels, and we must stop first"
assert MAX_TAGS * MAX_NAME_CHARS * 4 < MAX_VALUE_BYTES, "the tags of a record must fit one value"
assert MAX_VALUE_BYTES < MAX_PACKAGE_BYTES, "a package holds many values"
assert READ_CHUNK_BYTES <= MAX_VALUE_BYTES, "a line of the greatest length is gathered from whole chunks"
assert LEASE_RENEW_SECONDS * 2 < LEASE_SECONDS, "one lost renewal must not lose the lease"
