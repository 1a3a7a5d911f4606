"""``lexical-v1``: it finds what a question is about, within a budget that bounds the whole text, the same
everywhere.
"""

import json
from collections import Counter
from collections.abc import Iterator
from importlib import import_module

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from standfast import BpeCounter, EstimatedCounter, Memory, RecallItem, RecallPackage, RecallRequest
from standfast.errors import EmptyQuery, InvalidValue
from standfast.limits import MAX_QUERY_TERMS
from standfast.recall import RecordView, TokenCounter
from standfast.recall.analysis import LANGUAGES, Analyzer, IndexedRecord, analyzer_of, words_of
from standfast.recall.cues import SpeakerRole, asked_role
from standfast.recall.filters import EvidenceFacts
from standfast.recall.index.view import NEIGHBOUR_SIXTHS, REACH_WORDS, ListedView
from standfast.recall.lexical import (
    BEST_SCORE,
    FIELD_SIXTHS,
    LexicalController,
    lexical_scores,
    log2_fixed,
)
from standfast.recall.ranking import LexicalQuery
from tests.recall.lexical_vectors import FILE, package_of

SOURCE = {"kind": "doc", "id": "handbook#4"}
ENGLISH = analyzer_of("english")


def record(memory_id: str, text: str, **fields: object) -> IndexedRecord:
    return IndexedRecord(memory_id=memory_id, text=text, **fields)  # type: ignore[arg-type]  # Fields of a record.


def answer(records: list[IndexedRecord], query: str, tokens: int = 500, **options: object) -> RecallPackage:
    listed = ListedView([("store", one) for one in records], ENGLISH)
    request = RecallRequest(query=query, tokens=tokens, **options)  # type: ignore[arg-type]  # Options of a request.
    package = LexicalController().answer(request, RecordView((), lambda: listed), EstimatedCounter()).package
    assert isinstance(package, RecallPackage)
    return package


def ids(package: RecallPackage) -> list[str]:
    return [item.memory_id for item in package.items]


def plain_scores(records: list[IndexedRecord], query: str) -> dict[str, int]:
    """The formula in plain Python, without arrays, boosts and dates: the score of every record before it is
    scaled.
    """
    counts = [Counter(ENGLISH.terms_of(words_of(one.text))) for one in records]
    fields = [Counter(ENGLISH.terms_of(words_of(one.speaker or ""))) for one in records]
    spread = [Counter[str]() for _ in records]
    lengths = [0] * len(records)
    for row, _ in enumerate(records):
        for other, weight in plain_window(records, row):
            for term, count in counts[other].items():
                spread[row][term] += weight * count
            lengths[row] += weight * counts[other].total()
        for term, count in fields[row].items():
            spread[row][term] += FIELD_SIXTHS * count
    totals: Counter[str] = Counter()
    for term in dict.fromkeys(ENGLISH.terms_of(words_of(query))):
        rows = [row for row, found in enumerate(spread) if found[term]]
        idf = log2_fixed(2 * len(records) + 2, 2 * len(rows) + 1)
        for row in rows:
            norm = 72 * 1024 * len(records) * lengths[row] // max(1, sum(lengths))
            frequency = spread[row][term]
            totals[records[row].memory_id] += idf * 22 * frequency * 1024 // (10240 * frequency + norm)
    return {memory_id: total for memory_id, total in totals.items() if total > 0}


def plain_window(records: list[IndexedRecord], row: int) -> Iterator[tuple[int, int]]:
    own = records[row]
    counts = Counter(one.position for one in records)
    places = {one.position: at for at, one in enumerate(records) if counts[one.position] == 1}
    yield row, NEIGHBOUR_SIXTHS[0]
    if own.position not in places:
        return
    for step in (-1, 1):
        between = 0
        for distance in range(1, len(NEIGHBOUR_SIXTHS)):
            other = places.get((own.position or 0) + step * distance)
            if other is None:
                break
            between += len(words_of(records[other].text))
            if between <= REACH_WORDS:
                yield other, NEIGHBOUR_SIXTHS[distance]


turns = st.lists(
    st.tuples(
        st.sampled_from(["Ada", "Bob"]),
        st.lists(
            st.sampled_from(["the", "refunds", "refund", "VAT", "support", "group", "is", "went", "2023"]),
            max_size=40,
        ),
        st.sampled_from([1, 1, 1, 0, 2]),
    ),
    max_size=12,
)


@given(
    turns=turns,
    query=st.sampled_from(["refunds", "support group VAT", "the is", "Bob went"]),
    first=st.sampled_from([0, 2**31 - 3, 2**52]),
    dense_share=st.sampled_from([1, 1_000]),
)
@example(
    turns=[("Ada", ["refunds"] * 40, 1), ("Bob", [], 1), ("Ada", ["VAT"], 1)],
    query="refunds VAT",
    first=0,
    dense_share=32,
)
@settings(max_examples=100, deadline=None)
def test_arrays_give_what_plain_python_gives(
    turns: list[tuple[str, list[str], int]], query: str, first: int, dense_share: int
) -> None:
    records = [
        record(f"m{at:02}-{copy}", " ".join(words), session="s", position=first + at, speaker=speaker)
        for at, (speaker, words, copies) in enumerate(turns)
        for copy in range(copies)
    ]
    view = ListedView([("store", one) for one in records], ENGLISH).index
    asked = LexicalQuery.of(RecallRequest(query=query, tokens=10), ENGLISH)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("standfast.recall.index.view._DENSE_SHARE", dense_share)
        _, shares_word, scores = lexical_scores(asked.terms, view)
    plain = plain_scores(records, query)
    best = max(plain.values(), default=1)
    scaled = {memory_id: total * BEST_SCORE // best for memory_id, total in plain.items()}

    ids = [memory_id for _, memory_id in view.index.names_of(view.rows.tolist())]
    assert dict(zip(ids, scores.tolist(), strict=True)) == {
        one.memory_id: scaled.get(one.memory_id, 0) for one in records
    }
    assert (shares_word == (scores > 0)).all()


def test_a_long_text_counts_by_its_best_passage_too() -> None:
    filler = "Nothing of interest was seen or said on that day by anybody at all. " * 12
    apart = f"EU customers came. {filler}Then there were refunds."
    together = f"EU customers got refunds. {filler}Then they left."
    view = ListedView([("s", record("a", apart)), ("s", record("b", together))], ENGLISH).index
    weights, _, scores = lexical_scores(ENGLISH.terms_of(["eu", "refunds"]), view)

    assert scores[view.slot_of[1]] > scores[view.slot_of[0]]
    assert scores[view.slot_of[0]] == (2**20 + 2**20 // 2) // 2, "half of the words are in each passage"
    assert len(set(weights.values())) == 1


LARGE = [record(f"n{number:03}", f"Note {number} speaks of weather and little else.") for number in range(80)]
"""Enough texts to make a scope large beside a budget of 60 tokens."""


def test_in_a_large_scope_a_question_finds_what_it_is_about_and_nothing_else() -> None:
    records = [
        record("a", "The people went to the market when it was open."),
        record("b", "I joined a LGBTQ support group yesterday and it was powerful."),
        record("c", "When did you do it? To the end, I did."),
        *LARGE,
    ]

    assert ids(answer(records, "When did she go to the support groups?", tokens=60))[0] == "b"
    assert ids(answer(records, "what is it?", tokens=60)) == []
    assert answer(records, "quantum chromodynamics", tokens=60).text == ""


def test_a_small_scope_is_handed_out_whole_ranked_then_what_the_user_said_then_the_newest() -> None:
    records = [
        record("a", "Weather is fine.", source={"kind": "agent", "id": "x"}),
        record("b", "Tea is hot.", source={"kind": "user", "id": "x"}),
        record("c", "Refunds take 14 days."),
        record("d", "Snow is cold.", source={"kind": "user", "id": "x"}),
    ]
    listed = ListedView([("store", one) for one in records], ENGLISH, firsts=[4, 1, 2, 3])
    request = RecallRequest(query="refunds", tokens=100)
    package = LexicalController().answer(request, RecordView((), lambda: listed), EstimatedCounter())

    assert ids(package.package) == ["c", "d", "b", "a"]  # type: ignore[arg-type]  # It makes no other package.
    assert [one.why for one in package.explanation.items] == [  # type: ignore[union-attr]  # As above.
        ("words",),
        ("newest",),
        ("newest",),
        ("newest",),
    ]


@pytest.mark.parametrize(("firsts", "order"), [([1, 2, 3], ["m", "a", "z"]), ([3, 2, 1], ["z", "a", "m"])])
def test_of_two_that_match_alike_the_newer_comes_first_whatever_their_ids(
    firsts: list[int], order: list[str]
) -> None:
    records = [record("z", "Ada likes tea."), record("a", "Ada likes jam."), record("m", "Ada likes rye.")]
    listed = ListedView([("store", one) for one in records], ENGLISH, firsts=firsts)
    request = RecallRequest(query="What does Ada like?", tokens=100)
    package = LexicalController().answer(request, RecordView((), lambda: listed), EstimatedCounter()).package

    assert isinstance(package, RecallPackage)
    assert ids(package) == order


@pytest.mark.parametrize(
    ("query", "role"),
    [
        ("Where do I live?", SpeakerRole.USER),
        ("What did you suggest for my garden?", SpeakerRole.ASSISTANT),
        ("What is our plan?", SpeakerRole.USER),
        ("Your plan for the week", SpeakerRole.ASSISTANT),
        ("Can you explain the plan?", SpeakerRole.NONE),
        ("Can you explain my plan?", SpeakerRole.USER),
        ("When does the train leave?", SpeakerRole.NONE),
    ],
)
def test_pronouns_say_whose_messages_are_asked_about(query: str, role: SpeakerRole) -> None:
    assert asked_role(words_of(query), "english") is role


def test_what_the_asked_role_said_comes_first() -> None:
    said = {"session": "s", "speaker": "x"}
    records = [
        record("a", "The garden needs water.", position=1, source={"kind": "agent", "id": "s#1"}, **said),
        record("u", "The garden needs water, too.", position=9, source={"kind": "user", "id": "s#9"}, **said),
    ]

    assert ids(answer(records, "What did I say of the garden?")) == ["u", "a"]
    assert ids(answer(records, "What did you say of the garden?")) == ["a", "u"]


def test_what_a_text_calls_yesterday_is_found_by_its_date() -> None:
    records = [
        record("a", "We had a meeting yesterday.", ts_utc="2023-05-20T10:00:00Z"),
        record("b", "We had a meeting there.", ts_utc="2023-05-01T10:00:00Z"),
        record("c", "We had a meeting last March.", ts_utc="2024-08-01T10:00:00Z"),
    ]

    assert ids(answer(records, "the meeting on 19 May 2023"))[0] == "a"
    assert ids(answer(records, "the meeting in March 2024"))[0] == "c"


def test_neighbours_of_a_conversation_lend_their_words() -> None:
    records = [
        record("q", "Which support group did you join?", session="s", position=1),
        record("a", "The one in Berlin, last Monday.", session="s", position=2),
        record("z", "The one in Berlin, last Monday.", session="t", position=2),
    ]

    assert ids(answer(records, "support group"))[:2] == ["q", "a"]


def test_a_long_answer_lends_nothing_to_the_question_before_it() -> None:
    records = [
        record("q", "What do you think of it?", session="s", position=1),
        record("a", "Refunds are good. " + "They are paid monthly. " * 40, session="s", position=2),
    ]
    view = ListedView([("store", one) for one in records], ENGLISH).index
    _, shares_word, _ = lexical_scores(ENGLISH.terms_of(["refunds"]), view)

    assert shares_word[view.slot_of].tolist() == [False, True]


def test_a_query_that_names_a_speaker_or_a_subject_prefers_it() -> None:
    records = [
        record("a", "I like hiking a lot.", speaker="Bob"),
        record("b", "I like hiking a lot, too.", speaker="Ada"),
        record("c", "Hiking is allowed, always.", subject="policy/hiking"),
    ]

    assert ids(answer(records, "What does Ada say of hiking?"))[0] == "b"
    assert ids(answer(records, "hiking policy"))[0] == "c"


@pytest.mark.parametrize(
    "query",
    [
        "the meeting in May 2023",
        "the meeting on 2023-05-07",
        "meeting 7 May",
        "meeting between April and May 2023",
    ],
)
@pytest.mark.usefixtures("any_time_zone")
def test_a_date_in_the_query_prefers_records_of_then(query: str) -> None:
    records = [
        record("a", "A meeting took place.", ts_utc="2022-11-09"),
        record("b", "A meeting took place there.", ts_utc="2023-05-09T10:00:00Z"),
    ]

    assert ids(answer(records, query))[0] == "b"


@pytest.mark.usefixtures("any_time_zone")
def test_words_such_as_yesterday_need_to_know_what_day_it_is() -> None:
    records = [
        record("a", "A meeting took place.", ts_utc="2026-11-15"),
        record("b", "A meeting took place there.", ts_utc="2026-11-25"),
    ]

    assert ids(answer(records, "the meeting yesterday")) == ["b", "a"], "the newer one first"
    assert ids(answer(records, "the meeting yesterday", now_utc="2026-11-16T08:00:00Z")) == ["a", "b"]


@given(
    texts=st.lists(st.text(max_size=300).filter(str.strip), max_size=8),
    tokens=st.integers(min_value=1, max_value=300),
)
@settings(max_examples=60, deadline=None)
def test_the_budget_bounds_the_whole_text_for_every_counter(texts: list[str], tokens: int) -> None:
    records = [record(f"m{at}", f"refund {text}") for at, text in enumerate(texts)]
    listed = ListedView([("store", one) for one in records], ENGLISH)
    request = RecallRequest(query="refund", tokens=tokens)
    for counter in (EstimatedCounter(), BpeCounter()):
        package = LexicalController().answer(request, RecordView((), lambda: listed), counter).package
        assert package.count_tokens(counter) <= tokens
        assert isinstance(package, RecallPackage)
        assert package.request.counter == counter.name
        assert RecallPackage.from_json(package.as_json()) == package


@pytest.mark.parametrize("letters", range(4))
def test_a_record_fits_a_budget_that_it_fills_to_the_byte(letters: int) -> None:
    records = [record("a", f"The refund is du{'e' * letters}.")]
    sizes = {}
    for tokens in range(1, 60):
        found = answer(records, "refund", tokens=tokens)
        sizes[tokens] = found.count_tokens(EstimatedCounter()) if found.items else 0
    least = min(tokens for tokens, size in sizes.items() if size)

    assert sizes[least] == least


@pytest.mark.parametrize("counter", [EstimatedCounter(), BpeCounter()])
def test_what_does_not_fit_makes_room_for_the_next(counter: TokenCounter) -> None:
    large = record("b", "Refund refund refund " + " ".join(f"w{n}" for n in range(30)), subject="refund")
    listed = ListedView([("store", one) for one in (record("a", "Refund refund refund."), large)], ENGLISH)
    view = RecordView((), lambda: listed)
    taken = {}
    for tokens in (20, 40, 200):
        request = RecallRequest(query="refund", tokens=tokens)
        package = LexicalController().answer(request, view, counter).package
        assert isinstance(package, RecallPackage)
        taken[tokens] = ids(package)

    assert taken == {20: [], 40: ["a"], 200: ["b", "a"]}


def test_a_record_without_words_has_no_score_and_spoils_none() -> None:
    records = [record(name, text) for name, text in (("a", "refund"), ("b", "!!!"), ("c", "refund it"))]
    package = answer(records, "refund")

    assert ids(package) == ["a", "c", "b"]
    assert package.matched == 2


def test_a_long_record_is_shown_by_its_best_sentences_with_cuts_marked() -> None:
    filler = "Nothing of interest happened on that day. " * 40
    (item,) = answer([record("a", f"{filler}EU refunds take 14 days. {filler}")], "EU refunds").items

    assert "EU refunds take 14 days." in item.excerpt
    assert item.excerpt.startswith("…")
    assert item.excerpt.endswith("…")
    assert len(item.excerpt) <= 400


def test_what_says_the_same_is_packed_once() -> None:
    records = [record("a", "EU refunds take 14 days."), record("b", "EU refunds take 14 days!")]
    (item,) = answer(records, "EU refunds").items

    assert (item.memory_id, item.also) == ("a", ("b",))
    near = record("d", "The EU refund takes 14 days")
    assert len(answer([*records, near], "EU refunds").items) == 1
    assert len(answer([*records, record("e", "EU refunds do not take 14 days.")], "EU refunds").items) == 2
    assert len(answer([*records, record("c", "EU refunds take 15 days.")], "EU refunds").items) == 2


def test_no_excerpt_can_forge_a_frame() -> None:
    marks = " ".join(f"{number:04x}" for number in range(65_536))
    package = answer([record("a", f"refund {marks}"), record("b", "refund me")], "refund", tokens=1_000_000)
    mark = package.text.partition("[")[2].partition("]")[0]

    assert len(mark) > 4
    assert all(mark not in item.excerpt for item in package.items)


def test_ties_are_ordered_by_record_id_whatever_order_records_come_in() -> None:
    records = [record(name, f"refund {number}") for number, name in enumerate("cab")]

    assert ids(answer(records, "refund")) == ids(answer(records[::-1], "refund")) == ["a", "b", "c"]


@pytest.mark.parametrize(
    "query",
    [
        "the of and",
        "\x00\x07\x1b",
        "?!…",
        "refund " * 9_000,
        " ".join(f"w{n}" for n in range(9_000)),
        "東京",
        "🦀",
    ],
)
def test_strange_queries_get_a_clear_answer(query: str) -> None:
    records = [record("a", "A refund takes 14 days."), record("b", "東京に行きました。")]
    found = ids(answer(records, query, tokens=100))

    assert sorted(found) == ["a", "b"]
    assert found[0] == ("b" if "東京" in query else "a")


def test_no_query_costs_without_bound() -> None:
    records = [record("a", "A refund takes 14 days."), record("b", "last words")]
    long = " ".join(f"w{number}" for number in range(MAX_QUERY_TERMS - 1))

    assert answer(records, f"{long} refund last").matched == 1, "terms beyond the limit do not count"
    assert answer(records, "refund " * 9_000).matched == 1
    with pytest.raises(InvalidValue, match="query is invalid: it has 65,537 characters; give at most 65,536"):
        answer(records, "w" * 65_537)
    with pytest.raises(InvalidValue, match="lone surrogate at character 7"):
        answer(records, "refund \ud800")
    with pytest.raises(EmptyQuery):
        answer(records, " \n")
    with pytest.raises(InvalidValue, match="now_utc"):
        answer(records, "refund", now_utc="tomorrow")


def test_every_language_stems_and_an_unknown_one_is_refused() -> None:
    assert len(LANGUAGES) >= 12
    for language in LANGUAGES:
        assert Analyzer(language).terms_of(["xyzzy"])
    assert analyzer_of("german").terms_of(words_of("Die Häuser und das Haus")) == ["haus", "haus"]
    assert analyzer_of("none").terms_of(words_of("the get_user")) == ["the", "get", "user"]
    with pytest.raises(InvalidValue, match="known: english"):
        Analyzer("klingon")


@pytest.mark.parametrize("language", sorted(set(LANGUAGES) - {"none"}))
def test_no_stemmer_changes_a_number(language: str) -> None:
    """The analyzer relies on it: it stems no word of digits alone."""
    module = import_module(f"snowballstemmer.{language}_stemmer")
    stemmer = getattr(module, f"{language.capitalize()}Stemmer")()

    for number in (*range(1_000), 20_261_117, 10**40):
        assert stemmer.stemWord(str(number)) == str(number)
    assert analyzer_of(language).terms_of(["2026", "007"]) == ["2026", "007"]


def test_memory_answers_with_it_as_of_any_snapshot_warm_and_cold() -> None:
    memory = Memory.open(":memory:")
    packages = []
    for number in range(5):
        memory.remember(f"EU refunds take {number} days.", subject=f"policy/{number % 3}", source=SOURCE)
        packages.append(memory.recall("refunds", controller="lexical-v1"))

    for snapshot, package in enumerate(packages, 1):
        assert memory.at(snapshot).recall("refunds", controller="lexical-v1") == package
        assert Memory(memory.store).at(snapshot).recall("refunds", controller="lexical-v1") == package
    first = packages[0].items[0]
    assert isinstance(first, RecallItem)
    assert (first.source, first.trust, first.rank) == ("doc:handbook#4", "ordinary", 1)


def test_what_is_forgotten_is_in_no_snapshot_any_more() -> None:
    memory = Memory.open(":memory:")
    memory.remember("EU refunds take 14 days.", subject="a", source=SOURCE)
    memory.remember("VAT is 19 %.", subject="b", source=SOURCE)
    before = memory.at(1).recall("refunds", controller="lexical-v1")
    assert before.items
    memory.forget("a", reason="asked for by the customer")

    then, now = before, memory.at(1).recall("refunds", controller="lexical-v1")
    assert now.erased_since is not None
    assert (now.compare(then), then.compare(then), now.compare(memory.at(1).recall("x"))) == (
        "erased",
        "same",
        "different",
    )
    for at in range(4):
        found = memory.at(at).recall("refunds", controller="lexical-v1").items
        assert [item.memory_id for item in found] == (["b"] if at >= 2 else [])
    assert memory.at(2).recall("VAT", controller="lexical-v1").items


def test_an_explanation_has_weights_boosts_and_why_something_was_passed_over() -> None:
    memory = Memory.open(":memory:")
    memory.remember("EU refunds take 14 days.", subject="policy/refunds", source=SOURCE)
    memory.remember("All other refunds take 30 days. " + "They are paid. " * 30, source=SOURCE)
    explained = memory.at(2).explain("policy for refunds", tokens=40, controller="lexical-v1").explanation
    first, second = (item.as_json() for item in explained.items)

    assert set(first["matched"]) == {"polici", "refund"}
    assert first["boosts"] == {"named": 1.6}
    assert (first["outcome"], second["outcome"]) == ("selected", "budget_exhausted")
    assert explained.counts["budget_exhausted"] == 1


def test_boosts_are_what_the_score_was_multiplied_by() -> None:
    memory = Memory.open(":memory:")
    memory.remember("EU refunds take 14 days.", source=SOURCE)
    (item,) = memory.at(1).explain("EU refunds", now_utc="2199-01-01T00:00:00Z").explanation.items
    plain = item.as_json()

    assert plain["ceiling"]["confidence"] == 0.56, "80 % for 30 days, and 70 % of that for 90"
    assert plain["boosts"] == {}, "age does not count"
    assert plain["score"] == (sum(plain["parts"].values()) - plain["parts"]["similarity"] << 28) + 1


@pytest.mark.parametrize("vector", FILE.read_text().splitlines())
def test_golden_packages_never_change(vector: str) -> None:
    case = json.loads(vector)

    assert package_of(case["records"], case["request"]) == {"package": case["package"], "text": case["text"]}


def test_scopes_bound_statistics_and_filters_choose_without_changing_a_score() -> None:
    memory = Memory.open(":memory:")
    for scope, tag in (("user/ada", "a"), ("user/ada/team", "b"), ("user/bob", "a")):
        memory.remember(f"Refunds go to {scope}.", scope=scope, tags=[tag], source=SOURCE)
    ada = memory.recall("refunds", scope="user/ada", controller="lexical-v1")
    tagged = memory.recall("refunds", scope="user/ada", where={"tag": "b"}, controller="lexical-v1")

    assert sorted(item.store_path for item in ada.items) == [
        "standfast:default/user/ada/LEDGER",
        "standfast:default/user/ada/team/LEDGER",
    ]
    assert [(item.store_path, item.score) for item in tagged.items] == [
        (item.store_path, item.score) for item in ada.items if "team" in item.store_path
    ]
    assert isinstance(tagged, RecallPackage)
    assert (tagged.request.scopes, tagged.request.where) == (("user/ada",), {"tag": "b"})
    assert memory.recall("refunds", controller="lexical-v1").items == ()


@given(
    words=st.lists(
        st.lists(st.sampled_from(["refund", "VAT", "x", "y"]), max_size=7), min_size=1, max_size=40
    ),
    query=st.sampled_from(["refund", "Ada refund VAT", "refund VAT in January 2026"]),
    tokens=st.sampled_from([20, 60, 200, 5_000]),
    max_items=st.integers(1, 12),
    at_once=st.integers(1, 4),
    bits=st.integers(0, 3),
)
@settings(max_examples=40, deadline=None)
def test_ranking_and_reading_a_few_at_a_time_gives_the_same_answer(
    *, words: list[list[str]], query: str, tokens: int, max_items: int, at_once: int, bits: int
) -> None:
    origins = ["ordinary", "untrusted", "trusted"]
    records = [
        record(
            f"m{at % 31:02}",
            " ".join(of_record) + " filler" * (at * 7 % 90),
            origin=origins[at % 3],
            speaker=("Ada", "Bob")[at % 2],
            ts_utc=f"2026-0{1 + at % 9}-01",
            valid_until="2026-01-01" if at % 11 == 10 else None,
        )
        for at, of_record in enumerate(words)
    ]
    request = RecallRequest(query=query, tokens=tokens, max_items=max_items, now_utc="2026-06-01T00:00:00Z")
    listed = ListedView([("store", one) for one in records], ENGLISH)
    answers = [LexicalController().answer(request, RecordView((), lambda: listed), EstimatedCounter())]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("standfast.recall.ranking.RANKED_AT_ONCE", at_once)
        patch.setattr("standfast.recall.ranking.ORDERED_AT_FIRST", at_once)
        patch.setattr("standfast.recall.ranking._LEADING_BITS", bits)
        patch.setattr("standfast.recall.packing.READ_AT_ONCE", at_once)
        patch.setattr("standfast.recall.index.view._DENSE_SHARE", at_once * 100)
        answers.append(
            LexicalController().answer(request, RecordView((), lambda: listed), EstimatedCounter())
        )
        # Reading everything shows that nothing that was not read could have been taken.
        patch.setattr("standfast.recall.packing.Packing._may_fit", lambda *_: True)
        answers.append(
            LexicalController().answer(request, RecordView((), lambda: listed), EstimatedCounter())
        )
        first, *others = [(one.package.as_json(), one.explanation.as_json()) for one in answers]

    assert others == [first, first]


@pytest.mark.parametrize("others", [1_000, 2_100])
@pytest.mark.parametrize(
    ("query", "fields", "more_words"),
    [
        ("Ada parcels VAT", {"speaker": "Ada"}, 3),
        ("Ada parcels VAT", {"subject": "parcels"}, 3),
        ("Ada parcels VAT January 2026", {"ts_utc": "2026-01-05T00:00:00Z"}, 3),
        ("Ada parcels VAT", {"origin": "trusted"}, 1),
        ("suggest Ada parcels VAT", {"source": {"kind": "user", "id": "chat"}}, 3),
    ],
    ids=["speaker", "subject", "date", "origin", "preference"],
)
def test_a_record_that_only_boosts_make_the_best_comes_first_among_thousands(
    others: int, query: str, fields: dict[str, object], more_words: int
) -> None:
    """Its score before boosts is below that of all others, so the ranking reaches it last."""
    evidence = msgspec.convert({"floor_checks": [{}]}, EvidenceFacts)
    plain = {"verdict": "SEAL", "evidence": evidence, "ts_utc": "2026-06-01T00:00:00Z"}
    filler = "one two three four five six seven eight nine"
    crowd = [record(f"m{at:05}", f"Ada parcels VAT {filler} n{at}", **plain) for at in range(others)]
    silent = [record(f"s{at:05}", f"something else n{at}", **plain) for at in range(500)]
    best = record("b", f"Ada parcels VAT {filler} prefer" + " noon" * more_words, **(plain | fields))
    unboosted = answer([*crowd, *silent, record("b", best.text, **plain)], query, max_items=1)
    package = answer([*crowd, *silent, best], query, max_items=2)

    assert ids(unboosted) == ["m00000"]
    assert ids(package) == ["b", "m00000"]
    assert package.matched == others + 1


def test_a_name_that_only_the_other_side_says_lifts_a_record_among_thousands() -> None:
    user, agent = ({"kind": kind, "id": "chat"} for kind in ("user", "agent"))
    filler = "one two three four five six seven eight nine"
    crowd = [record(f"m{at:05}", f"parcels VAT {filler} n{at}") for at in range(2_100)]
    calls = [record(f"c{at}", "Hi Ada!", session=f"c{at}", position=1, source=agent) for at in range(2)]
    best = record("b", f"parcels VAT {filler} today noon noon noon", session="s", position=1, source=user)

    assert ids(answer([*crowd, *calls, best], "parcels VAT of Ada", max_items=3))[:2] == ["c0", "b"]
    assert "b" not in ids(answer([*crowd, *calls[:1], best], "parcels VAT of Ada", max_items=3))
