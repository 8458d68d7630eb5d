/* What applications use of the "stai" interface above LL_ATON. Values: published header of ST's runtime. The
 * calls of a network, stai_NAME_..., are in the header stai_NAME.h that the board makes. */
#ifndef NPUFORGE_STAI_H
#define NPUFORGE_STAI_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    STAI_SUCCESS = 0, STAI_RUNNING_NO_WFE = 0x10, STAI_RUNNING_WFE = 0x11, STAI_DONE = 0x12,
    STAI_ERROR_GENERIC = 0x20000, STAI_ERROR_NETWORK_INVALID_API_ARGUMENTS = 0x20001,
    STAI_ERROR_NETWORK_INVALID_CONTEXT_HANDLE = 0x30000, STAI_ERROR_NETWORK_INVALID_RUN = 0x30020,
    STAI_ERROR_NETWORK_INVALID_RUNTIME = 0x30030,
    STAI_ERROR_NETWORK_INVALID_IN_PTR = 0x40010, STAI_ERROR_NETWORK_INVALID_IN_NUM = 0x40011,
    STAI_ERROR_NETWORK_INVALID_OUT_PTR = 0x40020, STAI_ERROR_NETWORK_INVALID_OUT_NUM = 0x40021,
    STAI_ERROR_INVALID_BUFFER_ALIGNMENT = 0x40070, STAI_ERROR_NETWORK_STILL_RUNNING = 0x50000,
    STAI_ERROR_STAI_INIT_FAILED = 0x60000, STAI_ERROR_STAI_DEINIT_FAILED = 0x60001
} stai_return_code;

typedef enum { STAI_MODE_SYNC = 1, STAI_MODE_ASYNC = 2 } stai_run_mode;

typedef uint8_t stai_network;
typedef uint8_t *stai_ptr;
typedef uint32_t stai_size;

typedef struct { stai_size size; const int32_t *data; } stai_array_s32;
typedef struct { stai_size size; const float *data; } stai_array_f32;
typedef struct { stai_size size; const int16_t *data; } stai_array_s16;
typedef stai_array_s32 stai_shape;

typedef struct {
    stai_size size_bytes;
    stai_shape shape;
    stai_array_f32 scale;
    stai_array_s16 zeropoint;
    const char *name;
} stai_tensor;

typedef struct {
    const char *c_model_name;
    stai_size n_inputs, n_outputs;
    const stai_tensor *inputs, *outputs;
} stai_network_info;

/* The object of a network: the board keeps nothing in it but that it was initialised. */
#define NPUFORGE_STAI_CONTEXT 64u
#define STAI_NETWORK_CONTEXT_DECLARE(name, size)                                                   \
    static stai_network name[(size)] __attribute__((aligned(8)));

stai_return_code stai_runtime_init(void);
stai_return_code stai_runtime_deinit(void);
stai_return_code stai_ext_wfe(void);

#ifdef __cplusplus
}
#endif
#endif
