// safetensors in and out: mapped, never copied; and whatever a header may claim, an error or the truth.
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "amp/io.h"
#include "amp/memory.h"
#include "amp/scope.h"
#include "amp/tensor.h"

namespace {

class Safetensors : public ::testing::Test {
  protected:
    void SetUp() override {
        folder = ::testing::TempDir() + "amp-safetensors-XXXXXX";
        ASSERT_NE(mkdtemp(folder.data()), nullptr);
        live = amp_memory_statistics().live_tensors;
        amp_clear_error();
    }
    void TearDown() override {
        amp_clear_error();
        EXPECT_EQ(amp_memory_statistics().live_tensors, live);
        std::filesystem::remove_all(folder);
    }
    std::string path(const std::string &name = "a.safetensors") const {
        return folder + "/" + name;
    }

    void write(const std::string &bytes) const {
        std::ofstream(path(), std::ios::binary) << bytes;
    }

    std::string read() const {
        std::ifstream in(path(), std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    // Opens the file, expects failure, returns the sentence.
    std::string failure() const {
        EXPECT_EQ(amp_safetensors_open(path().c_str()), nullptr);
        EXPECT_NE(amp_last_status(), AMP_OK);
        const std::string message = amp_last_error();
        amp_clear_error();
        return message;
    }
    std::string failure_of(const std::string &header, const std::string &data = "") const {
        write(with_length(header) + data);
        return failure();
    }
    static std::string with_length(const std::string &header) {
        std::string out;
        for (int i = 0; i < 8; i++) out += static_cast<char>(static_cast<uint64_t>(header.size()) >> (8 * i) & 0xff);
        return out + header;
    }
    static std::string entry(const std::string &name, const std::string &type, const std::string &shape,
                             const std::string &offsets) {
        return "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
    }

    std::string folder;
    size_t live = 0;
};

TEST_F(Safetensors, EveryDtypeAndRankIsSavedAndReadBack) {
    const amp_dtype dtypes[] = {AMP_F64, AMP_F32, AMP_F16, AMP_BF16, AMP_I64, AMP_I32,
                                AMP_I16, AMP_I8,  AMP_U8,  AMP_BOOL, AMP_C64};
    std::vector<std::string> names;
    std::vector<std::vector<unsigned char>> bytes;
    amp_scope {
        std::vector<amp_tensor *> tensors;
        std::vector<const char *> pointers;
        for (int rank = 0; rank <= AMP_MAX_RANK; rank++) {
            for (amp_dtype dtype : dtypes) {
                int64_t shape[AMP_MAX_RANK], count = 1;
                for (int d = 0; d < rank; d++) count *= shape[d] = 1 + (d + dtype) % 3;
                bytes.emplace_back(static_cast<size_t>(count) * amp_dtype_size(dtype));
                for (size_t i = 0; i < bytes.back().size(); i++) {
                    bytes.back()[i] = static_cast<unsigned char>(dtype == AMP_BOOL ? i % 2 : i * 13 + 5);
                }
                names.push_back(std::string(amp_dtype_name(dtype)) + "." + std::to_string(rank));
                tensors.push_back(amp_from_data(bytes.back().data(), dtype, rank, shape));
            }
        }
        for (const auto &name : names) pointers.push_back(name.c_str());
        ASSERT_EQ(amp_save_safetensors(path().c_str(), pointers.data(), tensors.data(),
                                       static_cast<int64_t>(names.size()), nullptr),
                  AMP_OK)
            << amp_last_error();
        amp_safetensors *file = amp_safetensors_open(path().c_str());
        ASSERT_NE(file, nullptr) << amp_last_error();
        EXPECT_EQ(amp_safetensors_count(file), static_cast<int64_t>(names.size()));
        for (size_t i = 0; i < names.size(); i++) {
            const amp_tensor *t = amp_safetensors_get(file, pointers[i]);
            ASSERT_NE(t, nullptr) << amp_last_error();
            EXPECT_EQ(amp_tensor_dtype(t), amp_tensor_dtype(tensors[i]));
            ASSERT_EQ(amp_tensor_rank(t), amp_tensor_rank(tensors[i]));
            for (int d = 0; d < amp_tensor_rank(t); d++)
                EXPECT_EQ(amp_tensor_size(t, d), amp_tensor_size(tensors[i], d));
            EXPECT_EQ(memcmp(amp_data(t), bytes[i].data(), bytes[i].size()), 0) << names[i];
            EXPECT_EQ(reinterpret_cast<uintptr_t>(amp_data(t)) % amp_dtype_size(amp_tensor_dtype(t)), 0u) << names[i];
        }
        amp_safetensors_close(file);
    }
}

TEST_F(Safetensors, TheWritersLayoutIsTheFormats) {
    const float f[] = {1, 2};
    const uint8_t u = 7;
    const int64_t two[] = {2};
    amp_scope {
        amp_tensor *tensors[] = {amp_from_data(&u, AMP_U8, 0, nullptr), amp_from_data(f, AMP_F32, 1, two)};
        const char *names[] = {"u", "f"}, *metadata[] = {"format", "pt", nullptr};
        ASSERT_EQ(amp_save_safetensors(path().c_str(), names, tensors, 2, metadata), AMP_OK) << amp_last_error();
    }
    const std::string file = read();
    const std::string header = "{\"__metadata__\":{\"format\":\"pt\"}," + entry("f", "F32", "[2]", "[0,8]") + "," +
                               entry("u", "U8", "[]", "[8,9]") + "}";
    EXPECT_EQ(file.substr(8, header.size()), header) << "large elements first, so that all are aligned";
    EXPECT_EQ((file.size() - 9) % 64, 0u);
    EXPECT_EQ(file.back(), 7);
}

TEST_F(Safetensors, TensorsLieOverTheMappingAndOutliveTheFile) {
    std::string header = "{" + entry("a", "F32", "[2]", "[0,8]") + "}";
    while (header.size() % 4) header += ' '; // unaligned data would be copied
    const float values[] = {1.5f, -2};
    write(with_length(header) + std::string(reinterpret_cast<const char *>(values), 8));
    const size_t cached = amp_memory_statistics().live_bytes;
    amp_safetensors *file = amp_safetensors_open(path().c_str());
    ASSERT_NE(file, nullptr) << amp_last_error();
    amp_tensor *a = amp_safetensors_get(file, "a"), *again = amp_safetensors_get(file, "a");
    ASSERT_NE(a, nullptr) << amp_last_error();
    EXPECT_EQ(amp_data(a), amp_data(again)) << "one storage for everyone who asks";
    amp_safetensors_close(file);
    amp_release(again);
    EXPECT_EQ(unlink(path().c_str()), 0);
    EXPECT_EQ(memcmp(amp_data(a), values, sizeof values), 0);
    amp_release(a);
    EXPECT_EQ(amp_memory_statistics().live_bytes <= cached + 4096, true);
    amp_clear_error();
    write("");
}

TEST_F(Safetensors, ALargeTensorIsNotRead) {
    // sixteen gigabytes of hole: only a mapping can open that
    const uint64_t bytes = 1ull << 34;
    std::string header = "{" + entry("w", "F32", "[4294967296]", "[0," + std::to_string(bytes) + "]") + "}";
    while (header.size() % 4) header += ' '; // unaligned data would be copied
    write(with_length(header));
    ASSERT_EQ(truncate(path().c_str(), static_cast<off_t>(8 + header.size() + bytes)), 0);
    amp_safetensors *file = amp_safetensors_open(path().c_str());
    if (!file && amp_last_status() == AMP_ERROR_IO && strstr(amp_last_error(), "map it into memory")) {
        GTEST_SKIP() << "this machine cannot map 16 GiB: " << amp_last_error();
    }
    ASSERT_NE(file, nullptr) << amp_last_error();
    amp_scope {
        amp_tensor *w = amp_safetensors_get(file, "w");
        ASSERT_NE(w, nullptr) << amp_last_error();
        EXPECT_EQ(amp_tensor_numel(w), 1ll << 32);
        EXPECT_EQ(static_cast<const float *>(amp_data(w))[(1ll << 32) - 1], 0.0f);
    }
    amp_safetensors_close(file);
}

TEST_F(Safetensors, WritesStayInTheProcess) {
    const float one = 1;
    amp_scope {
        amp_tensor *t = amp_from_data(&one, AMP_F32, 0, nullptr);
        const char *name = "t";
        ASSERT_EQ(amp_save_safetensors(path().c_str(), &name, &t, 1, nullptr), AMP_OK);
        const std::string before = read();
        amp_safetensors *file = amp_safetensors_open(path().c_str());
        amp_tensor *mapped = amp_safetensors_get(file, "t");
        ASSERT_NE(mapped, nullptr);
        *static_cast<float *>(amp_data_mut(mapped)) = 2;
        EXPECT_EQ(*static_cast<const float *>(amp_data(amp_safetensors_get(file, "t"))), 2.0f);
        amp_safetensors_close(file);
        EXPECT_EQ(read(), before);
    }
}

TEST_F(Safetensors, UnalignedDataIsCopied) {
    for (size_t shift = 0; shift < 8; shift++) {
        std::string header = "{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("b", "F64", "[2]", "[1,17]") + "}";
        header += std::string(shift, ' ');
        const double b[] = {1.25, -3};
        write(with_length(header) + "x" + std::string(reinterpret_cast<const char *>(b), 16));
        amp_safetensors *file = amp_safetensors_open(path().c_str());
        ASSERT_NE(file, nullptr) << amp_last_error();
        amp_scope {
            const amp_tensor *t = amp_safetensors_get(file, "b");
            ASSERT_NE(t, nullptr) << amp_last_error();
            EXPECT_EQ(reinterpret_cast<uintptr_t>(amp_data(t)) % 8, 0u);
            EXPECT_EQ(memcmp(amp_data(t), b, 16), 0);
            EXPECT_EQ(*static_cast<const char *>(amp_data(amp_safetensors_get(file, "a"))), 'x');
        }
        amp_safetensors_close(file);
    }
}

TEST_F(Safetensors, NamesMetadataAndEmptyFilesAreListed) {
    write(with_length("{}"));
    amp_safetensors *file = amp_safetensors_open(path().c_str());
    ASSERT_NE(file, nullptr) << amp_last_error();
    EXPECT_EQ(amp_safetensors_count(file), 0);
    EXPECT_EQ(amp_safetensors_name(file, 0), nullptr);
    amp_safetensors_close(file);

    write(with_length("{\"__metadata__\":{\"k\":\"v\",\"\\u00e9\":\"\"}," + entry("b", "F16", "[0,3]", "[0,0]") + "," +
                      entry("", "I8", "[]", "[0,1]") + " }") +
          "\x05");
    file = amp_safetensors_open(path().c_str());
    ASSERT_NE(file, nullptr) << amp_last_error();
    EXPECT_EQ(amp_safetensors_count(file), 2);
    EXPECT_STREQ(amp_safetensors_name(file, 0), "b");
    EXPECT_STREQ(amp_safetensors_name(file, 1), "");
    EXPECT_EQ(amp_safetensors_name(file, 2), nullptr);
    EXPECT_EQ(amp_safetensors_name(file, -1), nullptr);
    EXPECT_EQ(amp_safetensors_metadata_count(file), 2);
    EXPECT_STREQ(amp_safetensors_metadata_key(file, 1), "\xc3\xa9");
    EXPECT_STREQ(amp_safetensors_metadata_value(file, 0), "v");
    EXPECT_EQ(amp_safetensors_metadata_key(file, 2), nullptr);
    EXPECT_EQ(amp_safetensors_metadata_value(file, -1), nullptr);
    EXPECT_STREQ(amp_safetensors_metadata(file, "k"), "v");
    EXPECT_EQ(amp_safetensors_metadata(file, "x"), nullptr);
    amp_scope {
        EXPECT_EQ(amp_tensor_numel(amp_safetensors_get(file, "b")), 0);
        EXPECT_EQ(*static_cast<const int8_t *>(amp_data(amp_safetensors_get(file, ""))), 5);
    }
    amp_safetensors_close(file);
    EXPECT_EQ(amp_safetensors_count(nullptr), 0);
    amp_safetensors_close(nullptr);
}

TEST_F(Safetensors, AnNpyFileIsNone) {
    write(std::string("\x93NUMPY\x01\0", 8) + "v\0{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }\nabcd");
    EXPECT_EQ(amp_safetensors_open(path().c_str()), nullptr);
    EXPECT_EQ(amp_last_status(), AMP_ERROR_IO);
    EXPECT_NE(std::string(amp_last_error()).find("is not a safetensors file, but an .npy file"), std::string::npos)
        << amp_last_error();
    amp_clear_error();
}

TEST_F(Safetensors, AnUnknownNameSuggestsANearOne) {
    write(with_length("{" + entry("encoder.layer.0.weight", "U8", "[1]", "[0,1]") + "}") + "x");
    amp_safetensors *file = amp_safetensors_open(path().c_str());
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(amp_safetensors_get(file, "bert.encoder.layer.0.weight"), nullptr);
    EXPECT_NE(std::string(amp_last_error()).find("did you mean 'encoder.layer.0.weight'"), std::string::npos);
    amp_clear_error();
    EXPECT_EQ(amp_safetensors_get(file, "x"), nullptr);
    EXPECT_EQ(std::string(amp_last_error()).find("did you mean"), std::string::npos);
    amp_clear_error();
    EXPECT_EQ(amp_safetensors_get(file, nullptr), nullptr);
    amp_clear_error();
    EXPECT_EQ(amp_safetensors_get(nullptr, "x"), nullptr);
    amp_safetensors_close(file);
}

TEST_F(Safetensors, TypesThatWeLackAreListedButNotLoaded) {
    write(with_length("{" + entry("a", "F8_E4M3", "[1]", "[0,1]") + "," + entry("b", "U16", "[1]", "[1,3]") + "," +
                      entry("c", "X7", "[5]", "[3,4]") + "," + entry("d", "U8", "[1]", "[4,5]") + "}") +
          "abbcd");
    amp_safetensors *file = amp_safetensors_open(path().c_str());
    ASSERT_NE(file, nullptr) << amp_last_error();
    for (const char *name : {"a", "b", "c"}) {
        EXPECT_EQ(amp_safetensors_get(file, name), nullptr);
        EXPECT_EQ(amp_last_status(), AMP_ERROR_DTYPE) << amp_last_error();
        amp_clear_error();
    }
    amp_scope
        EXPECT_EQ(*static_cast<const char *>(amp_data(amp_safetensors_get(file, "d"))), 'd');
    amp_safetensors_close(file);
}

TEST_F(Safetensors, TensorsOfTooManyDimensionsAreListedButNotLoaded) {
    write(with_length("{" + entry("a", "U8", "[1,1,1,1,1,1,1,1,2]", "[0,2]") + "," + entry("b", "U8", "[1]", "[2,3]") +
                      "," + entry("c", "U8", "[2,1,1,1,1,1,1,1,0,1]", "[3,3]") + "}") +
          "aab");
    amp_safetensors *file = amp_safetensors_open(path().c_str());
    ASSERT_NE(file, nullptr) << amp_last_error();
    EXPECT_EQ(amp_safetensors_count(file), 3);
    for (const auto &[name, part] : {std::pair("a", "tensor 'a' has 9 dimensions, expected at most 8"),
                                     std::pair("c", "tensor 'c' has 10 dimensions, expected at most 8")}) {
        EXPECT_EQ(amp_safetensors_get(file, name), nullptr);
        EXPECT_EQ(amp_last_status(), AMP_ERROR_INVALID);
        EXPECT_NE(std::string(amp_last_error()).find(part), std::string::npos) << amp_last_error();
        amp_clear_error();
    }
    amp_scope
        EXPECT_EQ(*static_cast<const char *>(amp_data(amp_safetensors_get(file, "b"))), 'b');
    amp_safetensors_close(file);
}

TEST_F(Safetensors, MetadataThatIsNullIsNone) {
    write(with_length("{\"__metadata__\":null," + entry("a", "U8", "[1]", "[0,1]") + "}") + "x");
    amp_safetensors *file = amp_safetensors_open(path().c_str());
    ASSERT_NE(file, nullptr) << amp_last_error();
    EXPECT_EQ(amp_safetensors_metadata_count(file), 0);
    EXPECT_EQ(amp_safetensors_count(file), 1);
    amp_safetensors_close(file);
}

TEST_F(Safetensors, BoolsBecomeZeroOrOne) {
    write(with_length("{" + entry("a", "BOOL", "[4]", "[0,4]") + "}") + std::string("\0\1\2\xff", 4));
    amp_safetensors *file = amp_safetensors_open(path().c_str());
    ASSERT_NE(file, nullptr) << amp_last_error();
    amp_scope
        EXPECT_EQ(memcmp(amp_data(amp_safetensors_get(file, "a")), "\0\1\1\1", 4), 0);
    amp_safetensors_close(file);
}

TEST_F(Safetensors, MalformedHeadersGiveOneSentence) {
    const std::string a = entry("a", "F32", "[1]", "[0,4]");
    const struct {
        std::string header, data, part;
    } cases[] = {
        {"", "", "does not begin with '{'"},
        {"[]", "", "does not begin with '{'"},
        {"{", "", "malformed JSON header"},
        {"{}}", "", "malformed JSON header"},
        {"{" + a + "," + a + "}", "1234", "duplicate"},
        {"{\"a\":1}", "", "tensor 'a': expected an object"},
        {"{\"a\":{}}", "", "'dtype' is missing"},
        {"{\"a\":{\"dtype\":\"F32\"}}", "", "'shape' is missing"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", "", "'data_offsets' is not [begin, end]"},
        {"{" + entry("a", "F32", "[1]", "[0]") + "}", "1234", "'data_offsets' is not [begin, end]"},
        {"{" + entry("a", "F32", "[1]", "[0,4,8]") + "}", "1234", "'data_offsets' is not [begin, end]"},
        {"{" + entry("a", "F32", "[1]", "[0,4.0]") + "}", "1234", "'data_offsets' is not [begin, end]"},
        {"{" + entry("a", "F32", "[1]", "[4,0]") + "}", "1234", "expected 0 <= begin <= end <= 4"},
        {"{" + entry("a", "F32", "[1]", "[-4,0]") + "}", "1234", "expected 0 <= begin <= end <= 4"},
        {"{" + entry("a", "F32", "[2]", "[0,8]") + "}", "1234", "expected 0 <= begin <= end <= 4"},
        {"{" + entry("a", "F32", "[1]", "[9223372036854775804,9223372036854775807]") + "}", "1234", "<= 4"},
        {"{" + entry("a", "F32", "[1]", "[0,9223372036854775808]") + "}", "1234", "too big"},
        {"{" + entry("a", "F32", "[2]", "[0,4]") + "}", "1234", "has 4 bytes of data, expected 8 for [2] F32"},
        {"{" + entry("a", "F4", "[3]", "[0,2]") + "}", "12", "has 2 bytes of data"},
        {"{" + entry("a", "F32", "[-1]", "[0,4]") + "}", "1234", "not an integer from 0 to 2^63-1"},
        {"{" + entry("a", "F32", "[1.5]", "[0,4]") + "}", "1234", "not an integer from 0 to 2^63-1"},
        {"{" + entry("a", "F32", "[4294967296,4294967296]", "[0,0]") + "}", "", "above 2^63 bits"},
        {"{" + entry("a", "F32", "[9223372036854775807]", "[0,4]") + "}", "1234", "above 2^63 bits"},
        {"{" + entry("a", "F32", "[1,1,1,1,1,1,1,1,-1]", "[0,4]") + "}", "1234", "not an integer from 0 to 2^63-1"},
        {"{" + entry("a", "F32", "[1,1,1,1,1,1,1,1,2]", "[0,4]") + "}", "1234", "has 4 bytes of data, expected 8"},
        {"{" + a + "," + entry("b", "F32", "[1]", "[2,6]") + "}", "123456", "it overlaps the tensor before it"},
        {"{" + a + "," + entry("b", "F32", "[1]", "[0,4]") + "}", "1234", "it overlaps the tensor before it"},
        {"{" + a + "," + entry("b", "F32", "[1]", "[5,9]") + "}", "123456789", "there is a hole before it"},
        {"{" + entry("a", "F32", "[1]", "[1,5]") + "}", "12345", "there is a hole before it"},
        {"{" + a + "}", "12345", "some belong to no tensor"},
        {"{\"__metadata__\":[]}", "", "'__metadata__' is not an object"},
        {"{\"__metadata__\":{\"k\":1}}", "", "metadata 'k' is not a string"},
        {"{\"a\\u0000b\":1}", "", "malformed JSON header"},
        {"{\"\xff\":1}", "", "malformed JSON header"},
        {"{\"\xed\xa0\x80\":1}", "", "malformed JSON header"},
        {"{\"a\":" + std::string(100000, '['), "", "depth"},
    };
    for (const auto &c : cases) {
        const std::string message = failure_of(c.header, c.data);
        EXPECT_NE(message.find(c.part), std::string::npos) << c.header.substr(0, 200) << "\n  " << message;
        EXPECT_NE(message.find(path()), std::string::npos) << message;
    }
}

TEST_F(Safetensors, EveryTruncationIsAnError) {
    const std::string whole = with_length("{" + entry("a", "F32", "[2]", "[0,8]") + "}") + "12345678";
    for (size_t length = 0; length < whole.size(); length++) {
        write(whole.substr(0, length));
        EXPECT_EQ(amp_safetensors_open(path().c_str()), nullptr) << length;
        EXPECT_EQ(amp_last_status(), AMP_ERROR_IO);
        amp_clear_error();
    }
}

TEST_F(Safetensors, LyingLengthsAreErrors) {
    write(std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10));
    EXPECT_NE(failure().find("says that its header has 9223372036854775807 bytes, expected at most 2"),
              std::string::npos);
    write(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10));
    EXPECT_NE(failure().find("18446744073709551615"), std::string::npos);
}

TEST_F(Safetensors, FilesThatAreNoneGiveOneSentence) {
    EXPECT_NE(failure().find("cannot open it: No such file"), std::string::npos);
    EXPECT_EQ(amp_safetensors_open(folder.c_str()), nullptr);
    EXPECT_NE(std::string(amp_last_error()).find("is a directory"), std::string::npos);
    amp_clear_error();
    EXPECT_EQ(amp_safetensors_open(nullptr), nullptr);
    amp_clear_error();
    ASSERT_EQ(mkfifo(path().c_str(), 0600), 0);
    EXPECT_NE(failure().find("pipe"), std::string::npos) << "and does not wait for a writer";
    ASSERT_EQ(unlink(path().c_str()), 0);
}

TEST_F(Safetensors, BadArgumentsOfASaveLeaveNoFile) {
    const double z[] = {1, 2};
    amp_scope {
        amp_tensor *t = amp_from_data(z, AMP_F64, 0, nullptr), *c = amp_from_data(z, AMP_C128, 0, nullptr);
        amp_tensor *two[] = {t, t}, *holed[] = {t, nullptr};
        const char *same[] = {"a", "a"}, *metadata_name[] = {"__metadata__"}, *bad[] = {"\xff"}, *null[] = {nullptr},
                   *a[] = {"a", "b"};
        const char *odd[] = {"k", nullptr, nullptr}, *twice[] = {"k", "v", "k", "v", nullptr},
                   *binary[] = {"k", "\xff", nullptr};
        const struct {
            const char *const *names;
            amp_tensor *const *tensors;
            int64_t count;
            const char *const *metadata;
            const char *part;
        } cases[] = {
            {same, two, 2, nullptr, "'a' is given twice"},
            {metadata_name, two, 1, nullptr, "'__metadata__'"},
            {bad, two, 1, nullptr, "no UTF-8"},
            {null, two, 1, nullptr, "names[0] is NULL"},
            {a, holed, 2, nullptr, "tensors[1] is NULL"},
            {a, &c, 1, nullptr, "c128, which the format does not have"},
            {nullptr, two, 1, nullptr, "names is NULL"},
            {a, nullptr, 1, nullptr, "tensors is NULL"},
            {a, two, -1, nullptr, "count is negative"},
            {a, two, 1, odd, "metadata 'k' has no value"},
            {a, two, 1, twice, "metadata 'k' is given twice"},
            {a, two, 1, binary, "no UTF-8"},
        };
        for (const auto &k : cases) {
            EXPECT_NE(amp_save_safetensors(path().c_str(), k.names, k.tensors, k.count, k.metadata), AMP_OK) << k.part;
            EXPECT_NE(std::string(amp_last_error()).find(k.part), std::string::npos) << amp_last_error();
            amp_clear_error();
            EXPECT_NE(access(path().c_str(), F_OK), 0);
        }
    }
}

TEST_F(Safetensors, ThreadsShareAFile) {
    write(with_length("{" + entry("a", "I32", "[1]", "[0,4]") + "," + entry("b", "I32", "[1]", "[4,8]") + "}") +
          std::string("\1\0\0\0\2\0\0\0", 8));
    amp_safetensors *file = amp_safetensors_open(path().c_str());
    ASSERT_NE(file, nullptr);
    std::vector<std::thread> threads;
    std::vector<int> sums(4, 0);
    for (int i = 0; i < 4; i++) {
        threads.emplace_back([&, i] {
            for (int k = 0; k < 200; k++) {
                amp_scope {
                    sums[static_cast<size_t>(i)] +=
                        *static_cast<const int32_t *>(amp_data(amp_safetensors_get(file, "a"))) +
                        *static_cast<const int32_t *>(amp_data(amp_safetensors_get(file, "b")));
                }
                amp_safetensors_close(amp_safetensors_open(path().c_str()));
            }
        });
    }
    for (auto &thread : threads) thread.join();
    amp_safetensors_close(file);
    EXPECT_EQ(sums, (std::vector<int>(4, 600)));
}

// Fails the Nth allocation, for every N until one succeeds.
struct Failing {
    int countdown = 0;
    static void *allocate(void *context, size_t bytes, size_t alignment) {
        auto *self = static_cast<Failing *>(context);
        if (self->countdown-- == 0) return nullptr;
        void *block = nullptr;
        return posix_memalign(&block, alignment, bytes) == 0 ? block : nullptr;
    }
    static void release(void *, void *block, size_t) {
        free(block);
    }
};

TEST_F(Safetensors, EveryAllocationMayFail) {
    write(with_length("{\"__metadata__\":{\"k\":\"v\"}," + entry("a", "U8", "[1]", "[0,1]") + "," +
                      entry("b", "F32", "[1]", "[1,5]") + "}") +
          "12345");
    Failing failing;
    const amp_allocator allocator = {Failing::allocate, Failing::release, &failing};
    ASSERT_EQ(amp_set_allocator(&allocator), AMP_OK);
    int succeeded = -1;
    for (int n = 0; n < 50 && succeeded < 0; n++) {
        amp_memory_trim();
        failing.countdown = n;
        amp_safetensors *file = amp_safetensors_open(path().c_str());
        amp_tensor *a = file ? amp_safetensors_get(file, "a") : nullptr,
                   *b = a ? amp_safetensors_get(file, "b") : nullptr;
        const char *names[] = {"a", "b"};
        amp_tensor *tensors[] = {a, b};
        if (b && amp_save_safetensors(path("b.safetensors").c_str(), names, tensors, 2, nullptr) == AMP_OK) {
            succeeded = n;
        } else {
            EXPECT_EQ(amp_last_status(), AMP_ERROR_MEMORY) << amp_last_error();
        }
        amp_clear_error();
        amp_safetensors_close(file);
        amp_release(a);
        amp_release(b);
    }
    EXPECT_GE(succeeded, 0);
    amp_memory_trim();
    ASSERT_EQ(amp_set_allocator(nullptr), AMP_OK);
}

} // namespace
