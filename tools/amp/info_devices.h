/* amp info: the devices that ops can run on. */
#ifndef AMP_TOOL_INFO_DEVICES_H
#define AMP_TOOL_INFO_DEVICES_H

#include <jansson.h>

void amp_print_devices(void);
/* {"usable": …, "reason": …, "devices": […], "libraries": {…}} of CUDA; NULL without memory. */
json_t *amp_cuda_json(void);

#endif /* AMP_TOOL_INFO_DEVICES_H */
