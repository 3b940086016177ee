/* What the driver test calls: contexts, memory, events and a kernel, all on the processor.
 *
 * Memory of the stand-in GPU is memory of this process. The kernel is known by its name only: its PTX is not read.
 * STANDIN_CUDA_FAIL="cuMemAlloc_v2:2,cuCtxSynchronize:700" makes calls fail; with STANDIN_CUDA_ONLY=1 only while
 * GPU 1 is in use. STANDIN_GPU1_WRONG=1 adds one to a result; STANDIN_GPU1_LAUNCH_HANG and _LAUNCH_CRASH do so.
 */
enum { OUT_OF_MEMORY = 2, FOUND_NO_NAME = 500 };
typedef unsigned long long Address;

static int current; /* ordinal of the device whose context is current */

static int told(const char *call) { /* the result that this call is told to give */
    char list[512], *rest = list, *item;
    if (number("STANDIN_CUDA_ONLY", -1) >= 0 && number("STANDIN_CUDA_ONLY", -1) != real_gpu(current)) return SUCCESS;
    snprintf(list, sizeof list, "%s", text("STANDIN_CUDA_FAIL", ""));
    while ((item = strsep(&rest, ",")))
        if (!strncmp(item, call, strlen(call)) && item[strlen(call)] == ':') return atoi(item + strlen(call) + 1);
    return SUCCESS;
}
#define AS_TOLD if (told(__func__)) return told(__func__)

/* --- contexts and memory --------------------------------------------------------------------- */

EXPORT int cuCtxCreate_v2(void **context, unsigned flags, int device) {
    (void)flags;
    if (usable(device)) return usable(device);
    current = device;
    AS_TOLD;
    *context = (void *)(long)(device + 1);
    return SUCCESS;
}
EXPORT int cuCtxSetCurrent(void *context) { current = (int)(long)context - 1; return SUCCESS; }
EXPORT int cuCtxSynchronize(void) { AS_TOLD; return SUCCESS; }

typedef struct Block { Address start; size_t size; int device; struct Block *next; } Block;
static Block *blocks;

static size_t used_bytes(int device) {
    size_t sum = (size_t)gpu_number(real_gpu(device), "USED_MIB", 3) << 20;
    for (Block *block = blocks; block; block = block->next) sum += block->device == device ? block->size : 0;
    return sum;
}
EXPORT int cuMemGetInfo_v2(size_t *unused, size_t *total) {
    AS_TOLD;
    *total = (size_t)gpu_number(real_gpu(current), "MEMORY_MIB", 40960) << 20;
    *unused = *total - used_bytes(current);
    return SUCCESS;
}
EXPORT int cuMemAlloc_v2(Address *address, size_t size) {
    size_t unused, total;
    AS_TOLD;
    cuMemGetInfo_v2(&unused, &total);
    Block *block = size <= unused ? malloc(sizeof *block) : NULL;
    if (!block) return OUT_OF_MEMORY;
    *block = (Block){(Address)malloc(size), size, current, blocks};
    blocks = block;
    *address = block->start;
    return SUCCESS;
}
EXPORT int cuMemFree_v2(Address address) {
    for (Block **link = &blocks; *link; link = &(*link)->next)
        if ((*link)->start == address) {
            Block *block = *link;
            *link = block->next;
            free((void *)address);
            free(block);
            return SUCCESS;
        }
    return INVALID_VALUE;
}
EXPORT int cuPointerGetAttribute(int *value, int attribute, Address address) {
    enum { ORDINAL = 9 };
    AS_TOLD;
    for (Block *block = blocks; block; block = block->next)
        if (address >= block->start && address < block->start + block->size) *value = block->device;
    return attribute == ORDINAL ? SUCCESS : INVALID_VALUE;
}
EXPORT int cuMemHostAlloc(void **memory, size_t size, unsigned flags) { (void)flags; *memory = malloc(size); return SUCCESS; }
EXPORT int cuMemFreeHost(void *memory) { free(memory); return SUCCESS; }

/* --- copies -------------------------------------------------------------------------------------- */

static int copy(void *target, const void *source, size_t size) { memmove(target, source, size); return SUCCESS; }
EXPORT int cuMemcpyHtoD_v2(Address to, const void *from, size_t size) { AS_TOLD; return copy((void *)to, from, size); }
EXPORT int cuMemcpyDtoH_v2(void *to, Address from, size_t size) { AS_TOLD; return copy(to, (void *)from, size); }
EXPORT int cuMemcpyDtoD_v2(Address to, Address from, size_t size) { AS_TOLD; return copy((void *)to, (void *)from, size); }
EXPORT int cuMemcpyHtoDAsync_v2(Address to, const void *from, size_t size, void *stream) {
    (void)stream;
    return cuMemcpyHtoD_v2(to, from, size);
}
EXPORT int cuMemcpyDtoHAsync_v2(void *to, Address from, size_t size, void *stream) {
    (void)stream;
    return cuMemcpyDtoH_v2(to, from, size);
}
EXPORT int cuMemsetD32_v2(Address to, unsigned word, size_t count) {
    AS_TOLD;
    for (size_t i = 0; i < count; i++) ((unsigned *)to)[i] = word;
    return SUCCESS;
}
EXPORT int cuDeviceCanAccessPeer(int *can, int device, int peer) {
    *can = device != peer && number("STANDIN_PEERS", 1);
    return SUCCESS;
}
EXPORT int cuCtxEnablePeerAccess(void *context, unsigned flags) { (void)context, (void)flags; AS_TOLD; return SUCCESS; }
EXPORT int cuCtxDisablePeerAccess(void *context) { (void)context; AS_TOLD; return SUCCESS; }
EXPORT int cuMemcpyPeer(Address to, void *to_context, Address from, void *from_context, size_t size) {
    (void)to_context, (void)from_context;
    AS_TOLD;
    copy((void *)to, (void *)from, size);
    if (number("STANDIN_PEER_WRONG", 0)) ((unsigned char *)to)[size / 2] ^= 0x10;
    return SUCCESS;
}

/* --- events -------------------------------------------------------------------------------------- */

EXPORT int cuEventCreate(void **event, unsigned flags) { (void)flags; *event = calloc(1, sizeof(struct timespec)); return SUCCESS; }
EXPORT int cuEventRecord(void *event, void *stream) { (void)stream; clock_gettime(CLOCK_MONOTONIC, event); return SUCCESS; }
EXPORT int cuEventSynchronize(void *event) { (void)event; return SUCCESS; }
EXPORT int cuEventDestroy_v2(void *event) { free(event); return SUCCESS; }
EXPORT int cuEventElapsedTime(float *milliseconds, struct timespec *from, struct timespec *to) {
    *milliseconds = (float)((double)(to->tv_sec - from->tv_sec) * 1e3 + (double)(to->tv_nsec - from->tv_nsec) / 1e6);
    return SUCCESS;
}

/* --- kernels --------------------------------------------------------------------------------------- */

EXPORT int cuModuleLoadDataEx(void **module, const char *image, unsigned count, int *keys, void **values) {
    enum { ERRORS = 5 };
    int code = told(__func__);
    for (unsigned i = 0; code && i < count; i++)
        if (keys[i] == ERRORS) strcpy(values[i], "a log of the stand-in's translator");
    *module = (void *)image;
    return code ? code : strstr(image, ".target sm_") ? SUCCESS : 200;
}
EXPORT int cuModuleGetFunction(const char **function, void *module, const char *name) {
    (void)module;
    AS_TOLD;
    *function = name;
    return strcmp(name, "envcheck_matmul_f32") ? FOUND_NO_NAME : SUCCESS;
}

#ifdef __x86_64__
__attribute__((target_clones("avx2", "default")))
#endif
__attribute__((optimize("O3"))) static void
multiply(float *restrict c, const float *restrict a, const float *restrict b, unsigned m, unsigned n, unsigned k) {
    enum { ROWS = 16 }; /* that share each row of b while it is at hand */
    for (unsigned first = 0; first < m; first += ROWS)
        for (unsigned p = 0; p < k; p++)
            for (unsigned row = first; row < m && row < first + ROWS; row++) {
                float factor = a[(size_t)row * k + p];
                for (unsigned q = 0; q < n; q++) c[(size_t)row * n + q] += factor * b[(size_t)p * n + q];
            }
}

static void compute(void **values) {
    unsigned m = *(unsigned *)values[3], n = *(unsigned *)values[4], k = *(unsigned *)values[5];
    float *product = calloc((size_t)m * n, sizeof *product);
    multiply(product, *(float **)values[0], *(float **)values[1], m, n, k);
    product[(size_t)m * n / 2] += (float)gpu_number(real_gpu(current), "WRONG", 0);
    memcpy(*(float **)values[2], product, (size_t)m * n * sizeof *product);
    free(product);
}

EXPORT int cuLaunchKernel(void *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned ty,
                          unsigned tz, unsigned shared, void *stream, void **values, void **extra) {
    (void)function, (void)x, (void)z, (void)threads, (void)ty, (void)tz, (void)shared, (void)stream, (void)extra;
    AS_TOLD;
    sleep((unsigned)gpu_number(real_gpu(current), "LAUNCH_HANG", 0));
    if (gpu_number(real_gpu(current), "LAUNCH_CRASH", 0)) raise(SIGSEGV);
    if (y > 1 && !number("STANDIN_COMPUTES", 1)) return SUCCESS; /* a benchmark looks at no numbers */
    compute(values);
    return SUCCESS;
}
