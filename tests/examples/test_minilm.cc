// The demo's model against recorded embeddings, through the public API. Skips where scripts/setup did not fetch the
// model.
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "minilm.h"
#include "sanitizers.h"
#include "wordpiece.h"

namespace {

const std::string kFolder = ".deps/models/all-MiniLM-L6-v2";
constexpr double kF32Tolerance = 2e-6, kBf16Cosine = 0.9995;

struct Expected {
    std::string text;
    std::vector<int64_t> ids;
    std::vector<double> embedding;
};

std::string FromHex(const std::string &hex) {
    std::string bytes;
    for (size_t i = 0; hex != "-" && i < hex.size(); i += 2) bytes += char(std::stoi(hex.substr(i, 2), nullptr, 16));
    return bytes;
}

std::vector<Expected> ReadExpected() {
    std::ifstream file("tests/data/minilm_expected.txt");
    std::vector<Expected> all;
    for (std::string line, kind; std::getline(file, line);) {
        std::istringstream words(line);
        words >> kind;
        if (kind == "text") {
            std::string hex;
            words >> hex;
            all.push_back({FromHex(hex), {}, {}});
        } else if (kind == "ids") {
            for (int64_t id; words >> id;) all.back().ids.push_back(id);
        } else if (kind == "embedding") {
            for (double value; words >> value;) all.back().embedding.push_back(value * 1e-8);
        }
    }
    return all;
}

double Cosine(const float *a, const std::vector<double> &b) {
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < MINILM_WIDTH; i++) {
        ab += a[i] * b[i];
        aa += double(a[i]) * a[i];
        bb += b[i] * b[i];
    }
    return ab / std::sqrt(aa * bb);
}

class MiniLm : public ::testing::Test {
  protected:
    void SetUp() override {
        amp_clear_error();
        if (!std::ifstream(kFolder + "/model.safetensors")) GTEST_SKIP() << "no model: scripts/setup fetches it";
        expected_ = ReadExpected();
        ASSERT_EQ(expected_.size(), 8u) << "tests run in the repository's root";
        model_.reset(minilm_open(kFolder.c_str()));
        ASSERT_TRUE(model_) << amp_last_error();
    }

    void TearDown() override {
        model_.reset();
        EXPECT_EQ(amp_memory_statistics().live_tensors, 0u);
        amp_clear_error();
    }

    // One embedding after the other, [texts, MINILM_WIDTH].
    std::vector<float> Embed(const std::vector<Expected> &texts, bool bf16) {
        size_t longest = 0;
        for (const Expected &e : texts) longest = std::max(longest, e.ids.size());
        std::vector<int64_t> ids(texts.size() * longest, 0);
        std::vector<int> lengths;
        for (size_t i = 0; i < texts.size(); i++) {
            std::copy(texts[i].ids.begin(), texts[i].ids.end(), ids.begin() + long(i * longest));
            lengths.push_back(int(texts[i].ids.size()));
        }
        std::vector<float> out(texts.size() * MINILM_WIDTH, NAN);
        amp_autocast(AMP_DEVICE_CPU, AMP_BF16, bf16) {
            minilm_embed(model_.get(), ids.data(), lengths.data(), int(texts.size()), int(longest), out.data());
        }
        EXPECT_EQ(amp_last_status(), AMP_OK) << amp_last_error();
        return out;
    }

    void ExpectF32(const float *actual, const Expected &e) {
        for (int i = 0; i < MINILM_WIDTH; i++)
            EXPECT_NEAR(actual[i], e.embedding[size_t(i)], kF32Tolerance) << "component " << i << " of " << e.text;
    }

    std::vector<Expected> expected_;
    std::unique_ptr<minilm, decltype(&minilm_close)> model_{nullptr, minilm_close};
};

TEST_F(MiniLm, TokenIdsAreTheRecordedOnes) {
    wordpiece_error error = {""};
    std::unique_ptr<wordpiece, decltype(&wordpiece_close)> t(wordpiece_open((kFolder + "/vocab.txt").c_str(), &error),
                                                             wordpiece_close);
    ASSERT_TRUE(t) << error.sentence;
    for (const Expected &e : expected_) {
        std::vector<int64_t> ids(MINILM_USUAL_MAX_TOKENS);
        ids.resize(wordpiece_encode(t.get(), e.text.data(), e.text.size(), ids.data(), ids.size(), &error));
        EXPECT_EQ(ids, e.ids) << e.text;
    }
}

TEST_F(MiniLm, F32EmbeddingsAreTheRecordedOnes) {
    for (const Expected &e : expected_) ExpectF32(Embed({e}, false).data(), e);
}

TEST_F(MiniLm, PaddingChangesNothing) {
    const std::vector<float> all = Embed(expected_, false);
    for (size_t i = 0; i < expected_.size(); i++) ExpectF32(&all[i * MINILM_WIDTH], expected_[i]);
}

TEST_F(MiniLm, Bf16EmbeddingsPointTheSameWay) {
    const std::vector<float> all = Embed(expected_, true);
    for (size_t i = 0; i < expected_.size(); i++) {
        EXPECT_GE(Cosine(&all[i * MINILM_WIDTH], expected_[i].embedding), kBf16Cosine) << expected_[i].text;
        EXPECT_GE(Cosine(Embed({expected_[i]}, true).data(), expected_[i].embedding), kBf16Cosine) << expected_[i].text;
    }
}

TEST_F(MiniLm, Bf16IsNotF32) {
    EXPECT_NE(Embed(expected_, true), Embed(expected_, false));
}

TEST_F(MiniLm, Bf16DoesNotDependOnTheNumberOfThreads) {
    const int threads = amp_get_num_threads();
    const std::vector<float> before = Embed(expected_, true);
    for (int n : {1, 2, 3}) {
        amp_set_num_threads(n);
        EXPECT_EQ(Embed(expected_, true), before) << n << " threads";
    }
    amp_set_num_threads(threads);
}

TEST_F(MiniLm, FurtherCallsOfAShapeAllocateNothingFromTheSystem) {
    if (amp_test::under_asan) {
        GTEST_SKIP() << "nothing is kept under AddressSanitizer";
    }
    // How many threads met in oneDNN at once, each with operands of its own, differs from pass to pass: some are warm-up.
    for (bool bf16 : {false, true}) {
        size_t before = 0, after = 1;
        for (int round = 0; round < 5 && after != before; round++) {
            for (int i = 0; i < 2; i++) Embed(expected_, bf16);
            before = amp_memory_statistics().system_allocations;
            for (int i = 0; i < 3; i++) Embed(expected_, bf16);
            after = amp_memory_statistics().system_allocations;
        }
        EXPECT_EQ(after, before) << (bf16 ? "bf16" : "f32");
    }
}

TEST_F(MiniLm, WeightsStayMappedAndOnlyLinearOnesArePacked) {
    amp_cast_cache_clear();
    const size_t projections = size_t(MINILM_LAYERS) * 3 * MINILM_WIDTH * (MINILM_WIDTH + 1) * sizeof(float);
    EXPECT_LT(amp_memory_statistics().live_bytes, projections + (1u << 20))
        << "more weights were copied than are joined";
    Embed(expected_, true);
    const size_t packed = amp_cast_cache_statistics().bytes, linear = minilm_linear_bytes(model_.get());
    EXPECT_GE(packed, linear / 2);
    EXPECT_LE(packed, linear / 2 + linear / 50) << "biases and padding are no more than that";
}

TEST(MiniLmErrors, AMissingFolderIsNamed) {
    amp_clear_error();
    EXPECT_EQ(minilm_open("no/such/folder"), nullptr);
    EXPECT_NE(std::string(amp_last_error()).find("no/such/folder/model.safetensors"), std::string::npos)
        << amp_last_error();
    amp_clear_error();
}

TEST(MiniLmErrors, AFileOfSomethingElseSaysWhichTensorIsMissing) {
    amp_clear_error();
    char folder[] = "/tmp/test_minilm_XXXXXX";
    ASSERT_TRUE(mkdtemp(folder));
    const std::string path = std::string(folder) + "/model.safetensors", header = "{}";
    std::ofstream(path, std::ios::binary) << char(header.size()) << std::string(7, '\0') << header;
    EXPECT_EQ(minilm_open(folder), nullptr);
    EXPECT_NE(std::string(amp_last_error()).find("embeddings.word_embeddings.weight"), std::string::npos)
        << amp_last_error();
    remove(path.c_str());
    rmdir(folder);
    amp_clear_error();
    EXPECT_EQ(amp_memory_statistics().live_tensors, 0u);
}

} // namespace
