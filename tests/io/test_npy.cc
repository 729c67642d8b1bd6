// .npy in and out: what NumPy writes is read, what we write is what NumPy would write, and nothing malformed passes.
#include <gtest/gtest.h>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <complex>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "amp/io.h"
#include "amp/memory.h"
#include "amp/scope.h"
#include "amp/tensor.h"

namespace {

class Npy : public ::testing::Test {
  protected:
    void SetUp() override {
        folder = ::testing::TempDir() + "amp-npy-XXXXXX";
        ASSERT_NE(mkdtemp(folder.data()), nullptr);
        live = amp_memory_statistics().live_tensors;
        amp_clear_error();
    }
    void TearDown() override {
        amp_clear_error();
        EXPECT_EQ(amp_memory_statistics().live_tensors, live);
        std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
        std::filesystem::remove_all(folder);
    }
    std::string path(const std::string &name = "a.npy") const {
        return folder + "/" + name;
    }

    void write(const std::string &bytes, const std::string &name = "a.npy") const {
        std::ofstream(path(name), std::ios::binary) << bytes;
    }
    std::string read(const std::string &name = "a.npy") const {
        std::ifstream in(path(name), std::ios::binary);
        return {std::istreambuf_iterator<char>(in), {}};
    }
    // Number of files in the folder: what a failed save leaves behind shows here.
    int files() const {
        const std::filesystem::directory_iterator all(folder);
        return int(std::distance(begin(all), end(all)));
    }
    // Loads the file, expects failure, returns the sentence.
    std::string failure(const std::string &name = "a.npy") const {
        EXPECT_EQ(amp_load_npy(path(name).c_str()), nullptr);
        std::string message = amp_last_error();
        EXPECT_NE(amp_last_status(), AMP_OK);
        amp_clear_error();
        return message;
    }
    std::string failure_of(const std::string &header, const std::string &data = "") const {
        write(v1(header) + data);
        return failure();
    }

    static std::string v1(const std::string &header) {
        std::string out = "\x93NUMPY";
        out += '\x01';
        out += '\0';
        out += static_cast<char>(header.size() & 0xff);
        out += static_cast<char>(header.size() >> 8);
        return out + header;
    }
    static std::string v23(char version, const std::string &header) {
        std::string out = "\x93NUMPY";
        out += version;
        out += '\0';
        for (int i = 0; i < 4; i++) out += static_cast<char>(header.size() >> (8 * i) & 0xff);
        return out + header;
    }
    static std::string dict(const std::string &type, const std::string &shape, const std::string &order = "False") {
        return "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
    }
    template <class T>
    static std::string raw(const std::vector<T> &values) {
        return {reinterpret_cast<const char *>(values.data()), values.size() * sizeof(T)};
    }
    template <class T>
    static std::vector<T> values(const amp_tensor *t) {
        const T *data = static_cast<const T *>(amp_data(t));
        return {data, data + amp_tensor_numel(t)};
    }

    std::string folder;
    size_t live = 0;
};

struct TypeCase {
    amp_dtype dtype;
    const char *descr;
};

const TypeCase every_type[] = {{AMP_F64, "<f8"},  {AMP_F32, "<f4"}, {AMP_F16, "<f2"},  {AMP_I64, "<i8"},
                               {AMP_I32, "<i4"},  {AMP_I16, "<i2"}, {AMP_I8, "|i1"},   {AMP_U8, "|u1"},
                               {AMP_BOOL, "|b1"}, {AMP_C64, "<c8"}, {AMP_C128, "<c16"}};

TEST_F(Npy, EveryDtypeIsSavedAsNumPyWouldAndReadBack) {
    for (const TypeCase &c : every_type) {
        amp_scope {
            std::vector<unsigned char> bytes(6 * amp_dtype_size(c.dtype));
            for (size_t i = 0; i < bytes.size(); i++)
                bytes[i] = static_cast<unsigned char>(c.dtype == AMP_BOOL ? i & 1 : i * 7 + 1);
            const int64_t shape[] = {2, 3};
            ASSERT_EQ(amp_save_npy(path().c_str(), amp_from_data(bytes.data(), c.dtype, 2, shape)), AMP_OK)
                << amp_last_error();
            const std::string file = read();
            ASSERT_EQ(file.size() % 64, bytes.size() % 64) << "the data begins at a multiple of 64";
            const std::string header =
                "{'descr': '" + std::string(c.descr) + "', 'fortran_order': False, 'shape': (2, 3), }";
            EXPECT_EQ(file.substr(10, header.size()), header);
            EXPECT_EQ(file[file.size() - bytes.size() - 1], '\n');
            const amp_tensor *back = amp_load_npy(path().c_str());
            ASSERT_NE(back, nullptr) << amp_last_error();
            EXPECT_EQ(amp_tensor_dtype(back), c.dtype);
            ASSERT_EQ(amp_tensor_rank(back), 2);
            EXPECT_EQ(amp_tensor_size(back, 1), 3);
            EXPECT_EQ(memcmp(amp_data(back), bytes.data(), bytes.size()), 0);
        }
    }
}

TEST_F(Npy, EveryRankIsSavedAndReadBack) {
    for (int rank = 0; rank <= AMP_MAX_RANK; rank++) {
        amp_scope {
            int64_t shape[AMP_MAX_RANK], count = 1;
            for (int d = 0; d < rank; d++) count *= shape[d] = 1 + d % 3;
            std::vector<float> data(static_cast<size_t>(count));
            for (size_t i = 0; i < data.size(); i++) data[i] = static_cast<float>(i);
            ASSERT_EQ(amp_save_npy(path().c_str(), amp_from_data(data.data(), AMP_F32, rank, shape)), AMP_OK);
            const amp_tensor *back = amp_load_npy(path().c_str());
            ASSERT_NE(back, nullptr) << amp_last_error();
            ASSERT_EQ(amp_tensor_rank(back), rank);
            for (int d = 0; d < rank; d++) EXPECT_EQ(amp_tensor_size(back, d), shape[d]);
            EXPECT_EQ(values<float>(back), data);
        }
    }
}

TEST_F(Npy, StridedTensorsAreSavedInRowMajorOrder) {
    std::vector<int32_t> data(24);
    for (int i = 0; i < 24; i++) data[static_cast<size_t>(i)] = i;
    amp_scope {
        const int64_t shape[] = {3, 2}, strides[] = {-4, 8};
        ASSERT_EQ(amp_save_npy(path().c_str(), amp_from_memory(&data[9], AMP_I32, 2, shape, strides, nullptr, nullptr)),
                  AMP_OK);
        EXPECT_EQ(values<int32_t>(amp_load_npy(path().c_str())), (std::vector<int32_t>{9, 17, 5, 13, 1, 9}));
        const int64_t wide[] = {2, 3}, repeat[] = {1, 0};
        ASSERT_EQ(amp_save_npy(path().c_str(), amp_from_memory(&data[5], AMP_I32, 2, wide, repeat, nullptr, nullptr)),
                  AMP_OK);
        EXPECT_EQ(values<int32_t>(amp_load_npy(path().c_str())), (std::vector<int32_t>{5, 5, 5, 6, 6, 6}));
    }
}

TEST_F(Npy, LargeStridedTensorsPassTheWriteBuffer) {
    const int64_t n = 40000;
    std::vector<double> data(static_cast<size_t>(2 * n));
    for (size_t i = 0; i < data.size(); i++) data[i] = static_cast<double>(i) * 0.5;
    amp_scope {
        const int64_t shape[] = {n}, strides[] = {2};
        ASSERT_EQ(
            amp_save_npy(path().c_str(), amp_from_memory(data.data(), AMP_F64, 1, shape, strides, nullptr, nullptr)),
            AMP_OK);
        const amp_tensor *back = amp_load_npy(path().c_str());
        ASSERT_NE(back, nullptr);
        for (int64_t i = 0; i < n; i++)
            ASSERT_EQ(static_cast<const double *>(amp_data(back))[i], static_cast<double>(i));
    }
}

TEST_F(Npy, FortranOrderIsReadRowMajor) {
    write(v1(dict("<i4", "(2, 3)", "True")) + raw<int32_t>({1, 4, 2, 5, 3, 6}));
    amp_scope {
        const amp_tensor *t = amp_load_npy(path().c_str());
        ASSERT_NE(t, nullptr) << amp_last_error();
        EXPECT_TRUE(amp_tensor_is_contiguous(t));
        EXPECT_EQ(values<int32_t>(t), (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
    }
}

TEST_F(Npy, BigEndianIsRead) {
    write(v1(dict(">f4", "(2,)")) + std::string("\x3f\x80\x00\x00\xc0\x20\x00\x00", 8));
    amp_scope
        EXPECT_EQ(values<float>(amp_load_npy(path().c_str())), (std::vector<float>{1.0f, -2.5f}));
    write(v1(dict(">i2", "(2,)")) + std::string("\x01\x02\xff\xfe", 4));
    amp_scope
        EXPECT_EQ(values<int16_t>(amp_load_npy(path().c_str())), (std::vector<int16_t>{0x102, -2}));
    write(v1(dict(">c8", "()")) + std::string("\x3f\x80\x00\x00\x40\x00\x00\x00", 8)); // each part on its own
    amp_scope
        EXPECT_EQ(values<std::complex<float>>(amp_load_npy(path().c_str()))[0], std::complex<float>(1, 2));
    write(v1(dict(">f8", "(2, 1)", "True")) + std::string("\x3f\xf0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0", 16));
    amp_scope
        EXPECT_EQ(values<double>(amp_load_npy(path().c_str())), (std::vector<double>{1.0, 2.0}));
}

TEST_F(Npy, UnsignedTypesWidenWithoutLoss) {
    write(v1(dict("<u2", "(3,)")) + raw<uint16_t>({0, 40000, 65535}));
    amp_scope {
        const amp_tensor *t = amp_load_npy(path().c_str());
        ASSERT_EQ(amp_tensor_dtype(t), AMP_I32);
        EXPECT_EQ(values<int32_t>(t), (std::vector<int32_t>{0, 40000, 65535}));
    }
    write(v1(dict("<u4", "(2,)")) + raw<uint32_t>({7, 4294967295u}));
    amp_scope
        EXPECT_EQ(values<int64_t>(amp_load_npy(path().c_str())), (std::vector<int64_t>{7, 4294967295}));
    write(v1(dict(">u8", "(1,)")) + std::string("\x7f\xff\xff\xff\xff\xff\xff\xff", 8));
    amp_scope
        EXPECT_EQ(values<int64_t>(amp_load_npy(path().c_str())), (std::vector<int64_t>{INT64_MAX}));
    EXPECT_NE(
        failure_of(dict("<u8", "(1,)"), raw<uint64_t>({1ull << 63})).find("9223372036854775808, which i64 cannot hold"),
        std::string::npos);
}

TEST_F(Npy, BoolsBecomeZeroOrOne) {
    write(v1(dict("|b1", "(4,)")) + std::string("\0\1\2\xff", 4));
    amp_scope
        EXPECT_EQ(values<uint8_t>(amp_load_npy(path().c_str())), (std::vector<uint8_t>{0, 1, 1, 1}));
}

TEST_F(Npy, VersionsTwoAndThreeAndOtherSpellingsAreRead) {
    write(v23(2, dict("<i8", "(1,)")) + raw<int64_t>({5}));
    amp_scope
        EXPECT_EQ(values<int64_t>(amp_load_npy(path().c_str())), (std::vector<int64_t>{5}));
    write(v23(3, "{\"shape\":(2L, 1),\"fortran_order\":False,\"descr\":\"=f4\"}") + raw<float>({5, 6}));
    amp_scope
        EXPECT_EQ(values<float>(amp_load_npy(path().c_str())), (std::vector<float>{5, 6}));
}

TEST_F(Npy, EmptyArraysKeepTheirShape) {
    write(v1(dict("<f4", "(3, 0, 9223372036854775807)")));
    EXPECT_NE(failure().find("too large"), std::string::npos) << "NumPy refuses such extents as well";
    write(v1(dict("<f4", "(3, 0, 2)", "True")));
    amp_scope {
        const amp_tensor *t = amp_load_npy(path().c_str());
        ASSERT_NE(t, nullptr) << amp_last_error();
        EXPECT_EQ(amp_tensor_numel(t), 0);
        EXPECT_EQ(amp_tensor_size(t, 0), 3);
        ASSERT_EQ(amp_save_npy(path("b.npy").c_str(), const_cast<amp_tensor *>(t)), AMP_OK);
    }
    EXPECT_NE(read("b.npy").find("(3, 0, 2)"), std::string::npos);
}

TEST_F(Npy, MalformedHeadersGiveOneSentence) {
    const struct {
        std::string header, data, part;
    } cases[] = {
        {"", "", "expected '{', got the end"},
        {"[1]", "", "expected '{', got '['"},
        {dict("<f4", "(2)"), "12345678", "',' after the only extent"},
        {dict("<f4", "(-1,)"), "", "expected an extent of the shape, got '-'"},
        {dict("<f4", "(2,,)"), "", "expected an extent"},
        {dict("<f4", "(2 3)"), "", "',' after the only extent"},
        {dict("<f4", "(2, 3 4)"), "", "',' or ')'"},
        {dict("<f4", "[2]"), "", "expected the shape, a tuple"},
        {dict("<f4", "(18446744073709551617,)"), "", "above 2^63-1"},
        {dict("<f4", "(9223372036854775807,)"), "", "too large"},
        {dict("<f4", "(4294967296, 4294967296)"), "", "too large"},
        {dict("<c16", "(576460752303423488,)"), "", "too large"},
        {dict("<f4", "(1,1,1,1,1,1,1,1,1)"), "1234", "more than 8 dimensions"},
        {dict("<f4", "(3,)"), "12345678", "holds 8 bytes of data, expected 12 for [3]"},
        {dict("<f4", "(1,)"), "12345678", "more than one array"},
        {dict("<f4", "(1,)", "Yes"), "1234", "True or False"},
        {dict("|O", "(1,)"), "1234", "pickled Python objects"},
        {dict("<V2", "(1,)"), "12", "bf16"},
        {dict("<f16", "(1,)"), "1234567890123456", "dtype '<f16'"},
        {dict("<U5", "(1,)"), "", "dtype '<U5'"},
        {dict("<M8[ns]", "(1,)"), "12345678", "dtype '<M8[ns]'"},
        {dict("", "(1,)"), "", "dtype ''"},
        {dict("<f", "(1,)"), "", "dtype '<f'"},
        {dict("<f-4", "(1,)"), "1234", "dtype '<f-4'"},
        {dict("<f04x", "(1,)"), "1234", "dtype '<f04x'"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", "1234", "structured array"},
        {"{'descr': '<f4', 'fortran_order': False, }", "", "'shape' is missing"},
        {"{'fortran_order': False, 'shape': (), }", "", "'descr' is missing"},
        {"{'descr': '<f4', 'shape': (), }", "", "'fortran_order' is missing"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}", "1234", "'descr' is given twice"},
        {"{'descr': '<f4', 'more': 1, 'fortran_order': False, 'shape': ()}", "1234", "unknown key 'more'"},
        {"{'descr': '<f4' 'fortran_order': False, 'shape': ()}", "1234", "',' or '}'"},
        {dict("<f4", "()") + "x", "1234", "nothing after the header's '}'"},
        {"{'descr': '<f4", "", "a closing quote"},
        {"{'des\\x63r': '<f4'}", "", "plain text inside quotes"},
        {"{'" + std::string(200, 'a') + "': 1}", "", "the end of the quoted text"},
    };
    for (const auto &c : cases) {
        const std::string message = failure_of(c.header, c.data);
        EXPECT_NE(message.find(c.part), std::string::npos) << c.header << "\n  " << message;
        EXPECT_NE(message.find(path()), std::string::npos) << message;
    }
}

TEST_F(Npy, EveryTruncationIsAnError) {
    const std::string whole = v1(dict("<f4", "(2, 2)")) + raw<float>({1, 2, 3, 4});
    for (size_t length = 0; length < whole.size(); length++) {
        write(whole.substr(0, length));
        EXPECT_EQ(amp_load_npy(path().c_str()), nullptr) << length;
        EXPECT_EQ(amp_last_status(), AMP_ERROR_IO);
        amp_clear_error();
    }
}

TEST_F(Npy, LyingLengthsAreErrors) {
    write(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12));
    EXPECT_NE(failure().find("says that its header has 4294967295 bytes"), std::string::npos);
    write(std::string("\x93NUMPY\x01\x00\xff\xff{", 11));
    EXPECT_NE(failure().find("truncated"), std::string::npos);
    write(std::string("\x93NUMPY\x04\x00\x01\x00{", 11));
    EXPECT_NE(failure().find("format version 4.0"), std::string::npos);
}

TEST_F(Npy, FilesThatAreNoneGiveOneSentence) {
    EXPECT_NE(failure("missing.npy").find("cannot open it: No such file"), std::string::npos);
    EXPECT_EQ(amp_load_npy(folder.c_str()), nullptr);
    EXPECT_NE(std::string(amp_last_error()).find("is a directory"), std::string::npos);
    amp_clear_error();
    EXPECT_EQ(amp_load_npy("/dev/zero"), nullptr);
    EXPECT_NE(std::string(amp_last_error()).find("pipe or a device"), std::string::npos);
    amp_clear_error();
    EXPECT_EQ(amp_load_npy(nullptr), nullptr);
    EXPECT_EQ(amp_last_status(), AMP_ERROR_INVALID);
    amp_clear_error();
    write("PK\3\4 an .npz perhaps");
    EXPECT_NE(failure().find("is not a .npy file"), std::string::npos);
    write(dict("<f4", "()"));
    if (geteuid() != 0) { // root may read everything
        chmod(path().c_str(), 0);
        EXPECT_NE(failure().find("Permission denied"), std::string::npos);
    }
}

TEST_F(Npy, Bf16IsRefusedWithAdvice) {
    const uint16_t one = 0x3f80;
    amp_scope {
        EXPECT_EQ(amp_save_npy(path().c_str(), amp_from_data(&one, AMP_BF16, 0, nullptr)), AMP_ERROR_DTYPE);
        EXPECT_NE(std::string(amp_last_error()).find("f32"), std::string::npos);
        EXPECT_NE(std::string(amp_last_error()).find("safetensors"), std::string::npos);
    }
    EXPECT_EQ(files(), 0);
}

TEST_F(Npy, AFailedSaveLeavesTheOldFileAndNothingElse) {
    write("precious");
    amp_scope {
        std::vector<float> data(1 << 20);
        const int64_t shape[] = {1 << 20};
        amp_tensor *t = amp_from_data(data.data(), AMP_F32, 1, shape);
        // a file size limit makes the write fail half way, as a full disk would
        const std::string save = path();
        const pid_t child = fork();
        if (child == 0) {
            signal(SIGXFSZ, SIG_IGN);
            const rlimit limit = {100000, 100000};
            setrlimit(RLIMIT_FSIZE, &limit);
            _exit(amp_save_npy(save.c_str(), t) == AMP_ERROR_IO ? 0 : 1);
        }
        int status = -1;
        waitpid(child, &status, 0);
        EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    EXPECT_EQ(read(), "precious");
    EXPECT_EQ(files(), 1);
}

TEST_F(Npy, SavingReplacesTheContentAndKeepsThePermissionsAndTheLink) {
    write("old");
    ASSERT_EQ(chmod(path().c_str(), 0640), 0);
    ASSERT_EQ(symlink("a.npy", path("link.npy").c_str()), 0);
    const float one = 1;
    amp_scope
        ASSERT_EQ(amp_save_npy(path("link.npy").c_str(), amp_from_data(&one, AMP_F32, 0, nullptr)), AMP_OK)
            << amp_last_error();
    struct stat info;
    ASSERT_EQ(lstat(path("link.npy").c_str(), &info), 0);
    EXPECT_TRUE(S_ISLNK(info.st_mode));
    ASSERT_EQ(stat(path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777u, 0640u);
    amp_scope
        EXPECT_EQ(values<float>(amp_load_npy(path().c_str())), (std::vector<float>{1}));
    EXPECT_EQ(files(), 2);
}

TEST_F(Npy, SavingToPlacesThatAreNoFileIsAnError) {
    const float one = 1;
    amp_scope {
        amp_tensor *t = amp_from_data(&one, AMP_F32, 0, nullptr);
        EXPECT_EQ(amp_save_npy(folder.c_str(), t), AMP_ERROR_IO);
        EXPECT_NE(std::string(amp_last_error()).find("is a directory"), std::string::npos);
        amp_clear_error();
        EXPECT_EQ(amp_save_npy(path("no/such.npy").c_str(), t), AMP_ERROR_IO);
        amp_clear_error();
        EXPECT_EQ(amp_save_npy("/dev/null", t), AMP_ERROR_IO) << "a rename would replace the device";
        amp_clear_error();
        EXPECT_EQ(amp_save_npy(nullptr, t), AMP_ERROR_INVALID);
        amp_clear_error();
        EXPECT_EQ(amp_save_npy(path().c_str(), nullptr), AMP_ERROR_INVALID);
        amp_clear_error();
    }
    EXPECT_EQ(files(), 0);
}

TEST_F(Npy, AStandingErrorStopsEverything) {
    EXPECT_EQ(amp_load_npy("/no/such/file"), nullptr);
    const std::string first = amp_last_error();
    write(v1(dict("<f4", "()")) + "1234");
    EXPECT_EQ(amp_load_npy(path().c_str()), nullptr);
    EXPECT_EQ(amp_save_npy(path("b.npy").c_str(), nullptr), AMP_ERROR_IO);
    EXPECT_EQ(amp_last_error(), first);
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

TEST_F(Npy, EveryAllocationMayFail) {
    write(v1(dict("<i4", "(2, 3)", "True")) + raw<int32_t>({1, 4, 2, 5, 3, 6}));
    Failing failing;
    const amp_allocator allocator = {Failing::allocate, Failing::release, &failing};
    ASSERT_EQ(amp_set_allocator(&allocator), AMP_OK);
    int succeeded = -1;
    for (int n = 0; n < 50 && succeeded < 0; n++) {
        amp_memory_trim();
        failing.countdown = n;
        amp_tensor *t = amp_load_npy(path().c_str());
        if (t && amp_save_npy(path("b.npy").c_str(), t) == AMP_OK) {
            succeeded = n;
        } else {
            EXPECT_EQ(amp_last_status(), AMP_ERROR_MEMORY) << amp_last_error();
        }
        amp_clear_error();
        amp_release(t);
        EXPECT_LE(files(), 2);
    }
    EXPECT_GE(succeeded, 0);
    amp_memory_trim();
    ASSERT_EQ(amp_set_allocator(nullptr), AMP_OK);
}

} // namespace
