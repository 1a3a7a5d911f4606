"""What may not be needed at all: units of text, taken out as far as evals allow. Delta debugging, in batches.

What holds something protected that no other unit holds is not even tried.
"""

from collections.abc import Callable, Sequence

from standfast.optimize.loops.gate.static import protected
from standfast.optimize.loops.strategies.proposals import SectionEdit, StrategySession, edit_of, edited
from standfast.optimize.loops.strategies.units import Unit, joined, units_of
from standfast.optimize.prompts.section import Path
from standfast.optimize.prompts.template import PromptDescriptor
from standfast.optimize.providers.adapter import ProviderAdapter

Place = tuple[Path, int]
"""A unit: its section, and its number there."""


class Ablation:
    """Takes out sections, paragraphs, bullets and examples, as many at once as the evals bear.

    The screen that it asks is not the gate: what it proposes is tried again, with repeats and on held-out samples.
    """

    name = "ablation"

    def propose(
        self,
        prompt: PromptDescriptor,
        *,
        adapter: ProviderAdapter | None,  # noqa: ARG002  # It needs no model of its own.
        session: StrategySession,
    ) -> Sequence[SectionEdit]:
        """The largest removal that was found to do no harm, an edit a section."""
        if session.survives is None:
            return []
        screen = session.survives
        units = {section.path: units_of(section.body) for section in prompt.sections}
        places = _removable(units)

        def survive(removals: Sequence[frozenset[Place]]) -> list[bool]:
            prompts = [edited(prompt, _edits(prompt, units, removal, session)) for removal in removals]
            return screen(prompts)

        return _edits(prompt, units, largest_removal(places, survive), session)


def largest_removal(
    places: Sequence[Place], survive: Callable[[Sequence[frozenset[Place]]], list[bool]]
) -> frozenset[Place]:
    """A set of units that can go together, to which no single one of the others can be added.

    First all at once, then halves, quarters and so on. What fits on top of what is gone already is taken greedily, in
    order, and all chunks of one size are screened together, so that many workers can be busy at once.
    """
    gone: frozenset[Place] = frozenset()
    size = len(places)
    while size >= 1 and len(gone) < len(places):
        left = [place for place in places if place not in gone]
        chunks = [frozenset(left[first : first + size]) for first in range(0, len(left), size)]
        alone = survive([gone | chunk for chunk in chunks])
        fit = [chunk for chunk, fits in zip(chunks, alone, strict=True) if fits]
        gone = _together(gone, fit, survive)
        size //= 2
    return gone


def _together(
    gone: frozenset[Place],
    fit: Sequence[frozenset[Place]],
    survive: Callable[[Sequence[frozenset[Place]]], list[bool]],
) -> frozenset[Place]:
    """All chunks that fit alone, if they fit together; else one after the other."""
    if len(fit) > 1 and not survive([gone.union(*fit)])[0]:
        for chunk in fit:
            if survive([gone | chunk])[0]:
                gone |= chunk
        return gone
    return gone.union(*fit)


def _removable(units: dict[Path, list[Unit]]) -> list[Place]:
    """The units that hold nothing which would be lost with them."""
    held = {
        (path, number): protected(unit.text)
        for path, members in units.items()
        for number, unit in enumerate(members)
    }
    return [place for place, own in held.items() if not own and _unit(units, place).text.strip()]


def _unit(units: dict[Path, list[Unit]], place: Place) -> Unit:
    path, number = place
    return units[path][number]


def _edits(
    prompt: PromptDescriptor,
    units: dict[Path, list[Unit]],
    removal: frozenset[Place],
    session: StrategySession,
) -> list[SectionEdit]:
    edits = []
    for section in prompt.sections:
        gone = {number for path, number in removal if path == section.path}
        if gone:
            kept = [unit for number, unit in enumerate(units[section.path]) if number not in gone]
            edits.append(edit_of(section, joined(kept), session=session, strategy=Ablation.name))
    return edits
