"""No claim of the worked-on corpus is judged otherwise than before."""

from tests.govern.corpus import cases
from tests.govern.judgements import FILE, told, written


def test_every_claim_of_the_corpus_is_judged_as_before() -> None:
    golden = FILE.read_text(encoding="utf-8").splitlines()
    changed = [case for case in cases() if written(case) not in golden]

    assert [case.number for case in cases()] == [int(line.split()[0]) for line in golden]
    assert not changed, (
        f"{len(changed)} claims are judged otherwise; if that is meant, run: python -m"
        f" tests.govern.judgements."
        f" The first is {changed[0].claim.record.text!r:.200}: {told(changed[0])}"
    )
