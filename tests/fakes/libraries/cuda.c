/* A stand-in for libcuda.so.1: answers from STANDIN_ variables, computes on the processor.
 *
 * It implements what a program asks before it launches work (version, initialisation, the devices as
 * CUDA_VISIBLE_DEVICES shows them) and, in cuda_compute.h, what envcheck's own driver test calls.
 */
#define _GNU_SOURCE
#include "state.h"
#include <dlfcn.h>
#include <time.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, NOT_FOUND = 500 };
#define EXPORT __attribute__((visibility("default")))
static int initialised;

/* The GPU behind an ordinal, as CUDA_VISIBLE_DEVICES (indices or UUIDs, the first unknown one ends the list) shows
 * them; -1 where there is none. */
static int real_gpu(int ordinal) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    if (!visible || ordinal < 0) return ordinal < gpu_count() ? ordinal : -1;
    for (; *visible; visible += strcspn(visible, ",") + (visible[strcspn(visible, ",")] == ',')) {
        size_t length = strcspn(visible, ",");
        int gpu = 0;
        while (gpu < gpu_count() && strncmp(visible, gpu_text(gpu, "UUID", ""), length)) gpu++;
        if (strncmp(visible, "GPU-", 4) && strncmp(visible, "MIG-", 4)) gpu = atoi(visible) >= 0 && length ? atoi(visible) : gpu_count();
        if (gpu >= gpu_count()) return -1;
        if (!ordinal--) return gpu;
    }
    return -1;
}
static int visible_count(void) {
    int count = 0;
    while (real_gpu(count) >= 0) count++;
    return count;
}

EXPORT int cuDriverGetVersion(int *version) { /* works before cuInit, as the real one does */
    *version = (int)number("STANDIN_CUDA", 12020);
    return SUCCESS;
}

EXPORT int cuInit(unsigned flags) {
    (void)flags;
    misbehave("STANDIN_CUDA_HANG", "STANDIN_CUDA_CRASH");
    int code = (int)number("STANDIN_CUDA_INIT", visible_count() ? SUCCESS : NO_DEVICE);
    initialised = code == SUCCESS;
    return code;
}

static int usable(int device) {
    if (!initialised) return NOT_INITIALIZED;
    return device >= 0 && device < visible_count() ? SUCCESS : INVALID_DEVICE;
}

EXPORT int cuDeviceGetCount(int *count) {
    *count = visible_count();
    return initialised ? SUCCESS : NOT_INITIALIZED;
}

EXPORT int cuDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return usable(ordinal);
}

EXPORT int cuDeviceGetName(char *buffer, int size, int device) {
    snprintf(buffer, (size_t)size, "%s", gpu_text(real_gpu(device), "NAME", "Stand-in GPU"));
    return usable(device);
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    *bytes = (size_t)gpu_number(real_gpu(device), "MEMORY_MIB", 40960) << 20;
    return usable(device);
}
EXPORT int cuDeviceTotalMem(size_t *bytes, int device) { return cuDeviceTotalMem_v2(bytes, device); }

EXPORT int cuDeviceComputeCapability(int *major, int *minor, int device) {
    compute_capability(real_gpu(device), major, minor);
    return usable(device);
}

/* The attribute numbers of cuda.h that frameworks read when they list devices. */
enum { WARP_SIZE = 10, CLOCK_KHZ = 13, MULTIPROCESSORS = 16, MEMORY_KHZ = 36, BUS_BITS = 37, PCI_BUS = 33, PCI_DEVICE = 34, PCI_DOMAIN = 50, MAJOR = 75, MINOR = 76 };

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
    int major, minor;
    unsigned domain = 0, bus = 0, slot = 0;
    compute_capability(real_gpu(device), &major, &minor);
    sscanf(gpu_text(real_gpu(device), "PCI", "0000:01:00.0"), "%x:%x:%x", &domain, &bus, &slot);
    switch (attribute) {
    case WARP_SIZE: *value = 32; break;
    case CLOCK_KHZ: *value = 1410000; break;
    case MULTIPROCESSORS: *value = 108; break;
    case MEMORY_KHZ: *value = 1215000; break;
    case BUS_BITS: *value = 5120; break;
    case PCI_BUS: *value = (int)bus; break;
    case PCI_DEVICE: *value = (int)slot; break;
    case PCI_DOMAIN: *value = (int)domain; break;
    case MAJOR: *value = major; break;
    case MINOR: *value = minor; break;
    default: *value = 1;
    }
    return usable(device);
}

/* "GPU-01234567-89ab-..." as sixteen bytes. */
EXPORT int cuDeviceGetUuid_v2(unsigned char uuid[16], int device) {
    int gpu = real_gpu(device); /* CUDA_UUID: another one than CUDA_VISIBLE_DEVICES is matched with */
    const char *digits = gpu_text(gpu, "CUDA_UUID", gpu_text(gpu, "UUID", "GPU-0")) + strlen("GPU-");
    memset(uuid, 0, 16);
    for (int i = 0; i < 16 && *digits; i++) {
        while (*digits == '-') digits++;
        if (sscanf(digits, "%2hhx", &uuid[i]) != 1) break;
        digits += strlen(digits) < 2 ? 1 : 2;
    }
    return usable(device);
}
EXPORT int cuDeviceGetUuid(unsigned char uuid[16], int device) { return cuDeviceGetUuid_v2(uuid, device); }

EXPORT int cuDeviceGetPCIBusId(char *buffer, int size, int device) {
    snprintf(buffer, (size_t)size, "%s", gpu_text(real_gpu(device), "PCI", "0000:01:00.0"));
    return usable(device);
}

#include "cuda_compute.h"

EXPORT int cuGetErrorString(int code, const char **message) {
    *message = code == NO_DEVICE ? "no CUDA-capable device is detected" : "an error of the stand-in libcuda";
    return SUCCESS;
}
EXPORT int cuGetErrorName(int code, const char **name) {
    *name = code == NO_DEVICE ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_UNKNOWN";
    return SUCCESS;
}

EXPORT int cuGetProcAddress(const char *symbol, void **function, int version, unsigned long long flags) {
    char newer[128];
    Dl_info self;
    (void)version, (void)flags;
    snprintf(newer, sizeof newer, "%s_v2", symbol);
    dladdr((void *)cuGetProcAddress, &self);
    void *library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    *function = dlsym(library, newer);
    if (!*function) *function = dlsym(library, symbol);
    dlclose(library);
    return *function ? SUCCESS : NOT_FOUND;
}
