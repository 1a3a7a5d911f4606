"""``holdfast demo``: a tour of what exists. Every claim it prints is checked while it is printed."""

from tempfile import TemporaryDirectory

import click
from rich.console import Console
from rich.padding import Padding

from holdfast.canon import canonical_bytes, fingerprint, parse
from holdfast.cli.output import ANSWER_IS_NO, json_option, print_json
from holdfast.errors import CommitAborted, HoldfastError, InvalidValue, NotCanonical
from holdfast.store.opening import open_store
from holdfast.store.run import StoreRun
from holdfast.store.store import Store
from holdfast.vocabulary import Band, Record, Verdict, VisibilityMode


class Tour:
    """Prints chapters and claims; a claim that is false is printed as such and fails the tour."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.claims: list[dict[str, object]] = []

    def chapter(self, title: str, text: str) -> None:
        """Open a chapter."""
        self.console.print(f"\n[bold]{title}[/bold]")
        self.console.print(Padding(text, (0, 0, 0, 2)), highlight=False)

    def show(self, text: str) -> None:
        """Print something as it is, markup or not."""
        self.console.print(Padding(text, (0, 0, 0, 4)), style="cyan", markup=False, highlight=False)

    def claim(self, text: str, holds: bool) -> None:
        """Print a claim with what checking it gave."""
        self.claims.append({"claim": text, "holds": holds})
        mark = "[green]✓[/green]" if holds else "[red]✗[/red]"
        self.console.print(f"  {mark} {text}", highlight=False)

    def refusal(self, text: str, kind: type[HoldfastError], attempt: object) -> None:
        """Claim that an attempt is refused with an error of one kind, and show what it says."""
        try:
            attempt()  # type: ignore[operator]  # Every caller hands in a lambda.
        except HoldfastError as error:
            self.claim(text, isinstance(error, kind))
            self.show(str(error))
        else:
            self.claim(text, holds=False)


def canonical_json(tour: Tour) -> None:
    """The first chapter: one value, one text, one fingerprint."""
    tour.chapter(
        "One value, one text", "Everything that is hashed goes through canonical JSON first (json-v1)."
    )
    first = {"subject": "policy/eu-refunds", "days": 14.0, "note": "Ru\u0308ckgabe"}
    second = {"note": "R\u00fcckgabe", "days": 14, "subject": "policy/eu-refunds"}
    tour.show(canonical_bytes(first).decode())
    tour.claim(
        "another key order, 14.0 for 14 and a decomposed ü give the same fingerprint",
        fingerprint(first) == fingerprint(second),
    )
    tour.claim(
        "reading the text and writing it again changes nothing",
        canonical_bytes(parse(canonical_bytes(first))) == canonical_bytes(first),
    )
    tour.refusal("a key that stands twice is refused", NotCanonical, lambda: parse('{"a": 1, "a": 2}'))
    tour.refusal(
        "NaN is refused, with its place", NotCanonical, lambda: canonical_bytes({"scores": [1, float("nan")]})
    )


def vocabulary(tour: Tour) -> None:
    """The second chapter: values that can't be wrong."""
    tour.chapter(
        "Values that check themselves", "A record that breaks the rules of its document can't be built."
    )
    record = Record(memory_id="m-1", text="EU refunds take 14 days.", tags=("refunds",), verdict=Verdict.SEAL)
    tour.show(canonical_bytes(record.as_json()).decode())
    tour.claim(
        "a record reads back as it was written",
        Record.from_json(parse(canonical_bytes(record.as_json()))) == record,
    )
    tour.refusal(
        "a VOID verdict never becomes canonical",
        InvalidValue,
        lambda: Record(memory_id="m-2", text="junk", verdict=Verdict.VOID, band=Band.LEDGER),
    )
    tour.claim(
        "live_read_write can't claim determinism, the other three modes can",
        [mode for mode in VisibilityMode if not mode.is_deterministic] == [VisibilityMode.LIVE_READ_WRITE],
    )


def snapshots(tour: Tour, folder: str) -> None:
    """The third chapter: commits that hold, on the embedded store."""
    tour.chapter(
        "Snapshots that hold",
        "Runs write into buffers; a commit is applied whole, once, and durably, or not at all.",
    )
    store = open_store(f"{folder}/demo.db", create=True)
    with _writing(store, "learn") as run:
        run.write("eu-refunds", {"memory_id": "eu-refunds", "text": "EU refunds take 14 days."})
        tour.claim("a buffered write is invisible, even to its own run", run.read(["eu-refunds"]) == {})
    receipt = run.commit()
    tour.claim(
        "committing again gives the same receipt and changes nothing",
        receipt is not None and receipt.replayed,
    )
    left, right = _writing(store, "left"), _writing(store, "right")
    left.merge("eu-refunds", {"memory_id": "eu-refunds", "text": "EU refunds take 30 days."})
    right.merge("eu-refunds", {"memory_id": "eu-refunds", "text": "EU refunds take 7 days."})
    left.commit()
    tour.refusal(
        "the second of two runs that change one record is told of the first", CommitAborted, right.commit
    )
    then = store.read("default", ["eu-refunds"], at=1)["eu-refunds"].content or b""
    tour.claim("snapshot 1 still reads as it did", b"14 days" in then and store.head() == 2)
    tour.claim("every page, record, commit and ledger entry verifies", list(store.verify()) == [])
    store.close()


def _writing(store: Store, name: str) -> StoreRun:
    mode = VisibilityMode.BUFFERED_WRITE
    return StoreRun.open(store, workflow_id="demo", policy_set_id="demo", mode=mode, run_id=f"demo-{name}")


@click.command("demo")
@json_option
def command(as_json: bool) -> None:
    """Take a short tour of what exists. Every claim is checked as it is made; exit code 1 if one is false."""
    tour = Tour(Console(quiet=as_json))
    canonical_json(tour)
    vocabulary(tour)
    with TemporaryDirectory(prefix="holdfast-demo-") as folder:
        snapshots(tour, folder)
    failed = sum(not claim["holds"] for claim in tour.claims)
    if as_json:
        print_json({"claims": tour.claims, "failed": failed})
    tour.console.print(
        f"\n{len(tour.claims)} claims, {failed} false. Next: [bold]holdfast --help[/bold], docs/.\n"
    )
    if failed:
        raise SystemExit(ANSWER_IS_NO)
