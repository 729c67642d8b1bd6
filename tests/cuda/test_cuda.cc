// The CUDA backend on machines without a GPU: the module as it is installed, on top of a driver and a cuBLASLt of the
// tests' own (tests/fake_cuda), where kernels run on the host. Without the toolkit there is no module, and all of this
// skips.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "amp/dlpack.h"
#include "cuda/args/cuda_module.h"
#include "cuda_test.h"
#include "internals.h"

using namespace amp_test;

namespace {

// A call, by its arguments.
struct Wrong {
    const char *name;
    std::vector<Value> values;
    std::vector<Named> named = {};
};

class Cuda : public CudaTest {
  protected:
    // That of the module which libamp has opened.
    static const amp_cuda_module *module_table() {
        void *const library = dlopen("libamp_cuda.so", RTLD_NOW | RTLD_NOLOAD);
        if (!library) return nullptr;
        char why[64];
        return reinterpret_cast<amp_cuda_module_entry *>(dlsym(library, "amp_cuda_module_entry_point"))(why,
                                                                                                        sizeof why);
    }
    // Calls that every device refuses.
    static std::vector<Wrong> wrong_calls(bool on_device) {
        const auto four = [on_device](amp_dtype dtype) {
            amp_tensor *t = op("to", {counting({4}), dtype});
            return on_device ? sent(t) : t;
        };
        amp_tensor *f16 = four(AMP_F16), *f32 = four(AMP_F32), *f64 = four(AMP_F64), *i32 = four(AMP_I32);
        amp_tensor *u8 = four(AMP_U8), *truth = four(AMP_BOOL);
        amp_tensor *none = op("narrow", {f32, 0, 0, 0}), *three = op("narrow", {f32, 0, 0, 3});
        amp_tensor *row = op("unsqueeze", {f32, 0}), *turned = op("transpose", {row, 0, 1});
        amp_tensor *one = op("narrow", {row, 1, 0, 1});
        return {
            {"pow", {i32, amp_int(-1)}},
            {"masked_fill", {u8, truth, amp_int(300)}},
            {"masked_fill", {f16, truth, amp_float(-1e9)}},
            {"masked_fill", {f32, truth, f32}},
            {"masked_fill", {f32, i32, amp_float(1)}},
            {"clamp", {u8, amp_int(300)}},
            {"clamp", {f32}},
            {"addcmul", {i32, i32, i32}, {{"value", amp_float(1.5)}}},
            {"addcmul", {truth, truth, truth}},
            {"addcdiv", {i32, i32, i32}},
            {"lerp", {i32, i32, amp_float(0.5)}},
            {"lerp", {f32, f64, f32}},
            {"add", {i32, i32}, {{"alpha", amp_float(1.5)}}},
            {"sub", {truth, truth}},
            {"div", {f32, f32}, {{"rounding_mode", "up"}}},
            {"remainder", {i32, amp_int(0)}},
            {"fmod", {u8, amp_bool(false)}},
            {"floor_divide", {i32, amp_int(0)}},
            {"div", {i32, amp_int(0)}, {{"rounding_mode", "trunc"}}},
            {"softmax", {i32, 0}},
            {"softmax", {f32, 1}},
            {"argmax", {none}},
            {"argmax", {op("to", {f32, AMP_C64})}},
            {"glu", {i32}},
            {"glu", {three}},
            {"prelu", {i32, i32}},
            {"prelu", {f32, f64}},
            {"prelu", {f32, f32}},
            {"group_norm", {f32, 2}},
            {"group_norm", {op("unsqueeze", {i32, 0}), 2}},
            {"group_norm", {row, 3}},
            {"group_norm", {row, 2, f64}},
            {"embedding", {i32, f32}},
            {"embedding", {f32, row}},
            {"nll_loss", {i32, i32}},
            {"nll_loss", {f32, f32}},
            {"cross_entropy", {f32, i32}},
            {"cross_entropy", {f32, f32}, {{"label_smoothing", 2.0}}},
            {"multi_margin_loss", {f32, i32}},
            {"multilabel_margin_loss", {f32, f32}},
            {"scaled_dot_product_attention", {f32, f32, f32}},
            {"scaled_dot_product_attention", {row, turned, row}},
            {"scaled_dot_product_attention", {row, row, row}, {{"attn_mask", row}}},
            {"scaled_dot_product_attention", {row, row, row}, {{"attn_mask", one}, {"is_causal", true}}},
        };
    }
};

// ---- Transfers ------------------------------------------------------------------------------------------------------

TEST_F(Cuda, TensorsGoThereAndBack) {
    Scope scope;
    amp_tensor *host = counting({3, 4}), *device = sent(host);
    ASSERT_NE(device, nullptr) << amp_last_error();
    EXPECT_EQ(amp_tensor_device(device), AMP_DEVICE_CUDA);
    EXPECT_EQ(amp_data(device), nullptr);
    EXPECT_TRUE(contains(error(), "the tensor is on cuda"));
    EXPECT_EQ(values(device), values(host));
    EXPECT_EQ(amp_tensor_device(fetched(device)), AMP_DEVICE_CPU);
}

TEST_F(Cuda, TransfersLargerThanAPieceOfStagingAreWhole) {
    Scope scope;
    amp_tensor *host = counting({3 << 20}); // 12 MiB: three pieces of four
    EXPECT_EQ(values(sent(host)), values(host));
}

TEST_F(Cuda, StridedAndEmptyTensorsAndNumbersGoThereToo) {
    Scope scope;
    amp_tensor *host = op("transpose", {counting({3, 4}), 0, 1});
    EXPECT_EQ(values(sent(host)), values(host));
    EXPECT_EQ(values(op("transpose", {sent(host), 0, 1})), values(counting({3, 4})));
    EXPECT_TRUE(values(sent(counting({0, 4}))).empty());
    EXPECT_EQ(values(sent(counting({}))), std::vector<float>{0});
}

TEST_F(Cuda, ToConvertsOnTheWay) {
    Scope scope;
    amp_tensor *half = op("to", {counting({5}), AMP_DEVICE_CUDA}, {{"dtype", AMP_F16}});
    ASSERT_NE(half, nullptr) << amp_last_error();
    EXPECT_EQ(amp_tensor_dtype(half), AMP_F16);
    EXPECT_EQ(values(half), values(counting({5})));
}

TEST_F(Cuda, UploadsDoNotWaitAndDownloadsWaitOnce) {
    Scope scope;
    for (int i = 0; i < 4; i++) sent(counting({1})); // every piece of staging has been used
    const uint64_t waits = fake->synchronizations;
    const amp_cuda_counts start = amp_cuda_counters();
    amp_tensor *a = sent(counting({64, 64})), *b = sent(counting({64, 64}));
    amp_tensor *sum = op("add", {op("mm", {a, b}), a});
    sum = op("softmax", {op("relu", {sum}), 1});
    ASSERT_NE(sum, nullptr) << amp_last_error();
    EXPECT_EQ(amp_cuda_counters().synchronizations, start.synchronizations) << "an op waited for the device";
    EXPECT_GT(amp_cuda_counters().launches, start.launches);
    EXPECT_EQ(values(sum).size(), 64u * 64u);
    EXPECT_EQ(amp_cuda_counters().synchronizations, start.synchronizations + 1);
    EXPECT_EQ(fake->synchronizations, waits + 1) << "what is counted is what the driver saw";
}

TEST_F(Cuda, ImagesStayChannelsLastOnTheWay) {
    for (amp_tensor *image : {op("permute", {counting({2, 4, 5, 3}), AMP_DIMS(0, 3, 1, 2)}),
                              op("permute", {counting({2, 4, 5, 3, 2}), AMP_DIMS(0, 4, 1, 2, 3)})}) {
        amp_tensor *there = sent(image), *back = fetched(there);
        ASSERT_NE(back, nullptr) << amp_last_error();
        for (int i = 0; i < amp_tensor_rank(image); i++) {
            EXPECT_EQ(amp_tensor_strides(there)[i], amp_tensor_strides(image)[i]);
            EXPECT_EQ(amp_tensor_strides(back)[i], amp_tensor_strides(image)[i]);
        }
        EXPECT_EQ(values(there), values(image));
        EXPECT_EQ(values(back), values(image));
    }
}

TEST_F(Cuda, UploadsThatOvertakeTheDeviceWaitForItAndAreCounted) {
    Scope scope;
    amp_tensor *pieces = counting({4 << 20}); // 16 MiB: all four
    fake->slow = true;
    amp_tensor *first = sent(pieces);
    const uint64_t waits = fake->synchronizations, counted = amp_cuda_counters().synchronizations;
    amp_tensor *second = sent(pieces);
    EXPECT_EQ(fake->synchronizations, waits + 4);
    EXPECT_EQ(amp_cuda_counters().synchronizations, counted + 4);
    fake->slow = false;
    EXPECT_EQ(values(op("eq", {first, second})), std::vector<float>(4 << 20, 1.0f));
}

TEST_F(Cuda, ThreadsTransferAtOnce) {
    Scope scope;
    std::vector<std::thread> threads;
    for (int i = 0; i < 6; i++) {
        threads.emplace_back([] {
            Scope inner;
            amp_tensor *host = counting({3 << 20});
            EXPECT_EQ(values(sent(host)), values(host));
        });
    }
    for (std::thread &t : threads) t.join();
}

// ---- Devices, threads, streams --------------------------------------------------------------------------------------

TEST_F(Cuda, ADeviceThatDoesNotExistIsAnErrorThatCountsThem) {
    EXPECT_EQ(amp_cuda_device_count(), 4);
    EXPECT_EQ(amp_cuda_set_device(4), AMP_ERROR_INVALID);
    EXPECT_EQ(error(), "cuda_set_device: cuda: there is no CUDA device 4; this machine has 4, counted from 0");
    EXPECT_EQ(amp_cuda_set_device(-1), AMP_ERROR_INVALID);
    amp_clear_error();
    EXPECT_EQ(amp_cuda_get_device(), 0);
}

TEST_F(Cuda, OpsRunOnTheDeviceOfTheirArguments) {
    Scope scope;
    ASSERT_EQ(amp_cuda_set_device(1), AMP_OK);
    amp_tensor *on_one = sent(counting({4}));
    ASSERT_EQ(amp_cuda_set_device(0), AMP_OK);
    amp_tensor *on_zero = sent(counting({4}));
    EXPECT_EQ(amp_cuda_device_of(op("exp", {on_one})), 1);
    EXPECT_EQ(amp_cuda_device_of(op("exp", {on_zero})), 0);
    EXPECT_EQ(values(op("add", {on_one, on_one})), (std::vector<float>{0, 2, 4, 6}));
    EXPECT_EQ(op("add", {on_zero, on_one}), nullptr);
    EXPECT_EQ(error(), "add: 'other' is on CUDA device 1, another argument on 0; all must be on one device");
}

TEST_F(Cuda, ToMovesTensorsToTheChosenDevice) {
    Scope scope;
    amp_tensor *on_zero = sent(counting({3, 4}));
    ASSERT_EQ(amp_cuda_set_device(1), AMP_OK);
    amp_tensor *moved = sent(op("transpose", {on_zero, 0, 1}));
    ASSERT_NE(moved, nullptr) << amp_last_error();
    EXPECT_EQ(amp_cuda_device_of(moved), 1);
    EXPECT_EQ(amp_cuda_device_of(on_zero), 0);
    EXPECT_EQ(values(moved), values(op("transpose", {counting({3, 4}), 0, 1})));
    amp_tensor *half = op("to", {on_zero, AMP_DEVICE_CUDA}, {{"dtype", AMP_F16}});
    ASSERT_NE(half, nullptr) << amp_last_error();
    EXPECT_EQ(amp_tensor_dtype(half), AMP_F16);
    EXPECT_EQ(amp_cuda_device_of(half), 1);
    EXPECT_EQ(amp_cuda_device_of(sent(counting({1}))), 1) << "the thread's device stays";
    ASSERT_EQ(amp_cuda_set_device(0), AMP_OK);
}

TEST_F(Cuda, TargetsOnAnotherDeviceAreRefused) {
    Scope scope;
    ASSERT_EQ(amp_cuda_set_device(1), AMP_OK);
    amp_tensor *on_one = sent(counting({4}));
    ASSERT_EQ(amp_cuda_set_device(0), AMP_OK);
    amp_tensor *on_zero = sent(counting({4}));
    EXPECT_EQ(op("exp_out", {on_zero}, {{"out", on_one}}), nullptr);
    EXPECT_EQ(error(), "exp_out: 'out' is on CUDA device 1, another argument on 0; all must be on one device");
    amp_tensor *places = op("zeros", {AMP_DIMS(4)}, {{"dtype", AMP_I64}, {"device", AMP_DEVICE_CUDA}});
    EXPECT_EQ(op("sort_out", {on_zero}, {{"out", std::vector<amp_tensor *>{on_one, places}}}), nullptr);
    EXPECT_EQ(error(), "sort_out: 'out' is on CUDA device 1, another argument on 0; all must be on one device");
    EXPECT_EQ(op("sort_out", {on_zero}, {{"out", std::vector<amp_tensor *>{counting({4}), places}}}), nullptr);
    EXPECT_EQ(error(), "sort_out: 'values' is on cpu, the arguments are on cuda; all must be on one device");
    EXPECT_EQ(op("add_", {on_one, on_zero}), nullptr);
    EXPECT_EQ(error(), "add_: 'other' is on CUDA device 0, another argument on 1; all must be on one device");
    EXPECT_EQ(values(on_one), (std::vector<float>{0, 1, 2, 3}));
}

TEST_F(Cuda, HostAndDeviceTensorsDoNotMix) {
    Scope scope;
    EXPECT_EQ(op("add", {sent(counting({2})), counting({2})}), nullptr);
    EXPECT_EQ(error(), "add: 'other' is on cpu, another argument on cuda; all must be on one device");
}

TEST_F(Cuda, ATensorOfAThreadThatEndedStaysGood) {
    Scope scope;
    ASSERT_NE(sent(counting({1})), nullptr); // this thread has a stream of its own: it does not take the maker's over
    amp_tensor *made = nullptr;
    std::thread([&] {
        Scope inner;
        amp_tensor *host = counting({1000});
        made = amp_keep(op("exp", {op("mul", {sent(host), amp_float(0)})}));
    }).join();
    ASSERT_NE(made, nullptr);
    const uint64_t waits = amp_cuda_counters().stream_waits;
    EXPECT_EQ(values(made), std::vector<float>(1000, 1.0f));
    EXPECT_GT(amp_cuda_counters().stream_waits, waits) << "this stream must come after the other";
    amp_release(made);
}

TEST_F(Cuda, ATensorThatChangesThreadsMakesTheStreamWaitNotTheHost) {
    Scope scope;
    amp_tensor *x = sent(counting({100}));
    const amp_cuda_counts start = amp_cuda_counters();
    std::thread([&] {
        Scope inner;
        EXPECT_NE(op("exp", {x}), nullptr) << amp_last_error();
        EXPECT_GT(amp_cuda_counters().stream_waits, start.stream_waits);
        EXPECT_EQ(amp_cuda_counters().synchronizations, start.synchronizations);
    }).join();
}

TEST_F(Cuda, TensorsGoFromOneDeviceToAnotherWithoutTheHost) {
    Scope scope;
    amp_tensor *host = op("transpose", {counting({3, 4}), 0, 1}), *on_zero = sent(host);
    ASSERT_EQ(amp_cuda_set_device(1), AMP_OK);
    const amp_cuda_counts start = amp_cuda_counters();
    amp_tensor *on_one = sent(op("mul", {on_zero, 2})), *empty = sent(op("narrow", {on_zero, 0, 0, 0}));
    ASSERT_NE(on_one, nullptr) << amp_last_error();
    ASSERT_NE(empty, nullptr) << amp_last_error();
    EXPECT_EQ(amp_cuda_device_of(on_one), 1);
    EXPECT_EQ(amp_cuda_device_of(on_zero), 0);
    EXPECT_EQ(amp_cuda_counters().synchronizations, start.synchronizations);
    EXPECT_GE(amp_cuda_counters().stream_waits, start.stream_waits + 2) << "each stream waits for the other";
    EXPECT_EQ(values(op("add", {on_one, on_one})), values(op("mul", {host, 4})));
    EXPECT_EQ(sent(on_one) == nullptr, false);
    ASSERT_EQ(amp_cuda_set_device(0), AMP_OK);
    EXPECT_EQ(values(sent(on_one)), values(op("mul", {host, 2})));
}

TEST_F(Cuda, FactoriesMakeTensorsWhereTheyAreTold) {
    Scope scope;
    for (const char *name : {"zeros", "ones", "empty"}) {
        amp_tensor *t = op(name, {AMP_DIMS(2, 3)}, {{"device", AMP_DEVICE_CUDA}});
        ASSERT_NE(t, nullptr) << amp_last_error();
        EXPECT_EQ(amp_tensor_device(t), AMP_DEVICE_CUDA) << name;
    }
    EXPECT_EQ(values(op("ones", {AMP_DIMS(3)}, {{"device", AMP_DEVICE_CUDA}})), std::vector<float>(3, 1.0f));
    EXPECT_EQ(values(op("full", {AMP_DIMS(2), amp_float(0.5)}, {{"dtype", AMP_F16}, {"device", AMP_DEVICE_CUDA}})),
              std::vector<float>(2, 0.5f));
    EXPECT_EQ(values(op("arange", {amp_int(4)}, {{"device", AMP_DEVICE_CUDA}})), values(counting({4})));
    EXPECT_EQ(values(op("arange.start", {amp_float(1), amp_float(2), amp_float(0.25)}, {{"device", AMP_DEVICE_CUDA}})),
              (std::vector<float>{1, 1.25, 1.5, 1.75}));
    EXPECT_EQ(amp_tensor_device(op("zeros", {AMP_DIMS(2)})), AMP_DEVICE_CPU);
    EXPECT_EQ(op("zeros", {AMP_DIMS(2)}, {{"device", 7}}), nullptr);
    EXPECT_EQ(error(), "zeros: 'device' is 7; expected AMP_DEVICE_CPU or AMP_DEVICE_CUDA");
    ASSERT_EQ(amp_cuda_set_device(1), AMP_OK);
    EXPECT_EQ(amp_cuda_device_of(op("ones", {AMP_DIMS(3)}, {{"device", AMP_DEVICE_CUDA}})), 1);
    ASSERT_EQ(amp_cuda_set_device(0), AMP_OK);
}

TEST_F(Cuda, OutFormsWriteWhereTheTargetIs) {
    Scope scope;
    ASSERT_EQ(amp_cuda_set_device(1), AMP_OK);
    amp_tensor *two_by_two = sent(counting({2, 2})), *column = op("select", {two_by_two, 1, 0});
    ASSERT_EQ(amp_cuda_set_device(0), AMP_OK);
    EXPECT_EQ(op("arange_out", {amp_float(5), amp_float(7)}, {{"out", column}}), column) << amp_last_error();
    EXPECT_EQ(values(two_by_two), (std::vector<float>{5, 1, 6, 3}));
    EXPECT_EQ(op("t_", {two_by_two}), two_by_two) << amp_last_error();
    EXPECT_EQ(values(two_by_two), (std::vector<float>{5, 6, 1, 3}));
    EXPECT_EQ(op("zeros_out", {AMP_DIMS(2, 2)}, {{"out", two_by_two}}), two_by_two) << amp_last_error();
    EXPECT_EQ(values(two_by_two), std::vector<float>(4, 0.0f));
    amp_tensor *x = sent(counting({2, 3})), *sums = sent(counting({2, 3, 2}));
    const std::vector<amp_tensor *> outs = {
        op("select", {sums, 2, 1}),
        op("zeros", {AMP_DIMS(2, 3)}, {{"dtype", AMP_I64}, {"device", AMP_DEVICE_CUDA}}),
    };
    EXPECT_EQ(op("cummax_out", {x, 0}, {{"out", outs}}), outs[0]) << amp_last_error();
    EXPECT_EQ(values(outs[0]), values(both("cummax", {x, 0})[0]));
    EXPECT_EQ(values(op("to", {outs[1], AMP_F32})), (std::vector<float>{0, 0, 0, 1, 1, 1}));
}

// The double of cuBLASLt rounds factors as TF32 does.
TEST_F(Cuda, ProductsOfF32AreExactUnlessTf32IsAllowed) {
    Scope scope;
    const float numbers[1] = {1.0f + 0x1p-15f};
    const int64_t one[2] = {1, 1};
    amp_tensor *x = sent(amp_from_data(numbers, AMP_F32, 2, one));
    EXPECT_FALSE(amp_cuda_matmul_allow_tf32());
    EXPECT_GT(values(op("mm", {x, x})).at(0), 1.0f);
    amp_cuda_matmul_set_allow_tf32(true);
    EXPECT_TRUE(amp_cuda_matmul_allow_tf32());
    EXPECT_EQ(values(op("mm", {x, x})).at(0), 1.0f);
    amp_cuda_matmul_set_allow_tf32(false);
    EXPECT_GT(values(op("mm", {x, x})).at(0), 1.0f);
}

// ---- Failures -------------------------------------------------------------------------------------------------------

TEST_F(Cuda, ALaunchThatFailsNamesTheOpAndTheNextOneWorks) {
    Scope scope;
    amp_tensor *x = sent(counting({10}));
    fake->fail_launch = 1; // CUDA_ERROR_INVALID_VALUE
    EXPECT_EQ(op("exp", {x}), nullptr);
    EXPECT_EQ(error(), "exp: cuda: exp_flat_f32: invalid argument (CUDA error 1)");
    EXPECT_NE(op("exp", {x}), nullptr) << amp_last_error();
}

TEST_F(Cuda, ACallThatFailsLeavesTheThreadOnItsDevice) {
    Scope scope;
    amp_tensor *host = counting({2, 2});
    ASSERT_EQ(amp_cuda_set_device(1), AMP_OK);
    amp_tensor *there = sent(host);
    ASSERT_EQ(amp_cuda_set_device(0), AMP_OK);
    EXPECT_EQ(op("eig", {there}), nullptr);
    const std::string text = error();
    EXPECT_TRUE(contains(text, "not implemented on cuda")) << text;
    EXPECT_EQ(amp_cuda_device_of(sent(host)), 0) << "to_device after an op that is not there";
}

TEST_F(Cuda, AnIndexOutOfRangeIsToldOfWhenTheHostWaitsAndTheDeviceStaysGood) {
    Scope scope;
    amp_tensor *table = sent(counting({4, 3})), *index = sent(outside_of_four());
    amp_tensor *rows = op("embedding", {index, table});
    EXPECT_NE(rows, nullptr) << "the error comes later: nobody waits here";
    EXPECT_EQ(amp_cuda_synchronize(), AMP_ERROR_INVALID);
    EXPECT_EQ(error(), "cuda_synchronize: cuda: an index of embedding was out of range");
    EXPECT_EQ(values(rows), (std::vector<float>{3, 4, 5, 0, 0, 0})) << "told once; what is not there is 0";
    EXPECT_NE(op("gather", {table, 0, op("unsqueeze", {index, 1})}), nullptr);
    EXPECT_EQ(fetched(table), nullptr);
    EXPECT_EQ(error(), "to: cuda: an index of gather was out of range");
    EXPECT_EQ(values(table), values(counting({4, 3})));
}

TEST_F(Cuda, AZeroAmongDivisorsOfIntegersIsToldOfWhenTheHostWaits) {
    Scope scope;
    amp_tensor *x = sent(op("to", {counting({4}), AMP_I32}));
    for (const char *name : {"remainder", "fmod", "floor_divide"}) {
        EXPECT_NE(op(name, {x, x}), nullptr);
        EXPECT_EQ(amp_cuda_synchronize(), AMP_ERROR_INVALID);
        EXPECT_EQ(error(), std::string("cuda_synchronize: cuda: a divisor of ") + name +
                               " was zero, and integers cannot be divided by it");
    }
    EXPECT_EQ(amp_cuda_synchronize(), AMP_OK);
    EXPECT_EQ(values(op("remainder", {x, op("add", {x, amp_int(1)})})), (std::vector<float>{0, 1, 2, 3}));
}

TEST_F(Cuda, WhatIsNoProbabilityIsToldOfWhenTheHostWaits) {
    Scope scope;
    amp_tensor *x = sent(counting({4}));
    EXPECT_NE(op("binary_cross_entropy", {x, x}), nullptr) << amp_last_error();
    EXPECT_EQ(amp_cuda_synchronize(), AMP_ERROR_INVALID);
    EXPECT_EQ(error(), "cuda_synchronize: cuda: an input of binary_cross_entropy was not between 0 and 1");
    EXPECT_EQ(values(x), values(counting({4})));
}

TEST_F(Cuda, FaultsOfAThreadAreToldToThatThread) {
    Scope scope;
    amp_tensor *x = sent(op("to", {counting({4}), AMP_I32}));
    EXPECT_NE(op("remainder", {x, x}), nullptr);
    std::thread([] { EXPECT_EQ(amp_cuda_synchronize(), AMP_OK) << amp_last_error(); }).join();
    EXPECT_EQ(amp_cuda_synchronize(), AMP_ERROR_INVALID);
    amp_clear_error();
}

TEST_F(Cuda, WrongArgumentsAreRefusedInTheWordsOfTheCpu) {
    Scope scope;
    const std::vector<Wrong> host = wrong_calls(false), device = wrong_calls(true);
    for (size_t i = 0; i < host.size(); i++) {
        EXPECT_EQ(op(host[i].name, host[i].values, host[i].named), nullptr) << host[i].name << ", row " << i;
        const std::string expected = error();
        EXPECT_EQ(op(device[i].name, device[i].values, device[i].named), nullptr) << expected;
        EXPECT_EQ(error(), expected);
    }
    amp_tensor *f32 = sent(counting({4})), *i32 = op("to", {f32, AMP_I32});
    EXPECT_EQ(values(op("remainder", {f32, amp_int(0)})).size(), 4u) << "floats have NaN";
    EXPECT_EQ(values(op("remainder", {op("narrow", {i32, 0, 0, 0}), amp_int(0)})).size(), 0u);
    EXPECT_EQ(amp_cuda_synchronize(), AMP_OK) << amp_last_error();
}

// A device is lost for good: each of these has one that no other test needs.
TEST_F(Cuda, ZLostDevicesNameTheOpsThatMayHaveCausedIt) {
    Scope scope;
    ASSERT_EQ(amp_cuda_set_device(3), AMP_OK);
    amp_tensor *x = sent(counting({4}));
    ASSERT_EQ(amp_cuda_synchronize(), AMP_OK);
    fake->lose_launch = true;
    EXPECT_NE(op("exp", {x}), nullptr) << "the error comes later: nobody waits here";
    EXPECT_EQ(amp_cuda_synchronize(), AMP_ERROR_DEVICE);
    const std::string first = error();
    EXPECT_TRUE(contains(first, "device 3 is lost: unspecified launch failure (CUDA error 719)")) << first;
    EXPECT_TRUE(contains(first, "caused by exp")) << first;
    EXPECT_EQ(op("sin", {x}), nullptr);
    EXPECT_TRUE(contains(error(), "caused by exp"));
    EXPECT_EQ(amp_cuda_trim_memory(), AMP_ERROR_DEVICE);
    EXPECT_TRUE(contains(error(), "caused by exp"));
    ASSERT_EQ(amp_cuda_set_device(0), AMP_OK);
    EXPECT_NE(op("exp", {sent(counting({4}))}), nullptr) << "the other device: " << amp_last_error();
}

TEST_F(Cuda, ZAThreadsFirstUseOfALostDeviceFindsIt) {
    Scope scope;
    ASSERT_EQ(amp_cuda_set_device(2), AMP_OK);
    amp_tensor *x = sent(counting({4}));
    ASSERT_EQ(amp_cuda_set_device(0), AMP_OK);
    for (const char *name : {"exp", "sin", "exp"}) EXPECT_NE(op(name, {x}), nullptr) << amp_last_error();
    fake->lose_launch = true;
    EXPECT_NE(op("exp", {x}), nullptr) << amp_last_error();
    std::thread([&] {
        Scope inner;
        EXPECT_EQ(op("exp", {x}), nullptr);
        EXPECT_TRUE(contains(amp_last_error(), "device 2 is lost")) << amp_last_error();
        amp_clear_error();
    }).join();
}

TEST_F(Cuda, AForkedProcessIsToldSo) {
    Scope scope;
    amp_tensor *x = sent(counting({4}));
    const pid_t child = fork();
    if (child == 0) {
        const bool refused = op("exp", {x}) == nullptr;
        _exit(refused && contains(error(), "exp: cuda: CUDA cannot be used in a process forked from one that used it")
                  ? 0
                  : 1);
    }
    ASSERT_GT(child, 0);
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_NE(op("exp", {x}), nullptr) << amp_last_error();
}

TEST_F(Cuda, TheModuleIsStartedOnce) {
    Scope scope;
    amp_tensor *x = sent(counting({4}));
    ASSERT_NE(op("exp", {x}), nullptr);
    void *const stream = fake->last_stream;
    void *const module = dlopen("libamp_cuda.so", RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(module, nullptr);
    const auto entry = reinterpret_cast<const void *(*)(char *, size_t)>(dlsym(module, "amp_cuda_module_entry_point"));
    char why[64];
    EXPECT_EQ(entry(why, sizeof why), entry(why, sizeof why)); // as of a libamp that was closed and opened again
    ASSERT_NE(op("exp", {x}), nullptr);
    EXPECT_EQ(fake->last_stream, stream) << "the thread's, as before";
}

// No op asks for two sizes yet; a launch may.
TEST_F(Cuda, AKernelMayAskForMoreSharedMemoryThanBefore) {
    Scope scope;
    ASSERT_NE(op("exp", {sent(counting({4}))}), nullptr);
    const amp_cuda_module *module = module_table();
    ASSERT_NE(module, nullptr);
    const std::vector<char> nothing(4096); // to be moved
    for (unsigned kib : {1u, 64u, 60u, 96u, 1u}) {
        const amp_cuda_launch launch = {"move_4", nothing.data(), 1, 256, kib << 10};
        EXPECT_EQ(module->launch(&launch), AMP_CUDA_OK) << kib << " KiB: " << module->error();
    }
    const amp_cuda_launch too_much = {"move_4", nothing.data(), 1, 256, 228 << 10};
    EXPECT_EQ(module->launch(&too_much), AMP_CUDA_FAILED) << "no GPU has it";
}

// The program that a name lay in may have gone, and another name lie there.
TEST_F(Cuda, KernelsAreFoundByWhatTheirNamesSay) {
    Scope scope;
    ASSERT_NE(op("exp", {sent(counting({4}))}), nullptr);
    const amp_cuda_module *module = module_table();
    ASSERT_NE(module, nullptr);
    const std::vector<char> nothing(4096);
    char name[32];
    for (const char *kernel : {"exp_f32", "log_f32", "exp_f32"}) {
        strcpy(name, kernel);
        const amp_cuda_launch launch = {name, nothing.data(), 1, 256, 0};
        ASSERT_EQ(module->launch(&launch), AMP_CUDA_OK) << module->error();
        EXPECT_STREQ(fake->last_kernel, kernel);
    }
    strcpy(name, "no_such_kernel");
    const amp_cuda_launch launch = {name, nothing.data(), 1, 256, 0};
    EXPECT_EQ(module->launch(&launch), AMP_CUDA_MISSING);
    EXPECT_TRUE(contains(module->error(), "has no kernel 'no_such_kernel'")) << module->error();
}

// … of a newer toolkit than the driver knows, or for none of its GPUs.
TEST_F(Cuda, KernelsThatTheDriverCannotReadAreASentence) {
    Scope scope;
    ASSERT_EQ(amp_cuda_set_device(1), AMP_OK); // on which no kernel of random.cu has run
    for (int result : {200, 209, 222}) {       // INVALID_IMAGE, NO_BINARY_FOR_GPU, UNSUPPORTED_PTX_VERSION
        fake->fail_module = result;
        EXPECT_EQ(op("rand", {AMP_DIMS(4)}, {{"device", AMP_DEVICE_CUDA}}), nullptr);
        EXPECT_TRUE(contains(error(), "has no kernels that the GPU and its driver can run")) << error();
    }
    EXPECT_NE(op("rand", {AMP_DIMS(4)}, {{"device", AMP_DEVICE_CUDA}}), nullptr) << amp_last_error();
    ASSERT_EQ(amp_cuda_set_device(0), AMP_OK);
}

TEST_F(Cuda, AnOpThatIsNotThereSaysSo) {
    Scope scope;
    EXPECT_EQ(op("eig", {sent(counting({2, 2}))}), nullptr);
    EXPECT_EQ(error(), "eig: not implemented on cuda yet");
}

// ---- Regions --------------------------------------------------------------------------------------------------------

TEST_F(Cuda, RegionsRunLinearInF16AndKeepTheCastOfTheWeight) {
    Scope scope;
    amp_tensor *x = sent(counting({2, 8})), *w = sent(counting({3, 8})), *b = sent(counting({3}));
    const std::vector<float> expected = values(op("linear", {x, w, b}));
    Region region(AMP_DEVICE_CUDA, AMP_DTYPE_NONE);
    amp_tensor *y = op("linear", {x, w, b});
    ASSERT_NE(y, nullptr) << amp_last_error();
    EXPECT_EQ(amp_tensor_dtype(y), AMP_F16);
    EXPECT_EQ(amp_tensor_device(y), AMP_DEVICE_CUDA);
    EXPECT_EQ(values(y), expected);
    const uint64_t launches = amp_cuda_counters().launches;
    ASSERT_NE(op("linear", {x, w, b}), nullptr);
    EXPECT_LE(amp_cuda_counters().launches - launches, 1u) << "only the activation is cast again";
    EXPECT_EQ(op("binary_cross_entropy", {x, x}), nullptr);
    EXPECT_TRUE(contains(error(), "binary_cross_entropy_with_logits"));
}

// ---- Kernels, against the CPU ---------------------------------------------------------------------------------------

TEST_F(Cuda, ProductsOfEveryLayoutAgreeWithTheCpu) {
    Scope scope;
    for (amp_dtype dtype : {AMP_F32, AMP_F64, AMP_F16, AMP_BF16}) {
        for (int layout = 0; layout < 8; layout++) {
            SCOPED_TRACE(std::string(amp_dtype_name(dtype)) + ", layout " + std::to_string(layout));
            Scope inner;
            const auto make = [&](int64_t rows, int64_t columns, bool transposed, bool padded) {
                amp_tensor *t = counting({transposed ? columns : rows, (transposed ? rows : columns) + padded});
                t = op("remainder", {t, amp_int(7)});
                t = op("to", {op("narrow", {t, 1, 0, transposed ? rows : columns}), dtype});
                return transposed ? op("transpose", {t, 0, 1}) : t;
            };
            amp_tensor *a = make(5, 6, layout & 1, layout & 4), *b = make(6, 4, layout & 2, layout & 4);
            EXPECT_EQ(values(op("mm", {sent(a), sent(b)})), values(op("mm", {a, b})));
            amp_tensor *da = sent(op("contiguous", {op("transpose", {a, 0, 1})}));
            EXPECT_EQ(values(op("mm", {op("transpose", {da, 0, 1}), sent(b)})), values(op("mm", {a, b})));
        }
    }
}

TEST_F(Cuda, ConvolutionsReadInputsThatStepBackwards) {
    Scope scope;
    const float one[1] = {1};
    const int64_t weight_shape[3] = {1, 1, 1}, shape[3] = {2, 1, 4}, backwards[3] = {-4, 4, 1};
    amp_tensor *weight = sent(amp_from_data(one, AMP_F32, 3, weight_shape));
    DLManagedTensorVersioned *lent = amp_to_dlpack(sent(counting({2, 1, 4})));
    ASSERT_NE(lent, nullptr) << amp_last_error();
    DLManagedTensorVersioned reversed = *lent;
    reversed.deleter = nullptr;
    reversed.dl_tensor.shape = const_cast<int64_t *>(shape);
    reversed.dl_tensor.strides = const_cast<int64_t *>(backwards);
    reversed.dl_tensor.byte_offset += 4 * sizeof(float);
    {
        Scope inner;
        amp_tensor *x = amp_from_dlpack(&reversed);
        ASSERT_NE(x, nullptr) << amp_last_error();
        EXPECT_EQ(values(op("conv1d", {x, weight})), (std::vector<float>{4, 5, 6, 7, 0, 1, 2, 3}));
    }
    lent->deleter(lent);
}

TEST_F(Cuda, WhatNoIntegerHoldsBecomesWhatItBecomesOnTheCpu) {
    Scope scope;
    const float data[8] = {NAN, INFINITY, -INFINITY, 3e9f, -3e9f, 1e30f, -2147483648.0f, 2147483520.0f};
    const int64_t shape[1] = {8};
    amp_tensor *f32 = amp_from_data(data, AMP_F32, 1, shape);
    for (amp_dtype from : {AMP_F32, AMP_F16, AMP_BF16, AMP_F64, AMP_C64, AMP_C128}) {
        for (amp_dtype to : {AMP_I64, AMP_I32, AMP_I16, AMP_I8, AMP_U8, AMP_BOOL}) {
            SCOPED_TRACE(std::string(amp_dtype_name(from)) + " to " + amp_dtype_name(to));
            amp_tensor *host = op("to", {f32, from});
            EXPECT_EQ(values(op("to", {sent(host), to})), values(op("to", {host, to})));
        }
    }
}

TEST_F(Cuda, StridedDenseAndMixedOperandsAgreeWithTheCpu) {
    Scope scope;
    for (amp_dtype dtype : {AMP_F32, AMP_F16, AMP_BF16, AMP_F64, AMP_I64}) {
        SCOPED_TRACE(amp_dtype_name(dtype));
        amp_tensor *host = op("to", {counting({7, 9}), dtype}), *row = op("to", {counting({9}), dtype});
        amp_tensor *device = sent(host), *row_there = sent(row);
        EXPECT_EQ(values(op("add", {device, row_there})), values(op("add", {host, row})));
        EXPECT_EQ(values(op("mul", {op("transpose", {device, 0, 1}), op("unsqueeze", {row_there, 1})})),
                  values(op("mul", {op("transpose", {host, 0, 1}), op("unsqueeze", {row, 1})})));
        EXPECT_EQ(values(op("add", {device, sent(counting({9}))})), values(op("add", {host, counting({9})})));
    }
}

} // namespace
