"""Dialogue turns of about 130 bytes, the same ones in every run, for benchmarks that write or find facts."""

import random
from collections.abc import Iterator

_NAMES = [
    "Ada",
    "Bela",
    "Carla",
    "Deniz",
    "Emil",
    "Farah",
    "Gustav",
    "Hana",
    "Ivo",
    "Jana",
    "Kofi",
    "Lena",
    "Mateo",
    "Nadia",
    "Oskar",
    "Paula",
]
_OPENINGS = (
    "I told {name} last week that",
    "By the way,",
    "You know,",
    "When we met at the {place},",
    "After the trip to the {place}",
    "{name} wrote me that",
    "Honestly,",
    "This morning",
)
_VERBS = [
    "bought",
    "sold",
    "painted",
    "repaired",
    "lost",
    "found",
    "borrowed",
    "ordered",
    "cleaned",
    "planted",
    "cooked",
    "measured",
]
_THINGS = [
    "kettle",
    "guitar",
    "bicycle",
    "lamp",
    "carpet",
    "ladder",
    "camera",
    "window",
    "garden",
    "notebook",
    "violin",
    "sofa",
    "oven",
    "printer",
    "jacket",
    "tent",
    "puzzle",
    "mirror",
    "basket",
    "blanket",
    "teapot",
    "radio",
    "drum",
    "telescope",
    "bookshelf",
    "curtain",
    "fountain",
    "hammock",
    "easel",
    "canoe",
]
_PLACES = [
    "harbour",
    "market",
    "station",
    "library",
    "museum",
    "bakery",
    "lake",
    "workshop",
    "school",
    "festival",
    "theatre",
    "clinic",
    "garage",
    "office",
    "cabin",
    "vineyard",
    "bridge",
    "square",
    "chapel",
    "stadium",
]
_CLOSINGS = (
    "and we want to go again in {month}.",
    "so the {thing} has to wait until {month}.",
    "because the {place} was closed that day.",
    "and it cost {number} euros in the end.",
    "which took us about {number} minutes.",
    "and {name} still laughs about it, of course.",
)
_MONTHS = ["January", "March", "April", "May", "June", "July", "August", "October", "November", "December"]


def dialogue_turns(seed: int = 7) -> Iterator[str]:
    """Turns without end, no two alike."""
    choose = random.Random(seed)  # Not for secrets: the same turns in every run.
    number = 0
    while True:
        number += 1
        opening, closing = choose.choice(_OPENINGS), choose.choice(_CLOSINGS)
        middle = (
            f"{choose.choice(_NAMES)} {choose.choice(_VERBS)} the {choose.choice(_THINGS)} number {number}"
            f" near the {choose.choice(_PLACES)} with a {choose.choice(_THINGS)} from"
            f" {choose.choice(_PLACES)} street"
        )
        words = {
            "name": choose.choice(_NAMES),
            "place": choose.choice(_PLACES),
            "thing": choose.choice(_THINGS),
            "month": choose.choice(_MONTHS),
            "number": choose.randrange(2, 400),
        }
        yield f"{opening} {middle} {closing}".format(**words)
