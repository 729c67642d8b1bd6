/* libamp: automatic mixed precision for C. This header includes the whole API. */
#ifndef AMP_AMP_H
#define AMP_AMP_H

#include "amp/apex.h"
#include "amp/autocast.h"
#include "amp/call.h"
#include "amp/cuda.h"
#include "amp/custom.h"
#include "amp/distributed.h"
#include "amp/error.h"
#include "amp/explain.h"
#include "amp/grad.h"
#include "amp/grad_scaler.h"
#include "amp/graph.h"
#include "amp/io.h"
#include "amp/lbfgs.h"
#include "amp/memory.h"
#include "amp/ops.h"
#include "amp/optimizer.h"
#include "amp/parameters.h"
#include "amp/random.h"
#include "amp/scheduler.h"
#include "amp/scope.h"
#include "amp/system.h"
#include "amp/tensor.h"
#include "amp/training.h"
#include "amp/types.h"
#include "amp/user.h"
#include "amp/version.h"

#endif /* AMP_AMP_H */
