/* Where constants that lie in files beside the model may lie: decided by names alone. */
#ifndef AMP_ONNX_EXTERNAL_H
#define AMP_ONNX_EXTERNAL_H

#include "core/fail.h"

/* What is wrong with a location as the model gives it; NULL: it is relative and stays below its folder. */
const char *amp_onnx_location_fault(const char *location);

/* The real path of `location` in `folder`, where that is a file inside of `folder` reached through no link, or, by
 * links or directly, one inside of `data_folder` (NULL: none). PATH_MAX bytes to `path`. AMP_ERROR_IO, with the reason
 * at *why and without an error: it is not. */
amp_status amp_onnx_locate(const char *folder, const char *data_folder, const char *location, char *path,
                           const char **why);

#endif /* AMP_ONNX_EXTERNAL_H */
