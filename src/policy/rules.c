/* Rules from text: the format stands in amp/autocast.h. */
#include "policy/rules.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/lock.h"
#include "core/memory.h"
#include "core/near_name.h"
#include "policy/place.h"
#include "policy/user_ops.h"

enum { MOST_BYTES = 1 << 24, NAME_BYTES = 80, VERSION = 1 };

struct amp_autocast_rules {
    int number;
    struct amp_autocast_rules *next;  /* in the list of all */
    unsigned char ops[AMP_MAX_OP_ID]; /* 1 + amp_policy; 0: no rule */
    bool has_ops;
    char *text;          /* the file; places end with a zero in it */
    const char **places; /* kept in f32 … */
    atomic_bool *met;    /* … a call was made there */
    int place_count;
};

__thread bool amp_pinned;

static amp_autocast_rules *all; /* guarded by AMP_LOCK_RULES */
static int numbers;

/* ---- Reading --------------------------------------------------------------------------------------------------- */

typedef struct reader {
    amp_autocast_rules *rules;
    const char *name; /* of the file */
    int line;
} reader;

static const struct {
    const char *word;
    amp_policy policy;
} verbs[] = {{"f32", AMP_POLICY_FP32}, {"lower", AMP_POLICY_LOWER}, {"keep", AMP_POLICY_FALLTHROUGH}};

static amp_status fail_line(const reader *r, const char *expected, const char *got) {
    return amp_fail(AMP_ERROR_INVALID, "%s:%d: expected %s, got '%.60s'%s", r->name, r->line, expected, got,
                    strlen(got) > 60 ? "…" : "");
}

static char *skip_blanks(char *at) {
    return at + strspn(at, " \t\r");
}

/* Cuts the word at *at off, and moves on to the next one. */
static char *take_word(char **at) {
    char *word = *at;
    char *end = word + strcspn(word, " \t\r");
    *at = skip_blanks(end);
    if (end > word) *end = '\0';
    return word;
}

/* "…", with \" and \\ inside. What is behind it is left in *at; NULL: it does not end. */
static char *take_quoted(char **at) {
    char *from = *at + 1, *begin = from, *to = from;
    while (*from && *from != '"') {
        if (*from == '\\' && (from[1] == '"' || from[1] == '\\')) from++;
        *to++ = *from++;
    }
    if (!*from) return NULL;
    *to = '\0';
    *at = skip_blanks(from + 1);
    return begin;
}

static bool ends(const char *rest) {
    return !*rest || *rest == '#';
}

static amp_status read_place(reader *r, amp_policy policy, char *at) {
    const char *whole = at;
    if (policy != AMP_POLICY_FP32)
        return amp_fail(AMP_ERROR_INVALID, "%s:%d: only 'f32' is for single nodes", r->name, r->line);
    if (*at != '"') return fail_line(r, "a node's name in quotes behind 'node'", whole);
    const char *place = take_quoted(&at);
    if (!place) return fail_line(r, "a quote at the end of the node's name", whole);
    if (!*place) return fail_line(r, "a node's name between the quotes", "\"\"");
    if (!ends(at)) return fail_line(r, "the end of the line behind the node's name", at);
    r->rules->places[r->rules->place_count++] = place;
    return AMP_OK;
}

static amp_status read_op(reader *r, amp_policy policy, const char *name) {
    const amp_op_info *op = strlen(name) < NAME_BYTES ? amp_op_find(name) : NULL;
    if (!op)
        return amp_fail(AMP_ERROR_INVALID, "%s:%d: there is no op '%.60s'%s (`amp info --ops` lists them)", r->name,
                        r->line, name, amp_near_name_hint(amp_op_near(name)));
    const bool one_overload = amp_op_names_one(name, op);
    for (; op; op = one_overload ? NULL : amp_op_next_overload(op)) r->rules->ops[op->id] = (unsigned char)(1 + policy);
    r->rules->has_ops = true;
    return AMP_OK;
}

static amp_status read_rule(reader *r, char *at) {
    const char *verb = take_word(&at);
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        if (strcmp(verb, verbs[i].word) != 0) continue;
        if (ends(at)) return fail_line(r, "an op, or node \"NAME\", behind the first word", "");
        const char *what = take_word(&at);
        if (strcmp(what, "node") == 0) return read_place(r, verbs[i].policy, at);
        if (!ends(at)) return fail_line(r, "the end of the line behind the op", at);
        return read_op(r, verbs[i].policy, what);
    }
    return fail_line(r, "f32, lower or keep", verb);
}

/* The first line that is none of comments: "amp-policy 1". */
static amp_status read_version(const reader *r, char *at) {
    const char *whole = "'amp-policy 1', the format and its version", *word = take_word(&at);
    if (strcmp(word, "amp-policy") != 0) return fail_line(r, whole, word);
    const char *version = take_word(&at);
    if (strcmp(version, "1") == 0 && ends(at)) return AMP_OK;
    return amp_fail(AMP_ERROR_INVALID, "%s:%d: version '%.20s' of the format; this libamp knows version %d", r->name,
                    r->line, version, VERSION);
}

static amp_status read_lines(reader *r, char *text) {
    bool has_version = false;
    for (char *line = text; line;) {
        char *end = strchr(line, '\n');
        if (end) *end = '\0';
        r->line++;
        char *at = skip_blanks(line);
        if (!ends(at)) AMP_TRY(has_version ? read_rule(r, at) : read_version(r, at));
        has_version = has_version || !ends(at);
        line = end ? end + 1 : NULL;
    }
    return has_version ? AMP_OK : fail_line(r, "'amp-policy 1', the format and its version", "");
}

static int count_lines(const char *text) {
    int count = 1;
    for (; *text; text++) count += *text == '\n';
    return count;
}

/* ---- Making and freeing ---------------------------------------------------------------------------------------- */

static void free_rules(amp_autocast_rules *rules) {
    amp_free(rules->text);
    amp_free(rules->places);
    amp_free(rules->met);
    amp_free(rules);
}

static void publish(amp_autocast_rules *rules) {
    amp_lock(AMP_LOCK_RULES);
    rules->number = ++numbers;
    rules->next = all;
    all = rules;
    amp_unlock(AMP_LOCK_RULES);
}

static amp_status fail_memory(const char *name) {
    return amp_fail(AMP_ERROR_MEMORY, "%s: no memory for the rules", name);
}

/* Takes the text over. */
static amp_autocast_rules *make(char *text, const char *name) {
    amp_autocast_rules *rules = amp_alloc_zeroed(sizeof *rules);
    const size_t lines = (size_t)count_lines(text);
    if (rules) rules->places = amp_alloc(lines * sizeof *rules->places);
    if (rules) rules->met = amp_alloc_zeroed(lines * sizeof *rules->met);
    if (rules) rules->text = text;
    if (!rules || !rules->places || !rules->met) {
        if (rules) free_rules(rules);
        if (!rules) amp_free(text);
        (void)fail_memory(name);
        return NULL;
    }
    reader r = {.rules = rules, .name = name};
    if (amp_policy_environment() != AMP_OK || read_lines(&r, text) != AMP_OK) {
        free_rules(rules);
        return NULL;
    }
    publish(rules);
    return rules;
}

amp_autocast_rules *amp_autocast_rules_parse(const char *text, const char *name) {
    if (amp_failed()) return NULL;
    if (!text || !name || strlen(text) > MOST_BYTES) {
        (void)amp_fail(AMP_ERROR_INVALID, "autocast_rules_parse: %s",
                       !text   ? "the text is NULL"
                       : !name ? "the name is NULL"
                               : "the text is longer than 16 MiB");
        return NULL;
    }
    char *copy = amp_alloc(strlen(text) + 1);
    if (copy) return make(strcpy(copy, text), name);
    (void)fail_memory(name);
    return NULL;
}

static amp_status read_file(FILE *file, const char *path, char **text) {
    struct stat s;
    if (fstat(fileno(file), &s) != 0 || !S_ISREG(s.st_mode))
        return amp_fail(AMP_ERROR_IO, "%s: no file of the ordinary kind", path);
    if (s.st_size > MOST_BYTES) return amp_fail(AMP_ERROR_IO, "%s: longer than 16 MiB, which no policy file is", path);
    const size_t bytes = (size_t)s.st_size;
    *text = amp_alloc(bytes + 1);
    if (!*text) return fail_memory(path);
    const size_t there = fread(*text, 1, bytes, file);
    (*text)[there] = '\0';
    if (there == bytes && strlen(*text) == bytes) return AMP_OK;
    amp_free(*text);
    return amp_fail(AMP_ERROR_IO, "%s: %s", path, there < bytes ? "cannot be read" : "has a zero byte; it is no text");
}

amp_autocast_rules *amp_autocast_rules_load(const char *path) {
    char *text = NULL;
    if (amp_failed()) return NULL;
    FILE *file = path ? fopen(path, "rbe") : NULL;
    if (!file) {
        if (path) (void)amp_fail(AMP_ERROR_IO, "cannot read '%s': %s", path, strerror(errno));
        if (!path) (void)amp_fail(AMP_ERROR_INVALID, "autocast_rules_load: the path is NULL");
        return NULL;
    }
    const amp_status status = read_file(file, path, &text);
    (void)fclose(file);
    return status == AMP_OK ? make(text, path) : NULL;
}

void amp_autocast_rules_release(amp_autocast_rules *rules) {
    if (!rules) return;
    amp_lock(AMP_LOCK_RULES);
    amp_autocast_rules **at = &all;
    while (*at && *at != rules) at = &(*at)->next;
    if (*at) *at = rules->next;
    amp_unlock(AMP_LOCK_RULES);
    free_rules(rules);
}

int amp_rules_number(const amp_autocast_rules *rules) {
    return rules ? rules->number : 0;
}

const amp_autocast_rules *amp_rules_of_number(int number) {
    amp_lock(AMP_LOCK_RULES);
    const amp_autocast_rules *rules = all;
    while (rules && rules->number != number) rules = rules->next;
    amp_unlock(AMP_LOCK_RULES);
    return rules;
}

/* ---- Asking ---------------------------------------------------------------------------------------------------- */

/* The place itself, or one inside of it. */
static bool is_at(const char *place, const char *rule) {
    const size_t length = strlen(rule);
    return strncmp(place, rule, length) == 0 && (!place[length] || place[length] == '/');
}

static bool is_place_f32(const amp_autocast_rules *rules, const char *place) {
    bool found = false;
    for (int i = 0; place && *place && i < rules->place_count; i++) {
        if (!is_at(place, rules->places[i])) continue;
        atomic_store_explicit(&rules->met[i], true, memory_order_relaxed);
        found = true;
    }
    return found;
}

bool amp_rules_have_places(const amp_autocast_rules *rules) {
    return rules && rules->place_count > 0;
}

const char *amp_autocast_rules_unmet(const amp_autocast_rules *rules) {
    for (int i = 0; rules && i < rules->place_count; i++) {
        if (!atomic_load_explicit(&rules->met[i], memory_order_relaxed)) return rules->places[i];
    }
    return NULL;
}

bool amp_rules_keep_f32(const amp_autocast_rules *rules, const amp_op_info *op, const char *place) {
    return rules && (rules->ops[op->id] == 1 + AMP_POLICY_FP32 || is_place_f32(rules, place));
}

amp_policy_choice amp_rules_choose(const amp_autocast_rules *rules, const amp_op_info *op, amp_policy_choice choice) {
    const amp_policy_choice f32 = {AMP_POLICY_FP32, true};
    if (amp_pinned) return f32;
    if (!rules) return choice;
    if (rules->place_count > 0 && is_place_f32(rules, amp_place ? amp_place : amp_label_path())) return f32;
    const unsigned char above = rules->ops[op->id];
    return above ? (amp_policy_choice){(amp_policy)(above - 1), true} : choice;
}
