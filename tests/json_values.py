"""Hypothesis strategies for JSON values: ``values`` that json-v1 accepts, ``hostile_values`` that it may be
given.
"""

from typing import Any

from hypothesis import strategies as st

from standfast.limits import SAFE_INTEGER

texts = st.text(max_size=30)
integers = st.integers(-SAFE_INTEGER, SAFE_INTEGER)
floats = (
    st.floats(-SAFE_INTEGER, SAFE_INTEGER, allow_nan=False) | st.floats(-1e-3, 1e-3) | st.floats(-1000, 1000)
)
scalars = st.none() | st.booleans() | integers | floats | texts | st.datetimes(timezones=st.timezones())


def _containers(members: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(members, max_size=5) | st.dictionaries(texts, members, max_size=5)


values = st.recursive(scalars, _containers, max_leaves=20)

_hostile_scalars = (
    scalars
    | st.floats()
    | st.integers()
    | st.binary(max_size=8)
    | st.decimals()
    | st.complex_numbers()
    | st.datetimes()
    | st.dates()
    | st.uuids()
    | st.sets(st.integers(), max_size=3)
    | st.text(alphabet=st.characters(), max_size=8)
    | st.builds(object)
)
hostile_values = st.recursive(
    _hostile_scalars,
    lambda members: (
        st.lists(members, max_size=4)
        | st.tuples(members, members)
        | st.dictionaries(
            st.text(max_size=4) | st.integers() | st.none() | st.binary(max_size=2), members, max_size=4
        )
    ),
    max_leaves=12,
)
