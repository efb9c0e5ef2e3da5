// A CUDA driver without a device: it keeps one context and logs calls, so that tests see what the runtime asks of a driver.
// "Device" memory is host memory.  Calls that leave no trace on a device are logged too, apart from error texts.
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
void *fake_stack[8];          // contexts pushed; the last is current
int fake_depth;
int fake_fail_allocation, fake_capturing, fake_pools = 1, fake_major = 9, fake_minor = 0, fake_version = 12020;
const char *fake_refused_image;  // loading an image that begins so fails
unsigned char fake_launch[40], fake_fields[511 * 64];  // parameters of the last launch
const char *fake_log(void) { return log_text; }
void fake_clear(void) { log_text[log_length = 0] = 0; }

typedef unsigned u32;
typedef uint64_t u64;

u32 cuDriverGetVersion(int *version) { *version = fake_version; return 0; }
u32 cuInit(u32 flags) { return flags; }
u32 cuGetErrorString(u32 code, const char **text) { *text = code == 2 ? "out of memory" : "fake"; return 0; }
u32 cuCtxGetCurrent(void **context) { *context = fake_depth ? fake_stack[fake_depth - 1] : NULL; return 0; }
u32 cuCtxPushCurrent_v2(void *context) { note("push %p\n", context); fake_stack[fake_depth++] = context; return 0; }
u32 cuCtxPopCurrent_v2(void **context) { note("pop\n"); *context = fake_stack[--fake_depth]; return 0; }
u32 cuCtxGetId(void *context, u64 *id) { *id = (u64)context; return 0; }
u32 cuCtxGetDevice(int *device) { *device = 0; return 0; }
u32 cuDeviceGetAttribute(int *value, int attribute, int device) {
  switch (attribute) {
    case 16: *value = 10; break;
    case 75: *value = fake_major; break;
    case 76: *value = fake_minor; break;
    case 115: *value = fake_pools; break;
    default: return 1;
  }
  return device;
}
u32 cuModuleLoadData(void **module, const void *image) {
  const char *kind = memcmp(image, "\177ELF", 4) ? strstr(image, ".target sm_") + 11 : "90 cubin";
  note("load %.2s\n", kind);
  if (fake_refused_image && !strncmp(kind, fake_refused_image, 2)) return 209;
  *module = (void *)0x10;
  return 0;
}
u32 cuModuleUnload(void *module) { note("unload %p\n", module); return 0; }
u32 cuModuleGetFunction(void **function, void *module, const char *name) { *function = strdup(name); return module != (void *)0x10; }
u32 cuFuncSetAttribute(const char *function, int attribute, int value) { note("shared %s %d\n", function, value); return attribute != 8; }
u32 cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared) { *blocks = 3; return 0; }
static u32 allocate(u64 *address, size_t bytes) {
  if (fake_fail_allocation) return 2;
  *address = (u64)malloc(bytes);
  memset((void *)*address, 0xAB, bytes);
  return 0;
}
u32 cuMemAllocAsync(u64 *address, size_t bytes, void *stream) { note("allocate %zu stream %p\n", bytes, stream); return allocate(address, bytes); }
u32 cuMemAlloc_v2(u64 *address, size_t bytes) { note("allocate %zu now\n", bytes); return allocate(address, bytes); }
u32 cuMemFreeAsync(u64 address, void *stream) { note("free stream %p\n", stream); free((void *)address); return 0; }
u32 cuMemFree_v2(u64 address) { note("free now\n"); free((void *)address); return 0; }
u32 cuMemsetD8Async(u64 address, unsigned char byte, size_t bytes, void *stream) {
  note("clear %zu stream %p\n", bytes, stream);
  memset((void *)address, byte, bytes);
  return 0;
}
u32 cuMemcpyHtoDAsync_v2(u64 address, const void *bytes, size_t count, void *stream) {
  note("upload %zu stream %p\n", count, stream);
  memcpy((void *)address, bytes, count);
  return 0;
}
u32 cuStreamSynchronize(void *stream) { note("wait stream %p\n", stream); return 0; }
u32 cuStreamIsCapturing(void *stream, int *status) { *status = fake_capturing; return 0; }
static u32 launch(const char *how, const char *function, const u32 *grid, const u32 *block, u32 shared, void *stream, void **params, void **extra) {
  note("%s %s %ux%ux%u of %ux%ux%u shared %u stream %p\n", how, function, grid[0], grid[1], grid[2], block[0], block[1], block[2], shared, stream);
  memcpy(fake_launch, params[0], 32);
  memcpy(fake_fields, params[1], 64 * (strstr(function, "small") ? 1 : atoi(strrchr(function, '_') + 1)));  // as much as the kernel takes
  return extra != NULL;
}
u32 cuLaunchKernel(const char *function, u32 x, u32 y, u32 z, u32 block_x, u32 block_y, u32 block_z, u32 shared, void *stream, void **params, void **extra) {
  return launch("launch", function, (u32[]){x, y, z}, (u32[]){block_x, block_y, block_z}, shared, stream, params, extra);
}
struct attribute { u32 id; u64 value[8]; };
struct config { u32 grid[3], block[3], shared; void *stream; struct attribute *attributes; u32 count; };
u32 cuLaunchKernelEx(const struct config *config, const char *function, void **params, void **extra) {
  if (config->count != 1 || config->attributes->id != 6 || (int)config->attributes->value[0] != 1) return 1;
  return launch("launch early", function, config->grid, config->block, config->shared, config->stream, params, extra);
}
