/* amp explain model.onnx: above the drawing, what its colours and sizes mean, and the tools to search and zoom it. */
#include "page.h"

void page_write_legend(FILE *out, const page *p) {
    fputs(
        "<div class=\"bar-tools\"><span class=\"script\"><input id=\"find\" type=\"search\" placeholder=\"find op, "
        "name, "
        "kernel, type …\" aria-label=\"find\"><span id=\"hits\" class=\"soft\"></span><button id=\"out\" "
        "title=\"smaller\">−"
        "</button><button id=\"in\" title=\"larger\">+</button><button id=\"fit\">all of it</button></span><span>"
        "<span class=\"key bf16\"></span>bf16<span class=\"key f32\"></span>f32<span class=\"key "
        "other\"></span>other types"
        "<span class=\"key cast\"></span>cast: read in another type</span><span class=\"soft\">Larger and fuller: more "
        "time.",
        out);
    if (!p->picture.is_dots)
        fputs(" In the order of the run; Graphviz’s dot, where it is installed, places it as a graph.", out);
    fputs("</span></div>\n", out);
}
