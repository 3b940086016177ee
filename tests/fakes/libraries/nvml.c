/* A stand-in for libnvidia-ml.so.1: answers from STANDIN_ variables, not from any driver or GPU.
 *
 * It implements what pynvml and nvidia-smi 470, 535 and 550 need; nvml_unsupported.h lists what else
 * nvidia-smi looks up, each answering "not supported".
 */
#include "state.h"

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, TIMEOUT = 10 };
#define MIB (1ULL << 20)
#define EXPORT __attribute__((visibility("default")))

/* A handle is the GPU's index + 1, and for a MIG device its index + 1 above eight bits. */
typedef void *Handle;
static int gpu_of(Handle handle) { return (int)((long)handle & 0xff) - 1; }
static int mig_of(Handle handle) { return (int)((long)handle >> 8) - 1; }
static Handle handle_of(int gpu, int mig) { return (Handle)(long)((gpu + 1) | (mig + 1) << 8); }

static int put(char *buffer, unsigned size, const char *value) {
    return (unsigned)snprintf(buffer, size, "%s", value) < size ? SUCCESS : TOO_SMALL;
}

/* Copy the item at `index` of a comma-separated list; 0 when there is none. */
static int list_item(const char *list, int index, char *item, size_t size) {
    for (; *list; list += strcspn(list, ",") + (list[strcspn(list, ",")] == ',')) {
        if (index-- > 0) continue;
        snprintf(item, size, "%.*s", (int)strcspn(list, ","), list);
        return 1;
    }
    return 0;
}

/* --- library ------------------------------------------------------------------------------- */

static int initialise(void) {
    misbehave("STANDIN_NVML_HANG", "STANDIN_NVML_CRASH");
    return (int)number("STANDIN_NVML_INIT", SUCCESS);
}
EXPORT int nvmlInit(void) { return initialise(); }
EXPORT int nvmlInit_v2(void) { return initialise(); }
EXPORT int nvmlInitWithFlags(unsigned flags) { (void)flags; return initialise(); }
EXPORT int nvmlShutdown(void) { return SUCCESS; }

EXPORT const char *nvmlErrorString(int code) {
    switch (code) {
    case SUCCESS: return "Success";
    case INVALID: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case 4: return "Insufficient Permissions";
    case NOT_FOUND: return "Not Found";
    case TOO_SMALL: return "Insufficient Size";
    case 9: return "Driver Not Loaded";
    case TIMEOUT: return "Timeout";
    case 15: return "GPU is lost";
    case 18: return "Driver/library version mismatch";
    default: return "Unknown Error";
    }
}

EXPORT int nvmlSystemGetDriverVersion(char *buffer, unsigned size) {
    return put(buffer, size, text("STANDIN_DRIVER", "535.261.03"));
}
EXPORT int nvmlSystemGetNVMLVersion(char *buffer, unsigned size) {
    char version[80];
    snprintf(version, sizeof version, "12.%s", text("STANDIN_DRIVER", "535.261.03"));
    return put(buffer, size, version);
}
EXPORT int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    *version = (int)number("STANDIN_CUDA", 12020);
    return SUCCESS;
}
EXPORT int nvmlSystemGetCudaDriverVersion(int *version) { return nvmlSystemGetCudaDriverVersion_v2(version); }

/* Answered to whatever nvidia-smi fetches through its private tables. */
static int unsupported(void) { return NOT_SUPPORTED; }
EXPORT int nvmlInternalGetExportTable(const void **table, const void *id) {
    static void *functions[256];
    (void)id;
    functions[0] = (void *)sizeof functions;
    for (int i = 1; i < 256; i++) functions[i] = (void *)unsupported;
    *table = functions;
    return SUCCESS;
}

/* --- devices ------------------------------------------------------------------------------- */

EXPORT int nvmlDeviceGetCount_v2(unsigned *count) { *count = (unsigned)gpu_count(); return SUCCESS; }
EXPORT int nvmlDeviceGetCount(unsigned *count) { return nvmlDeviceGetCount_v2(count); }
EXPORT int nvmlUnitGetCount(unsigned *count) { *count = 0; return SUCCESS; }
EXPORT int nvmlGetExcludedDeviceCount(unsigned *count) { *count = 0; return SUCCESS; }

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle *handle) {
    if ((int)index >= gpu_count()) return INVALID;
    *handle = handle_of((int)index, -1);
    if (!access(gpu_text((int)index, "LOST_WHEN", "/nowhere"), F_OK)) return 15; /* from then on it is lost */
    return (int)gpu_number((int)index, "LOST", SUCCESS);
}
EXPORT int nvmlDeviceGetHandleByIndex(unsigned index, Handle *handle) {
    return nvmlDeviceGetHandleByIndex_v2(index, handle);
}

EXPORT int nvmlDeviceGetName(Handle handle, char *buffer, unsigned size) {
    char name[96];
    snprintf(name, sizeof name, "%s%s", gpu_text(gpu_of(handle), "NAME", "Stand-in GPU"),
             mig_of(handle) < 0 ? "" : " MIG 1g.5gb");
    return put(buffer, size, name);
}

EXPORT int nvmlDeviceGetUUID(Handle handle, char *buffer, unsigned size) {
    char uuid[96];
    if (mig_of(handle) < 0) return put(buffer, size, gpu_text(gpu_of(handle), "UUID", "GPU-0"));
    if (!list_item(gpu_text(gpu_of(handle), "MIG_DEVICES", ""), mig_of(handle), uuid, sizeof uuid)) return NOT_FOUND;
    return put(buffer, size, uuid);
}

EXPORT int nvmlDeviceGetIndex(Handle handle, unsigned *index) { *index = (unsigned)gpu_of(handle); return SUCCESS; }
EXPORT int nvmlDeviceGetMinorNumber(Handle handle, unsigned *minor) {
    *minor = (unsigned)gpu_number(gpu_of(handle), "MINOR", gpu_of(handle));
    return SUCCESS;
}
EXPORT int nvmlDeviceGetCudaComputeCapability(Handle handle, int *major, int *minor) {
    compute_capability(gpu_of(handle), major, minor);
    return SUCCESS;
}

typedef struct {
    char address_short[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char address[32];
} Pci;

EXPORT int nvmlDeviceGetPciInfo_v3(Handle handle, Pci *pci) {
    const char *address = gpu_text(gpu_of(handle), "PCI", "0000:01:00.0");
    memset(pci, 0, sizeof *pci);
    if (sscanf(address, "%x:%x:%x", &pci->domain, &pci->bus, &pci->device) != 3) return INVALID;
    pci->device_id = (unsigned)gpu_number(gpu_of(handle), "DEVICE", 0x20b0) << 16 | 0x10de;
    pci->subsystem_id = 0x134f10de;
    snprintf(pci->address_short, sizeof pci->address_short, "%04X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
    snprintf(pci->address, sizeof pci->address, "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
    return SUCCESS;
}
EXPORT int nvmlDeviceGetPciInfo_v2(Handle handle, Pci *pci) { return nvmlDeviceGetPciInfo_v3(handle, pci); }
EXPORT int nvmlDeviceGetPciInfo(Handle handle, Pci *pci) { return nvmlDeviceGetPciInfo_v3(handle, pci); }

typedef struct {
    unsigned version, domain, bus, device, device_id, subsystem_id, base_class, sub_class;
    char address[32];
} PciExt;

EXPORT int nvmlDeviceGetPciInfoExt(Handle handle, PciExt *pci) { /* what nvidia-smi 550 asks instead */
    Pci plain;
    int code = nvmlDeviceGetPciInfo_v3(handle, &plain);
    pci->domain = plain.domain;
    pci->bus = plain.bus;
    pci->device = plain.device;
    pci->device_id = plain.device_id;
    pci->subsystem_id = plain.subsystem_id;
    pci->base_class = 3;
    pci->sub_class = 2;
    memcpy(pci->address, plain.address, sizeof pci->address);
    return code;
}

/* --- memory and processes ------------------------------------------------------------------ */

typedef struct { unsigned long long total, unused, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, unused, used; } Memory2;

static unsigned long long reserved(Handle handle) {
    return mig_of(handle) < 0 ? (unsigned long long)gpu_number(gpu_of(handle), "RESERVED_MIB", 0) * MIB : 0;
}

EXPORT int nvmlDeviceGetMemoryInfo(Handle handle, Memory *memory) {
    int whole = mig_of(handle) < 0;
    memory->total = (unsigned long long)(whole ? gpu_number(gpu_of(handle), "MEMORY_MIB", 40960) : 4864) * MIB;
    memory->used = (unsigned long long)(whole ? gpu_number(gpu_of(handle), "USED_MIB", 3) : 13) * MIB;
    memory->used += reserved(handle);
    memory->unused = memory->total - memory->used;
    return SUCCESS;
}
EXPORT int nvmlDeviceGetMemoryInfo_v2(Handle handle, Memory2 *memory) {
    Memory plain;
    nvmlDeviceGetMemoryInfo(handle, &plain);
    memory->total = plain.total;
    memory->used = plain.used - reserved(handle);
    memory->unused = plain.unused;
    memory->reserved = reserved(handle);
    return SUCCESS;
}

typedef struct { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; } Process;

/* STANDIN_GPU0_PROCESSES is "pid:name:MiB,pid:name:MiB". */
static int parse_process(int gpu, int index, Process *process, char name[64]) {
    char item[128];
    unsigned long long mib;
    if (!list_item(gpu_text(gpu, "PROCESSES", ""), index, item, sizeof item)) return 0;
    if (sscanf(item, "%u:%63[^:]:%llu", &process->pid, name, &mib) != 3) return 0;
    process->memory = mib * MIB;
    process->gpu_instance = process->compute_instance = 0xffffffff;
    return 1;
}

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(Handle handle, unsigned *count, Process *processes) {
    Process process;
    char name[64];
    unsigned room = *count, found = 0;
    while (parse_process(gpu_of(handle), (int)found, &process, name)) {
        if (found < room) processes[found] = process;
        found++;
    }
    *count = found;
    return found <= room ? SUCCESS : TOO_SMALL;
}
EXPORT int nvmlDeviceGetComputeRunningProcesses_v2(Handle handle, unsigned *count, Process *processes) {
    return nvmlDeviceGetComputeRunningProcesses_v3(handle, count, processes);
}
EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v3(Handle handle, unsigned *count, Process *processes) {
    (void)handle, (void)processes;
    *count = 0;
    return SUCCESS;
}
EXPORT int nvmlDeviceGetGraphicsRunningProcesses_v2(Handle handle, unsigned *count, Process *processes) {
    return nvmlDeviceGetGraphicsRunningProcesses_v3(handle, count, processes);
}

EXPORT int nvmlSystemGetProcessName(unsigned pid, char *buffer, unsigned size) {
    Process process;
    char name[64];
    for (int gpu = 0; gpu < gpu_count(); gpu++)
        for (int i = 0; parse_process(gpu, i, &process, name); i++)
            if (process.pid == pid) return put(buffer, size, name);
    return NOT_FOUND;
}

/* --- MIG ----------------------------------------------------------------------------------- */

EXPORT int nvmlDeviceGetMigMode(Handle handle, unsigned *current, unsigned *pending) {
    if (!gpu_text(gpu_of(handle), "MIG", NULL)) return NOT_SUPPORTED;
    *current = *pending = (unsigned)gpu_number(gpu_of(handle), "MIG", 0);
    return SUCCESS;
}
EXPORT int nvmlDeviceGetMaxMigDeviceCount(Handle handle, unsigned *count) {
    *count = gpu_number(gpu_of(handle), "MIG", 0) ? 7 : 0;
    return SUCCESS;
}
EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(Handle handle, unsigned index, Handle *device) {
    char uuid[96];
    if (!list_item(gpu_text(gpu_of(handle), "MIG_DEVICES", ""), (int)index, uuid, sizeof uuid)) return NOT_FOUND;
    *device = handle_of(gpu_of(handle), (int)index);
    return SUCCESS;
}
EXPORT int nvmlDeviceIsMigDeviceHandle(Handle handle, unsigned *is_mig) { *is_mig = mig_of(handle) >= 0; return SUCCESS; }
EXPORT int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Handle device, Handle *handle) {
    *handle = handle_of(gpu_of(device), -1);
    return SUCCESS;
}

/* --- what nvidia-smi needs for its table ------------------------------------------------------ */

EXPORT int nvmlEventSetCreate(Handle *set) {
    *set = (Handle)1;
    return SUCCESS;
}
EXPORT int nvmlEventSetFree(Handle set) { (void)set; return SUCCESS; }
EXPORT int nvmlEventSetWait_v2(Handle set, void *event, unsigned ms) { (void)set, (void)event, (void)ms; return TIMEOUT; }
EXPORT int nvmlDeviceRegisterEvents(Handle handle, unsigned long long types, Handle set) {
    (void)handle, (void)types, (void)set;
    return SUCCESS;
}
EXPORT int nvmlDeviceGetSupportedEventTypes(Handle handle, unsigned long long *types) {
    (void)handle;
    *types = 0;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetUtilizationRates(Handle handle, unsigned rates[2]) {
    rates[0] = (unsigned)gpu_number(gpu_of(handle), "UTILIZATION", 0);
    rates[1] = 0;
    return SUCCESS;
}
#define CONSTANT(name, type, value) \
    EXPORT int name(Handle handle, type *answer) { (void)handle; *answer = value; return SUCCESS; }
CONSTANT(nvmlDeviceGetBrand, unsigned, 14)
CONSTANT(nvmlDeviceGetArchitecture, unsigned, 7)
CONSTANT(nvmlDeviceGetEnforcedPowerLimit, unsigned, 400000)
CONSTANT(nvmlDeviceGetPerformanceState, int, 0)
CONSTANT(nvmlDeviceGetPersistenceMode, int, 1)
CONSTANT(nvmlDeviceGetDisplayActive, int, 0)
CONSTANT(nvmlDeviceGetDisplayMode, int, 0)
EXPORT int nvmlDeviceGetComputeMode(Handle handle, int *mode) {
    *mode = (int)gpu_number(gpu_of(handle), "COMPUTE_MODE", 0);
    return SUCCESS;
}
EXPORT int nvmlDeviceGetPowerUsage(Handle handle, unsigned *milliwatts) {
    *milliwatts = (unsigned)gpu_number(gpu_of(handle), "POWER_MW", 51000);
    return SUCCESS;
}
EXPORT int nvmlDeviceGetTemperature(Handle handle, int sensor, unsigned *celsius) {
    (void)sensor;
    *celsius = (unsigned)gpu_number(gpu_of(handle), "TEMPERATURE", 33);
    return SUCCESS;
}
EXPORT int nvmlDeviceGetEccMode(Handle handle, int *current, int *pending) {
    (void)handle;
    *current = *pending = 1;
    return SUCCESS;
}

/* --- health: STANDIN_GPU0_<FIELD> is a number; "E15" is refused with that code, nothing with 3 ------ */

static int reading(Handle handle, const char *field, unsigned long long *value) {
    const char *given = gpu_text(gpu_of(handle), field, "E3");
    if (*given == 'E') return atoi(given + 1);
    *value = strtoull(given, NULL, 0);
    return SUCCESS;
}
#define READING(name, type, field) \
    EXPORT int name(Handle handle, type *answer) { \
        unsigned long long value = 0; \
        int code = reading(handle, field, &value); \
        *answer = (type)value; \
        return code; \
    }
READING(nvmlDeviceGetCurrPcieLinkWidth, unsigned, "PCIE_WIDTH")
READING(nvmlDeviceGetMaxPcieLinkWidth, unsigned, "PCIE_WIDTH_LIMIT")
READING(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, "PCIE_GENERATION")
READING(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, "PCIE_GENERATION_LIMIT")
READING(nvmlDeviceGetRetiredPagesPendingStatus, unsigned, "RETIRED_PAGES_PENDING")
READING(nvmlDeviceGetCurrentClocksThrottleReasons, unsigned long long, "SLOWDOWN")

/* STANDIN_GPU0_SLOWED_FOR: readings after which only the idle bit is left. */
EXPORT int nvmlDeviceGetCurrentClocksEventReasons(Handle handle, unsigned long long *reasons) {
    static long readings;
    if (gpu_number(gpu_of(handle), "OLD_DRIVER", 0)) return 13;
    if (readings++ >= gpu_number(gpu_of(handle), "SLOWED_FOR", 1000)) { *reasons = 1; return SUCCESS; }
    return nvmlDeviceGetCurrentClocksThrottleReasons(handle, reasons);
}
EXPORT int nvmlDeviceGetTotalEccErrors(Handle handle, int kind, int counter, unsigned long long *count) {
    if (kind != 1 || counter != 0) return INVALID; /* uncorrected, volatile */
    sleep((unsigned)gpu_number(gpu_of(handle), "ECC_HANG", 0));
    return reading(handle, "ECC_UNCORRECTED", count);
}
EXPORT int nvmlDeviceGetRemappedRows(Handle handle, unsigned *corrected, unsigned *uncorrected,
                                     unsigned *pending, unsigned *failed) {
    unsigned long long value = 0;
    int code = reading(handle, "REMAP_PENDING", &value);
    *corrected = *uncorrected = 600; /* lifetime counters, which decide nothing */
    *pending = (unsigned)value;
    *failed = (unsigned)gpu_number(gpu_of(handle), "REMAP_FAILED", 0);
    return code;
}
typedef struct { unsigned version; unsigned long long counts[11]; unsigned threshold_exceeded; } SramStatus;
EXPORT int nvmlDeviceGetSramEccErrorStatus(Handle handle, SramStatus *status) {
    unsigned long long value = 0;
    int code = reading(handle, "SRAM_THRESHOLD_EXCEEDED", &value);
    if (status->version != (1u << 24 | sizeof *status)) return 25; /* argument version mismatch */
    status->threshold_exceeded = (unsigned)value;
    return code;
}
typedef struct {
    unsigned id, scope;
    long long timestamp, latency;
    unsigned type;
    int code;
    union { unsigned number; unsigned long long wide; } value;
} FieldValue;
/* The numbers moved at 580.82: where the clocks' counters were, power smoothing is, and the other way round. */
static const char *field_of(unsigned id) {
    static const char *slowed[] = {"SLOWED_SW_THERMAL", "SLOWED_HW_THERMAL", "SLOWED_HW_POWER_BRAKE"};
    unsigned major = 0, minor = 0;
    sscanf(text("STANDIN_DRIVER", "535.261.03"), "%u.%u", &major, &minor);
    int moved = major > 580 || (major == 580 && minor >= 82);
    unsigned first = moved ? 269 : 251, other = moved ? 251 : 269;
    if (id == 230) return "RECOVERY_ACTION";
    if (id == 74) return "SLOWED_SW_POWER_CAP";
    if (id == 76) return "SLOWED_SYNC_BOOST";
    if (major >= 575 && id >= first && id < first + 3) return slowed[id - first];
    if (major >= 575 && id >= other && id < other + 3) return "POWER_SMOOTHING";
    return NULL;
}
EXPORT int nvmlDeviceGetFieldValues(Handle handle, int count, FieldValue *fields) {
    for (int i = 0; i < count; i++) {
        unsigned long long value = 0;
        const char *field = field_of(fields[i].id);
        fields[i].code = field ? reading(handle, field, &value) : NOT_SUPPORTED;
        fields[i].type = fields[i].id == 230 ? 1 : 3; /* unsigned int, unsigned long long */
        fields[i].value.wide = value;
    }
    return SUCCESS;
}
typedef struct {
    unsigned version;
    unsigned char cluster[16];
    int status;
    unsigned clique, state, health;
} FabricInfo;
EXPORT int nvmlDeviceGetGpuFabricInfoV(Handle handle, FabricInfo *info) {
    unsigned long long value = 0;
    int code = reading(handle, "FABRIC_STATE", &value);
    if (info->version != (2u << 24 | sizeof *info)) return 25; /* argument version mismatch */
    info->state = (unsigned)value;
    info->status = (int)gpu_number(gpu_of(handle), "FABRIC_STATUS", SUCCESS);
    info->health = (unsigned)gpu_number(gpu_of(handle), "FABRIC_HEALTH", 0);
    return code;
}
EXPORT int nvmlDeviceValidateInforom(Handle handle) {
    unsigned long long value = 0;
    int code = reading(handle, "INFOROM_CORRUPTED", &value);
    return value ? 14 : code; /* corrupted */
}
/* STANDIN_GPU0_NVLINKS is "110": the first two are up, the third is down; 'N' is not supported. */
EXPORT int nvmlDeviceGetNvLinkState(Handle handle, unsigned link, unsigned *state) {
    const char *links = gpu_text(gpu_of(handle), "NVLINKS", "");
    if (*links == 'E') return atoi(links + 1);
    if (link >= strlen(links)) return *links ? INVALID : NOT_SUPPORTED;
    *state = links[link] == '1';
    return links[link] == 'N' ? NOT_SUPPORTED : SUCCESS;
}

#include "nvml_unsupported.h"
