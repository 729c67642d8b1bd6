/* What the C++ functions of amp/amp.hpp take and give: tensors with an owner, shapes, numbers, scopes and regions. */
#ifndef AMP_TENSOR_HPP
#define AMP_TENSOR_HPP

#include <complex>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "amp/amp.h"

namespace amp {

/* One owner of a tensor: copies retain it, the last one releases it, whatever scopes are open. Empty where nothing was
 * given or an op failed; every op takes an empty one as absent, or says that the argument is missing. */
class tensor {
  public:
    tensor() = default;
    tensor(std::nullptr_t) {}
    /* Takes over what an op of the C API returned: out of its scope, as amp_keep does. */
    explicit tensor(amp_tensor *returned) : held_(amp_keep(returned)) {}
    tensor(const tensor &other) : held_(amp_retain(other.held_)) {}
    tensor(tensor &&other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
    tensor &operator=(tensor other) noexcept {
        std::swap(held_, other.held_);
        return *this;
    }
    ~tensor() {
        if (held_) amp_release(held_);
    }

    /* One more owner of a tensor that keeps the ones it has. */
    static tensor share(amp_tensor *other) {
        tensor made;
        made.held_ = amp_retain(other);
        return made;
    }

    /* For calls of the C API; it stays this object's. */
    amp_tensor *get() const {
        return held_;
    }
    /* Gives it to the caller, who calls amp_release. */
    amp_tensor *release() {
        return std::exchange(held_, nullptr);
    }
    explicit operator bool() const {
        return held_ != nullptr;
    }

    amp_dtype dtype() const {
        return amp_tensor_dtype(held_);
    }
    amp_device device() const {
        return amp_tensor_device(held_);
    }
    int rank() const {
        return amp_tensor_rank(held_);
    }
    int64_t numel() const {
        return amp_tensor_numel(held_);
    }
    int64_t size(int dim) const {
        return amp_tensor_size(held_, dim);
    }
    std::vector<int64_t> shape() const {
        const int64_t *extents = amp_tensor_shape(held_);
        return held_ ? std::vector<int64_t>(extents, extents + rank()) : std::vector<int64_t>();
    }
    /* amp_tensor_set_requires_grad, and what amp_backward leaves: empty where there is none yet. */
    void requires_grad(bool wanted) const {
        (void)amp_tensor_set_requires_grad(held_, wanted);
    }
    bool requires_grad() const {
        return amp_tensor_requires_grad(held_);
    }
    tensor grad() const {
        amp_tensor *gradient = amp_tensor_grad(held_);
        return gradient ? share(gradient) : tensor();
    }
    void zero_grad() const {
        (void)amp_tensor_zero_grad(held_);
    }
    /* The one element of a CPU tensor: amp_item. */
    double item() const {
        return amp_item(held_);
    }
    /* The text that amp_print prints; "" with an error. */
    std::string repr() const {
        char *text = amp_repr(held_);
        std::string copy = text ? text : "";
        amp_repr_free(text);
        return copy;
    }

  private:
    amp_tensor *held_ = nullptr;
};

/* A list of integers: a shape, dims({2, 3}) or dims(n), or one number for every dimension. dims() is absent, which is
 * not the same as dims::none(), a list of nothing. More than AMP_MAX_RANK are refused by the op. */
class dims {
  public:
    dims() = default;
    template <typename Int, typename = std::enable_if_t<std::is_integral_v<Int>>>
    dims(Int one) : dims({static_cast<int64_t>(one)}) {}
    dims(std::initializer_list<int64_t> values) : list_(amp_dims_from(values)) {}
    dims(const std::vector<int64_t> &values) {
        list_.count = static_cast<int>(values.size());
        list_.set = AMP_PRESENT;
        for (size_t i = 0; i < values.size() && i < AMP_MAX_RANK; i++) list_.values[i] = values[i];
    }
    static dims none() {
        return dims(std::vector<int64_t>());
    }
    const amp_dims &get() const {
        return list_;
    }

  private:
    amp_dims list_ = {};
};

/* The same of real numbers. */
class floats {
  public:
    floats() = default;
    floats(double one) : floats({one}) {}
    floats(std::initializer_list<double> values) : list_(amp_floats_from(values)) {}
    const amp_floats &get() const {
        return list_;
    }

  private:
    amp_floats list_ = {};
};

/* A number for elements of tensors, which keeps its category: scalar(2) is an integer, scalar(2.0) is not. */
class scalar {
  public:
    scalar() = default;
    template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number>>>
    scalar(Number number) {
        if constexpr (std::is_same_v<Number, bool>) {
            value_ = amp_bool(number);
        } else if constexpr (std::is_integral_v<Number>) {
            value_ = amp_int(static_cast<int64_t>(number));
        } else {
            value_ = amp_float(static_cast<double>(number));
        }
    }
    scalar(std::complex<double> number) : value_(amp_complex(number.real(), number.imag())) {}
    const amp_scalar &get() const {
        return value_;
    }

  private:
    amp_scalar value_ = {};
};

/* A list of tensors, which it keeps alive. */
class tensors {
  public:
    tensors() = default;
    tensors(std::initializer_list<tensor> items) : tensors(std::vector<tensor>(items)) {}
    tensors(std::vector<tensor> items) : items_(std::move(items)) {
        for (const tensor &t : items_) pointers_.push_back(t.get());
    }
    amp_tensor_list get() const {
        return amp_tensor_list(pointers_.data(), static_cast<int64_t>(pointers_.size()));
    }

  private:
    std::vector<tensor> items_;
    std::vector<amp_tensor *> pointers_;
};

/* amp_scope for what calls of the C API make: until the object goes. amp::tensor needs none. */
class scope {
  public:
    scope() {
        (void)amp_scope_enter();
    }
    ~scope() {
        (void)amp_scope_exit();
    }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;
};

/* amp_autocast_args without the device. */
struct autocast_options {
    amp_dtype dtype{};
    amp_opt_bool enabled{};
    amp_opt_bool cache_enabled{};
    bool strict{};
    bool allow_banned{};
    const char *table{};

    autocast_options &with_dtype(amp_dtype value) {
        dtype = value;
        return *this;
    }
    autocast_options &with_enabled(bool value) {
        enabled = value;
        return *this;
    }
    autocast_options &with_cache_enabled(bool value) {
        cache_enabled = value;
        return *this;
    }
    autocast_options &with_strict(bool value) {
        strict = value;
        return *this;
    }
    autocast_options &with_allow_banned(bool value) {
        allow_banned = value;
        return *this;
    }
    autocast_options &with_table(const char *value) {
        table = value;
        return *this;
    }
};

/* amp_autocast until the object goes. Guards go innermost first, as regions must. */
class autocast {
  public:
    explicit autocast(amp_device device, const autocast_options &options = {}) : device_(device) {
        amp_autocast_args args = {};
        args.struct_size = sizeof args;
        args.device = device;
        args.dtype = options.dtype;
        args.enabled = options.enabled;
        args.cache_enabled = options.cache_enabled;
        args.strict = options.strict;
        args.allow_banned = options.allow_banned;
        args.table = options.table;
        (void)amp_autocast_enter(&args);
    }
    ~autocast() {
        (void)amp_autocast_exit(device_);
    }
    autocast(const autocast &) = delete;
    autocast &operator=(const autocast &) = delete;

  private:
    amp_device device_;
};

/* amp_no_grad until the object goes; enable_grad is the way back inside of one. */
class grad_mode {
  public:
    explicit grad_mode(bool enabled) : before_(amp_grad_set_enabled(enabled)) {}
    ~grad_mode() {
        (void)amp_grad_set_enabled(before_);
    }
    grad_mode(const grad_mode &) = delete;
    grad_mode &operator=(const grad_mode &) = delete;

  private:
    bool before_;
};
struct no_grad : grad_mode {
    no_grad() : grad_mode(false) {}
};
struct enable_grad : grad_mode {
    enable_grad() : grad_mode(true) {}
};

/* amp_backward of a loss of one element, or with its gradient. */
inline void backward(const tensor &loss, const tensor &gradient = {}, bool retain_graph = false,
                     bool create_graph = false) {
    amp_backward_args args = {};
    args.struct_size = sizeof args;
    args.loss = loss.get();
    args.gradient = gradient.get();
    args.retain_graph = retain_graph;
    args.create_graph = create_graph;
    (void)amp_backward_call(&args);
}

/* amp_label until the object goes. */
class label {
  public:
    explicit label(const char *name) {
        (void)amp_label_enter(name);
    }
    ~label() {
        (void)amp_label_exit();
    }
    label(const label &) = delete;
    label &operator=(const label &) = delete;
};

/* An error of this thread as an exception: its sentence, and its status. */
class error : public std::runtime_error {
  public:
    error(amp_status status, const char *sentence) : std::runtime_error(sentence), status_(status) {}
    amp_status status() const {
        return status_;
    }

  private:
    amp_status status_;
};

/* Functions with another way to fail have other names for the linker, so that files of one program may differ. */
#ifdef AMP_EXCEPTIONS
#define AMP_ERRORS_ throwing
#else
#define AMP_ERRORS_ standing
#endif

inline namespace AMP_ERRORS_ {

/* Forgets an error that stands on this thread and throws it as an amp::error; without AMP_EXCEPTIONS it stands on. */
inline void check_errors() {
#ifdef AMP_EXCEPTIONS
    const amp_status status = amp_last_status();
    if (status == AMP_OK) return;
    const error thrown(status, amp_last_error());
    amp_clear_error();
    throw thrown;
#endif
}

namespace detail {

/* Of a function or an op with several results. */
inline tensor made(amp_tensor *result) {
    tensor owner(result);
    check_errors();
    return owner;
}
/* Of the forms whose target has an owner. */
inline tensor written(amp_tensor *target) {
    tensor owner = tensor::share(target);
    check_errors();
    return owner;
}
/* Of a list, whose array goes with a scope of its own. */
template <typename Call>
std::vector<tensor> listed(Call call) {
    std::vector<tensor> owners;
    {
        scope array;
        const amp_tensor_list list = call();
        for (int64_t i = 0; i < list.count; i++) owners.emplace_back(list.items[i]);
    }
    check_errors();
    return owners;
}

} // namespace detail

/* A copy of dense values: from_data(values.data(), AMP_F32, {2, 3}). */
inline tensor from_data(const void *data, amp_dtype dtype, const dims &shape) {
    return detail::made(amp_from_data(data, dtype, shape.get().count, shape.get().values));
}
/* The values as dense float, double, int64_t, … numbers: read<float>(y, AMP_F32). The dtype is the one of the C type. */
template <typename Number>
std::vector<Number> read(const tensor &from, amp_dtype dtype) {
    std::vector<Number> values(static_cast<size_t>(from.numel()) * amp_dtype_size(dtype) / sizeof(Number));
    (void)amp_read(from.get(), dtype, values.data(), values.size() * sizeof(Number));
    check_errors();
    return values;
}
/* NHWC in memory: amp_channels_last. */
inline tensor channels_last(const tensor &from) {
    return detail::made(amp_channels_last(from.get()));
}

} // namespace AMP_ERRORS_

} // namespace amp

#endif /* AMP_TENSOR_HPP */
