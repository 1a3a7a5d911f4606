"""A quarantine that is killed again and again while another process writes: it ends, and nothing else
changes.
"""

import random
import subprocess
import sys
from pathlib import Path

from standfast.memory import Memory
from standfast.memory.quarantine import ActState
from standfast.records.vocabulary import Band
from tests.subprocesses import ROOT

CRM = {"kind": "doc", "id": "crm"}
HANDBOOK = {"kind": "doc", "id": "handbook"}
PLANTED, KILLS = 200, 3
_ACT = """
import sys
import standfast.memory.quarantine as quarantine
from standfast import Memory
quarantine.QUARANTINED_ROWS_PER_COMMIT = 10
memory = Memory.open(sys.argv[1], recall_log=True)
commit = memory.store.commit
def told(*args, **kwargs):
    print("page", flush=True)
    sys.stdin.readline()
    return commit(*args, **kwargs)
memory.store.commit = told
print(memory.quarantine(source={"kind": "doc", "id": "crm"}, reason="incident 4", act_id="a").records)
"""
_WRITER = """
import sys
from standfast import Memory
memory = Memory.open(sys.argv[1], recall_log=True)
number = 0
while sys.stdin.readline():
    memory.remember(f"Crate {number} stands in the hall.", subject=f"crate/{number}",
                    source={"kind": "doc", "id": "handbook"})
    print(number, flush=True)
    number += 1
"""


def _started(program: str, path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, str(path)]
    return subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )


def test_a_quarantine_that_is_killed_again_and_again_ends_beside_a_writer(tmp_path: Path) -> None:
    path, chance, written = tmp_path / "a.db", random.Random(37), 0
    with Memory.open(str(path)) as memory, memory.run(workflow="fill", mode="buffered_write") as run:
        run.remember("EU refunds take 14 days.", subject="policy/eu", source=HANDBOOK)
        for number in range(PLANTED):
            run.remember(f"Rumour number {number}.", subject=f"rumour/{number}", source=CRM)

    with _started(_WRITER, path) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        for _ in range(KILLS):
            with _started(_ACT, path) as act:
                assert act.stdin is not None
                assert act.stdout is not None
                for _ in range(chance.randint(2, 5)):
                    writer.stdin.write("\n")
                    writer.stdin.flush()
                    assert int(writer.stdout.readline()) == written
                    written += 1
                    assert act.stdout.readline() == "page\n"
                    act.stdin.write("\n")
                    act.stdin.flush()
                # The last page may be committed, or not, or half.
                act.kill()
        with _started(_ACT, path) as act:
            told, _ = act.communicate("\n" * PLANTED)
        writer.stdin.close()

    assert told.split()[-1] == str(PLANTED)
    with Memory.open(str(path)) as memory:
        (done,) = memory.quarantines()
        assert (done.state, done.records) == (ActState.IN_FORCE, PLANTED)
        assert done.commits == PLANTED / 10
        assert len(memory.quarantined(limit=2 * PLANTED)) == 2 * PLANTED, "in long-term and working memory"
        crates = {f"crate/{number}" for number in range(written)}
        assert {one.memory_id for one in memory.records(band=Band.LEDGER)} == {"policy/eu", *crates}
        assert list(memory.verify()) == []
        memory.release("a", reason="they were true")
        assert len(list(memory.records(band=Band.LEDGER))) == 1 + PLANTED + written
