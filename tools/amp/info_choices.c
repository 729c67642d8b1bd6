/* amp info --choices: who won each choice that a clock made, by how much, and when it was made. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "amp/amp.h"
#include "command.h"
#include "cpu/registry/choices.h"
#include "info_kernels.h"

static const char *origin_text(amp_choice_origin origin) {
    static const char *const texts[] = {"fixed rule", "measured now", "measured before"};
    return texts[origin];
}

static const char *winner(const amp_choice_report *r) {
    return r->answer ? r->yes : r->no;
}

/* "oneDNN, 1.28 times as fast (measured before: libamp's kernel 184, oneDNN 236 GFLOP/s)" */
static void print_choice(const amp_choice_report *r) {
    const double won = r->answer ? r->yes_rate : r->no_rate, lost = r->answer ? r->no_rate : r->yes_rate;
    printf("  %-38s %s", r->name, winner(r));
    if (r->origin != AMP_CHOICE_BY_RULE && lost > 0) {
        if (0.97 * won <= lost) {
            printf(", a tie");
        } else {
            printf(", %.3g times as fast", won / lost);
        }
    }
    printf(" (%s", origin_text(r->origin));
    if (r->origin != AMP_CHOICE_BY_RULE)
        printf(": %s %.3g, %s %.3g GFLOP/s", r->yes, r->yes_rate * 1e-9, r->no, r->no_rate * 1e-9);
    printf(")\n");
}

/* Number `index` of all choices, kinds last. */
static bool choice_at(int index, amp_choice_report *report) {
    if (index >= AMP_CHOICE_COUNT) return amp_choice_explain_kind(index - AMP_CHOICE_COUNT, report);
    *report = amp_choice_explain((amp_choice)index);
    return true;
}

static void print_explanation(void) {
    printf(
        "  Rates are of one thread, on operands in place. A tie, within 3 %%, goes to libamp's own kernel.\n"
        "  Convolutions in bf16 are answered by kind, but those that read an f32 image with channels last as it is,\n"
        "  which are libamp's: conv_CHANNELS_OUTPUTS_WINDOW[_groupsN][_bySTRIDE][_apartDILATION]_PIXELS, channels and\n"
        "  outputs of one group. f32 products with constant weights: gemm_f32_M_N_K, powers of two, M up to 128.\n"
        "  The list is of all programs on this machine so far.\n");
}

/* ---- The summary ------------------------------------------------------------------------------------------------ */
typedef struct score {
    const char *name;
    int wins;
} score;

enum { MOST_WINNERS = 8 };

/* Their wins among the kinds; returns how many winners there are. */
static int count_wins(score *scores, int *kinds) {
    int winners = 0;
    amp_choice_report r;
    for (*kinds = 0; amp_choice_explain_kind(*kinds, &r); ++*kinds) {
        int i = 0;
        while (i < winners && strcmp(scores[i].name, winner(&r)) != 0) i++;
        if (i == MOST_WINNERS) continue;
        if (i == winners) scores[winners++] = (score){winner(&r), 0};
        scores[i].wins++;
    }
    return winners;
}

void amp_print_choices(void) {
    printf("\nChoices\n");
    for (int i = 0; i < AMP_CHOICE_COUNT; i++) {
        const amp_choice_report r = amp_choice_explain((amp_choice)i);
        print_choice(&r);
    }
    score scores[MOST_WINNERS];
    int kinds;
    const int winners = count_wins(scores, &kinds);
    printf("  %-38s ", "conv_*, of all programs so far");
    for (int i = 0; i < winners; i++) printf("%s%d by %s", i ? ", " : "", scores[i].wins, scores[i].name);
    printf(kinds ? "; amp info --choices lists them\n" : "none yet\n");
    const char *path = amp_choices_path();
    printf("  %-38s %s\n", "kept in", *path ? path : "no file");
}

/* ---- The list --------------------------------------------------------------------------------------------------- */
static json_t *choice_json(const amp_choice_report *r) {
    return json_pack("{s:s, s:s, s:s, s:s, s:b, s:f, s:f}", "name", r->name, "yes", r->yes, "no", r->no, "origin",
                     origin_text(r->origin), "answer", (int)r->answer, "yes_flops", r->yes_rate, "no_flops",
                     r->no_rate);
}

static json_t *matching_json(const char *pattern) {
    json_t *list = json_array();
    amp_choice_report r;
    for (int i = 0; choice_at(i, &r); i++) {
        if (!pattern || fnmatch(pattern, r.name, 0) == 0) json_array_append_new(list, choice_json(&r));
    }
    return list;
}

json_t *amp_choices_json(void) {
    return matching_json(NULL);
}

static bool print_json(const char *pattern) {
    json_t *list = matching_json(pattern);
    const bool any = json_array_size(list) > 0;
    char *text = any ? json_dumps(list, JSON_INDENT(1)) : NULL;
    if (text) puts(text);
    free(text);
    json_decref(list);
    return any;
}

static bool print_matching(const char *pattern) {
    bool any = false;
    amp_choice_report r;
    for (int i = 0; choice_at(i, &r); i++) {
        if (pattern && fnmatch(pattern, r.name, 0) != 0) continue;
        print_choice(&r);
        any = true;
    }
    if (any) print_explanation();
    return any;
}

int amp_list_choices(const char *pattern, bool json) {
    if (json ? print_json(pattern) : print_matching(pattern)) return AMP_EXIT_OK;
    fprintf(stderr, "amp info: no choice matches '%s': only what was called and has two ways is compared\n",
            pattern ? pattern : "*");
    return AMP_EXIT_FAILED;
}
