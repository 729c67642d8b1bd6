/* libFuzzer target: any text as the schema of a user's op (amp/user.h). The room for its texts is exactly what
 * amp_schema_room asks for; what is read must be read alike from its own text, which has no marks. */
#include <stdlib.h>
#include <string.h>

#include "amp/error.h"
#include "policy/schema.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int condition) {
    if (!condition) abort();
}

static int parse(const char *text, char **room, amp_schema *schema) {
    *room = malloc(amp_schema_room(strlen(text)));
    check(*room != NULL);
    const amp_status status = amp_schema_parse(text, *room, schema);
    check(status == amp_last_status());
    check(status == AMP_OK || (status == AMP_ERROR_INVALID && strlen(amp_last_error()) > 10));
    amp_clear_error();
    return status == AMP_OK;
}

static void check_struct(const amp_schema *schema, size_t bytes) {
    char *text = malloc(bytes);
    check(text != NULL);
    amp_schema_struct(schema, text, bytes);
    check(memchr(text, 0, bytes) != NULL);
    free(text);
}

static void read_again(const amp_schema *schema) {
    char *room;
    amp_schema again;
    check(parse(schema->text, &room, &again));
    check(!strcmp(again.key, schema->key) && !strcmp(again.text, schema->text));
    check(again.arg_count == schema->arg_count && again.output_count == schema->output_count);
    check(again.args_size == schema->args_size && again.args_size > sizeof(size_t));
    for (int i = 0; i < again.arg_count; i++) {
        check(!strcmp(again.args[i].name, schema->args[i].name));
        check(again.args[i].kind == schema->args[i].kind && again.args[i].offset == schema->args[i].offset);
    }
    free(room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *room, *text = malloc(size + 1);
    amp_schema schema;
    check(text != NULL);
    if (size) memcpy(text, data, size);
    text[size] = 0;
    if (parse(text, &room, &schema)) {
        check_struct(&schema, size % 64 + 1);
        check_struct(&schema, 4096);
        read_again(&schema);
    }
    free(room);
    free(text);
    return 0;
}
