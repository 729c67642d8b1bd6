/* Times of calls on a device that goes on after they return: marks before and behind each, read when it has passed
 * them. */
#ifndef AMP_EXPLAIN_DEVICE_TIME_H
#define AMP_EXPLAIN_DEVICE_TIME_H

#include "call/backend.h"
#include "explain/record.h"

/* All but the first under the lock of the report. */

/* A mark before the call; NULL where its device is done when the call returns, or cannot tell. */
void *amp_device_time_begin(const amp_call *call);
/* Its time is added to the record later; `host` nanoseconds where the device fails to tell. */
void amp_device_time_end(amp_device device, void *timing, amp_record *record, uint64_t host);
/* Adds the times of all calls that the device has passed, or waits for it and adds all. */
void amp_device_times_read(bool wait);
/* What a call took: record.c. */
void amp_record_add_time(amp_record *record, uint64_t nanoseconds);

#endif /* AMP_EXPLAIN_DEVICE_TIME_H */
