// Rows of the kernel table as parameters of a test: one test for each row, named after it, skipped with the reason
// where this machine does not run it.
#ifndef AMP_TESTS_KERNEL_ROWS_H
#define AMP_TESTS_KERNEL_ROWS_H

#include <gtest/gtest.h>

#include <string>
#include <vector>

extern "C" {
#include "cpu/registry/kernels.h"
}

namespace kernel_rows {

// Places in the table.
template <class Wanted>
std::vector<int> rows_where(const Wanted &wanted) {
    std::vector<int> rows;
    for (int i = 0; i < amp_kernel_count(); i++)
        if (wanted(*amp_kernel_at(i))) rows.push_back(i);
    return rows;
}
inline std::vector<int> rows_of(amp_kernel_family family) {
    return rows_where([family](const amp_kernel &kernel) { return kernel.family == family; });
}

inline std::string row_name(const testing::TestParamInfo<int> &info) {
    return amp_kernel_at(info.param)->name;
}

class EveryRow : public testing::TestWithParam<int> {
  protected:
    const amp_kernel *kernel = amp_kernel_at(GetParam());
    void SetUp() override {
        char reason[AMP_KERNEL_REASON_SIZE];
        if (!amp_kernel_usable(kernel, reason)) GTEST_SKIP() << kernel->name << ": " << reason;
    }
};

} // namespace kernel_rows

#endif // AMP_TESTS_KERNEL_ROWS_H
