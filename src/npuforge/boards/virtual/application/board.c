/* Calls of an application: caches, clocks, the life cycle of a network. */
#include "board.h"
#include "threads.h"

#include "stm32n6xx_hal.h"

#include <stdlib.h>
#include <string.h>

#define AXISRAM3_BASE 0x34200000u
#define AXISRAM_BANK 0x70000u /* 448 KiB each, banks 3 to 6 */
#define NO_SIZE 0x10000000    /* no buffer is that large: an address was given */
#define MOST_DELAY 12u

typedef enum phase { ABSENT, READY, RUNNING, DONE } phase;

static struct {
    const NN_Instance_TypeDef *instance;
    phase phase;
    TraceEpochBlock_FuncPtr_t callback;
} sessions[16];

extern const uint8_t __executable_start[], _end[];

static int runtime_ready, npu_cache_on;
static int running = -1;
static uint32_t delay, inference, ticks, waits;
static vb_place run_at;
static TraceRuntime_FuncPtr_t runtime_callback;

/* --- buses ------------------------------------------------------------------------------------ */

/* Constants are in the program's image and not modelled: nobody writes them. */
static int readable(uintptr_t address)
{
    return vb_bus(address) || vb_in_stack(address) ||
           address - (uintptr_t)__executable_start < (uintptr_t)(_end - __executable_start);
}

static int coupled(uintptr_t address)
{
    for (uint32_t i = 0; i < vb_uncached_count; ++i) {
        const vb_section *s = &vb_uncached_sections[i];
        if (s->coupled && address >= s->span.base && address < s->span.end)
            return 1;
    }
    return 0;
}

void vb_bus_read(uintptr_t from, void *to, uint32_t bytes, vb_place place)
{
    const uint8_t *bus = vb_bus(from);
    vb_master_reads(from, bytes, place);
    if (readable(from))
        memcpy(to, bus ? bus : (const uint8_t *)from, bytes);
    else
        memset(to, 0, bytes);
}

void vb_bus_write(uintptr_t to, const void *from, uint32_t bytes, vb_place place)
{
    uint8_t *bus = vb_bus(to);
    vb_master_writes(to, bytes, place);
    if (bus || vb_in_stack(to))
        memcpy(bus ? bus : (uint8_t *)to, from, bytes);
    vb_master_wrote(to, bytes, place);
}

void vb_check_memory(uintptr_t address, vb_place place)
{
    vb_place freed_at = 0;
    if (vb_in_stack(address))
        vb_report(VB_STACK_BUFFER, address, place, place, 0);
    else if (!readable(address) || coupled(address))
        vb_report(VB_UNREACHABLE, address, place, place, 0);
    else if (vb_is_freed(address, &freed_at))
        vb_report(VB_FREED, address, freed_at, place, 0);
}

void vb_check_buffer(uintptr_t address, vb_place place)
{
    vb_check_memory(address, place);
    if (address % CORTEX_M55_LINE != 0)
        vb_report(VB_MISALIGNED, address, place, place, 0);
}

uint32_t vb_now(void) { return ticks; }

void vb_event(vb_place place)
{
    vb_check_time(place);
    vb_last = place;
    ++ticks;
    vb_traffic();
    vb_camera_tick(place);
}

/* --- data cache ------------------------------------------------------------------------------- */

void vb_by_address(uintptr_t address, int32_t bytes, int what, vb_place place)
{
    vb_last = place;
    if (bytes >= NO_SIZE || (bytes < 0 && (uintptr_t)(uint32_t)bytes > address))
        vb_report(VB_END_NOT_SIZE, address, place, place, 0);
    else if (bytes > 0)
        vb_maintain(address, (uintptr_t)bytes, what, place);
}

static int by_range(uint32_t start, uint32_t end, int what, vb_place place)
{
    vb_last = place;
    if (end < start)
        vb_report(VB_END_NOT_SIZE, start, place, place, 0);
    else
        vb_maintain(start, end - start, what, place);
    return 0;
}

static void all(int what, vb_place place)
{
    vb_last = place;
    vb_maintain_all(what, place);
}

#define BOTH (VB_CLEAN | VB_INVALIDATE)

void SCB_EnableICache(void) {}
void SCB_DisableICache(void) {}
void SCB_InvalidateICache(void) {}
void SCB_EnableDCache(void) { vb_enable(1); }
void SCB_CleanDCache(void) { all(VB_CLEAN, HERE); }
void SCB_InvalidateDCache(void) { all(VB_INVALIDATE, HERE); }
void SCB_CleanInvalidateDCache(void) { all(BOTH, HERE); }

void SCB_DisableDCache(void)
{
    all(BOTH, HERE);
    vb_enable(0);
}

void SCB_CleanDCache_by_Addr(volatile void *address, int32_t bytes)
{
    vb_by_address((uintptr_t)address, bytes, VB_CLEAN, HERE);
}

void SCB_InvalidateDCache_by_Addr(volatile void *address, int32_t bytes)
{
    vb_by_address((uintptr_t)address, bytes, VB_INVALIDATE, HERE);
}

void SCB_CleanInvalidateDCache_by_Addr(volatile void *address, int32_t bytes)
{
    vb_by_address((uintptr_t)address, bytes, BOTH, HERE);
}

int mcu_cache_enabled(void) { return vb_enabled(); }

int mcu_cache_enable(void)
{
    vb_enable(1);
    return 0;
}

int mcu_cache_disable(void)
{
    all(BOTH, HERE);
    vb_enable(0);
    return 0;
}

int mcu_cache_clean(void)
{
    all(VB_CLEAN, HERE);
    return 0;
}

int mcu_cache_invalidate(void)
{
    all(VB_INVALIDATE, HERE);
    return 0;
}

int mcu_cache_clean_invalidate(void)
{
    all(BOTH, HERE);
    return 0;
}

int mcu_cache_clean_range(uint32_t start, uint32_t end)
{
    return by_range(start, end, VB_CLEAN, HERE);
}

int mcu_cache_invalidate_range(uint32_t start, uint32_t end)
{
    return by_range(start, end, VB_INVALIDATE, HERE);
}

int mcu_cache_clean_invalidate_range(uint32_t start, uint32_t end)
{
    return by_range(start, end, BOTH, HERE);
}

void LL_ATON_Cache_MCU_Clean_Range(uintptr_t address, uint32_t bytes)
{
    vb_by_address(address, (int32_t)bytes, VB_CLEAN, HERE);
}

void LL_ATON_Cache_MCU_Invalidate_Range(uintptr_t address, uint32_t bytes)
{
    vb_by_address(address, (int32_t)bytes, VB_INVALIDATE, HERE);
}

void LL_ATON_Cache_MCU_Clean_Invalidate_Range(uintptr_t address, uint32_t bytes)
{
    vb_by_address(address, (int32_t)bytes, BOTH, HERE);
}

/* --- the NPU's cache: per input, the bytes it held at its last run ---------------------------- */

void vb_forget_npu_cache(uintptr_t base, uintptr_t end, vb_place place)
{
    vb_last = place;
    for (uint32_t n = 0; n < vb_network_count; ++n) {
        npuforge_network *network = vb_networks[n];
        for (uint32_t i = 0; i < network->input_count; ++i) {
            const uintptr_t at = (uintptr_t)LL_Buffer_addr_start(&network->inputs[i]);
            if (at < end && at + LL_Buffer_len(&network->inputs[i]) > base) {
                free(network->seen[i]);
                network->seen[i] = NULL;
            }
        }
    }
}

void npu_cache_init(void) { npu_cache_on = 1; }
void npu_cache_enable(void) { npu_cache_on = 1; }

void npu_cache_disable(void)
{
    vb_forget_npu_cache(0, UINTPTR_MAX, HERE);
    npu_cache_on = 0;
}

void npu_cache_invalidate(void) { vb_forget_npu_cache(0, UINTPTR_MAX, HERE); }

/* a clean leaves the lines where they are */
void npu_cache_clean_range(uint32_t start, uint32_t end)
{
    if (end < start)
        vb_report(VB_END_NOT_SIZE, start, HERE, HERE, 0);
}

void npu_cache_clean_invalidate_range(uint32_t start, uint32_t end)
{
    if (end < start)
        vb_report(VB_END_NOT_SIZE, start, HERE, HERE, 0);
    else
        vb_forget_npu_cache(start, end, HERE);
}

void LL_ATON_Cache_NPU_Invalidate(void) { vb_forget_npu_cache(0, UINTPTR_MAX, HERE); }
void LL_ATON_Cache_NPU_Clean_Range(uintptr_t address, uint32_t bytes)
{
    (void)address;
    (void)bytes;
}

void LL_ATON_Cache_NPU_Clean_Invalidate_Range(uintptr_t address, uint32_t bytes)
{
    vb_forget_npu_cache(address, address + bytes, HERE);
}

CACHEAXI_TypeDef npuforge_cacheaxi = {NPUFORGE_CACHEAXI};

HAL_StatusTypeDef HAL_CACHEAXI_Init(CACHEAXI_HandleTypeDef *handle)
{
    return handle && handle->Instance ? HAL_OK : HAL_ERROR;
}

HAL_StatusTypeDef HAL_CACHEAXI_Enable(CACHEAXI_HandleTypeDef *handle)
{
    static int busy_calls = 2;
    (void)handle;
    if (busy_calls-- > 0)
        return HAL_BUSY;
    npu_cache_on = 1;
    return HAL_OK;
}

HAL_StatusTypeDef HAL_CACHEAXI_Disable(CACHEAXI_HandleTypeDef *handle)
{
    (void)handle;
    vb_forget_npu_cache(0, UINTPTR_MAX, HERE);
    npu_cache_on = 0;
    return HAL_OK;
}

HAL_StatusTypeDef HAL_CACHEAXI_Invalidate(CACHEAXI_HandleTypeDef *handle)
{
    (void)handle;
    vb_forget_npu_cache(0, UINTPTR_MAX, HERE);
    return HAL_OK;
}

HAL_StatusTypeDef HAL_CACHEAXI_CleanByAddr(CACHEAXI_HandleTypeDef *handle, const uint32_t *address,
                                           uint32_t bytes)
{
    (void)handle;
    (void)address;
    (void)bytes;
    return HAL_OK;
}

HAL_StatusTypeDef HAL_CACHEAXI_CleanInvalidByAddr(CACHEAXI_HandleTypeDef *handle,
                                                  const uint32_t *address, uint32_t bytes)
{
    (void)handle;
    vb_forget_npu_cache((uintptr_t)address, (uintptr_t)address + bytes, HERE);
    return HAL_OK;
}

/* --- clocks and time -------------------------------------------------------------------------- */

RAMCFG_TypeDef npuforge_ramcfg[NPUFORGE_UNITS] = {
    {NPUFORGE_AXISRAM1, 0}, {NPUFORGE_AXISRAM2, 0},
    {NPUFORGE_AXISRAM3, RAMCFG_CR_SRAMSD}, {NPUFORGE_AXISRAM4, RAMCFG_CR_SRAMSD},
    {NPUFORGE_AXISRAM5, RAMCFG_CR_SRAMSD}, {NPUFORGE_AXISRAM6, RAMCFG_CR_SRAMSD}};
static uint8_t clocked[NPUFORGE_UNITS], ramcfg_used;
static int clocks_used;

/* An application that switches no bank leaves the bring-up to others: every bank is on then. */
void npuforge_clock(int unit, int on)
{
    vb_last = HERE;
    clocks_used |= unit <= NPUFORGE_AXISRAM6;
    if (unit == NPUFORGE_RAMCFG && on && !clocked[unit])
        /* writes to a register whose clock was off were dropped; without this call, somebody else's
         * code has switched it on */
        for (int bank = NPUFORGE_AXISRAM3; bank <= NPUFORGE_AXISRAM6; ++bank)
            npuforge_ramcfg[bank].CR |= ramcfg_used ? 0u : RAMCFG_CR_SRAMSD;
    ramcfg_used |= unit == NPUFORGE_RAMCFG && on;
    clocked[unit] = (uint8_t)on;
}

HAL_StatusTypeDef HAL_RAMCFG_EnableAXISRAM(RAMCFG_HandleTypeDef *handle)
{
    vb_last = HERE;
    clocks_used = 1;
    handle->Instance->CR &= ~RAMCFG_CR_SRAMSD;
    return HAL_OK;
}

HAL_StatusTypeDef HAL_RAMCFG_DisableAXISRAM(RAMCFG_HandleTypeDef *handle)
{
    vb_last = HERE;
    clocks_used = 1;
    handle->Instance->CR |= RAMCFG_CR_SRAMSD;
    return HAL_OK;
}

static void check_banks(uintptr_t base, uintptr_t end)
{
    for (int unit = NPUFORGE_AXISRAM3; clocks_used && unit <= NPUFORGE_AXISRAM6; ++unit) {
        const uintptr_t bank = AXISRAM3_BASE + (uintptr_t)(unit - NPUFORGE_AXISRAM3) * AXISRAM_BANK;
        if (base < bank + AXISRAM_BANK && end > bank &&
            (!clocked[unit] || (npuforge_ramcfg[unit].CR & RAMCFG_CR_SRAMSD)))
            vb_report(VB_UNCLOCKED, base > bank ? base : bank, run_at, run_at, 0);
    }
}

HAL_StatusTypeDef HAL_Init(void) { return HAL_OK; }
void HAL_IncTick(void) { ++ticks; }

uint32_t HAL_GetTick(void)
{
    vb_event(HERE);
    vb_safe_point();
    return ticks;
}

void HAL_Delay(uint32_t milliseconds)
{
    for (uint32_t i = 0; i <= milliseconds && i < 64u; ++i) {
        vb_event(HERE);
        vb_safe_point();
    }
}

void vb_wait(vb_place place)
{
    vb_event(place);
    vb_safe_point();
    if (running >= 0 && delay > 0) {
        waits = 0;
        --delay;
    } else if (++waits > 10000u) {
        /* nothing is under way that could wake the processor, or its end is not asked for */
        vb_report(VB_HANG, 0, place, place, 0);
        vb_finish();
    }
}

void __WFE(void) { vb_wait(HERE); }
void __WFI(void) { vb_wait(HERE); }

/* The runtime waits for a semaphore of the operating system where there is one. */
void LL_ATON_OSAL_WFE(void)
{
    vb_wait(HERE);
    if (vb_threads_running())
        vb_pause(1, HERE);
}

/* --- networks --------------------------------------------------------------------------------- */

static int session_of(const NN_Instance_TypeDef *instance)
{
    for (uint32_t i = 0; i < sizeof sessions / sizeof sessions[0]; ++i)
        if (sessions[i].instance == instance || !sessions[i].instance) {
            sessions[i].instance = instance;
            return (int)i;
        }
    return -1;
}

static uint8_t *place_of(const npuforge_network *n, const LL_Buffer_InfoTypeDef *io, uint32_t i,
                         int output)
{
    if (!io->is_user_allocated)
        return LL_Buffer_addr_start(io);
    return output ? n->bound_outputs[i] : n->bound_inputs[i];
}

/* Where the compiler put a buffer of the network is its own business. */
static void check_io(const LL_Buffer_InfoTypeDef *io, uintptr_t at)
{
    if (io->is_user_allocated)
        vb_check_buffer(at, run_at);
    else
        vb_check_memory(at, run_at);
}

static void read_input(npuforge_network *n, uint32_t i, uint8_t *to)
{
    const uint32_t bytes = LL_Buffer_len(&n->inputs[i]);
    const uintptr_t at = (uintptr_t)place_of(n, &n->inputs[i], i, 0);
    const int kept = npu_cache_on && n->input_in_cache[i] && !n->inputs[i].is_user_allocated;
    check_io(&n->inputs[i], at);
    check_banks(at, at + bytes);
    vb_camera_used(at, bytes, 1, run_at);
    vb_bus_read(at, to, bytes, run_at);
    if (kept && n->seen[i] && memcmp(n->seen[i], to, bytes) != 0) {
        vb_report(VB_STALE_NPU_CACHE, at, run_at, run_at, 0);
        memcpy(to, n->seen[i], bytes);
    } else if (kept && !n->seen[i]) {
        n->seen[i] = malloc(bytes ? bytes : 1);
        if (!n->seen[i])
            abort();
        memcpy(n->seen[i], to, bytes);
    }
}

static void write_output(npuforge_network *n, uint32_t i, const uint8_t *from)
{
    const uint32_t bytes = LL_Buffer_len(&n->outputs[i]);
    const uintptr_t at = (uintptr_t)place_of(n, &n->outputs[i], i, 1);
    check_io(&n->outputs[i], at);
    check_banks(at, at + bytes);
    if (n->output_by_cpu[i] && vb_bus(at)) {
        memcpy(vb_bus(at), from, bytes);
        vb_software_wrote(at, bytes);
    } else {
        vb_bus_write(at, from, bytes, run_at);
    }
}

/* Intermediate results: what they are does not matter, that they are written does. */
static void write_scratch(const npuforge_network *n)
{
    for (uint32_t i = 0; i < n->scratch_count; ++i) {
        const uintptr_t base = n->scratch[i].base;
        const uint32_t bytes = (uint32_t)(n->scratch[i].end - base);
        uint8_t *noise = malloc(bytes);
        if (!noise)
            abort();
        check_banks(base, n->scratch[i].end);
        memset(noise, (int)vb_random(256), bytes);
        vb_bus_write(base, noise, bytes, run_at);
        free(noise);
    }
}

static int bound(const npuforge_network *n)
{
    for (uint32_t i = 0; i < n->input_count; ++i)
        if (n->inputs[i].is_user_allocated && !n->bound_inputs[i])
            return 0;
    for (uint32_t i = 0; i < n->output_count; ++i)
        if (n->outputs[i].is_user_allocated && !n->bound_outputs[i])
            return 0;
    return 1;
}

/* The whole run happens on the bus at its start; it ends later. */
static int start(int number, vb_place place)
{
    npuforge_network *n = sessions[number].instance->network->npuforge;
    uint8_t *in[32], *out[32];
    if (!vb_may_start())
        vb_finish();
    run_at = place;
    vb_inference(++inference);
    if (!bound(n)) {
        vb_report(VB_NOT_BOUND, 0, place, place, 0);
        return -1;
    }
    vb_traffic();
    for (uint32_t i = 0; i < n->input_count; ++i) {
        in[i] = malloc(LL_Buffer_len(&n->inputs[i]));
        if (!in[i])
            abort();
        read_input(n, i, in[i]);
    }
    for (uint32_t i = 0; i < n->output_count; ++i)
        if (!(out[i] = malloc(LL_Buffer_len(&n->outputs[i]))))
            abort();
    vb_compute(n, in, out);
    write_scratch(n);
    for (uint32_t i = 0; i < n->output_count; ++i) {
        write_output(n, i, out[i]);
        vb_hold((uintptr_t)place_of(n, &n->outputs[i], i, 1), LL_Buffer_len(&n->outputs[i]), 1,
                place);
        free(out[i]);
    }
    for (uint32_t i = 0; i < n->input_count; ++i) {
        vb_hold((uintptr_t)place_of(n, &n->inputs[i], i, 0), LL_Buffer_len(&n->inputs[i]), 0,
                place);
        free(in[i]);
    }
    for (uint32_t i = 0; i < n->scratch_count; ++i)
        vb_hold(n->scratch[i].base, n->scratch[i].end - n->scratch[i].base, 1, place);
    running = number;
    delay = 1u + vb_random(MOST_DELAY);
    return 0;
}

void vb_runtime_init(vb_place place)
{
    vb_last = place;
    runtime_ready = 1;
    if (runtime_callback)
        runtime_callback(LL_ATON_RT_Callbacktype_RT_Init);
}

void LL_ATON_RT_RuntimeInit(void) { vb_runtime_init(HERE); }

void LL_ATON_RT_RuntimeDeInit(void)
{
    vb_last = HERE;
    runtime_ready = 0;
    if (runtime_callback)
        runtime_callback(LL_ATON_RT_Callbacktype_RT_Deinit);
}

/* One block stands for the whole network; there is none at its init and de-init. */
static void tell(int number, LL_ATON_RT_Callbacktype_t type)
{
    static const LL_ATON_RT_EpochBlockItem_t block = {EpochBlock_Flags_pure_hw, 1, 1};
    if (sessions[number].callback)
        sessions[number].callback(type, sessions[number].instance,
                                  type >= LL_ATON_RT_Callbacktype_NN_Init ? NULL : &block);
}

void vb_init_network(NN_Instance_TypeDef *instance, vb_place place)
{
    const int number = session_of(instance);
    vb_last = place;
    sessions[number].phase = READY;
    tell(number, LL_ATON_RT_Callbacktype_NN_Init);
}

void LL_ATON_RT_Init_Network(NN_Instance_TypeDef *instance) { vb_init_network(instance, HERE); }

void LL_ATON_RT_DeInit_Network(NN_Instance_TypeDef *instance)
{
    const int number = session_of(instance);
    vb_last = HERE;
    tell(number, LL_ATON_RT_Callbacktype_NN_DeInit);
    sessions[number].phase = ABSENT;
}

void vb_reset(NN_Instance_TypeDef *instance, vb_place place)
{
    const int number = session_of(instance);
    vb_last = place;
    if (sessions[number].phase == RUNNING) {
        vb_report(VB_RESET_IN_FLIGHT, 0, place, run_at, 0);
        vb_let_go();
        running = -1;
    }
    if (sessions[number].phase != ABSENT)
        sessions[number].phase = READY;
}

void LL_ATON_RT_Reset_Network(NN_Instance_TypeDef *instance) { vb_reset(instance, HERE); }

LL_ATON_RT_RetValues_t vb_run_block(NN_Instance_TypeDef *instance, vb_place place)
{
    const int number = session_of(instance);
    vb_event(place);
    if (!runtime_ready || sessions[number].phase == ABSENT) {
        vb_report(VB_NOT_INITIALISED, 0, place, place, 0);
        return LL_ATON_RT_WFE;
    }
    if (sessions[number].phase == DONE) {
        if (!vb_may_start())
            vb_finish();
        vb_report(VB_NOT_RESET, 0, place, run_at, 0);
        return LL_ATON_RT_DONE;
    }
    if (sessions[number].phase == READY) {
        tell(number, LL_ATON_RT_Callbacktype_PRE_START);
        if (start(number, place) != 0)
            return LL_ATON_RT_WFE;
        sessions[number].phase = RUNNING;
        tell(number, LL_ATON_RT_Callbacktype_POST_START);
        return LL_ATON_RT_WFE;
    }
    waits = 0;
    if (delay > 0) {
        --delay;
        return vb_random(3) ? LL_ATON_RT_WFE : LL_ATON_RT_NO_WFE;
    }
    tell(number, LL_ATON_RT_Callbacktype_PRE_END);
    vb_let_go();
    running = -1;
    sessions[number].phase = DONE;
    tell(number, LL_ATON_RT_Callbacktype_POST_END);
    return LL_ATON_RT_DONE;
}

LL_ATON_RT_RetValues_t LL_ATON_RT_RunEpochBlock(NN_Instance_TypeDef *instance)
{
    return vb_run_block(instance, HERE);
}

void LL_ATON_RT_Main(NN_Instance_TypeDef *instance)
{
    const vb_place place = HERE;
    LL_ATON_RT_RetValues_t answer;
    vb_runtime_init(place);
    vb_init_network(instance, place);
    do {
        answer = vb_run_block(instance, place);
        if (answer == LL_ATON_RT_WFE)
            vb_wait(place);
    } while (answer != LL_ATON_RT_DONE);
    sessions[session_of(instance)].phase = ABSENT;
}

void LL_ATON_RT_SetRuntimeCallback(TraceRuntime_FuncPtr_t callback) { runtime_callback = callback; }

void LL_ATON_RT_SetNetworkCallback(NN_Instance_TypeDef *instance, TraceEpochBlock_FuncPtr_t callback)
{
    sessions[session_of(instance)].callback = callback;
}

void LL_ATON_RT_SetEpochCallback(TraceEpochBlock_FuncPtr_t callback, NN_Instance_TypeDef *instance)
{
    LL_ATON_RT_SetNetworkCallback(instance, callback);
}

/* --- buffers of a network --------------------------------------------------------------------- */

const LL_Buffer_InfoTypeDef *LL_ATON_Input_Buffers_Info(const NN_Instance_TypeDef *instance)
{
    return instance->network->npuforge->inputs;
}

const LL_Buffer_InfoTypeDef *LL_ATON_Output_Buffers_Info(const NN_Instance_TypeDef *instance)
{
    return instance->network->npuforge->outputs;
}

LL_ATON_User_IO_Result_t vb_bind(npuforge_network *n, int output, uint32_t index, void *buffer,
                                 uint32_t bytes, vb_place place)
{
    const LL_Buffer_InfoTypeDef *io = output ? n->outputs : n->inputs;
    vb_last = place;
    if (index >= (output ? n->output_count : n->input_count) || !io[index].is_user_allocated) {
        vb_report(VB_NOT_BOUND, (uintptr_t)buffer, place, place, 0);
        return LL_ATON_User_IO_WRONG_INDEX;
    }
    if ((uintptr_t)buffer % CORTEX_M55_LINE != 0) {
        vb_report(VB_MISALIGNED, (uintptr_t)buffer, place, place, 0);
        return LL_ATON_User_IO_WRONG_ALIGN;
    }
    if (bytes != LL_Buffer_len(&io[index]))
        return LL_ATON_User_IO_WRONG_SIZE;
    *(output ? &n->bound_outputs[index] : &n->bound_inputs[index]) = buffer;
    return LL_ATON_User_IO_NOERROR;
}

LL_ATON_User_IO_Result_t LL_ATON_Set_User_Input_Buffer(NN_Instance_TypeDef *instance, uint32_t index,
                                                       void *buffer, uint32_t bytes)
{
    return vb_bind(instance->network->npuforge, 0, index, buffer, bytes, HERE);
}

LL_ATON_User_IO_Result_t LL_ATON_Set_User_Output_Buffer(NN_Instance_TypeDef *instance, uint32_t index,
                                                        void *buffer, uint32_t bytes)
{
    return vb_bind(instance->network->npuforge, 1, index, buffer, bytes, HERE);
}

void *LL_ATON_Get_User_Input_Buffer(NN_Instance_TypeDef *instance, uint32_t index)
{
    const npuforge_network *n = instance->network->npuforge;
    return index < n->input_count ? n->bound_inputs[index] : NULL;
}

void *LL_ATON_Get_User_Output_Buffer(NN_Instance_TypeDef *instance, uint32_t index)
{
    const npuforge_network *n = instance->network->npuforge;
    return index < n->output_count ? n->bound_outputs[index] : NULL;
}
