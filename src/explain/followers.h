/* Results of products and convolutions that an activation alone reads: the two could be one call of the fused op. */
#ifndef AMP_EXPLAIN_FOLLOWERS_H
#define AMP_EXPLAIN_FOLLOWERS_H

#include "explain/record.h"

/* All under the lock of the report. */

/* A call that succeeded, with its record (NULL: no memory for one): what it reads, and what it made. */
void amp_followers_note(const amp_call *call, amp_record *record);
/* Whether results of such calls are watched. */
bool amp_follower_may_have(const amp_record_key *key);
/* The records are about to go. */
void amp_followers_forget(void);
/* The op that does both at once ("linear_pointwise") and what its argument `attr` is then; NULL: there is none. */
const char *amp_follower_fused(const amp_op_info *maker, const amp_op_info *follower, const char **attr);

#endif /* AMP_EXPLAIN_FOLLOWERS_H */
