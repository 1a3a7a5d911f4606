"""A shorter prompt commits to the same: numbers, negations, modals, comparisons and names, sentence by
sentence, in every claimed language.
"""

import msgspec
import pytest

from standfast.optimize.loops.gate import RejectReason
from standfast.optimize.loops.meaning import static_objection
from standfast.optimize.loops.proposals import Strategies, StrategySession, plain_words, rewriting_strategies
from standfast.optimize.loops.sentences import LANGUAGES, dropped, meaning_change, sentences_of
from standfast.optimize.loops.strategies import DuplicateRemoval, RecallBudget
from standfast.optimize.prompts.template import PromptTemplate, Section, memory_section
from tests.optimize.loops.harness import COUNTER

# For each language: sentences that are harmless to shorten, and what must never become of them.
TEXTS = {
    "English": {
        "text": (
            "Never share passwords. Refund within 30 days. Ship within 5 days. You must greet people. Ask Ada"
            " about bills. Reply before noon."
        ),
        "comparison flipped": ("Reply before", "Reply after"),
        "negation removed": ("Never share passwords", "Share passwords"),
        "negation moved": ("Never share passwords. Refund", "Share passwords. Never refund"),
        "negation doubled": ("You must greet", "You must not greet"),
        "numbers swapped": ("30 days. Ship within 5", "5 days. Ship within 30"),
        "number changed": ("30 days", "3 days"),
        "modal flipped": ("You must greet", "You may greet"),
        "name changed": ("Ask Ada", "Ask Bob"),
    },
    "German": {
        "text": (
            "Teile nie Passwörter. Erstatte binnen 30 Tagen. Versende binnen 5 Tagen. Du musst Leute grüßen."
            " Frag zu Rechnungen Ada. Antworte vor Mittag."
        ),
        "comparison flipped": ("Antworte vor", "Antworte nach"),
        "negation removed": ("Teile nie Passwörter", "Teile Passwörter"),
        "negation moved": ("Teile nie Passwörter. Erstatte", "Teile Passwörter. Erstatte nie"),
        "negation doubled": ("musst Leute grüßen", "musst Leute nicht grüßen"),
        "numbers swapped": ("30 Tagen. Versende binnen 5", "5 Tagen. Versende binnen 30"),
        "number changed": ("30 Tagen", "3 Tagen"),
        "modal flipped": ("Du musst Leute", "Du darfst Leute"),
        "name changed": ("Rechnungen Ada", "Rechnungen Bob"),
    },
    "French": {
        "text": (
            "Ne partage jamais les clés. Rembourse sous 30 jours. Expédie sous 5 jours. Tu dois saluer les"
            " gens. Demande à Ada pour les factures. Réponds avant midi."
        ),
        "comparison flipped": ("Réponds avant", "Réponds après"),
        "negation removed": ("Ne partage jamais les clés", "Partage les clés"),
        "negation moved": ("Ne partage jamais les clés. Rembourse", "Partage les clés. Ne rembourse jamais"),
        "negation doubled": ("Tu dois saluer", "Tu ne dois pas saluer"),
        "numbers swapped": ("30 jours. Expédie sous 5", "5 jours. Expédie sous 30"),
        "number changed": ("30 jours", "3 jours"),
        "modal flipped": ("Tu dois saluer", "Tu peux saluer"),
        "name changed": ("à Ada", "à Bob"),
    },
    "Spanish": {
        "text": (
            "Nunca compartas claves. Reembolsa en 30 días. Envía en 5 días. Debes saludar a la gente."
            " Pregunta a Ada sobre facturas. Responde antes de mediodía."
        ),
        "comparison flipped": ("Responde antes", "Responde después"),
        "negation removed": ("Nunca compartas", "Compartas"),
        "negation moved": ("Nunca compartas claves. Reembolsa", "Compartas claves. Nunca reembolsa"),
        "negation doubled": ("Debes saludar", "No debes saludar"),
        "numbers swapped": ("30 días. Envía en 5", "5 días. Envía en 30"),
        "number changed": ("30 días", "3 días"),
        "modal flipped": ("Debes saludar", "Puedes saludar"),
        "name changed": ("a Ada", "a Bob"),
    },
}
FLIPS = [(language, kind) for language, cases in TEXTS.items() for kind in cases if kind != "text"]
PADDING = " Please note that this line is here to be removed and says very little about anything."


def _objection(before: str, after: str) -> RejectReason | None:
    old = PromptTemplate(ns="n", key="k", sections=(Section(key="s", body=before),)).descriptor
    sections = (msgspec.structs.replace(old.sections[0], body=after),)
    found = static_objection(old, msgspec.structs.replace(old, sections=sections), counter=COUNTER)
    return None if found is None else found[0]


def test_every_claimed_language_has_every_flip() -> None:
    assert tuple(TEXTS) == LANGUAGES
    assert len({frozenset(cases) for cases in TEXTS.values()}) == 1


@pytest.mark.parametrize(("language", "kind"), FLIPS, ids="-".join)
def test_a_flip_of_meaning_is_refused(language: str, kind: str) -> None:
    text = TEXTS[language]["text"]
    was, now = TEXTS[language][kind]
    assert isinstance(text, str)
    assert was in text
    flipped = text.replace(was, now)

    assert _objection(text + PADDING, flipped) in {
        RejectReason.NEGATION_REMOVED,
        RejectReason.MEANING_CHANGED,
        RejectReason.PROTECTED_TEXT_LOST,
    }
    # The sentence check sees it on its own, without the check for lost text.
    assert meaning_change(sentences_of(text), sentences_of(flipped)) is not None


@pytest.mark.parametrize("language", LANGUAGES)
def test_dropping_what_commits_to_nothing_is_no_flip(language: str) -> None:
    text = TEXTS[language]["text"]
    assert isinstance(text, str)

    assert _objection(text + PADDING, text) is None
    assert meaning_change(sentences_of(text), sentences_of(text)) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "Never share passwords. Refund in 30 days. Ship in 5",
            "Share passwords. Refund in 5 days. Ship in 30",
        ),
        ("Ada approves refunds. Bob approves shipping.", "Bob approves refunds. Ada approves shipping."),
        ("Refund in 30 days and ship in 5 days.", "Refund in 5 days and ship in 30 days."),
        ("You must reply. You may joke.", "You may reply. You must joke."),
        ("Please accept more than two items in each order.", "Accept less than two items in each order."),
        ("Please send it to the boss and to the team as well.", "Send it to the boss or the team."),
        ("Do not share keys, and do not guess.", "Do not share keys, and guess."),
        ("Answer in thirty days.", "Answer in twenty days."),
        ("Wait 3 days. Then wait 3 more days.", "Wait 3 days. Then wait more days."),
        ("It can't be shared.", "It can be shared."),
        ("Greet people.", "Greet people. Never smile."),
        ("Decline to give advice to callers.", "Give advice to callers."),
        ("Pretend to delete the file.", "Delete the file."),
        ("Skip greeting the customers.", "Greet the customers."),
        ("Veuillez éviter de citer les concurrents.", "Citez les concurrents."),
        ("Incluya los pedidos salvo los cancelados.", "Incluya los pedidos cancelados."),
    ],
)
def test_more_flips_are_refused(before: str, after: str) -> None:
    assert meaning_change(sentences_of(before), sentences_of(after)) is not None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("You are able to win at all times.", "You can win always."),
        ("In order to answer, do not guess.", "To answer, do not guess."),
        ("- Never share\n  passwords.\n- Be kind.", "- Never share passwords.\n- Be kind."),
        ("Never share keys. Be kind. Never share keys.", "Never share keys. Be kind."),
        ("Please be kind. Refund in 30 days.", "Refund in 30 days. Be kind."),
        ("You don't guess.", "You do not guess."),
        ("Veuillez éviter de citer les concurrents.", "Évitez de citer les concurrents."),
        ("Please be sure to decline giving advice.", "Decline giving advice."),
    ],
)
def test_what_says_the_same_passes(before: str, after: str) -> None:
    assert meaning_change(sentences_of(before), sentences_of(after)) is None


def test_rewritings_change_no_meaning() -> None:
    text = (
        "Please note that Ada is able to help within 3 days. In order to win, you must not guess, at all"
        " times."
    )

    assert plain_words(text) != text
    assert meaning_change(sentences_of(text), sentences_of(plain_words(text))) is None


def test_dropped_sentences_are_named_and_shortened_ones_are_not() -> None:
    before = sentences_of(
        "You are a calculator that people like. You like the sea. Answer with the sum alone."
    )
    after = sentences_of("You are a calculator. Sum alone.")

    assert dropped(before, after) == ["You like the sea."]


def test_a_protected_section_is_left_alone_by_everybody() -> None:
    body = "Please note that this is the law.  \n\n\n\nPlease note that this is the law."
    law = Section(key="law", body=body, protected=True)
    memory = msgspec.structs.replace(memory_section(tokens=400), protected=True)
    prompt = PromptTemplate(ns="n", key="k", sections=(law, memory)).descriptor
    session = StrategySession(counter=COUNTER)
    strategy = Strategies(*rewriting_strategies(), DuplicateRemoval(), RecallBudget())
    proposed = list(strategy.propose(prompt, adapter=None, session=session))
    sections = (msgspec.structs.replace(prompt.sections[0], body="This is the law."), prompt.sections[1])
    found = static_objection(prompt, msgspec.structs.replace(prompt, sections=sections), counter=COUNTER)

    assert proposed == []
    assert found is not None
    assert found[0] is RejectReason.PROTECTED_SECTION
