/* Nodes: their inputs by number, their attributes, and calls of the model's own functions, each with a body of its
 * own. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "onnx/read/reader.h"

#define FAIL_AS(code, ...) amp_onnx_read_fail(place->reader, (code), __VA_ARGS__)
#define FAIL(...) FAIL_AS(AMP_ERROR_INVALID, __VA_ARGS__)

/* ---- Attributes ---- */

/* An attribute on its way. */
typedef struct reading {
    amp_onnx_place *place;
    size_t node;
    const amp_onnx_attribute_proto *proto;
} reading;

static amp_onnx_words attribute_words(const reading *r) {
    amp_onnx_words words;
    snprintf(words.text, sizeof words.text, "attribute '%.80s' of %.300s", amp_onnx_text_of(r->proto->name),
             amp_onnx_node_words(r->place, r->node).text);
    return words;
}

static amp_status attribute_fault(const reading *r, amp_status code, const char *fault) {
    return amp_onnx_read_fail(r->place->reader, code, "%s %s", attribute_words(r).text, fault);
}

/* The kind as it is given; files older than that field have one of the values only. */
static int kind_of(const amp_onnx_attribute_proto *proto) {
    if (proto->has_type && proto->type != 0) return (int)proto->type;
    return proto->has_f       ? AMP_ONNX_FLOAT
           : proto->has_i     ? AMP_ONNX_INT
           : proto->has_s     ? AMP_ONNX_STRING
           : proto->t         ? AMP_ONNX_TENSOR
           : proto->g         ? AMP_ONNX_GRAPH
           : proto->n_floats  ? AMP_ONNX_FLOATS
           : proto->n_ints    ? AMP_ONNX_INTS
           : proto->n_strings ? AMP_ONNX_STRINGS
                              : 0;
}

/* Bytes as text; NULL with an error. */
static const char *take_text(const reading *r, const ProtobufCBinaryData *bytes) {
    if (bytes->len && memchr(bytes->data, 0, bytes->len)) {
        attribute_fault(r, AMP_ERROR_INVALID, "has a zero byte in it, expected text");
        return NULL;
    }
    return amp_onnx_copy_text(r->place->reader, (const char *)bytes->data, bytes->len);
}

static amp_status take_texts(const reading *r, amp_onnx_attribute *to) {
    const char **texts = amp_onnx_get(r->place->reader, r->proto->n_strings, sizeof(char *));
    if (!texts) return amp_pending_error();
    for (size_t i = 0; i < r->proto->n_strings; i++) {
        texts[i] = take_text(r, &r->proto->strings[i]);
        if (!texts[i]) return amp_pending_error();
    }
    to->as.texts = texts;
    to->count = (int)r->proto->n_strings;
    return AMP_OK;
}

static amp_status take_floats(const reading *r, amp_onnx_attribute *to) {
    double *numbers = amp_onnx_get(r->place->reader, r->proto->n_floats, sizeof *numbers);
    if (!numbers) return amp_pending_error();
    for (size_t i = 0; i < r->proto->n_floats; i++) numbers[i] = r->proto->floats[i];
    to->as.numbers = numbers;
    to->count = (int)r->proto->n_floats;
    return AMP_OK;
}

static amp_status take_tensor(const reading *r, amp_onnx_attribute *to) {
    if (!r->proto->t) return attribute_fault(r, AMP_ERROR_INVALID, "is to be a tensor, but has none");
    to->as.tensor = amp_onnx_read_tensor(r->place->reader, r->proto->t, attribute_words(r).text);
    return to->as.tensor ? AMP_OK : amp_pending_error();
}

static amp_status take_graph(const reading *r, amp_onnx_attribute *to) {
    if (!r->proto->g) return attribute_fault(r, AMP_ERROR_INVALID, "is to be a graph, but has none");
    to->as.graph = amp_onnx_read_graph(r->place->reader, r->proto->g, r->place);
    return to->as.graph ? AMP_OK : amp_pending_error();
}

static amp_status refuse_kind(const reading *r, int kind) {
    const ProtobufCEnumValue *value =
        protobuf_c_enum_descriptor_get_value(&amp_onnx__attribute_proto__attribute_type__descriptor, kind);
    char fault[120];
    snprintf(fault, sizeof fault, "is of kind %s, which libamp does not read", value ? value->name : "unknown");
    return attribute_fault(r, AMP_ERROR_NOT_IMPLEMENTED, fault);
}

static amp_status take_value(const reading *r, amp_onnx_attribute *to) {
    static const int64_t nothing = 0; /* an empty list is not an absent one */
    const amp_onnx_attribute_proto *proto = r->proto;
    if (proto->n_ints > INT_MAX || proto->n_floats > INT_MAX)
        return attribute_fault(r, AMP_ERROR_INVALID, "has too many numbers");
    switch (to->kind) {
    case AMP_ONNX_FLOAT: to->as.number = proto->f; return AMP_OK;
    case AMP_ONNX_INT: to->as.integer = proto->i; return AMP_OK;
    case AMP_ONNX_STRING: to->as.text = take_text(r, &proto->s); return to->as.text ? AMP_OK : amp_pending_error();
    case AMP_ONNX_TENSOR: return take_tensor(r, to);
    case AMP_ONNX_GRAPH: return take_graph(r, to);
    case AMP_ONNX_FLOATS: return take_floats(r, to);
    case AMP_ONNX_INTS:
        to->as.integers = proto->ints ? proto->ints : &nothing;
        to->count = (int)proto->n_ints;
        return AMP_OK;
    case AMP_ONNX_STRINGS: return take_texts(r, to);
    default: return refuse_kind(r, to->kind);
    }
}

/* What it is made of is made once in a function, but for graphs, whose nodes may differ from call to call. */
static amp_status read_value(const reading *r, amp_onnx_attribute *to) {
    amp_onnx_reader *reader = r->place->reader;
    const bool once = r->place->call && to->kind != AMP_ONNX_GRAPH;
    amp_onnx_attribute *made = once ? amp_onnx_made(reader, r->proto) : NULL;
    if (made) {
        *to = *made;
        return AMP_OK;
    }
    AMP_TRY(take_value(r, to));
    if (!once) return AMP_OK;
    made = amp_onnx_get(reader, 1, sizeof *made);
    if (!made) return amp_pending_error();
    *made = *to;
    return amp_onnx_keep_made(reader, r->proto, made);
}

/* A function's attribute under the name that it has here; kind 0 where the call gives none. */
static amp_status read_reference(const reading *r, amp_onnx_attribute *to) {
    const amp_onnx_call *call = r->place->call;
    if (!call)
        return attribute_fault(r, AMP_ERROR_INVALID, "stands for an attribute of a function, but in no function");
    const int number = amp_onnx_names_find(&call->names, r->proto->ref_attr_name);
    if (number < 0)
        return attribute_fault(r, AMP_ERROR_INVALID, "stands for an attribute that the function does not have");
    *to = call->bindings[number];
    if (to->kind != 0 && r->proto->has_type && r->proto->type != 0 && (int)r->proto->type != (int)to->kind) {
        return attribute_fault(r, AMP_ERROR_INVALID, "is of another kind in the call of the function");
    }
    to->name = r->proto->name;
    return AMP_OK;
}

static amp_status read_attribute(const reading *r, amp_onnx_attribute *to) {
    const char *name = amp_onnx_text_of(r->proto->name);
    if (*name == '\0') return attribute_fault(r, AMP_ERROR_INVALID, "has no name");
    if (*amp_onnx_text_of(r->proto->ref_attr_name)) return read_reference(r, to);
    *to = (amp_onnx_attribute){.name = name, .kind = (amp_onnx_kind)kind_of(r->proto)};
    return read_value(r, to);
}

static amp_status check_attributes(const amp_onnx_place *place, size_t index) {
    const amp_onnx_node_proto *proto = place->node_protos[index];
    if (proto->n_attribute > AMP_ONNX_MOST_ATTRIBUTES) {
        return FAIL("%s has %zu attributes, expected at most %d", amp_onnx_node_words(place, index).text,
                    proto->n_attribute, AMP_ONNX_MOST_ATTRIBUTES);
    }
    for (size_t i = 0; i < proto->n_attribute; i++) {
        const char *name = amp_onnx_text_of(proto->attribute[i]->name);
        for (size_t k = 0; k < i; k++) {
            if (strcmp(name, amp_onnx_text_of(proto->attribute[k]->name)) == 0) {
                return FAIL("%s has attribute '%.200s' twice", amp_onnx_node_words(place, index).text, name);
            }
        }
    }
    return AMP_OK;
}

static amp_status read_attributes(amp_onnx_place *place, size_t index, amp_onnx_node *node) {
    const amp_onnx_node_proto *proto = place->node_protos[index];
    AMP_TRY(check_attributes(place, index));
    AMP_TRY(amp_onnx_count(place->reader, (int64_t)proto->n_attribute, 0, 0));
    amp_onnx_attribute *attributes = amp_onnx_get(place->reader, proto->n_attribute, sizeof *attributes);
    if (!attributes) return amp_pending_error();
    node->attributes = attributes;
    for (size_t i = 0; i < proto->n_attribute; i++) {
        const reading r = {place, index, proto->attribute[i]};
        amp_onnx_attribute *to = &attributes[node->attribute_count];
        AMP_TRY(read_attribute(&r, to));
        node->attribute_count += to->kind != 0;
    }
    return AMP_OK;
}

/* ---- Inputs and outputs ---- */

/* Room for `count` numbers, those from the file on absent. */
static int *new_numbers(amp_onnx_place *place, size_t count) {
    int *numbers = amp_onnx_get(place->reader, count, sizeof *numbers);
    for (size_t i = 0; numbers && i < count; i++) numbers[i] = NO_VALUE;
    return numbers;
}

static amp_status read_input(amp_onnx_place *place, size_t index, const char *name, int *number) {
    if (*name == '\0') return AMP_OK;
    AMP_TRY(amp_onnx_find_value(place, name, number));
    if (*number == NO_VALUE) {
        return FAIL("%s reads '%.200s', which nobody makes", amp_onnx_node_words(place, index).text, name);
    }
    if (*number == ABSENT_VALUE) *number = NO_VALUE;
    return AMP_OK;
}

/* Bytes of the names that reading the node looks at; those of attributes are compared with each other. */
static int64_t text_of(const amp_onnx_node_proto *proto) {
    size_t text = strlen(amp_onnx_text_of(proto->op_type)) + strlen(amp_onnx_text_of(proto->domain));
    for (size_t i = 0; i < proto->n_input; i++) text += strlen(proto->input[i]);
    for (size_t i = 0; i < proto->n_attribute; i++)
        text += proto->n_attribute * strlen(amp_onnx_text_of(proto->attribute[i]->name));
    return (int64_t)text;
}

static amp_status read_links(amp_onnx_place *place, size_t index, size_t inputs, size_t outputs, amp_onnx_node *node) {
    const amp_onnx_node_proto *proto = place->node_protos[index];
    AMP_TRY(amp_onnx_count(place->reader, 0, (int64_t)(inputs + outputs), place->call ? text_of(proto) : 0));
    int *in = new_numbers(place, inputs), *out = new_numbers(place, outputs);
    if (!in || !out) return amp_pending_error();
    for (size_t i = 0; i < proto->n_input; i++) AMP_TRY(read_input(place, index, proto->input[i], &in[i]));
    for (size_t i = 0; i < proto->n_output; i++) {
        if (*proto->output[i]) out[i] = amp_onnx_names_find(&place->names, proto->output[i]);
    }
    node->inputs = in;
    node->outputs = out;
    node->input_count = (int)inputs;
    node->output_count = (int)outputs;
    return AMP_OK;
}

/* ---- Opsets ---- */

/* A function's own, else the model's. */
static amp_status read_opset(amp_onnx_place *place, size_t index, amp_onnx_node *node) {
    const amp_onnx_model_proto *model = place->reader->proto;
    if (amp_onnx_find_opset(place->opsets, node->domain, &node->opset)) return AMP_OK;
    if (amp_onnx_find_opset(&place->reader->opsets[model->n_functions], node->domain, &node->opset)) return AMP_OK;
    node->opset = 1;
    if (node->function || (*node->domain == '\0' && model->ir_version < 3)) return AMP_OK;
    return FAIL("%s is of domain '%.100s', of which the model imports no opset", amp_onnx_node_words(place, index).text,
                *node->domain ? node->domain : "ai.onnx");
}

/* ---- Calls of functions ---- */

/* Its place among the model's functions; -1: it is none of them. Apart: the key is long, and calls lie in each
 * other. */
__attribute__((noinline)) static int find_function(const amp_onnx_reader *reader, const amp_onnx_node_proto *proto) {
    char key[AMP_ONNX_FUNCTION_KEY];
    amp_onnx_function_key(proto->domain, proto->op_type, proto->overload, key);
    return amp_onnx_names_find(&reader->functions, key);
}

static amp_status check_call(const amp_onnx_place *place, size_t index, const amp_onnx_function_proto *function) {
    const amp_onnx_node_proto *proto = place->node_protos[index];
    const amp_onnx_words words = amp_onnx_node_words(place, index);
    int depth = 1;
    for (const amp_onnx_call *call = place->call; call; call = call->outer, depth++) {
        if (call->function == function)
            return FAIL("%s calls the function that it stands in: it would never end", words.text);
    }
    if (depth > AMP_ONNX_MOST_CALL_DEPTH)
        return FAIL("%s: functions call each other more than %d deep", words.text, AMP_ONNX_MOST_CALL_DEPTH);
    if (proto->n_input > function->n_input) {
        return FAIL("%s has %zu inputs, but the function %zu", words.text, proto->n_input, function->n_input);
    }
    if (proto->n_output > function->n_output) {
        return FAIL("%s has %zu outputs, but the function %zu", words.text, proto->n_output, function->n_output);
    }
    if (function->n_attribute + function->n_attribute_proto <= AMP_ONNX_MOST_ATTRIBUTES) return AMP_OK;
    return FAIL("%s calls a function of more than %d attributes", words.text, AMP_ONNX_MOST_ATTRIBUTES);
}

static amp_status add_binding(amp_onnx_place *place, size_t index, amp_onnx_call *call, const char *name) {
    if (amp_onnx_names_find(&call->names, name) >= 0) {
        return FAIL("%s calls a function that has attribute '%.200s' twice", amp_onnx_node_words(place, index).text,
                    name);
    }
    return amp_onnx_names_add(&call->names, name, (int)call->names.count) == AMP_OK ? AMP_OK
                                                                                    : amp_onnx_no_memory(place->reader);
}

/* What a call gives to a function, or a function to itself. */
static amp_status bind(amp_onnx_place *place, size_t index, amp_onnx_call *call,
                       const amp_onnx_attribute_proto *proto) {
    const reading r = {place, index, proto};
    const int number = amp_onnx_names_find(&call->names, amp_onnx_text_of(proto->name));
    if (number < 0) return attribute_fault(&r, AMP_ERROR_INVALID, "is none that the function has");
    if (!*amp_onnx_text_of(proto->ref_attr_name) && kind_of(proto) == AMP_ONNX_GRAPH) {
        return attribute_fault(&r, AMP_ERROR_NOT_IMPLEMENTED, "is a graph, which libamp does not hand to a function");
    }
    return read_attribute(&r, &call->bindings[number]);
}

static amp_status bind_all(amp_onnx_place *place, size_t index, amp_onnx_call *call) {
    const amp_onnx_function_proto *f = call->function;
    const amp_onnx_node_proto *proto = place->node_protos[index];
    AMP_TRY(check_attributes(place, index));
    AMP_TRY(amp_onnx_count(place->reader, (int64_t)(f->n_attribute + f->n_attribute_proto), 0, 0));
    call->bindings = amp_onnx_get(place->reader, f->n_attribute + f->n_attribute_proto, sizeof *call->bindings);
    if (!call->bindings) return amp_pending_error();
    for (size_t i = 0; i < f->n_attribute; i++) AMP_TRY(add_binding(place, index, call, f->attribute[i]));
    for (size_t i = 0; i < f->n_attribute_proto; i++) {
        const reading r = {place, index, f->attribute_proto[i]};
        AMP_TRY(add_binding(place, index, call, amp_onnx_text_of(r.proto->name)));
        if (*amp_onnx_text_of(r.proto->ref_attr_name))
            return attribute_fault(&r, AMP_ERROR_INVALID, "has no default of its own");
        AMP_TRY(bind(place, index, call, r.proto));
    }
    for (size_t i = 0; i < proto->n_attribute; i++) AMP_TRY(bind(place, index, call, proto->attribute[i]));
    return AMP_OK;
}

static amp_status read_call(amp_onnx_place *place, size_t index, int number, amp_onnx_node *node) {
    const amp_onnx_function_proto *function = place->reader->proto->functions[number];
    amp_onnx_call call = {.outer = place->call, .function = function, .opsets = &place->reader->opsets[number]};
    AMP_TRY(check_call(place, index, function));
    AMP_TRY(read_links(place, index, function->n_input, function->n_output, node));
    const amp_status status = bind_all(place, index, &call);
    if (status == AMP_OK) node->function = amp_onnx_read_function(place->reader, &call, node->inputs);
    amp_onnx_names_end(&call.names);
    return node->function ? AMP_OK : amp_pending_error();
}

/* ---- */

amp_status amp_onnx_read_node(amp_onnx_place *place, size_t index, amp_onnx_node *node) {
    const amp_onnx_node_proto *proto = place->node_protos[index];
    node->name = amp_onnx_text_of(proto->name);
    node->type = amp_onnx_text_of(proto->op_type);
    node->domain = amp_onnx_domain_of(proto->domain);
    if (*node->type == '\0') return FAIL("%s has no type", amp_onnx_node_words(place, index).text);
    const int function = place->reader->proto->n_functions ? find_function(place->reader, proto) : -1;
    if (function >= 0) {
        AMP_TRY(read_call(place, index, function, node));
    } else {
        AMP_TRY(read_links(place, index, proto->n_input, proto->n_output, node));
        AMP_TRY(read_attributes(place, index, node));
    }
    return read_opset(place, index, node);
}
