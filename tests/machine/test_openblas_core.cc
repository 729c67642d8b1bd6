// Which of OpenBLAS's choices of kernels run; tests/qemu.sh tries one that does not.
#include "amp_test.h"

extern "C" {
#include "machine/openblas_core.h"
}

using namespace amp_test;

TEST(Blas, KernelsOfAnOpteronNeed3dNow) {
    EXPECT_EQ(amp_blas_judge("Prescott", false), nullptr);
    EXPECT_EQ(amp_blas_judge("Haswell", false), nullptr);
    EXPECT_EQ(amp_blas_judge("Opteron", true), nullptr);
    EXPECT_EQ(amp_blas_judge(nullptr, false), nullptr);
    for (const char *core : {"Opteron", "Opteron_SSE3"}) {
        ASSERT_NE(amp_blas_judge(core, false), nullptr);
        EXPECT_NE(std::string(amp_blas_judge(core, false)).find("OPENBLAS_CORETYPE=Prescott"), std::string::npos);
    }
}

using BlasOps = amp_test::Test;

TEST_F(BlasOps, ProductsAreComputedAndEquationsSolvedOrRefused) {
    amp_tensor *a = random_tensor(AMP_F64, {70, 70}, 1);
    EXPECT_NE(op("mm", {a, a}), nullptr) << amp_last_error();
    if (op("linalg_solve", {a, a})) return;
    EXPECT_TRUE(
        failed_with(AMP_ERROR_NOT_IMPLEMENTED, {"linalg_solve: OpenBLAS takes this CPU for", "OPENBLAS_CORETYPE"}));
}
