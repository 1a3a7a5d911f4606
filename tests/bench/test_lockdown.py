"""The filter of system calls, run here as the kernel would run it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from standfast.policies.lockdown import MACHINES, filter_program, refused_calls


def _verdict(code: bytes, arch: int, number: int, arguments: tuple[int, ...] = ()) -> int:
    """Run a filter as the kernel would: a machine with one register and forward jumps."""
    data = number.to_bytes(4, "little") + arch.to_bytes(4, "little") + bytes(8)
    data += b"".join(one.to_bytes(8, "little") for one in (*arguments, *(0,) * 6)[:6])
    place, register = 0, 0
    while True:
        operation = int.from_bytes(code[8 * place : 8 * place + 2], "little")
        yes, no = code[8 * place + 2], code[8 * place + 3]
        value = int.from_bytes(code[8 * place + 4 : 8 * place + 8], "little")
        place += 1
        match operation:
            case 0x20:
                register = int.from_bytes(data[value : value + 4], "little")
            case 0x06:
                return value
            case 0x15:
                place += yes if register == value else no
            case 0x25:
                place += yes if register > value else no
            case 0x45:
                place += yes if register & value else no


ALLOWED, KILLED, REFUSED, UNKNOWN = 0x7FFF0000, 0x80000000, 0x50001, 0x50026


@pytest.mark.parametrize("name", MACHINES)
@given(
    number=st.integers(0, (1 << 32) - 1) | st.integers(0, 500),
    arguments=st.tuples(*[st.integers(0, 2_000)] * 2),
)
def test_the_filter_refuses_exactly_what_the_table_says(
    name: str, number: int, arguments: tuple[int, int]
) -> None:
    machine = MACHINES[name]
    code = filter_program(machine)
    judged = {machine.clone, machine.clone3, machine.fcntl, machine.ioctl, machine.prlimit}
    expected = UNKNOWN if number > 450 else REFUSED if number in refused_calls(machine.column) else ALLOWED
    if number not in judged:
        assert _verdict(code, machine.audit_arch, number, arguments) == expected
    assert _verdict(code, machine.audit_arch ^ 1, number, arguments) == KILLED
    assert _verdict(code, machine.audit_arch, machine.clone3) == UNKNOWN
    assert _verdict(code, machine.audit_arch, machine.clone, (0x10000 | arguments[0],)) == ALLOWED
    assert _verdict(code, machine.audit_arch, machine.clone, (0x11,)) == REFUSED
    assert _verdict(code, machine.audit_arch, machine.fcntl, (3, 1)) == ALLOWED
    assert _verdict(code, machine.audit_arch, machine.fcntl, (3, 38)) == REFUSED
    assert _verdict(code, machine.audit_arch, machine.ioctl, (3, 0x5401)) == ALLOWED
    assert _verdict(code, machine.audit_arch, machine.ioctl, (3, arguments[0])) == REFUSED
    assert _verdict(code, machine.audit_arch, machine.prlimit, (0, 7)) == ALLOWED
    assert _verdict(code, machine.audit_arch, machine.prlimit, (1 + arguments[0], 7)) == REFUSED


def test_the_table_of_calls_has_a_number_for_each_architecture_once() -> None:
    for machine in MACHINES.values():
        numbers = refused_calls(machine.column)
        assert len(numbers) > 100
        assert not {machine.clone, machine.fcntl, machine.ioctl, machine.prlimit} & set(numbers)
    assert json.loads(json.dumps(refused_calls(1)))[:1] == [27]
