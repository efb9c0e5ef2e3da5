// A HIP runtime without a device: it logs calls, so that tests see what the pfpl runtime asks of it.  "Device" memory is host memory.
// Compiling with hiprtc, which older runtimes have built in, is logged too.
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char log_text[1 << 20];
static size_t log_length;
static void note(const char *format, ...) {
  va_list values;
  va_start(values, format);
  log_length += vsnprintf(log_text + log_length, sizeof log_text - log_length, format, values);
  va_end(values);
}

// what tests set and read
int fake_device, fake_fill = 0xAB, fake_fail_allocation, fake_capturing, fake_pools = 1, fake_warp = 32, fake_fail_compile;
const char *fake_architecture = "gfx90a:sramecc+:xnack-";
unsigned char fake_arguments[4096];  // of the last launch
const char *fake_log(void) { return log_text; }
void fake_clear(void) { log_text[log_length = 0] = 0; }

typedef unsigned u32;

u32 hipInit(u32 flags) { return flags; }
const char *hipGetErrorString(u32 code) { return code == 2 ? "out of memory" : "fake"; }
u32 hipGetDeviceCount(int *count) { *count = 2; return 0; }
u32 hipGetDevice(int *device) { *device = fake_device; return 0; }
u32 hipSetDevice(int device) { note("device %d\n", device); fake_device = device; return 0; }
u32 hipDeviceGetAttribute(int *value, int attribute, int device) {
  switch (attribute) {
    case 63: *value = 10; return 0;
    case 87: *value = fake_warp; return 0;
    case 88: *value = fake_pools; return 0;
    default: return 1;
  }
}
u32 hipGetDevicePropertiesR0600(void *properties, int device) {
  strcpy((char *)properties, "AMD Instinct");
  strcpy((char *)properties + 1160, fake_architecture);
  return 0;
}
u32 hipModuleLoadData(void **module, const void *image) { note("load %.4s\n", (const char *)image + (*(char *)image == 127)); *module = (void *)0x10; return 0; }
u32 hipModuleUnload(void *module) { note("unload %p\n", module); return 0; }
u32 hipModuleGetFunction(void **function, void *module, const char *name) { *function = strdup(name); return module != (void *)0x10; }
u32 hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared) { *blocks = 3; return 0; }
static u32 allocate(void **address, size_t bytes) {
  if (fake_fail_allocation) return 2;
  memset(*address = malloc(bytes), fake_fill, bytes);
  return 0;
}
u32 hipMallocAsync(void **address, size_t bytes, void *stream) { note("allocate %zu stream %p\n", bytes, stream); return allocate(address, bytes); }
u32 hipMalloc(void **address, size_t bytes) { note("allocate %zu now\n", bytes); return allocate(address, bytes); }
u32 hipFreeAsync(void *address, void *stream) { note("free stream %p\n", stream); free(address); return 0; }
u32 hipFree(void *address) { note("free now\n"); free(address); return 0; }
u32 hipMemsetAsync(void *address, int byte, size_t bytes, void *stream) {
  note("clear %zu stream %p\n", bytes, stream);
  memset(address, byte, bytes);
  return 0;
}
u32 hipMemcpy(void *to, const void *from, size_t bytes, int kind) { note("copy %zu\n", bytes); memcpy(to, from, bytes); return kind != 4; }
u32 hipMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) { return hipMemcpy(to, from, bytes, kind); }
u32 hipStreamSynchronize(void *stream) { note("wait stream %p\n", stream); return 0; }
u32 hipEventCreate(void **event) { *event = (void *)0x30; return 0; }
u32 hipEventRecord(void *event, void *stream) { return 0; }
u32 hipEventSynchronize(void *event) { return 0; }
u32 hipEventElapsedTime(float *milliseconds, void *start, void *end) { *milliseconds = 2; return 0; }
u32 hipEventDestroy(void *event) { return 0; }
u32 hipStreamIsCapturing(void *stream, int *status) { *status = fake_capturing; return 0; }
u32 hipModuleLaunchKernel(const char *function, u32 x, u32 y, u32 z, u32 block_x, u32 block_y, u32 block_z, u32 shared, void *stream, void **params, void **extra) {
  note("launch %s %ux%ux%u of %ux%ux%u shared %u stream %p", function, x, y, z, block_x, block_y, block_z, shared, stream);
  if (params || extra[0] != (void *)1 || extra[2] != (void *)2 || extra[4] != (void *)3) return 1;
  size_t bytes = *(size_t *)extra[3];
  note(" arguments %zu\n", bytes);
  memcpy(fake_arguments, extra[1], bytes);
  return 0;
}

const char *hiprtcGetErrorString(u32 code) { return code == 6 ? "compilation" : "fake"; }
u32 hiprtcCreateProgram(void **program, const char *source, const char *name, int headers, const char **texts, const char **names) {
  note("create %s %s\n", name, strstr(source, "pfpl_encode_f32") ? "with kernels" : "without");
  *program = (void *)0x20;
  return headers;
}
u32 hiprtcCompileProgram(void *program, int count, const char **options) {
  note("compile");
  for (int i = 0; i < count; i++) note(" %s", options[i]);
  note("\n");
  return fake_fail_compile ? 6 : 0;
}
u32 hiprtcGetProgramLogSize(void *program, size_t *bytes) { *bytes = 9; return 0; }
u32 hiprtcGetProgramLog(void *program, char *text) { memcpy(text, "no such\n", 9); return 0; }
u32 hiprtcGetCodeSize(void *program, size_t *bytes) { *bytes = 4; return 0; }
u32 hiprtcGetCode(void *program, char *code) { memcpy(code, "code", 4); return 0; }
u32 hiprtcDestroyProgram(void **program) { note("destroy %p\n", *program); return 0; }
