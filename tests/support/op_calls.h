// Calls of ops as values: taken from recorded cases, changed at will, laid out in memory in different ways, and run.
// The fuzzer and the tests of bad input are made of them.
#ifndef AMP_TESTS_OP_CALLS_H
#define AMP_TESTS_OP_CALLS_H

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "amp/amp.h"

namespace op_calls {

// A tensor that is not made yet: dense elements.
struct Tensor {
    amp_dtype dtype = AMP_F32;
    std::vector<int64_t> shape;
    std::vector<unsigned char> bytes;
    amp_device device = AMP_DEVICE_CPU;
};

// An argument: tensors (indices into Call::tensors, -1 for NULL), or any other value.
struct Argument {
    std::string name;
    amp_value value = {};     // kind, and the value of what is no tensor
    std::vector<int> tensors; // one, or a list's
    std::string text;         // of a string
};

struct Call {
    std::string op, label; // label: where it was recorded
    bool autocast = false;
    amp_dtype autocast_dtype = AMP_DTYPE_NONE;
    std::vector<Tensor> tensors;
    std::vector<Argument> arguments;
};

// How the tensors of a call lie in memory; unstepped: dense, with the largest strides where no step is taken, as DLPack
// allows.
enum class Layout { dense, strided, negative, offset, channels_last, unstepped, count };

// What a call gives: all of it can be compared.
struct Result {
    amp_status status = AMP_OK;
    std::string error;
    std::vector<Tensor> outputs; // dense copies
    // Of run_backward: by tensor of the call its gradient, of no dtype where none was wanted or none arrived, and which
    // outputs led to them.
    std::vector<Tensor> gradients;
    std::vector<bool> differentiable;
    bool inputs_changed = false; // or, after an error, what out= names
    bool leaked = false;
};

// Every call of the folder's cases that the CPU can run, gradients and expectations left out. Throws what replay
// throws.
std::vector<Call> recorded(const std::string &folder);

// Calls of ops and overloads that no case is recorded of.
std::vector<Call> written();

// Both.
std::vector<Call> all(const std::string &folder);

// Runs a call with these layouts and threads. Views are judged by their elements. The thread has no scope and no error.
Result run(const Call &call, Layout layout, int threads);

// The same, and back from its real floating outputs to the tensors that are wanted (one flag each), which become leaves.
Result run_backward(const Call &call, Layout layout, int threads, const std::vector<bool> &wanted);
// The gradient that an output's element is given there: some number from -1 to 1, a multiple of 1/64.
double cotangent(size_t output, size_t element);

// "mm(input=f32 [2, 3], mat2=…)"
std::string describe(const Call &call);

size_t elements(const std::vector<int64_t> &shape);
double number_at(const Tensor &tensor, size_t index); // of complex numbers the real part
void set_number(Tensor *tensor, size_t index, double value);
// The tensor with another dtype, its values converted.
Tensor converted(const Tensor &tensor, amp_dtype dtype);
// Repeats or cuts the elements to the new shape.
void reshape(Tensor *tensor, const std::vector<int64_t> &shape);

// Results of the same call: the same status and error, dtypes, shapes, and bits (one NaN is as good as another). Empty,
// or what differs.
std::string difference(const Result &a, const Result &b);
// A unit in the last place of 1.
double unit_of(amp_dtype dtype);
// The same with floating elements of different dtypes or sums in another order: within `units` in the last place of the
// largest element of the narrower dtype, and `floor`. Infinities and NaN are not compared, nor is anything where
// `units` is infinite.
std::string difference_beyond(const Result &a, const Result &b, double units, double floor = 1e-7);
// What is wrong with an error: it must be one sentence that begins with the op's name. Empty for AMP_OK.
std::string bad_sentence(const Call &call, const Result &result);

// Results that are not a function of the arguments: empty, and what draws random numbers.
bool is_unspecified(const Call &call);
// Ops that depend on strides by definition (view, as_strided …), which refuse some layouts.
bool depends_on_layout(const std::string &op);

} // namespace op_calls

#endif // AMP_TESTS_OP_CALLS_H
