/* The layers between an op and its kernel. Autocast and explain are built in; trace and grad plug in here. */
#ifndef AMP_DISPATCH_LAYERS_H
#define AMP_DISPATCH_LAYERS_H

#include "call/call.h"

/* A layer does its part and hands on with amp_call_next(call), or fails. */
typedef amp_status (*amp_layer_function)(amp_call *call);

/* Installs the function of AMP_LAYER_TRACE or AMP_LAYER_GRAD, once at start (tests install doubles); NULL removes
 * it. */
void amp_layer_install(unsigned layer, amp_layer_function run);
/* Switches a layer on or off for this thread. */
void amp_layer_activate(unsigned layer, bool on);

/* … for every thread. */
void amp_layer_activate_everywhere(unsigned layer, bool on);

/* Layers that are on for every thread (explain, grad): or'ed with the thread's in the one test of amp_dispatch. */
extern _Atomic unsigned amp_process_layers __attribute__((visibility("hidden")));

/* The layers of the rooms above: explain times the call and records its note; autocast has eligibility, policy,
 * casts. */
amp_status amp_explain_layer(amp_call *call);
amp_status amp_autocast_layer(amp_call *call);

#endif /* AMP_DISPATCH_LAYERS_H */
