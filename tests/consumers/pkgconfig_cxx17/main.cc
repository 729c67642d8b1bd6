// An outside program in C++17.
#include <amp/types.h>
#include <amp/version.h>

#include <cstdio>

int main() {
    if (amp_version() != AMP_VERSION) {
        std::fprintf(stderr, "the headers are %d, the library is %d\n", AMP_VERSION, amp_version());
        return 1;
    }
    std::printf("libamp %s\n", amp_version_string());
    return 0;
}
