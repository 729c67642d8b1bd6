/* libFuzzer target: any text as the rules of a policy file. What is taken serves a region; what is not has its
 * sentence. */
#include <stdlib.h>
#include <string.h>

#include "amp/amp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int condition) {
    if (!condition) abort();
}

static void use(const amp_autocast_rules *rules) {
    amp_scope {
        amp_tensor *x = amp_full(AMP_DIMS(2, 2), amp_float(1)), *y = NULL;
        amp_label("layer") amp_autocast(AMP_DEVICE_CPU, .rules = rules) y = amp_softmax(amp_linear(x, x), -1);
        check(y && amp_last_status() == AMP_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + 1);
    check(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    amp_autocast_rules *rules = amp_autocast_rules_parse(text, "file");
    check((rules != NULL) == (amp_last_status() == AMP_OK));
    check(rules || strncmp(amp_last_error(), "file:", 5) == 0);
    amp_clear_error();
    if (rules) use(rules);
    amp_autocast_rules_release(rules);
    free(text);
    return 0;
}
