/* An outside program in C11. */
#include <amp/types.h>
#include <amp/version.h>

#include <stdio.h>

int main(void) {
    if (amp_version() != AMP_VERSION) {
        fprintf(stderr, "the headers are %d, the library is %d\n", AMP_VERSION, amp_version());
        return 1;
    }
    printf("libamp %s\n", amp_version_string());
    return 0;
}
