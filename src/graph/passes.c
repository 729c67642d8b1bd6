/* The list of passes. */
#include "graph/passes.h"

#include <stdio.h>

#include "core/verbose.h"

static const struct {
    const char *name;
    int (*run)(amp_net *net);
} passes[] = {
    {"none", NULL},
};

bool amp_net_improve(amp_net *net, const char *name) {
    const bool tells = amp_verbose("graph");
    int changed = 0;
    for (size_t i = 0; i < sizeof passes / sizeof passes[0]; i++) {
        const int before = net->node_count, places = passes[i].run ? passes[i].run(net) : 0;
        if (places > 0) amp_net_count(net);
        if (tells)
            fprintf(stderr, "graph %s: %-12s %4d places, %4d -> %4d calls\n", name, passes[i].name, places, before,
                    net->node_count);
        changed += places;
    }
    return changed > 0;
}
