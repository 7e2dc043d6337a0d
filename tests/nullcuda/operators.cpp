// torch's operators of CUDA tensors, computed by its CPU kernels: the null device's memory is the host's.
//
// For each operator that has kernels for both, the CUDA kernel is replaced by one that calls the CPU's with tensors that
// alias the same memory. What it returns is copied to new memory of the device. A capture holds the call itself.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

struct NullAccess {
  const void* start;
  size_t bytes;
  bool writes;
};
extern "C" int null_enqueue(void* stream, const char* what, void (*work)(void*), void* argument, const NullAccess*, int);
extern "C" int null_copy_seconds(void* stream, const char* what, void (*work)(void*), void* argument,
                                 const NullAccess*, int, size_t bytes, int kind);
extern "C" int null_copy_kernel(void* stream, const char* what, void (*work)(void*), void* argument, const NullAccess*, int);
extern "C" int null_capturing(void* stream);
extern "C" int null_synchronize(void* stream);
extern "C" void null_settle(void* stream);

namespace {

using c10::IValue;
using Stack = torch::jit::Stack;

const c10::impl::VirtualGuardImpl& guard() {
  static const c10::impl::VirtualGuardImpl one{c10::DeviceType::CUDA};
  return one;
}

void* stream_of(c10::Device device) { return guard().getStream(device).native_handle(); }

at::Tensor on_host(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.is_cuda()) return tensor;
  auto options = tensor.options().device(at::kCPU);
  if (!tensor.numel()) return at::empty_strided(tensor.sizes(), tensor.strides(), options);  // which may be resized
  auto result = at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), options);
  if (tensor.is_conj()) result._set_conj(true);
  if (tensor.is_neg()) result._set_neg(true);
  return result;
}

size_t extent(const at::Tensor& tensor) {
  if (!tensor.numel()) return 0;
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); i++) last += (tensor.size(i) - 1) * tensor.stride(i);
  return (last + 1) * tensor.element_size();
}

at::Tensor on_device(const at::Tensor& tensor, c10::Device device) {
  auto made = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(device));
  if (auto bytes = extent(tensor)) memcpy(made.data_ptr(), tensor.data_ptr(), bytes);
  return made;
}

void* start_of(const at::Tensor& tensor) { return tensor.numel() ? tensor.data_ptr() : nullptr; }

// A call with aliases in place of CUDA tensors: what to give the CPU's kernel, and what it touches.
struct Call {
  c10::OperatorHandle op;
  Stack aliased;
  std::vector<std::pair<at::Tensor, at::Tensor>> written;  // the device's tensor and its alias
  std::vector<NullAccess> accesses;
  c10::Device device{c10::DeviceType::CPU};

  Call(const c10::OperatorHandle& op, const Stack& stack) : op(op) {
    const auto& arguments = op.schema().arguments();
    auto first = stack.end() - arguments.size();
    for (size_t i = 0; i < arguments.size(); i++) {
      auto* info = arguments[i].alias_info();
      aliased.push_back(given(first[i], info && info->isWrite(), arguments[i]));
    }
  }

  at::Tensor seen(const at::Tensor& tensor, bool writes) {
    if (!tensor.defined() || !tensor.is_cuda()) return tensor;
    if (device.is_cpu()) device = tensor.device();
    auto same = on_host(tensor);
    if (writes) written.emplace_back(tensor, same);
    if (tensor.numel()) accesses.push_back({tensor.data_ptr(), extent(tensor), writes});
    return same;
  }

  IValue given(const IValue& value, bool writes, const c10::Argument& argument) {
    if (value.isTensor()) return seen(value.toTensor(), writes);
    if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& each : value.toTensorVector()) list.push_back(seen(each, writes));
      return list;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& each : value.toOptionalTensorVector())
        list.push_back(each.has_value() ? std::optional<at::Tensor>(seen(*each, writes)) : each);
      return list;
    }
    if (value.isDevice() && value.toDevice().is_cuda()) {
      if (device.is_cpu()) device = value.toDevice();
      return c10::Device(c10::DeviceType::CPU);
    }
    if (value.isGenerator() && value.toGenerator().device().is_cuda()) return IValue();
    return value;
  }
};

void compute(const c10::OperatorHandle& op, Stack& stack) {
  c10::impl::ExcludeDispatchKeyGuard no_autograd(c10::autograd_dispatch_keyset);
  op.callBoxed(stack);
}

// ---- NULLCUDA_COMPUTE=0, for tests that do not look at values -------------------------------------------------------------
//
// Products and convolutions make zeros, and what goes through large arrays leaves its results as the memory is.

const int64_t LARGE = 1 << 20;  // elements

at::Tensor uncomputed(Call& call, at::IntArrayRef sizes, const at::Tensor& like, at::MemoryFormat format) {
  auto made = at::empty(sizes, like.options().device(call.device).memory_format(format));
  if (made.numel() < LARGE) memset(made.data_ptr(), 0, made.nbytes());
  if (made.numel()) call.accesses.push_back({made.data_ptr(), made.nbytes(), true});
  return made;
}

at::Tensor uncomputed(Call& call, const at::Tensor& like) {
  auto made = at::empty_strided(like.sizes(), like.strides(), like.options().device(call.device));
  call.accesses.push_back({made.data_ptr(), extent(made), true});
  return made;
}

at::MemoryFormat format_of(const at::Tensor& x, const at::Tensor& weight) {
  bool last = x.suggest_memory_format() == at::MemoryFormat::ChannelsLast ||
              weight.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
  return last && x.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
}

// Sizes of what a window goes over: images, channels, and by dimension what the lists of arguments say.
std::vector<int64_t> windowed(const at::Tensor& x, int64_t channels, at::IntArrayRef window, const Stack& stack, size_t stride,
                              size_t padding, size_t dilation) {
  std::vector<int64_t> sizes{x.size(0), channels};
  for (int64_t i = 0; i + 2 < x.dim(); i++) {
    auto of = [&](size_t at) {
      auto all = stack[at].toIntVector();
      return all[all.size() == 1 ? 0 : i];
    };
    int64_t length = window[window.size() == 1 ? 0 : i];
    sizes.push_back((x.size(i + 2) + 2 * of(padding) - of(dilation) * (length - 1) - 1) / of(stride) + 1);
  }
  return sizes;
}

// Whether it did, in place of computing: `stack` has the operator's arguments, and then its results.
bool skipped(Call& call, const std::string& name, Stack& stack) {
  const char* text = getenv("NULLCUDA_COMPUTE");  // a process that runs many tests has it changed
  if (!text || strcmp(text, "0") || stack.empty() || !stack[0].isTensor()) return false;
  auto tensor = [&](size_t i) { return stack[i].toTensor(); };
  auto flat = at::MemoryFormat::Contiguous;
  bool large = tensor(0).numel() >= LARGE;
  static const std::set<std::string> in_place{"aten::normal_", "aten::mul_", "aten::add_", "aten::relu_"};
  Stack results;
  if (name == "aten::convolution" && !stack[6].toBool()) {  // input, weight, bias, stride, padding, dilation, transposed
    auto x = tensor(0), weight = tensor(1);
    auto sizes = windowed(x, weight.size(0), weight.sizes().slice(2), stack, 3, 4, 5);
    results.push_back(uncomputed(call, sizes, x, format_of(x, weight)));
  } else if (name == "aten::convolution_backward") {  // gradient, input, weight, bias's sizes, ..., [10] wanted
    auto x = tensor(1), weight = tensor(2);
    auto wanted = stack[10].toBoolList();
    results.push_back(wanted[0] ? uncomputed(call, x.sizes(), x, format_of(x, weight)) : at::Tensor());
    results.push_back(wanted[1] ? uncomputed(call, weight.sizes(), weight, format_of(weight, x)) : at::Tensor());
    results.push_back(wanted[2] ? uncomputed(call, {weight.size(0)}, weight, flat) : at::Tensor());
  } else if ((name == "aten::mm" && stack.size() == 2) || (name == "aten::addmm" && stack.size() == 5)) {
    size_t first = name == "aten::mm" ? 0 : 1;
    results.push_back(uncomputed(call, {tensor(first).size(0), tensor(first + 1).size(1)}, tensor(first), flat));
  } else if (name == "aten::max_pool2d_with_indices" && large && !stack[5].toBool()) {  // x, window, stride, padding, dilation
    auto x = tensor(0);
    auto window = stack[1].toIntVector();
    auto sizes = windowed(x, x.size(1), window, stack, stack[2].toIntVector().empty() ? 1 : 2, 3, 4);
    results.push_back(uncomputed(call, sizes, x, format_of(x, x)));
    results.push_back(uncomputed(call, sizes, at::empty({0}, at::kLong), format_of(x, x)));
  } else if (name == "aten::max_pool2d_with_indices_backward" && tensor(1).numel() >= LARGE) {
    results.push_back(uncomputed(call, tensor(1)));
  } else if (name == "aten::native_batch_norm" && large) {
    auto statistics = at::empty({0}, at::kFloat);
    results.push_back(uncomputed(call, tensor(0)));
    for (int i = 0; i < 2; i++) results.push_back(uncomputed(call, {tensor(0).size(1)}, statistics, flat));
  } else if (name == "aten::native_batch_norm_backward" && large) {
    results.push_back(uncomputed(call, tensor(1)));
    for (int i = 0; i < 2; i++) results.push_back(uncomputed(call, tensor(2).sizes(), tensor(2), flat));
  } else if ((name == "aten::relu" || name == "aten::threshold_backward") && large) {
    results.push_back(uncomputed(call, tensor(0)));
  } else if (in_place.count(name) && large) {
    results.push_back(tensor(0));  // its alias
  } else {
    return false;
  }
  stack = results;
  return true;
}

// Brings what the CPU's kernel made to the device: what it wrote in place has no new memory, unless it was resized.
void replace(Call& call, Stack& results) {
  for (auto& [device, host] : call.written) {
    if (device.numel() == host.numel() && start_of(device) == start_of(host)) continue;
    device.resize_(host.sizes());
    if (auto bytes = extent(host)) memcpy(device.data_ptr(), host.data_ptr(), bytes);
  }
  auto moved = [&](const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.is_cpu()) return tensor;
    for (auto& [device, host] : call.written)
      if (host.is_same(tensor)) return device;
    auto made = on_device(tensor, call.device);
    if (made.numel()) call.accesses.push_back({made.data_ptr(), extent(made), true});
    return made;
  };
  for (auto& value : results) {
    if (value.isTensor()) value = moved(value.toTensor());
    else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& each : value.toTensorVector()) list.push_back(moved(each));
      value = list;
    }
  }
}

// The same call once more, into the memory that the first one returned: what a launched graph does.
struct Again {
  c10::OperatorHandle op;
  Stack aliased;
  std::vector<at::Tensor> results;

  void operator()() {
    Stack stack = aliased;
    compute(op, stack);
    size_t next = 0;
    auto keep = [&](const at::Tensor& made) {
      auto& kept = results[next++];
      if (kept.defined() && made.defined() && kept.data_ptr() != made.data_ptr() && made.numel()) kept.copy_(made);
    };
    for (auto& value : stack) {
      if (value.isTensor()) keep(value.toTensor());
      else if (value.isTensorList())
        for (const at::Tensor& each : value.toTensorVector()) keep(each);
    }
  }
};

bool waits_for_the_host(const std::string& name) {
  static const std::set<std::string> names{"aten::_local_scalar_dense", "aten::equal", "aten::nonzero",
                                           "aten::masked_select", "aten::_unique2", "aten::unique_consecutive"};
  return names.count(name) != 0;
}

void check(int error, const std::string& name) {
  TORCH_CHECK(error == 0, "CUDA error: ", error, " in ", name, " (null CUDA)");
}

void operator_on_host(const c10::OperatorHandle& op, c10::DispatchKeySet, Stack* stack) {
  const auto& name = op.schema().name();
  Call call(op, *stack);
  TORCH_CHECK(call.device.is_cuda(), name, " has no CUDA tensor (null CUDA)");
  auto* stream = stream_of(call.device);
  bool captured = null_capturing(stream);
  if (waits_for_the_host(name)) check(null_synchronize(stream), name);
  else if (!captured) null_settle(stream);
  std::vector<at::Tensor> before;  // a capture changes no memory, but its results need their shapes
  if (captured)
    for (auto& [_, host] : call.written) before.push_back(host.clone());
  Stack results = call.aliased;
  if (!skipped(call, name, results)) compute(op, results);
  for (size_t i = 0; i < before.size(); i++)
    if (before[i].numel()) call.written[i].second.copy_(before[i]);
  replace(call, results);
  if (captured) {
    auto* again = new Again{op, call.aliased, {}};
    for (auto& value : results) {
      if (value.isTensor()) again->results.push_back(on_host(value.toTensor()));
      else if (value.isTensorList())
        for (const at::Tensor& each : value.toTensorVector()) again->results.push_back(on_host(each));
    }
    check(null_enqueue(stream, name.c_str(), [](void* it) { (*static_cast<Again*>(it))(); }, again,
                       call.accesses.data(), call.accesses.size()), name);
  } else {
    check(null_enqueue(stream, name.c_str(), nullptr, nullptr, call.accesses.data(), call.accesses.size()), name);
  }
  stack->erase(stack->end() - op.schema().arguments().size(), stack->end());
  for (auto& value : results) stack->push_back(value);
}

struct Copy {
  at::Tensor to, from;
};

// As torch decides it (aten/src/ATen/native/cuda/Copy.cu): what lies there as here is copied, all else takes a kernel.
bool takes_a_kernel(const at::Tensor& to, const at::Tensor& from) {
  return to.scalar_type() != from.scalar_type() || to.sizes() != from.sizes() || to.strides() != from.strides() ||
         !to.is_non_overlapping_and_dense();
}

// Between devices, and between a device and the host; a blocking one with the host waits for the stream.
at::Tensor& copy(at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  if (!to.numel()) return to;
  auto device = to.is_cuda() ? to.device() : from.device();
  auto* stream = stream_of(device);
  enum { to_device = 1, to_host = 2, within = 3 };
  int kind = !from.is_cuda() ? to_device : !to.is_cuda() ? to_host : within;
  std::vector<NullAccess> accesses;
  if (from.is_cuda()) accesses.push_back({from.data_ptr(), extent(from), false});
  if (to.is_cuda()) accesses.push_back({to.data_ptr(), extent(to), true});
  auto* work = new Copy{on_host(to), on_host(from)};
  bool captured = null_capturing(stream);
  auto copy = [](void* it) {
    auto* copy = static_cast<Copy*>(it);
    c10::impl::ExcludeDispatchKeyGuard no_autograd(c10::autograd_dispatch_keyset);
    copy->to.copy_(copy->from);
  };
  if (kind == within && takes_a_kernel(to, from))
    check(null_copy_kernel(stream, "copy_", copy, work, accesses.data(), accesses.size()), "copy_");
  else
    check(null_copy_seconds(stream, "copy_", copy, work, accesses.data(), accesses.size(), from.numel() * from.element_size(),
                            kind), "copy_");
  if (!captured) delete work;
  if (kind != within && !(non_blocking && (to.is_cuda() ? from : to).is_pinned())) check(null_synchronize(stream), "copy_");
  return to;
}

// ---- statistics of a batch over ranks (SyncBatchNorm): CUDA alone has kernels for them, so they are made of others ------

using Given = const std::optional<at::Tensor>&;

std::vector<int64_t> all_but_channels(const at::Tensor& x) {
  std::vector<int64_t> dims{0};
  for (int64_t i = 2; i < x.dim(); i++) dims.push_back(i);
  return dims;
}
at::Tensor by_channel(const at::Tensor& values, const at::Tensor& x) {
  std::vector<int64_t> shape(x.dim(), 1);
  shape[1] = -1;
  return values.reshape(shape);
}
at::Tensor wide(const at::Tensor& x) { return x.to(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat); }
std::tuple<at::Tensor, at::Tensor> stats(const at::Tensor& x, double eps) {
  auto mean = wide(x).mean(all_but_channels(x));
  auto variance = (wide(x) - by_channel(mean, x)).square().mean(all_but_channels(x));
  return {mean, (variance + eps).rsqrt()};
}
at::Tensor normalised(const at::Tensor& x, Given weight, Given bias, const at::Tensor& mean, const at::Tensor& invstd, double) {
  auto y = (wide(x) - by_channel(mean, x)) * by_channel(invstd, x);
  if (weight && weight->defined()) y = y * by_channel(*weight, x);
  if (bias && bias->defined()) y = y + by_channel(*bias, x);
  return y.to(x.scalar_type());
}
at::Tensor& normalised_into(const at::Tensor& x, Given weight, Given bias, const at::Tensor& mean, const at::Tensor& invstd,
                            double eps, at::Tensor& out) {
  return out.copy_(normalised(x, weight, bias, mean, invstd, eps));
}
std::tuple<at::Tensor, at::Tensor> gathered(const at::Tensor&, const at::Tensor& means, const at::Tensor& invstds,
                                            Given running_mean, Given running_var, double momentum, double eps,
                                            const at::Tensor& counts) {
  auto n = counts.to(means.scalar_type()).reshape({-1, 1}), all = n.sum();
  auto mean = (means * n).sum(0) / all;
  auto variance = ((invstds.pow(-2) - eps + (means - mean).square()) * n).sum(0) / all;
  if (running_mean && running_mean->defined()) at::Tensor(*running_mean).mul_(1 - momentum).add_(mean * momentum);
  if (running_var && running_var->defined())
    at::Tensor(*running_var).mul_(1 - momentum).add_(variance * (all / (all - 1)) * momentum);
  return {mean, (variance + eps).rsqrt()};
}
std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> reduced(const at::Tensor& dy, const at::Tensor& x,
                                                                   const at::Tensor& mean, const at::Tensor& invstd, Given,
                                                                   bool, bool, bool) {
  auto sum = wide(dy).sum(all_but_channels(x));
  auto product = (wide(dy) * (wide(x) - by_channel(mean, x))).sum(all_but_channels(x));
  return {sum, product, product * invstd, sum.clone()};
}
at::Tensor of_input(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& mean, const at::Tensor& invstd, Given weight,
                    const at::Tensor& sum, const at::Tensor& product, const at::Tensor& counts) {
  auto n = counts.to(mean.scalar_type()).sum();
  auto scale = weight && weight->defined() ? invstd * *weight : invstd;
  auto along = by_channel(invstd.square() * product / n, x) * (wide(x) - by_channel(mean, x));
  return ((wide(dy) - by_channel(sum / n, x) - along) * by_channel(scale, x)).to(x.scalar_type());
}

// These make or view memory, or belong to a stream: torch's own kernels do them on the null device as on a real one.
bool stays(const std::string& name) {
  static const std::set<std::string> names{
      "aten::empty", "aten::empty_strided", "aten::set_", "aten::resize_", "aten::as_strided", "aten::view",
      "aten::_reshape_alias", "aten::unfold", "aten::record_stream", "aten::is_set_to", "aten::_pin_memory",
      "aten::is_pinned", "aten::copy_", "aten::_copy_from", "aten::view_as_real", "aten::view_as_complex",
      "aten::_efficientzerotensor", "aten::alias", "aten::lift", "aten::pin_memory"};
  return names.count(name) != 0;
}

// torch chooses kernels of convolutions by device before it dispatches; these two are chosen between first.
const std::set<std::string> composite{"aten::convolution", "aten::convolution_backward"};

}  // namespace

extern "C" int null_replace_operators() {
  static torch::Library library(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
  struct Silent : c10::WarningHandler {
    void process(const c10::Warning&) override {}
  } silent;
  c10::WarningUtils::WarningHandlerGuard quiet(&silent);
  int replaced = 0;
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    auto op = dispatcher.findOp(name);
    if (!op || !op->hasSchema() || name.name.rfind("aten::", 0) != 0 || stays(name.name)) continue;
    // FSDP's have a kernel of CUDA's, and for all other devices one that is made of operators.
    bool of_fsdp = name.name.rfind("aten::_foreach_", 0) == 0 || name.name == "aten::_chunk_cat" ||
                   name.name == "aten::split_with_sizes_copy";
    bool elsewhere = op->hasKernelForDispatchKey(c10::DispatchKey::CPU) || of_fsdp;
    bool both = op->hasKernelForDispatchKey(c10::DispatchKey::CUDA) && elsewhere;
    if (!both && !composite.count(name.name)) continue;
    auto full = name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
    library.impl(full.c_str(), torch::CppFunction::makeFromBoxedFunction<&operator_on_host>());
    replaced++;
  }
  // Attention is chosen below the dispatcher: by its operators, which are replaced, and by no fused kernel.
  auto& context = at::globalContext();
  context.setSDPUseFlash(false);
  context.setSDPUseMemEfficient(false);
  context.setSDPUseCuDNN(false);
  library.impl("copy_", torch::CppFunction::makeFromUnboxedFunction(&copy));
  library.impl("batch_norm_stats", torch::CppFunction::makeFromUnboxedFunction(&stats));
  library.impl("batch_norm_elemt", torch::CppFunction::makeFromUnboxedFunction(&normalised));
  library.impl("batch_norm_elemt.out", torch::CppFunction::makeFromUnboxedFunction(&normalised_into));
  library.impl("batch_norm_gather_stats_with_counts", torch::CppFunction::makeFromUnboxedFunction(&gathered));
  library.impl("batch_norm_backward_reduce", torch::CppFunction::makeFromUnboxedFunction(&reduced));
  library.impl("batch_norm_backward_elemt", torch::CppFunction::makeFromUnboxedFunction(&of_input));
  return replaced;
}
