"""Texts are read as of Unicode 14.0, whatever the Unicode data of the Python that reads them."""

import unicodedata

import unicodedata2

from standfast.govern.judge.judge import FloorRegistry, Judge
from standfast.govern.judge.text_reading import LATER, TextReading, as_of_unicode_14, fold
from tests.govern.corpus import claim

# Assigned by Unicode 15.0, 15.1, 16.0 and 17.0: a face, an ideographic description, a Latin capital, a
# trombone's kin.
NEW_CHARACTERS = "\U0001fae8\u2ffc\ua7cb\U0001faea"
KINDS = {"Lu": "L", "Ll": "L", "Lt": "L", "Lm": "L", "Lo": "L", "Mn": "M", "Mc": "M", "Me": "M"}


def test_every_character_that_the_newest_unicode_added_is_known_to_be_later() -> None:
    """Version 14.0 left it unassigned, so on Python 3.11 this compares with the truth, and elsewhere with
    itself.
    """
    known = set("".join(LATER.findall("".join(map(chr, range(0x110000))))))

    assigned = {char for char in known if unicodedata2.category(char) != "Cn"}
    assert known == assigned
    if unicodedata.unidata_version == "14.0.0":
        unassigned = {chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Cn"}
        assert known == {char for char in unassigned if unicodedata2.category(char) != "Cn"}


def test_what_was_there_has_not_changed() -> None:
    """What folding and words rest on, of every older character: its decomposition, and whether it is a
    letter.
    """
    changed = [
        f"{code:X}"
        for code in range(0x110000)
        # What neither knows has no decomposition.
        if (new := unicodedata2.category(char := chr(code))) + (old := unicodedata.category(char)) != "CnCn"
        and new != "Cs"
        and not LATER.match(char)
        and (
            unicodedata2.normalize("NFKD", char) != unicodedata.normalize("NFKD", char)
            or _kind(new) != _kind(old)
        )
    ]

    assert changed == []


def _kind(category: str) -> str:
    return KINDS.get(category, category)


def test_a_later_character_is_a_word_of_its_own() -> None:
    assert TextReading("a\U0001fae8b").words == ("a", "1fae8", "b")
    assert TextReading("\U0001fae8").fingerprint != TextReading("\U0001faea").fingerprint
    assert as_of_unicode_14("plain é 🎉") == "plain é 🎉"


def test_a_later_mark_on_a_letter_hides_nothing() -> None:
    assert TextReading("ig\u1acfno\u1ad0re").words == ("ignore",)


def test_older_marks_and_boxes_hide_nothing_either() -> None:
    assert fold("i\u20ddg\u0336n\u1dc4o\u0489re") == "ignore"
    assert fold("\U0001f178\U0001f176\U0001f17d\U0001f17e\U0001f181\U0001f174") == "ignore"
    assert fold("\U0001f1ee\U0001f1ec") == "ig"


def test_a_text_with_new_characters_is_judged_and_a_secret_beside_them_found() -> None:
    judge = Judge(FloorRegistry.shipped())

    assert judge.judge(claim(f"The lamp costs 40 euros {NEW_CHARACTERS}")).verdict == "SEAL"
    assert judge.judge(claim(f"{NEW_CHARACTERS} password: Winter2025!{NEW_CHARACTERS}")).verdict == "VOID"
