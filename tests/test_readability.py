"""Users read common words in short sentences: in the documentation, in --help, and in messages."""

from __future__ import annotations

import pytest

from tests.readability import faults, read, sentences

READ = dict(read())


@pytest.mark.parametrize("name", READ)
def test_sentences_are_short_and_words_are_common(name: str) -> None:
    found = faults(READ[name]())
    assert not found, "\n".join(found)


def test_code_is_one_word_and_cells_and_items_are_sentences_of_their_own() -> None:
    page = "Run `envcheck doctor --env .venv` in the folder.\n\n```sh\na b c d e\n```\n- one two three four\n- five six\n"
    assert [len(words) for words in sentences(page + "\n| a b c d | e f g h |\n")] == [5, 4, 4, 4]


def test_what_is_hard_to_read_is_named() -> None:
    long = " ".join(["word"] * 31)
    assert faults([f"This one is short. So is this one. {long.capitalize()}."]) == [
        f"31 words: {long.capitalize()}."
    ]
    assert faults(["You are told so here."]) == ["private word 'told': You are told so here."]
    assert faults(["A sentence of sixteen words" + " and one more" * 3 + " is too long."])[
        0
    ].startswith("the median")
