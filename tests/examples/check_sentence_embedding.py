#!/usr/bin/env python3
"""The demo as its user sees it: check_sentence_embedding.py PROGRAM. Exit status 77 (skipped) where the model is absent."""

import json
import os
import re
import sys
import unittest

from example import ErrorsOfExample, run

MODEL = ".deps/models/all-MiniLM-L6-v2"


def embed(*arguments, stdin=b""):
    status, out, err = run("--json", *arguments, stdin=stdin)
    assert status == 0 and err == "", err
    return json.loads(out)


def expected():
    """(text, ids, embedding) of the eight recorded texts."""
    with open("tests/data/minilm_expected.txt", encoding="ascii") as file:
        rows = [line.split()[1:] for line in file if not line.startswith("#")]
    for text, ids, embedding in zip(rows[0::3], rows[1::3], rows[2::3]):
        yield bytes.fromhex(text[0].strip("-")).decode(), [int(n) for n in ids], [int(n) * 1e-8 for n in embedding]


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / (sum(x * x for x in a) * sum(y * y for y in b)) ** 0.5


class Json(unittest.TestCase):
    def check(self, answers, recorded):
        self.assertEqual(len(answers), len(recorded))
        for answer, (text, ids, embedding) in zip(answers, recorded):
            self.assertEqual(list(answer), ["text", "ids", "embedding_f32", "embedding_bf16"])
            self.assertEqual((answer["text"], answer["ids"]), (text, ids))
            worst = max(abs(x - y) for x, y in zip(answer["embedding_f32"], embedding))
            self.assertLessEqual(worst, 2e-6, text)
            self.assertGreaterEqual(cosine(answer["embedding_bf16"], embedding), 0.9995, text)

    def test_arguments_equal_the_record(self):
        recorded = list(expected())
        self.check(embed("--", *(text for text, _, _ in recorded)), recorded)

    def test_lines_equal_the_record(self):
        recorded = [row for row in expected() if row[0]]
        self.check(embed(stdin="\r\n".join(text for text, _, _ in recorded).encode() + b"\n"), recorded)

    def test_text_comes_back_as_it_was(self):
        texts = ['quote " backslash \\ tab \t del \x7f', "é\u2028東京 🙂", "nul \0 inside"]
        answers = embed("-", stdin="\n".join(texts).encode() + b"\n")
        self.assertEqual([answer["text"] for answer in answers], texts)

    def test_many_lines_keep_their_order(self):
        texts = [f"line {i} " + "and on " * (i * 7 % 23) for i in range(200)]
        answers = embed(stdin="\n".join(texts).encode())
        self.assertEqual([answer["text"] for answer in answers], texts)
        alone = embed("--", texts[137])[0]
        self.assertEqual(answers[137]["ids"], alone["ids"])
        worst = max(abs(x - y) for x, y in zip(answers[137]["embedding_f32"], alone["embedding_f32"]))
        self.assertLessEqual(worst, 1e-6)

    def test_long_text_is_cut(self):
        self.assertEqual(len(embed("word " * 1000)[0]["ids"]), 256)
        self.assertEqual(len(embed("--max-tokens", "512", "word " * 1000)[0]["ids"]), 512)
        self.assertEqual(embed("--max-tokens", "2", "word")[0]["ids"], [101, 102])

    def test_blank_lines_are_skipped(self):
        status, out, err = run("--json", stdin=b"\none\n \t\r\n\ntwo\n\n")
        self.assertEqual((status, err), (0, "sentence_embedding: 4 blank lines skipped\n"))
        self.assertEqual([answer["text"] for answer in json.loads(out)], ["one", "two"])

    def test_an_empty_argument_is_a_sentence(self):
        self.assertEqual([answer["ids"] for answer in embed("", "")], [[101, 102]] * 2)

    def test_no_lines_give_an_empty_list(self):
        self.assertEqual(embed("-"), [])


class Report(unittest.TestCase):
    def test_examples_when_there_is_no_input(self):
        status, out, err = run("--threads", "1")
        self.assertEqual((status, err), (0, ""))
        for word in ("Cosine similarity", "ms per sentence", "tokens per second", "speed-up", "smallest cosine", "1 thread,", "weights, packed", "linear layers ran in"):
            self.assertIn(word, out)
        self.assertNotIn("\033", out, "colours are for terminals")

    def test_many_sentences_give_the_closest_pairs(self):
        status, out, _ = run(stdin="\n".join(f"sentence number {i}" for i in range(40)).encode())
        self.assertEqual(status, 0)
        self.assertIn("The closest pairs", out)
        self.assertGreaterEqual(int(re.search(r"medians of (\d+) passes", out)[1]), 5)

    def test_control_characters_do_not_reach_the_terminal(self):
        _, out, _ = run("evil \033[2J \x9b".encode())
        self.assertNotIn("\033", out)
        self.assertNotIn("\x9b", out)


class Errors(ErrorsOfExample):
    def test_text_that_is_not_utf8(self):
        self.fails(1, "line 2: the text is not UTF-8: byte 0xE9 at offset 3", "--json", stdin=b"fine\ncaf\xe9\nfine\n")
        self.fails(1, "line 3: the text is not UTF-8", stdin=b"\n\n\xff\n", lines=2)
        self.fails(1, "argument 1: the text is not UTF-8", b"\xff")

    def test_missing_model(self):
        self.fails(1, "no/such/vocab.txt: cannot be opened: No such file or directory", "--model", "no/such", "x")
        self.fails(1, "No such file or directory; run from the repository's root, or give --model DIR", "--model", "no/such", "x")

    def test_command_line(self):
        self.fails(2, "--threads takes a number from 1 to 4096, not 'many'", "--threads", "many")
        self.fails(2, "--max-tokens takes a number from 2 to 512, not '513'", "--max-tokens", "513")
        self.fails(2, "unrecognized option '--nonsense'", "--nonsense", lines=2)

    def test_nonsense_isa(self):
        os.environ["AMP_MAX_ISA"] = "nonsense"
        self.addCleanup(os.environ.pop, "AMP_MAX_ISA")
        self.fails(1, "nonsense", "--json", "x")

    def test_help(self):
        status, out, err = run("--help")
        self.assertEqual((status, err), (0, ""))
        self.assertIn("Exit status", out)


if __name__ == "__main__":
    if not os.path.exists(os.path.join(MODEL, "model.safetensors")):
        print("skipped: no model; scripts/setup fetches it")
        sys.exit(77)
    unittest.main()
