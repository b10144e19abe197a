"""Labels say what each token says, one per token, and never guess against a plain reading."""

from __future__ import annotations

import re
import subprocess
import sys
import unicodedata
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attnmap_widget.grid.labels import raw_text, readable


def _gpt2_alphabet() -> dict[int, str]:
    """GPT-2's byte -> character table, as its tokenizer builds it."""
    printed = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1)]
    printed += range(ord("®"), ord("ÿ") + 1)
    table = {byte: chr(byte) for byte in printed}
    moved = 0
    for byte in range(256):
        if byte not in table:
            table[byte] = chr(256 + moved)
            moved += 1
    return table


ALPHABET = _gpt2_alphabet()


def _gpt2(data: bytes) -> str:
    return "".join(ALPHABET[byte] for byte in data)


def _bytes_of(label: str) -> bytes:
    """Undo `<F0 9F>`."""
    shown = re.split(r"<((?:[0-9A-F]{2})(?: [0-9A-F]{2})*)>", label)
    return b"".join(
        bytes.fromhex(part) if at % 2 else part.encode() for at, part in enumerate(shown)
    )


def same(*tokens: str) -> tuple[list[str], list[str]]:
    return list(tokens), list(tokens)


# -- byte-level alphabets -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "labels"),
    [
        (["ä½łå¥½", "Ċ", "Ġthe"], ["你好", "↵", "·the"]),
        (["Ø³ÙĦØ§Ùħ"], ["سلام"]),
        (["ðŁ", "ĻĤ"], ["<F0 9F>", "<99 82>"]),
        (["ðŁĻĤ"], ["🙂"]),
        (["Ã©"], ["é"]),
        (["Ã", "©"], ["<C3>", "<A9>"]),
        (["Ġ", "Ã", "©", "t"], ["·", "<C3>", "<A9>", "t"]),
        (["ĠcafÃ©", "ĠÃ", "©t", "Ã©"], ["·café", "·<C3>", "<A9>t", "é"]),
        (["âĢľ", "Hi", "âĢĿ"], ["“", "Hi", "”"]),
        (["ÐŁ", "ÑĢÐ¸Ð²ÐµÑĤ"], ["П", "ривет"]),
        (["Å¡", "Å¼", "Ä±", "ÃŁ"], ["š", "ż", "ı", "ß"]),
        (["ä", "½", "ł", "å¥", "½"], ["<E4>", "<BD>", "<A0>", "<E5 A5>", "<BD>"]),
        (["å", "", "¥½"], ["<E5>", "∅", "<A5 BD>"]),
        (["Âł"], ["<U+00A0>"]),
        (["âĿ¤", "ï¸ı"], ["❤", "<U+FE0F>"]),
    ],
)
def test_bytes_are_read(tokens: list[str], labels: list[str]) -> None:
    assert readable(tokens) == labels


@pytest.mark.parametrize(
    ("tokens", "labels"),
    [
        (["Ġ", "ĠĠĠ", "Ġx", ".Ċ", "ĊĊ"], ["·", "···", "·x", ".↵", "↵↵"]),
        (["čĊ", "ĉreturn", "č"], ["␍↵", "⇥return", "␍"]),
        (["ofĠthe", "Ġof"], ["of the", "·of"]),
        # loose bytes, which nobody completes, where marks tell the alphabet
        (["Ġé", "Ġthe", "ðŁ"], ["·<E9>", "·the", "<F0 9F>"]),
        (["Ċ", "½ł", "Ø"], ["↵", "<BD A0>", "<D8>"]),
    ],
)
def test_marks_tell_the_alphabet(tokens: list[str], labels: list[str]) -> None:
    assert readable(tokens) == labels


@pytest.mark.parametrize(
    "word",
    [
        *("café", "Łódź", "Łódka", "Ø", "naïve", "Straße", "é", "à", "Übergrößenträger", "№5"),
        *("STÓŁ", "PÓŁNOC", "pół", "Çınar", "SEÇİM", "ĉu", "ĝi", "č", "Šárka", "Āris", "žē"),
        *("Spaß«", "CAFÉ»", "»Öl«", "¿Qué", "PERÚ²", "È", "ESPAÑA", "smörgåsbord", "Ħal", "Ċensu"),
    ],
)
def test_words_stay(word: str) -> None:
    assert readable([word]) == [word]
    assert readable(["the", word, "a", "Łódź"]) == ["the", word, "a", "Łódź"]


@pytest.mark.parametrize(
    ("tokens", "labels"),
    [
        same(*"STÓŁ"),
        same("CAFÉ", "»"),
        same("È", "»"),
        same("Spaß", "«"),
        same("café", "au", "lait", "Ø", "Łódka"),
        same("Ġorġ"),
        same("Ġorġ", "mar", "Ġunju"),
        same("Ħobż", "Ġdid", "Ċ"),
        # hand-written with the mark: the words are words all the same
        (["Ġcafé", "Ġnaïve", "Ġis"], ["·café", "·naïve", "·is"]),
    ],
)
def test_lists_of_words_stay(tokens: list[str], labels: list[str]) -> None:
    assert readable(tokens) == labels


def test_a_few_maltese_letters_do_not_hide_what_a_byte_level_list_is() -> None:
    delete = ALPHABET[0x7F]
    assert delete == "ġ"
    assert readable(["Ġa", "Ġb", "Ġc", "Ġd", "Ġe", delete])[-2:] == ["·e", "␡"]


# Characters that show as themselves, so that the bytes can be read back from the labels.
PLAIN = st.text(
    st.characters(exclude_categories=["C", "Z"]).filter(
        lambda char: readable([char]) == [char] and char not in "<>" and char.isprintable()
    ),
    max_size=30,
)


@given(PLAIN, st.lists(st.integers(0, 120), max_size=12))
@example("ёлка 🙂".replace(" ", ""), [1, 3, 9, 10, 11])
@example("né", [2])
@example("aÓŁ", [1, 2, 4])
def test_every_byte_is_shown_wherever_the_text_is_cut(text: str, cuts: list[int]) -> None:
    data = text.encode()
    edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    pieces = [data[a:b] for a, b in pairwise(edges)]

    byte_level = readable(["Ġthe", *map(_gpt2, pieces)])[1:]
    assert byte_level == readable(pieces)  # as a tokenizer that gives bytes
    shown = [label if label != "∅" else "" for label in byte_level]
    assert [_bytes_of(label) for label in shown] == pieces


@given(st.text(st.characters(min_codepoint=0x370), min_size=1, max_size=8))
@example("Рыба")
@example("你好")
def test_foreign_letters_need_no_marks(text: str) -> None:
    names = [unicodedata.name(char, "LATIN, perhaps") for char in text]
    if text.isalpha() and not any("LATIN" in name for name in names):
        assert readable([_gpt2(text.encode())]) == readable([text])


@given(
    st.lists(
        st.text()
        | st.binary()
        | st.integers()
        | st.text(st.sampled_from("ĠĊčĉġÃ©ðŁĻĤßŁŻ▁ ab\n\u200d\ufe0f🙂<0xF>\ud83d"))
    )
)
def test_one_label_per_token_that_any_file_can_hold(tokens: list[str | bytes | int]) -> None:
    labels = readable(tokens)
    assert len(labels) == len(tokens)
    assert all(labels)
    for text in (*labels, *map(raw_text, tokens)):
        text.encode("utf-8")
    # no control characters: a picture in XML may not hold them
    assert not [char for label in labels for char in label if unicodedata.category(char) == "Cc"]
    assert labels == readable(tuple(tokens))


# -- other tokenizers ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "label"),
    [
        ("##ing", "##ing"),
        ("the</w>", "the</w>"),
        ("▁the", "·the"),
        ("▁", "·"),
        ("▁▁", "··"),
        ("return▁", "return·"),
        ("of▁the", "of▁the"),
        ("▁▂▃▄", "▁▂▃▄"),
        ("▁▁▂", "▁▁▂"),
        ("▁▁a▁▁", "··a··"),
        ("▃▁▁", "▃▁▁"),
        ("<0xF0>", "<F0>"),
        ("<0x0A>", "↵"),
        ("<0xF0", "<0xF0"),
        ("<s>", "<s>"),
        ("<|endoftext|>", "<|endoftext|>"),
        ("<｜begin▁of▁sentence｜>", "<｜begin▁of▁sentence｜>"),
        ("&amp;", "&amp;"),
        ("a<b", "a<b"),
        ("</script>", "</script>"),
        ('"><img src=x onerror=alert(1)>', '"><img src=x onerror=alert(1)>'),
        ("r0c13", "r0c13"),
        (17, "17"),
        (np.int64(17), "17"),
        (np.uint8(3), "3"),
        (-1, "-1"),
        (b" the", "·the"),
        (b"\xf0\x9f", "<F0 9F>"),
        (b"a\xffb\x99\x82", "a<FF>b<99 82>"),
        ("caf\xe9".encode(), "café"),
        (bytearray(b"ab"), "ab"),
        (np.bytes_(b"ab"), "ab"),
        (np.str_(" ab"), "·ab"),
        (b"", "∅"),
        (None, "None"),
        (2.5, "2.5"),
    ],
)
def test_one_token(token: object, label: str) -> None:
    assert readable([token]) == [label]


# -- what would not be seen ---------------------------------------------------------------------


def test_space_newline_tab_and_nothing_differ() -> None:
    assert readable([" ", "\n", "\t", ""]) == ["·", "↵", "⇥", "∅"]


@pytest.mark.parametrize(
    ("token", "label"),
    [
        (" the", "·the"),
        ("the  ", "the··"),
        ("   ", "···"),
        ("a b  c", "a b  c"),
        ("\n\n", "↵↵"),
        ("\r\n", "␍↵"),
        (" \n", "·↵"),
        ("\x00\x1b[0m", "␀␛[0m"),
        ("\x7f", "␡"),
        ("\x85", "<U+0085>"),
        ("\xa0", "<U+00A0>"),
        ("\u3000", "<U+3000>"),
        ("\u2028", "<U+2028>"),
        ("\u200b", "<U+200B>"),
        ("\ufeffa", "<U+FEFF>a"),
        ("so\xadft", "so<U+00AD>ft"),
        ("\u202eabc\u2066", "<U+202E>abc<U+2066>"),
        ("a\u200db", "a<U+200D>b"),
        ("\u200d", "<U+200D>"),
        ("\u200c", "<U+200C>"),
        ("\ufe0f", "<U+FE0F>"),
        ("🙂\ufe0f\ufe01", "🙂\ufe0f<U+FE01>"),
        ("\U000e0041", "<U+E0041>"),
        ("\u2800", "<U+2800>"),
        ("\u3164", "<U+3164>"),
        ("\uffff", "<U+FFFF>"),
        ("\ud83d", "<U+D83D>"),
        ("a\udc80", "a<U+DC80>"),
        ("\ufffd", "\ufffd"),
    ],
)
def test_the_unseen_is_shown(token: str, label: str) -> None:
    assert readable([token]) == [label]


@pytest.mark.parametrize(
    "token",
    [
        "👩‍👩‍👧",
        "👩🏽‍🚀",
        "🏴‍☠️",
        "❤️‍🔥",
        "🙂‍↔️",
        "1️⃣",
        "🇫🇷",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "e\u0301",
        "Zürich",
        "שלום",
        "שָׁלוֹם",
        "می‌خواهم",
        "क्‍ष",
        "นี่",
    ],
)
def test_what_belongs_together_stays_together(token: str) -> None:
    assert readable([token]) == [token]
    assert readable([_gpt2(token.encode())]) == [token]


# -- raw text -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("token", "text"),
    [
        ("Ġthe", "Ġthe"),
        ("", ""),
        (" a\n", " a\n"),
        ("<0xF0>", "<0xF0>"),
        ("a\ud83d", "a<U+D83D>"),
        (17, "17"),
        (np.int32(17), "17"),
        (b" the", "b' the'"),
        (b"\xf0\x9f", r"b'\xf0\x9f'"),
        (np.bytes_(b"a"), "b'a'"),
        (None, "None"),
    ],
)
def test_raw_text_is_the_token_as_given(token: object, text: str) -> None:
    assert raw_text(token) == text


# -- cost ---------------------------------------------------------------------------------------


def test_it_needs_no_package() -> None:
    code = (
        "import sys, importlib.util as u\n"
        "spec = u.spec_from_file_location('labels', sys.argv[1])\n"
        "spec.loader.exec_module(u.module_from_spec(spec))\n"
        "print({'numpy', 'torch', 'traitlets'} & sys.modules.keys())"
    )
    path = sys.modules[readable.__module__].__file__
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
