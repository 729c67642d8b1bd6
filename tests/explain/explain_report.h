// The explain report as the tests read it.
#ifndef AMP_TESTS_EXPLAIN_REPORT_H
#define AMP_TESTS_EXPLAIN_REPORT_H

#include <jansson.h>

#include <cstring>
#include <string>

#include "amp_test.h"

namespace amp_test {

inline std::string report(amp_explain_format format) {
    char *text = amp_explain_report(format);
    EXPECT_NE(text, nullptr) << amp_last_error();
    const std::string copy = text ? text : "";
    amp_explain_free(text);
    return copy;
}

// The JSON report, parsed.
class Report {
  public:
    explicit Report(const std::string &text = report(AMP_EXPLAIN_JSON)) {
        json_error_t error;
        root_ = json_loads(text.c_str(), JSON_REJECT_DUPLICATES, &error);
        EXPECT_NE(root_, nullptr) << error.text << "\n" << text;
    }
    ~Report() {
        json_decref(root_);
    }
    Report(const Report &) = delete;
    Report &operator=(const Report &) = delete;

    json_t *root() const {
        return root_;
    }
    size_t rows() const {
        return json_array_size(json_object_get(root_, "ops"));
    }

    // The row of an op, its number `index` of that name.
    json_t *row(const char *op, size_t index = 0) const {
        size_t i = 0;
        json_t *item = nullptr;
        json_array_foreach(json_object_get(root_, "ops"), i, item) {
            if (std::strcmp(text(item, "op").c_str(), op) == 0 && index-- == 0) return item;
        }
        ADD_FAILURE() << "no row of " << op;
        return nullptr;
    }

    static std::string text(json_t *row, const char *key) {
        const char *value = json_string_value(json_object_get(row, key));
        return value ? value : "";
    }
    static int64_t number(json_t *row, const char *key) {
        EXPECT_TRUE(json_is_integer(json_object_get(row, key))) << key;
        return json_integer_value(json_object_get(row, key));
    }

  private:
    json_t *root_ = nullptr;
};

class Explain : public Test {
  protected:
    void SetUp() override {
        amp_explain_reset();
        amp_cast_cache_clear();
        amp_explain_begin();
    }
    void TearDown() override {
        amp_explain_end();
        amp_explain_reset();
        Test::TearDown();
    }

    amp_tensor *x_ = tensor(AMP_F32, {2, 3}), *w_ = tensor(AMP_F32, {4, 3});
};

} // namespace amp_test

#endif // AMP_TESTS_EXPLAIN_REPORT_H
