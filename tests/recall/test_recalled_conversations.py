"""What recall gives of conversations that were added as a user would add them."""

from standfast import Memory, RecallPackage


def test_frames_take_at_most_a_fifth_of_a_package_of_500_tokens_of_conversations() -> None:
    with Memory.open(":memory:") as memory:
        for session in range(4):
            turns = [
                {
                    "role": "user",
                    "name": ("Ada", "Bob")[turn % 2],
                    "content": (
                        f"In week {session} we practised the {turn}th violin sonata again, slowly and then at"
                        " full speed, until we were tired and went home."
                    ),
                }
                for turn in range(12)
            ]
            memory.add(turns, session=f"2026-0{session + 1}", scope="shared")
        package = memory.recall("Which violin sonata did they practise?", tokens=500)

    assert isinstance(package, RecallPackage)
    size = len(package.text.encode())
    assert 450 * 4 < size <= 500 * 4
    assert 1 - sum(len(item.excerpt.encode()) for item in package.items) / size <= 0.2


def test_what_one_of_many_near_equal_texts_borrowed_does_not_count_for_all_of_them() -> None:
    """The question itself stands in the conversation, and lends its words to the message before it."""
    memory = Memory.open(":memory:")
    question = "What does my sister keep?"
    crates = [f"Crate {number} holds {number * 7} apples, in the old barn." for number in range(12)]
    texts = ["My sister Ines keeps bees in Porto.", *crates, question]
    for place, text in enumerate(texts):
        session = "archive" if place < 12 else "monday"
        memory.add([{"role": "user", "content": text}], scope="user/ada", session=session)
    package = memory.recall(question, scope="user/ada", tokens=200)

    assert [item.excerpt for item in package.items][:2] == [question, texts[0]]
