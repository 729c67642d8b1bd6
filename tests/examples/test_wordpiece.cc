// The demo's tokenizer against what HuggingFace's answered (tests/data/record_wordpiece.py), and its errors.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "wordpiece.h"

namespace {

using Ids = std::vector<int64_t>;
using Tokenizer = std::unique_ptr<wordpiece, decltype(&wordpiece_close)>;

const char *const kSmall = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nun\n##want\n##ed\nrunn\n##ing\n,\na\n##b\n";
enum { kUnk = 1, kCls, kSep, kMask };

Tokenizer Parse(const std::string &vocabulary, wordpiece_error *error = nullptr) {
    return {wordpiece_parse(vocabulary.data(), vocabulary.size(), "vocab.txt", error), wordpiece_close};
}

std::string ParseError(const std::string &vocabulary) {
    wordpiece_error error = {""};
    return Parse(vocabulary, &error) ? "no error" : error.sentence;
}

std::string OpenError(const std::string &path) {
    wordpiece_error error = {""};
    Tokenizer t(wordpiece_open(path.c_str(), &error), wordpiece_close);
    return t ? "no error" : error.sentence;
}

Ids Encode(const Tokenizer &t, const std::string &text, size_t capacity = 4096) {
    Ids ids(capacity);
    wordpiece_error error = {""};
    ids.resize(wordpiece_encode(t.get(), text.data(), text.size(), ids.data(), capacity, &error));
    EXPECT_NE(ids.size(), 0u) << error.sentence;
    return ids;
}

std::string EncodeError(const std::string &text) {
    const Tokenizer t = Parse(kSmall);
    Ids ids(16, -7);
    wordpiece_error error = {""};
    EXPECT_EQ(wordpiece_encode(t.get(), text.data(), text.size(), ids.data(), ids.size(), &error), 0u);
    EXPECT_EQ(ids, Ids(16, -7)) << "ids were touched";
    return error.sentence;
}

void AppendUtf8(std::string &out, uint32_t c) {
    if (c < 0x80) {
        out += char(c);
    } else if (c < 0x800) {
        out += {char(0xc0 | c >> 6), char(0x80 | (c & 63))};
    } else if (c < 0x10000) {
        out += {char(0xe0 | c >> 12), char(0x80 | (c >> 6 & 63)), char(0x80 | (c & 63))};
    } else {
        out += {char(0xf0 | c >> 18), char(0x80 | (c >> 12 & 63)), char(0x80 | (c >> 6 & 63)), char(0x80 | (c & 63))};
    }
}

bool IsSurrogate(uint32_t c) {
    return c >= 0xd800 && c < 0xe000;
}

// The vocabulary of the record: see record_wordpiece.py.
std::string RecordedVocabulary() {
    std::string v =
        "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nun\nwant\nrunn\nnaive\ncafe\n##able\n##ing\n##ed\n##want\n"
        "2026\n##26\n\u6771\u4eac\n";
    for (uint32_t c = 1; c < 0x110000; c++) {
        if (IsSurrogate(c) || c == '\n' || c == '\r' || c % 97 == 0) continue;
        AppendUtf8(v, c);
        v += "\n##";
        AppendUtf8(v, c);
        v += '\n';
    }
    return v;
}

uint64_t BlockHash(const Tokenizer &t, uint32_t first) {
    uint64_t value = 0xcbf29ce484222325u;
    for (uint32_t c = first; c < first + 0x1000; c++) {
        if (IsSurrogate(c)) continue;
        std::string text = "a";
        AppendUtf8(text, c);
        int64_t ids[16];
        const size_t n = wordpiece_encode(t.get(), (text + "b").data(), text.size() + 1, ids, 16, nullptr);
        for (size_t i = 0; i < n; i++) value = (value ^ uint64_t(ids[i])) * 0x100000001b3u;
    }
    return value;
}

std::string FromHex(const std::string &hex) {
    std::string bytes;
    for (size_t i = 0; hex != "-" && i < hex.size(); i += 2) bytes += char(std::stoi(hex.substr(i, 2), nullptr, 16));
    return bytes;
}

TEST(Wordpiece, AgreesWithHuggingFaceOnEveryCodePointAndOnRecordedTexts) {
    std::ifstream record("tests/data/wordpiece_cases.txt");
    ASSERT_TRUE(record) << "tests run in the repository's root";
    const Tokenizer t = Parse(RecordedVocabulary());
    ASSERT_TRUE(t);
    int blocks = 0, cases = 0;
    for (std::string line, kind, key; std::getline(record, line);) {
        std::istringstream words(line);
        words >> kind >> key;
        if (kind == "vocabulary") {
            ASSERT_EQ(wordpiece_count(t.get()), std::stoul(key));
        } else if (kind == "block") {
            std::string expected;
            words >> expected;
            char hash[17];
            snprintf(hash, sizeof hash, "%016llx",
                     (unsigned long long)BlockHash(t, uint32_t(std::stoul(key, nullptr, 16))));
            EXPECT_EQ(hash, expected) << "code points from U+" << key;
            blocks++;
        } else {
            Ids expected;
            for (int64_t id; words >> id;) expected.push_back(id);
            EXPECT_EQ(Encode(t, FromHex(key)), expected) << "text " << FromHex(key);
            cases++;
        }
    }
    EXPECT_EQ(blocks, 272);
    EXPECT_GE(cases, 300);
}

TEST(Wordpiece, TakesTheLongestPieceFirst) {
    const Tokenizer t = Parse(kSmall);
    EXPECT_EQ(Encode(t, "UNwanted,running"), (Ids{kCls, 5, 6, 7, 10, 8, 9, kSep}));
    EXPECT_EQ(Encode(t, "unwantedX"), (Ids{kCls, kUnk, kSep})) << "a word with an unknown part is unknown";
}

TEST(Wordpiece, CutsBeforeTheSeparator) {
    const Tokenizer t = Parse(kSmall);
    EXPECT_EQ(Encode(t, "unwanted unwanted", 6), (Ids{kCls, 5, 6, 7, 5, kSep}));
    EXPECT_EQ(Encode(t, "unwanted zzz", 5), (Ids{kCls, 5, 6, 7, kSep}));
    EXPECT_EQ(Encode(t, "a unwantedz", 4), (Ids{kCls, 11, kUnk, kSep})) << "cut after the whole word was looked at";
    EXPECT_EQ(Encode(t, "unwanted", 2), (Ids{kCls, kSep}));
}

TEST(Wordpiece, NulIsAControlCharacter) {
    EXPECT_EQ(Encode(Parse(kSmall), std::string("a\0b", 3)), (Ids{kCls, 11, 12, kSep}));
}

TEST(Wordpiece, SpecialTokensInTheTextStandForThemselves) {
    EXPECT_EQ(Encode(Parse(kSmall), "a[MASK]a [SEP]"), (Ids{kCls, 11, kMask, 11, kSep, kSep}));
}

TEST(Wordpiece, RoomForLessThanTwoIdsIsAnError) {
    const Tokenizer t = Parse(kSmall);
    wordpiece_error error = {""};
    int64_t id = -7;
    EXPECT_EQ(wordpiece_encode(t.get(), "a", 1, &id, 1, &error), 0u);
    EXPECT_STREQ(error.sentence, "room for 1 ids, but [CLS] and [SEP] alone are 2");
    EXPECT_EQ(id, -7);
}

TEST(Wordpiece, TextThatIsNotUtf8SaysWhere) {
    EXPECT_EQ(EncodeError("caf\xe9"), "the text is not UTF-8: byte 0xE9 at offset 3");
    const char *const bad[] = {"\x80",
                               "\xc0\x80",
                               "\xc1\xbf",
                               "\xe0\x9f\xbf",
                               "\xed\xa0\x80",
                               "\xf0\x8f\xbf\xbf",
                               "\xf4\x90\x80\x80",
                               "\xf8\x88\x80\x80\x80",
                               "\xff",
                               "\xc3",
                               "\xe2\x82",
                               "\xf0\x9f\x98",
                               "\xc3("};
    for (const char *text : bad) {
        char expected[64];
        snprintf(expected, sizeof expected, "the text is not UTF-8: byte 0x%02X at offset 1", (unsigned char)text[0]);
        EXPECT_EQ(EncodeError("a" + std::string(text)), expected);
    }
    EXPECT_EQ(EncodeError(std::string(5000, 'a') + "\xff"), "the text is not UTF-8: byte 0xFF at offset 5000")
        << "also behind the part that is cut off";
}

TEST(Wordpiece, VocabularyErrorsNameTheLine) {
    EXPECT_EQ(ParseError(""), "vocab.txt: there is no [UNK] among its 0 lines: not a BERT vocabulary");
    EXPECT_EQ(ParseError("[UNK]\n[CLS]\n"), "vocab.txt: there is no [SEP] among its 2 lines: not a BERT vocabulary");
    EXPECT_EQ(ParseError("[UNK]\n[CLS]\na\n[SEP]\na\n"), "vocab.txt: line 5 repeats line 3, \"a\"");
    EXPECT_EQ(ParseError("[UNK]\n\n[SEP]\n"), "vocab.txt: line 2 is empty, each line must hold one piece");
    EXPECT_EQ(ParseError("[UNK]\n[CLS]\nb\xff\n"), "vocab.txt: line 3 is not UTF-8 (byte 0xFF at column 2)");
}

TEST(Wordpiece, VocabularyMayHaveCarriageReturnsAndAnOpenLastLine) {
    EXPECT_EQ(Encode(Parse("[UNK]\r\n[CLS]\r\n[SEP]\r\na"), "a"), (Ids{1, 3, 2}));
}

TEST(Wordpiece, FileErrorsSayWhatIsWrong) {
    EXPECT_EQ(OpenError("no/such/vocab.txt"), "no/such/vocab.txt: cannot be opened: No such file or directory");
    EXPECT_EQ(OpenError("tests"), "tests: cannot be read: Is a directory");
    EXPECT_EQ(OpenError("/dev/zero"), "/dev/zero: larger than 64 MiB: not a vocabulary");
    EXPECT_EQ(OpenError("/dev/null"), "/dev/null: there is no [UNK] among its 0 lines: not a BERT vocabulary");
}

TEST(Wordpiece, ReadsAFile) {
    char path[] = "/tmp/test_wordpiece_XXXXXX";
    const int file = mkstemp(path);
    ASSERT_GE(file, 0);
    const std::string vocabulary = RecordedVocabulary(); // longer than any buffer
    ASSERT_EQ(write(file, vocabulary.data(), vocabulary.size()), ssize_t(vocabulary.size()));
    close(file);
    wordpiece_error error = {""};
    const Tokenizer t(wordpiece_open(path, &error), wordpiece_close);
    unlink(path);
    ASSERT_TRUE(t) << error.sentence;
    EXPECT_EQ(wordpiece_count(t.get()), wordpiece_count(Parse(vocabulary).get()));
    EXPECT_EQ(Encode(t, "the"), (Ids{2, 5, 3}));
}

} // namespace
