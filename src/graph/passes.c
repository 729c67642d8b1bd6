/* The list of passes. */
#include "graph/passes.h"

#include <stdio.h>

#include "core/verbose.h"

static const struct {
    const char *name;
    int (*run)(amp_net *net);
    bool is_exact; /* not a bit of a result changes */
} passes[] = {
    {"same", amp_pass_same, true},
    {"idioms", amp_pass_idioms, false},
    {"epilogues", amp_pass_epilogues, false},
    {"rounding", amp_pass_rounding, false},
    {"casts", amp_pass_same, false}, /* those of one value for several readers */
    {"layout", amp_pass_layout, false},
};

enum { MOST_ROUNDS = 8 }; /* of one pass: what it has made may be more for it */

bool amp_net_improve(amp_net *net, const char *name, bool exact) {
    const bool tells = amp_verbose("graph");
    int changed = 0;
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++) {
        if (exact && !passes[i].is_exact) continue;
        const int before = net->node_count;
        int places = 0, more = 1;
        for (int round = 0; round < MOST_ROUNDS && more > 0; round++) {
            more = passes[i].run(net);
            places += more;
            if (more > 0) amp_net_count(net);
        }
        if (net->change_count < AMP_NET_CHANGES)
            net->changes[net->change_count++] = (amp_net_change){passes[i].name, places, before, net->node_count};
        if (tells)
            fprintf(stderr, "graph %s: %-12s %4d places, %4d -> %4d calls\n", name, passes[i].name, places, before,
                    net->node_count);
        if (!passes[i].is_exact) changed += places;
    }
    if (amp_verbose("calls")) amp_net_print(net);
    return changed > 0;
}
