/* LL_ATON on the virtual board: the names an application uses, declared by npuforge for its own
 * implementation. Names, argument orders and return values are those of the interface as public
 * applications call it (NO_WFE 0, WFE 1, DONE 2; setters answer WRONG_INDEX on allocated buffers). */
#ifndef NPUFORGE_LL_ATON_RUNTIME_H
#define NPUFORGE_LL_ATON_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#include "mcu_cache.h"
#include "npu_cache.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum LL_ATON_RT_RetValues {
    LL_ATON_RT_NO_WFE = 0, LL_ATON_RT_WFE = 1, LL_ATON_RT_DONE = 2
} LL_ATON_RT_RetValues_t;

typedef enum LL_ATON_User_IO_Result {
    LL_ATON_User_IO_NOERROR, LL_ATON_User_IO_WRONG_ALIGN, LL_ATON_User_IO_WRONG_SIZE,
    LL_ATON_User_IO_WRONG_INDEX
} LL_ATON_User_IO_Result_t;

typedef enum LL_ATON_RT_Callbacktype {
    LL_ATON_RT_Callbacktype_PRE_START = 0, LL_ATON_RT_Callbacktype_POST_START = 1,
    LL_ATON_RT_Callbacktype_PRE_END = 2, LL_ATON_RT_Callbacktype_POST_END = 3,
    LL_ATON_RT_Callbacktype_NN_Init = 4, LL_ATON_RT_Callbacktype_NN_DeInit = 5,
    LL_ATON_RT_Callbacktype_RT_Init = 6, LL_ATON_RT_Callbacktype_RT_Deinit = 7
} LL_ATON_RT_Callbacktype_t;

typedef enum { CHPos_UNDEFINED, CHPos_First, CHPos_Last, CHPos_Mixed } Buffer_CHPos_TypeDef;

typedef enum {
    DataType_UNDEFINED, DataType_FLOAT, DataType_UINT8, DataType_INT8, DataType_UINT16,
    DataType_INT16, DataType_INT32, DataType_BOOL, DataType_INT64
} Buffer_DataType_TypeDef;

typedef struct {
    const char *name;
    union { unsigned char *p; uintptr_t i; } addr_base;
    uint32_t offset_start, offset_end, offset_limit;
    uint8_t is_user_allocated, is_param;
    uint16_t epoch;
    uint32_t batch;
    const uint32_t *mem_shape;
    uint16_t mem_ndims;
    Buffer_CHPos_TypeDef chpos;
    int8_t Qm, Qn;
    uint8_t Qunsigned;
    Buffer_DataType_TypeDef type;
    uint8_t nbits, ndims, per_channel;
    const uint32_t *shape;
    const float *scale;
    const int16_t *offset;
} LL_Buffer_InfoTypeDef;

typedef struct LL_ATON_RT_EpochBlockItem {
    uint32_t flags; /* EpochBlock_Flags_... */
    int16_t epoch_num, last_epoch_num;
} LL_ATON_RT_EpochBlockItem_t;
typedef LL_ATON_RT_EpochBlockItem_t EpochBlock_ItemTypeDef;

enum { EpochBlock_Flags_pure_hw = 16, EpochBlock_Flags_pure_sw = 32 };

struct npuforge_network;

typedef struct {
    const char *network_name;
    struct npuforge_network *npuforge;
    const EpochBlock_ItemTypeDef *(*epoch_block_items)(void);
    const LL_Buffer_InfoTypeDef *(*input_buffers_info)(void);
    const LL_Buffer_InfoTypeDef *(*output_buffers_info)(void);
    const LL_Buffer_InfoTypeDef *(*internal_buffers_info)(void);
} NN_Interface_TypeDef;

typedef struct NN_Instance {
    const NN_Interface_TypeDef *network;
} NN_Instance_TypeDef;

typedef void (*TraceRuntime_FuncPtr_t)(LL_ATON_RT_Callbacktype_t type);
typedef void (*TraceEpochBlock_FuncPtr_t)(LL_ATON_RT_Callbacktype_t type,
                                          const NN_Instance_TypeDef *instance,
                                          const LL_ATON_RT_EpochBlockItem_t *block);

#define LL_ATON_DECLARE_NAMED_NN_PROTOS(name)                                                      \
    extern struct npuforge_network npuforge_network_##name;                                        \
    extern const EpochBlock_ItemTypeDef *LL_ATON_EpochBlockItems_##name(void);                     \
    extern const LL_Buffer_InfoTypeDef *LL_ATON_Input_Buffers_Info_##name(void);                   \
    extern const LL_Buffer_InfoTypeDef *LL_ATON_Output_Buffers_Info_##name(void);                  \
    extern const LL_Buffer_InfoTypeDef *LL_ATON_Internal_Buffers_Info_##name(void);                \
    extern LL_ATON_User_IO_Result_t LL_ATON_Set_User_Input_Buffer_##name(uint32_t, void *,         \
                                                                         uint32_t);               \
    extern LL_ATON_User_IO_Result_t LL_ATON_Set_User_Output_Buffer_##name(uint32_t, void *,        \
                                                                          uint32_t);              \
    extern void *LL_ATON_Get_User_Input_Buffer_##name(uint32_t);                                   \
    extern void *LL_ATON_Get_User_Output_Buffer_##name(uint32_t)

#define LL_ATON_DECLARE_NAMED_NN_INTERFACE(name)                                                   \
    LL_ATON_DECLARE_NAMED_NN_PROTOS(name);                                                         \
    static const NN_Interface_TypeDef NN_Interface_##name __attribute__((unused)) = {              \
        #name, &npuforge_network_##name, LL_ATON_EpochBlockItems_##name,                           \
        LL_ATON_Input_Buffers_Info_##name, LL_ATON_Output_Buffers_Info_##name,                     \
        LL_ATON_Internal_Buffers_Info_##name}

#define LL_ATON_DECLARE_NAMED_NN_INSTANCE(name, interface)                                         \
    static NN_Instance_TypeDef NN_Instance_##name __attribute__((unused)) = {interface}

#define LL_ATON_DECLARE_NAMED_NN_INSTANCE_AND_INTERFACE(name)                                      \
    LL_ATON_DECLARE_NAMED_NN_INTERFACE(name);                                                      \
    LL_ATON_DECLARE_NAMED_NN_INSTANCE(name, &NN_Interface_##name);

void LL_ATON_RT_RuntimeInit(void);
void LL_ATON_RT_RuntimeDeInit(void);
void LL_ATON_RT_Init_Network(NN_Instance_TypeDef *instance);
void LL_ATON_RT_DeInit_Network(NN_Instance_TypeDef *instance);
void LL_ATON_RT_Reset_Network(NN_Instance_TypeDef *instance);
LL_ATON_RT_RetValues_t LL_ATON_RT_RunEpochBlock(NN_Instance_TypeDef *instance);
void LL_ATON_RT_Main(NN_Instance_TypeDef *instance);
void LL_ATON_RT_SetRuntimeCallback(TraceRuntime_FuncPtr_t callback);
void LL_ATON_RT_SetNetworkCallback(NN_Instance_TypeDef *instance, TraceEpochBlock_FuncPtr_t callback);
void LL_ATON_RT_SetEpochCallback(TraceEpochBlock_FuncPtr_t callback, NN_Instance_TypeDef *instance);
void LL_ATON_OSAL_WFE(void);

/* Keys of memory that is not encrypted, and units' clocks: nothing to do here. */
static inline int LL_Busif_SetKeys(int unit, int key, uint64_t low, uint64_t high)
{
    return (void)unit, (void)key, (void)low, (void)high, 0;
}
#define ATON_CLKCTRL_CTRL_GET(unit) ((uint32_t)(unit) * 0u)
#define ATON_CLKCTRL_CTRL_SET_CLR(value, bit) ((value) | (uint32_t)(bit))
#define ATON_CLKCTRL_CTRL_SET(unit, value) ((void)(unit), (void)(value))

const LL_Buffer_InfoTypeDef *LL_ATON_Input_Buffers_Info(const NN_Instance_TypeDef *instance);
const LL_Buffer_InfoTypeDef *LL_ATON_Output_Buffers_Info(const NN_Instance_TypeDef *instance);
LL_ATON_User_IO_Result_t LL_ATON_Set_User_Input_Buffer(NN_Instance_TypeDef *instance, uint32_t index,
                                                       void *buffer, uint32_t bytes);
LL_ATON_User_IO_Result_t LL_ATON_Set_User_Output_Buffer(NN_Instance_TypeDef *instance, uint32_t index,
                                                        void *buffer, uint32_t bytes);
void *LL_ATON_Get_User_Input_Buffer(NN_Instance_TypeDef *instance, uint32_t index);
void *LL_ATON_Get_User_Output_Buffer(NN_Instance_TypeDef *instance, uint32_t index);

/* (address, size), where mcu_cache_* and npu_cache_* take (start, end). */
void LL_ATON_Cache_MCU_Clean_Range(uintptr_t address, uint32_t bytes);
void LL_ATON_Cache_MCU_Invalidate_Range(uintptr_t address, uint32_t bytes);
void LL_ATON_Cache_MCU_Clean_Invalidate_Range(uintptr_t address, uint32_t bytes);
void LL_ATON_Cache_NPU_Invalidate(void);
void LL_ATON_Cache_NPU_Clean_Range(uintptr_t address, uint32_t bytes);
void LL_ATON_Cache_NPU_Clean_Invalidate_Range(uintptr_t address, uint32_t bytes);

static inline unsigned char *LL_Buffer_addr_base(const LL_Buffer_InfoTypeDef *buffer)
{
    return buffer->addr_base.p;
}

static inline unsigned char *LL_Buffer_addr_start(const LL_Buffer_InfoTypeDef *buffer)
{
    return buffer->addr_base.p + buffer->offset_start;
}

static inline unsigned char *LL_Buffer_addr_end(const LL_Buffer_InfoTypeDef *buffer)
{
    return buffer->addr_base.p + buffer->offset_end;
}

static inline uint32_t LL_Buffer_len(const LL_Buffer_InfoTypeDef *buffer)
{
    return buffer->offset_end - buffer->offset_start;
}

static inline uint32_t LL_Buffer_bits(const LL_Buffer_InfoTypeDef *buffer)
{
    return LL_Buffer_len(buffer) * 8u;
}

#ifdef __cplusplus
}
#endif
#endif
