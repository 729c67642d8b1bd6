#!/usr/bin/env python3
"""Records what the HuggingFace `tokenizers` library answers, for tests/examples/test_wordpiece.cc.

    python3 tests/data/record_wordpiece.py > tests/data/wordpiece_cases.txt     (needs `pip install tokenizers`)

The vocabulary is synthetic, so that an id shows every step: the special tokens, a few words, and nearly every code point
as a piece of its own. test_wordpiece.cc makes the same one. A line of the record is one of
    vocabulary COUNT
    block FIRST HASH      64-bit FNV-1a over the ids of "a" + c + "b" for the 4096 code points from FIRST
    case HEX ID...        the ids of the UTF-8 text HEX
"""

import random
import unicodedata

from tokenizers import Tokenizer, normalizers, pre_tokenizers, models, processors

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "un", "want", "runn", "naive", "cafe", "##able", "##ing", "##ed", "##want", "2026", "##26", "東京"]


def scalars():
    return (c for c in range(0x110000) if not 0xD800 <= c < 0xE000)


def vocabulary():
    pieces = SPECIALS + WORDS
    for c in scalars():
        if c not in (0, 0x0A, 0x0D) and c % 97:  # every 97th is unknown
            pieces += [chr(c), "##" + chr(c)]
    return {piece: i for i, piece in enumerate(pieces)}


def make_tokenizer(vocab):
    model = models.WordPiece(vocab, unk_token="[UNK]", continuing_subword_prefix="##", max_input_chars_per_word=100)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(name, vocab[name]) for name in ("[CLS]", "[SEP]")])
    tokenizer.add_special_tokens(SPECIALS)
    return tokenizer


def block_hash(encode, first):
    value = 0xCBF29CE484222325
    for c in range(first, first + 0x1000):
        if 0xD800 <= c < 0xE000:
            continue
        for token in encode("a" + chr(c) + "b"):
            value = (value ^ token) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


FIXED = [
    "", " ", "\t\n\r ", "unwantable", "UNwanted,running", "Hello, World!", "Naïve café déjà vu — 東京 2026, isn't it?",
    "東京2026", "a\u0000b\ufffdc", "\u200bzero\u200dwidth\ufeff", "İstanbul IŞIK ẞ ΟΔΟΣ ǅ", "e\u0301 é \u0344 ｶﾞ", "각하 한국어 ㄱ",
    "[CLS] the [MASK] cafe [SEP]", "[mask] [MASK [[MASK]] x[UNK]y", "$+<=>^`|~ ₿ € ©", "\u037e\u1fef\u2126\u212b",
    "\u302e\u1d166\u1d16e \u0300\u0327a", "\u1d15f\u1d160\U0001d164", "x" * 100, "x" * 101, "é" * 100, "é" * 101,
    "a\u0301" * 101, "the" * 40, "\u2028\u2029\u0085\u00a0\u3000x", "👩‍👩‍👧 🥰 👍🏽", "\ue000\U000f0000", "\u0378\U0001fb99",
]


def random_word(rng, groups):
    kind = rng.randrange(6)
    if kind == 0:
        return rng.choice(WORDS + ["Want", "UNABLE", "wanted"])
    if kind == 1:
        return "".join(chr(rng.randrange(0x20, 0x250)) for _ in range(rng.randint(1, 9)))
    if kind == 2:
        return rng.choice(WORDS[:6]) + "".join(rng.choice(groups["mark"]) for _ in range(rng.randint(1, 6)))
    if kind == 3:
        return "".join(rng.choice(groups["ordered"]) for _ in range(rng.randint(2, 9)))
    if kind == 4:
        return "".join(chr(rng.choice((rng.randrange(0xAC00, 0xD7A4), rng.randrange(0x3040, 0xA000),
                                       rng.randrange(0xF900, 0xFB00)))) for _ in range(rng.randint(1, 4)))
    return "".join(rng.choice(groups["any"]) for _ in range(rng.randint(1, 5)))


def main():
    vocab = vocabulary()
    tokenizer = make_tokenizer(vocab)

    def encode(text):
        return tokenizer.encode(text).ids

    print("vocabulary", len(vocab))
    for first in range(0, 0x110000, 0x1000):
        print(f"block {first:x} {block_hash(encode, first):016x}")
    assigned = [chr(c) for c in scalars() if unicodedata.category(chr(c)) != "Cn"]
    groups = {
        "any": assigned,
        "mark": [c for c in assigned if unicodedata.category(c)[0] == "M"],
        "ordered": [c for c in assigned if unicodedata.combining(c)],
    }
    rng = random.Random(2026)
    texts = FIXED + [rng.choice(["", " "]).join(random_word(rng, groups) for _ in range(rng.randint(1, 6)))
                     for _ in range(300)]
    for text in texts:
        print("case", text.encode().hex() or "-", *encode(text))


if __name__ == "__main__":
    main()
