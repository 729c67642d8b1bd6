/* interpolate. */
#include <string.h>

#include "onnx/write/from.h"

/* By sizes; a scale that says another one than they do is refused. */
amp_status from_interpolate(amp_written_call *c) {
    const amp_made_shape shape = amp_written_shape(c, 0);
    const char *mode = amp_written_text(c, "mode", "nearest");
    const bool nearest = strcmp(mode, "nearest") == 0, linear = strcmp(mode, "bilinear") == 0,
               cubic = strcmp(mode, "bicubic") == 0, corners = amp_written_int(c, "align_corners", 0) != 0;
    const int x = amp_written_operand(c, "input");
    if (x < 0) return amp_pending_error();
    if (!nearest && !linear && !cubic) return amp_written_fail(c, "in mode '%s'", mode);
    if (amp_written_int(c, "antialias", 0)) return amp_written_fail(c, "with antialias");
    for (int d = 2; !amp_written_dims(c, "size") && d < shape.rank; d++) {
        if (shape.extents[d] % c->w->values[x].shape[d] != 0)
            return amp_written_fail(c, "by a factor that is no whole number");
    }
    const int sizes = amp_made_integers(c->w, shape.extents, shape.rank);
    const int y = AMP_MADE(c->w, "Resize", &shape, x, AMP_MADE_NONE, AMP_MADE_NONE, sizes);
    amp_made_text(c->w, "coordinate_transformation_mode",
                  nearest   ? "asymmetric"
                  : corners ? "align_corners"
                            : "half_pixel");
    amp_made_text(c->w, "mode", nearest ? "nearest" : linear ? "linear" : "cubic");
    if (nearest) amp_made_text(c->w, "nearest_mode", "floor");
    return amp_written_set(c, 0, y);
}
