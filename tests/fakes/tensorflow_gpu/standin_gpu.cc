// A stand-in GPU for a CPU build of TensorFlow 2: a pluggable device whose memory is the host's and whose only kernel
// is MatMul of float. It proves where TensorFlow places what and how a harness takes lies; it says nothing of a real GPU.
//
//   STANDIN_TF_GPUS=N      how many GPUs there are (2); CUDA_VISIBLE_DEVICES picks among them, by index or by the
//                          UUID GPU-00000000-0000-0000-0000-<index + 1>
//   STANDIN_TF_WRONG=I     GPU I of these adds 1 to every number
//   STANDIN_TF_FULL=I      GPU I has no memory to give
//   STANDIN_TF_STUCK=I     GPU I never finishes a MatMul
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "tensorflow/c/experimental/stream_executor/stream_executor.h"
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/tf_tensor.h"

struct SP_Stream_st {
  int gpu;  // which of this machine's GPUs, whatever TensorFlow numbers it
};
struct SP_Event_st {};
struct SP_Timer_st {};

namespace {

constexpr int64_t kMemory = int64_t{1} << 30;
constexpr size_t kAlignment = 64;

int Number(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value ? std::atoi(value) : otherwise;
}

// The GPUs that CUDA_VISIBLE_DEVICES shows, in its order; it ends at the first entry that is none.
std::vector<int> Visible() {
  const int there = Number("STANDIN_TF_GPUS", 2);
  std::vector<int> shown;
  const char* value = std::getenv("CUDA_VISIBLE_DEVICES");
  if (!value) {
    for (int gpu = 0; gpu < there; ++gpu) shown.push_back(gpu);
    return shown;
  }
  std::stringstream entries(value);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const bool uuid = entry.rfind("GPU-", 0) == 0;
    const int gpu = uuid ? std::atoi(entry.substr(entry.rfind('-') + 1).c_str()) - 1 : std::atoi(entry.c_str());
    if (gpu < 0 || gpu >= there) break;
    shown.push_back(gpu);
  }
  return shown;
}

int GpuOf(const SP_Device* device) { return Visible().at(device->ordinal); }
void Fine(TF_Status* status) { TF_SetStatus(status, TF_OK, ""); }
void* HostMemory(uint64_t size) { return std::aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment); }

// The platform and its devices.
void CountDevices(const SP_Platform*, int* count, TF_Status* status) {
  *count = static_cast<int>(Visible().size());
  Fine(status);
}
void CreateDevice(const SP_Platform*, SE_CreateDeviceParams* params, TF_Status* status) {
  params->device->struct_size = SP_DEVICE_STRUCT_SIZE;
  params->device->ordinal = params->ordinal;
  params->device->device_handle = nullptr;
  params->device->hardware_name = "stand-in GPU";
  params->device->device_vendor = "stand-in";
  params->device->pci_bus_id = "0000:07:00.0";
  Fine(status);
}
int32_t NumaNode(const SP_Device*) { return 0; }
int64_t Bandwidth(const SP_Device*) { return 1; }
double Gflops(const SP_Device*) { return 1; }
void CreateDeviceFns(const SP_Platform*, SE_CreateDeviceFnsParams* params, TF_Status* status) {
  *params->device_fns = {SP_DEVICE_FNS_STRUCT_SIZE, nullptr, NumaNode, Bandwidth, Gflops};
  Fine(status);
}
void DestroyDevice(const SP_Platform*, SP_Device*) {}
void DestroyDeviceFns(const SP_Platform*, SP_DeviceFns*) {}

// Memory.
void Allocate(const SP_Device* device, uint64_t size, int64_t, SP_DeviceMemoryBase* memory) {
  memory->struct_size = SP_DEVICE_MEMORY_BASE_STRUCT_SIZE;
  memory->opaque = GpuOf(device) == Number("STANDIN_TF_FULL", -1) ? nullptr : HostMemory(size);
  memory->size = memory->opaque ? size : 0;
}
void Deallocate(const SP_Device*, SP_DeviceMemoryBase* memory) {
  std::free(memory->opaque);
  memory->opaque = nullptr;
}
void* AllocateHost(const SP_Device*, uint64_t size) { return HostMemory(size); }
void DeallocateHost(const SP_Device*, void* memory) { std::free(memory); }
TF_Bool Statistics(const SP_Device*, SP_AllocatorStats*) { return 0; }
TF_Bool MemoryUsage(const SP_Device*, int64_t* free, int64_t* total) {
  *free = *total = kMemory;
  return 1;
}

// Streams, events and timers: everything is done at once.
void CreateStream(const SP_Device* device, SP_Stream* stream, TF_Status* status) {
  *stream = new SP_Stream_st{GpuOf(device)};
  Fine(status);
}
void DestroyStream(const SP_Device*, SP_Stream stream) { delete stream; }
void StreamDependsOn(const SP_Device*, SP_Stream, SP_Stream, TF_Status* status) { Fine(status); }
void StreamStatus(const SP_Device*, SP_Stream, TF_Status* status) { Fine(status); }
void CreateEvent(const SP_Device*, SP_Event* event, TF_Status* status) {
  *event = new SP_Event_st;
  Fine(status);
}
void DestroyEvent(const SP_Device*, SP_Event event) { delete event; }
SE_EventStatus EventStatus(const SP_Device*, SP_Event) { return SE_EVENT_COMPLETE; }
void RecordEvent(const SP_Device*, SP_Stream, SP_Event, TF_Status* status) { Fine(status); }
void WaitForEvent(const SP_Device* const, SP_Stream, SP_Event, TF_Status* const status) { Fine(status); }
void CreateTimer(const SP_Device*, SP_Timer* timer, TF_Status* status) {
  *timer = new SP_Timer_st;
  Fine(status);
}
void DestroyTimer(const SP_Device*, SP_Timer timer) { delete timer; }
void Time(const SP_Device*, SP_Stream, SP_Timer, TF_Status* status) { Fine(status); }
void BlockForEvent(const SP_Device*, SP_Event, TF_Status* status) { Fine(status); }
void BlockForStream(const SP_Device*, SP_Stream, TF_Status* status) { Fine(status); }
void Synchronize(const SP_Device*, TF_Status* status) { Fine(status); }
TF_Bool HostCallback(const SP_Device*, SP_Stream, SE_StatusCallbackFn callback, void* argument) {
  TF_Status* status = TF_NewStatus();
  callback(argument, status);
  TF_DeleteStatus(status);
  return 1;
}

// Copies.
void ToHost(const SP_Device*, SP_Stream, void* to, const SP_DeviceMemoryBase* from, uint64_t size, TF_Status* status) {
  std::memcpy(to, from->opaque, size);
  Fine(status);
}
void ToDevice(const SP_Device*, SP_Stream, SP_DeviceMemoryBase* to, const void* from, uint64_t size, TF_Status* status) {
  std::memcpy(to->opaque, from, size);
  Fine(status);
}
void Within(const SP_Device*, SP_Stream, SP_DeviceMemoryBase* to, const SP_DeviceMemoryBase* from, uint64_t size,
            TF_Status* status) {
  std::memcpy(to->opaque, from->opaque, size);
  Fine(status);
}
void ToHostNow(const SP_Device* d, void* to, const SP_DeviceMemoryBase* from, uint64_t size, TF_Status* status) {
  ToHost(d, nullptr, to, from, size, status);
}
void ToDeviceNow(const SP_Device* d, SP_DeviceMemoryBase* to, const void* from, uint64_t size, TF_Status* status) {
  ToDevice(d, nullptr, to, from, size, status);
}
void WithinNow(const SP_Device* d, SP_DeviceMemoryBase* to, const SP_DeviceMemoryBase* from, uint64_t size,
               TF_Status* status) {
  Within(d, nullptr, to, from, size, status);
}
void Fill(const SP_Device*, SP_Stream, SP_DeviceMemoryBase* at, uint8_t pattern, uint64_t size, TF_Status* status) {
  std::memset(at->opaque, pattern, size);
  Fine(status);
}
void Zero(const SP_Device* d, SP_Stream s, SP_DeviceMemoryBase* at, uint64_t size, TF_Status* status) {
  Fill(d, s, at, 0, size, status);
}
void Fill32(const SP_Device*, SP_Stream, SP_DeviceMemoryBase* at, uint32_t pattern, uint64_t size, TF_Status* status) {
  for (uint64_t i = 0; i < size / 4; ++i) static_cast<uint32_t*>(at->opaque)[i] = pattern;
  Fine(status);
}

void CreateExecutor(const SP_Platform*, SE_CreateStreamExecutorParams* params, TF_Status* status) {
  SP_StreamExecutor* it = params->stream_executor;
  it->struct_size = SP_STREAMEXECUTOR_STRUCT_SIZE;
  it->allocate = Allocate, it->deallocate = Deallocate;
  it->host_memory_allocate = AllocateHost, it->host_memory_deallocate = DeallocateHost;
  it->get_allocator_stats = Statistics, it->device_memory_usage = MemoryUsage;
  it->create_stream = CreateStream, it->destroy_stream = DestroyStream;
  it->create_stream_dependency = StreamDependsOn, it->get_stream_status = StreamStatus;
  it->create_event = CreateEvent, it->destroy_event = DestroyEvent, it->get_event_status = EventStatus;
  it->record_event = RecordEvent, it->wait_for_event = WaitForEvent;
  it->create_timer = CreateTimer, it->destroy_timer = DestroyTimer, it->start_timer = Time, it->stop_timer = Time;
  it->memcpy_dtoh = ToHost, it->memcpy_htod = ToDevice, it->memcpy_dtod = Within;
  it->sync_memcpy_dtoh = ToHostNow, it->sync_memcpy_htod = ToDeviceNow, it->sync_memcpy_dtod = WithinNow;
  it->block_host_for_event = BlockForEvent, it->block_host_until_done = BlockForStream;
  it->synchronize_all_activity = Synchronize, it->host_callback = HostCallback;
  it->mem_zero = Zero, it->memset = Fill, it->memset32 = Fill32;
  Fine(status);
}
void DestroyExecutor(const SP_Platform*, SP_StreamExecutor*) {}
uint64_t Nanoseconds(SP_Timer) { return 1; }
void CreateTimerFns(const SP_Platform*, SP_TimerFns* functions, TF_Status* status) {
  *functions = {SP_TIMER_FNS_STRUCT_SIZE, nullptr, Nanoseconds};
  Fine(status);
}
void DestroyTimerFns(const SP_Platform*, SP_TimerFns*) {}
void DestroyPlatform(SP_Platform*) {}
void DestroyPlatformFns(SP_PlatformFns*) {}

// The kernel.
void* CreateKernel(TF_OpKernelConstruction*) { return nullptr; }
void DeleteKernel(void*) {}

void Multiply(const float* left, const float* right, float* out, int64_t m, int64_t k, int64_t n, float added) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) out[i * n + j] = added;
    for (int64_t q = 0; q < k; ++q)
      for (int64_t j = 0; j < n; ++j) out[i * n + j] += left[i * k + q] * right[q * n + j];
  }
}

void MatMul(void*, TF_OpKernelContext* context) {
  TF_Status* status = TF_NewStatus();
  TF_Tensor *left = nullptr, *right = nullptr;
  TF_GetInput(context, 0, &left, status);
  TF_GetInput(context, 1, &right, status);
  const SP_Stream stream = TF_GetStream(context, status);
  const int gpu = stream ? stream->gpu : -2;
  while (gpu == Number("STANDIN_TF_STUCK", -1)) pause();
  const int64_t m = TF_Dim(left, 0), k = TF_Dim(left, 1), n = TF_Dim(right, 1), shape[2] = {m, n};
  TF_Tensor* out = TF_AllocateOutput(context, 0, TF_FLOAT, shape, 2, m * n * sizeof(float), status);
  if (TF_GetCode(status) == TF_OK) {
    const float added = gpu == Number("STANDIN_TF_WRONG", -1) ? 1.0f : 0.0f;
    Multiply(static_cast<float*>(TF_TensorData(left)), static_cast<float*>(TF_TensorData(right)),
             static_cast<float*>(TF_TensorData(out)), m, k, n, added);
  } else {
    TF_OpKernelContext_Failure(context, status);
  }
  for (TF_Tensor* tensor : {left, right, out})
    if (tensor) TF_DeleteTensor(tensor);
  TF_DeleteStatus(status);
}

}  // namespace

extern "C" void SE_InitPlugin(SE_PlatformRegistrationParams* params, TF_Status* status) {
  params->major_version = SE_MAJOR, params->minor_version = SE_MINOR, params->patch_version = SE_PATCH;
  params->platform->struct_size = SP_PLATFORM_STRUCT_SIZE;
  params->platform->name = "STANDIN", params->platform->type = "GPU";
  params->platform->supports_unified_memory = 0, params->platform->use_bfc_allocator = 1;
  SP_PlatformFns* it = params->platform_fns;
  it->struct_size = SP_PLATFORM_FNS_STRUCT_SIZE;
  it->get_device_count = CountDevices;
  it->create_device = CreateDevice, it->destroy_device = DestroyDevice;
  it->create_device_fns = CreateDeviceFns, it->destroy_device_fns = DestroyDeviceFns;
  it->create_stream_executor = CreateExecutor, it->destroy_stream_executor = DestroyExecutor;
  it->create_timer_fns = CreateTimerFns, it->destroy_timer_fns = DestroyTimerFns;
  params->destroy_platform = DestroyPlatform, params->destroy_platform_fns = DestroyPlatformFns;
  Fine(status);
}

extern "C" void TF_InitKernel() {
  TF_Status* status = TF_NewStatus();
  TF_KernelBuilder* builder = TF_NewKernelBuilder("MatMul", "GPU", CreateKernel, MatMul, DeleteKernel);
  TF_KernelBuilder_TypeConstraint(builder, "T", TF_FLOAT, status);
  TF_RegisterKernelBuilder("StandInMatMul", builder, status);
  TF_DeleteStatus(status);
}
