/* What applications use of the "stai" interface above LL_ATON. Names, values and order of arguments: the
 * interface's public header. The calls of a network, stai_NAME_..., are in the header stai_NAME.h that the
 * board makes. */
#ifndef NPUFORGE_STAI_H
#define NPUFORGE_STAI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define STAI_API_VERSION_MAJOR 1
#define STAI_API_VERSION_MINOR 0
#define STAI_API_VERSION_MICRO 0
#define STAI_TOOLS_VERSION_MAJOR 3
#define STAI_TOOLS_VERSION_MINOR 0
#define STAI_TOOLS_VERSION_MICRO 0

#define STAI_API_ENTRY
#define STAI_UNUSED(x) ((void)(x));
#define STAI_ALIGNED(bytes) __attribute__((aligned(bytes)))

typedef enum {
    STAI_SUCCESS = 0, STAI_RUNNING_NO_WFE = 0x10, STAI_RUNNING_WFE = 0x11, STAI_DONE = 0x12,
    STAI_ERROR_GENERIC = 0x20000, STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS = 0x20001,
    STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE = 0x30000,
    STAI_ERROR_NETWORK_INVALID_CONTEXT_SIZE = 0x30001,
    STAI_ERROR_NETWORK_INVALID_CONTEXT_ALIGNMENT = 0x30002,
    STAI_ERROR_NETWORK_INVALID_INFO = 0x30010, STAI_ERROR_NETWORK_INVALID_RUN = 0x30020,
    STAI_ERROR_NETWORK_INVALID_RUNTIME = 0x30030,
    STAI_ERROR_NETWORK_INVALID_ACTIVATIONS_PTR = 0x40000,
    STAI_ERROR_NETWORK_INVALID_ACTIVATIONS_NUM = 0x40001,
    STAI_ERROR_NETWORK_INVALID_IN_PTR = 0x40010, STAI_ERROR_NETWORK_INVALID_IN_NUM = 0x40011,
    STAI_ERROR_NETWORK_INVALID_OUT_PTR = 0x40020, STAI_ERROR_NETWORK_INVALID_OUT_NUM = 0x40021,
    STAI_ERROR_NETWORK_INVALID_STATES_PTR = 0x40030, STAI_ERROR_NETWORK_INVALID_STATES_NUM = 0x40031,
    STAI_ERROR_NETWORK_INVALID_WEIGHTS_PTR = 0x40040,
    STAI_ERROR_NETWORK_INVALID_WEIGHTS_NUM = 0x40041,
    STAI_ERROR_NETWORK_INVALID_CALLBACK = 0x40050, STAI_ERROR_NOT_IMPLEMENTED = 0x40060,
    STAI_ERROR_INVALID_BUFFER_ALIGNMENT = 0x40070, STAI_ERROR_NETWORK_STILL_RUNNING = 0x50000,
    STAI_ERROR_STAI_INIT_FAILED = 0x60000, STAI_ERROR_STAI_DEINIT_FAILED = 0x60001
} stai_return_code;

typedef enum { STAI_MODE_SYNC = 1, STAI_MODE_ASYNC = 2 } stai_run_mode;

/* Element types: bits 17 to 20 the family, 23 the sign, 7 to 13 the width, 0 to 6 the fraction + 64. */
typedef enum {
    STAI_FORMAT_TYPE_NONE, STAI_FORMAT_TYPE_FLOAT, STAI_FORMAT_TYPE_Q, STAI_FORMAT_TYPE_BOOL
} stai_format_type;
typedef enum {
    STAI_FORMAT_NONE = 0x40, STAI_FORMAT_FLOAT32 = 0x821040, STAI_FORMAT_FLOAT64 = 0x822040,
    STAI_FORMAT_U8 = 0x40440, STAI_FORMAT_U16 = 0x40840, STAI_FORMAT_U32 = 0x41040,
    STAI_FORMAT_U64 = 0x42040, STAI_FORMAT_S8 = 0x840440, STAI_FORMAT_S16 = 0x840840,
    STAI_FORMAT_S32 = 0x841040, STAI_FORMAT_S64 = 0x842040, STAI_FORMAT_Q = 0x840040,
    STAI_FORMAT_Q7 = 0x840447, STAI_FORMAT_Q15 = 0x84084f, STAI_FORMAT_UQ = 0x40040,
    STAI_FORMAT_UQ7 = 0x40447, STAI_FORMAT_UQ15 = 0x4084f, STAI_FORMAT_BOOL = 0x60440
} stai_format;
#define STAI_FORMAT_GET_TYPE(format) ((stai_format_type)((format) >> 17 & 15))
#define STAI_FORMAT_GET_SIGN(format) ((format) >> 23 & 1)
#define STAI_FORMAT_GET_BITS(format) ((format) >> 7 & 127)
#define STAI_FORMAT_GET_FBITS(format) (((format) & 127) - 64)
#define STAI_FORMAT_GET_IBITS(format)                                                              \
    (STAI_FORMAT_GET_BITS(format) - STAI_FORMAT_GET_FBITS(format) - STAI_FORMAT_GET_SIGN(format))

typedef int32_t stai_flags;
#define STAI_FLAG_NONE 0
#define STAI_FLAG_PREALLOCATED (1 << 0)
#define STAI_FLAG_INDIRECT (1 << 1)
#define STAI_FLAG_REPLACEABLE (1 << 2)
#define STAI_FLAG_OVERRIDE (1 << 3)
#define STAI_FLAG_CHANNEL_FIRST (1 << 6)
#define STAI_FLAG_CHANNEL_LAST (1 << 7)
#define STAI_FLAG_HAS_BATCH (1 << 8)
#define STAI_FLAG_ACTIVATIONS (1 << 26)
#define STAI_FLAG_INPUTS (1 << 27)
#define STAI_FLAG_OUTPUTS (1 << 28)
#define STAI_FLAG_STATES (1 << 29)
#define STAI_FLAG_WEIGHTS (1 << 30)

typedef uint8_t stai_network;
typedef uint8_t *stai_ptr;
typedef uint32_t stai_size;

typedef struct { stai_size size; const int8_t *data; } stai_array_s8;
typedef struct { stai_size size; const uint8_t *data; } stai_array_u8;
typedef struct { stai_size size; const int16_t *data; } stai_array_s16;
typedef struct { stai_size size; const uint16_t *data; } stai_array_u16;
typedef struct { stai_size size; const int32_t *data; } stai_array_s32;
typedef struct { stai_size size; const uint32_t *data; } stai_array_u32;
typedef struct { stai_size size; const float *data; } stai_array_f32;
typedef struct { stai_size size; stai_ptr *data; } stai_array_ptr;
typedef struct { stai_size size; stai_ptr const *data; } stai_array_const_ptr;
typedef stai_array_s32 stai_shape;
typedef struct { uint8_t major, minor, micro, reserved; } stai_version;

typedef struct {
    stai_size size_bytes;
    stai_flags flags;
    stai_format format;
    stai_shape shape;
    stai_array_f32 scale;
    stai_array_s16 zeropoint;
    const char *name;
} stai_tensor;

/* Weights, activations and states are the network's own here: there are none to count. */
typedef struct {
    const char *model_signature, *c_compile_datetime, *c_model_name, *c_model_datetime;
    uint32_t c_model_signature;
    stai_version runtime_version, tool_version, api_version;
    uint64_t n_macc;
    uint32_t n_nodes;
    int32_t flags;
    uint16_t n_inputs, n_outputs, n_activations, n_weights, n_states;
    const stai_tensor *inputs, *outputs, *activations, *weights, *states;
} stai_network_info;

typedef enum { STAI_COMPILER_ID_NONE = 0, STAI_COMPILER_ID_GCC = 1 } stai_compiler_id;
typedef struct {
    stai_version api_version, runtime_version, tools_version;
    uint32_t runtime_build;
    stai_compiler_id compiler_id;
    const char *compiler_desc;
} stai_runtime_info;

/* Events: of a network, LL_ATON_RT_Callbacktype_... with the epoch block; of the runtime, without. */
typedef int32_t stai_event_type;
typedef void (*stai_event_cb)(void *cookie, const stai_event_type event, const void *payload);
#define STAI_EVENT_NONE 0
#define STAI_EVENT_NODE_START 1
#define STAI_EVENT_NODE_STOP 2
typedef struct { int32_t node_id; stai_array_const_ptr buffers; } stai_event_node_start_stop;

/* The object of a network. It must be zero before init: what is not counts as in use. */
#define NPUFORGE_STAI_CONTEXT 64u
#define STAI_NETWORK_CONTEXT_DECLARE(name, size)                                                   \
    stai_network name[(size)] __attribute__((aligned(8))) = {0};

#define STAI_CACHE_MCU_LINESIZE 32
#define STAI_EXT_CACHE_HAS_NPU
#define STAI_EXT_CACHE_NPU_LINESIZE 64
#define STAI_CACHE_USER_BUFFER_ALIGNMENT STAI_CACHE_MCU_LINESIZE
#define STAI_CACHE_IS_LINESIZE_ALIGNED(value, line) (((uintptr_t)(value) & ((uintptr_t)(line) - 1u)) == 0)

stai_return_code stai_runtime_init(void);
stai_return_code stai_runtime_deinit(void);
stai_return_code stai_runtime_get_info(stai_runtime_info *info);
stai_return_code stai_runtime_set_callback(const stai_event_cb callback, void *cookie);
const char *stai_get_return_code_name(const stai_return_code code);
stai_return_code stai_ext_wfe(void);
stai_return_code stai_cache_mcu_clean_range(uintptr_t address, stai_size bytes);
stai_return_code stai_cache_mcu_invalidate_range(uintptr_t address, stai_size bytes);
stai_return_code stai_ext_cache_npu_clean_range(uintptr_t address, stai_size bytes);
stai_return_code stai_ext_cache_npu_clean_invalidate_range(uintptr_t address, stai_size bytes);

#ifdef __cplusplus
}
#endif
#endif
