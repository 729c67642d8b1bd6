// A cache folder of a test's own, for the file of choices (cpu/registry/choices.h).
#ifndef AMP_TESTS_CHOICES_FILE_H
#define AMP_TESTS_CHOICES_FILE_H

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "cpu/registry/choices.h"

namespace amp_test {

class ChoicesFile {
  public:
    ChoicesFile() : folder(std::filesystem::path(testing::TempDir()) / ("amp_choices_" + std::to_string(getpid()))) {
        std::filesystem::create_directories(folder);
        use(folder.string().c_str(), "");
    }
    ~ChoicesFile() {
        unsetenv("XDG_CACHE_HOME");
        setenv("AMP_TUNE", "off", 1);
        amp_choices_forget_for_test();
        std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
        std::filesystem::remove_all(folder);
    }
    ChoicesFile(const ChoicesFile &) = delete;
    ChoicesFile &operator=(const ChoicesFile &) = delete;

    static void use(const char *cache, const char *tune) {
        setenv("XDG_CACHE_HOME", cache, 1);
        setenv("AMP_TUNE", tune, 1);
        amp_choices_forget_for_test();
    }
    static void write(const std::string &text) {
        const std::filesystem::path path = amp_choices_path();
        std::filesystem::create_directories(path.parent_path());
        std::ofstream(path) << text;
        amp_choices_forget_for_test();
    }
    static std::string read() {
        std::ifstream file(amp_choices_path());
        return {std::istreambuf_iterator<char>(file), {}};
    }

    const std::filesystem::path folder;
};

} // namespace amp_test

#endif // AMP_TESTS_CHOICES_FILE_H
