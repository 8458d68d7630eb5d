#include "nf/runtime.h"

#include <string.h>

#include "registry.h"
#include "stage.h"

/* Most ranges cleaned by one submit before they are issued in a further batch. */
#define BATCH 16u

static nf_range io_range(const nf_network *network, const nf_io *io)
{
    const nf_range range = {(uintptr_t)network->spaces[io->space] + io->offset, io->bytes};
    return range;
}

static nf_range state_range(const nf_network *network, const nf_state *state)
{
    const nf_range range = {(uintptr_t)network->spaces[state->space] + state->offset, state->bytes};
    return range;
}

static uint32_t crc32_of(const uint8_t *data, uint32_t bytes)
{
    static const uint32_t table[16] = {
        0x00000000u, 0x1DB71064u, 0x3B6E20C8u, 0x26D930ACu, 0x76DC4190u, 0x6B6B51F4u,
        0x4DB26158u, 0x5005713Cu, 0xEDB88320u, 0xF00F9344u, 0xD6D6A3E8u, 0xCB61B38Cu,
        0x9B64C2B0u, 0x86D3D2D4u, 0xA00AE278u, 0xBDBDF21Cu};
    uint32_t crc = 0xFFFFFFFFu;
    for (uint32_t i = 0u; i < bytes; ++i) {
        crc ^= data[i];
        crc = (crc >> 4) ^ table[crc & 15u];
        crc = (crc >> 4) ^ table[crc & 15u];
    }
    return ~crc;
}

/* Whether what runs the networks sees another view of the memory than the CPU. Where the CPU itself
 * runs them, its cached view is the only one that counts: invalidating would discard results. */
static int other_view(const nf_config *config)
{
    return config->port->master != NF_REACH_CPU;
}

static nf_status check_weights(const nf_network *network)
{
    const uint8_t *data = network->spaces[0];
    const uint32_t bytes = network->space_bytes[0];
    if (crc32_of(data, bytes) == network->weights_crc)
        return NF_OK;
    uint32_t same = 1u;
    for (uint32_t i = 1u; i < bytes && data[i] == data[0]; ++i)
        ++same;
    const int erased = bytes != 0u && (data[0] == 0xFFu || data[0] == 0u);
    return erased && same == bytes ? NF_E_WEIGHTS_ABSENT : NF_E_WEIGHTS_WRONG;
}

static nf_status check_model(nf_runtime *runtime, const nf_model *model)
{
    const nf_config *config = runtime->config;
    const nf_network *network = model->network;
    if (network == NULL)
        return NF_E_ARGUMENT;
    if (network->abi != NF_ABI)
        return NF_E_VERSION;
    if (network->build != model->build)
        return NF_E_STALE_FIRMWARE;
    if (network->input_count > NF_MAX_IO || network->output_count > NF_MAX_IO)
        return NF_E_NO_ROOM;
    for (uint32_t i = 0u; i < network->space_count; ++i) {
        const nf_range range = nf_space(network, i);
        uint32_t pool = 0u;
        if (range.bytes == 0u)
            continue;
        /* the weights are read only, so the line at their end may be shared */
        const uint32_t line = config->port->cache_line != 0u ? config->port->cache_line : 1u;
        const nf_range lines = {range.base, nf_round_up(range.bytes, line)};
        const nf_status status = nf_check_range(config, i == 0u ? lines : range,
                                                nf_shared_alignment(config), config->port->master,
                                                &pool);
        if (status != NF_OK)
            return status;
        if (!other_view(config))
            continue;
        if (i > 0u)
            nf_invalidate(runtime, range);
        else if ((config->pools[pool].flags & NF_WRITABLE) != 0u)
            nf_clean(runtime, range);
    }
    return check_weights(network);
}

nf_status nf_init(nf_runtime *runtime, const nf_config *config)
{
    if (runtime == NULL || config == NULL || config->port == NULL)
        return NF_E_ARGUMENT;
    memset(runtime, 0, sizeof *runtime);
    const uint32_t alignment = config->alignment;
    if (config->model_count > NF_MAX_NETWORKS || (alignment & (alignment - 1u)) != 0u)
        return NF_E_ARGUMENT;
    runtime->config = config;
    nf_stage(config->port, "runtime_init", NF_OK);
    nf_status status = NF_OK;
    for (uint32_t i = 0u; i < config->model_count && status == NF_OK; ++i) {
        status = check_model(runtime, &config->models[i]);
        const nf_network *network = config->models[i].network;
        const nf_field fields[2] = {{"network", i}, {"build", network ? network->build : 0u}};
        nf_stage_fields(config->port, "network_init", status, fields, 2u);
    }
    if (status != NF_OK)
        return status;
    runtime->magic = NF_MAGIC;
    uint64_t bytes = 0u;
    for (uint32_t i = 0u; i < config->model_count; ++i)
        for (uint32_t s = 1u; s < config->models[i].network->space_count; ++s)
            bytes += config->models[i].network->space_bytes[s];
    const nf_field field = {"bytes", bytes};
    nf_stage_fields(config->port, "buffers", NF_OK, &field, 1u);
    return NF_OK;
}

/* The session and network of a model that is not in flight. */
static nf_status at_rest(nf_runtime *runtime, uint32_t model, nf_session **session,
                         const nf_network **network)
{
    if (!nf_ready(runtime))
        return NF_E_NOT_INITIALISED;
    if (model >= runtime->config->model_count)
        return NF_E_ARGUMENT;
    *session = &runtime->sessions[model];
    *network = runtime->config->models[model].network;
    return runtime->running == model + 1u ? NF_E_IN_FLIGHT : NF_OK;
}

static int networks_overlap(const nf_network *a, const nf_network *b)
{
    for (uint32_t i = 1u; i < a->space_count; ++i)
        for (uint32_t k = 1u; k < b->space_count; ++k)
            if (nf_overlap(nf_space(a, i), nf_space(b, k)))
                return 1;
    return 0;
}

/* Whether another network that is in flight uses the same memory. */
static int taken_by_other(const nf_runtime *runtime, const nf_network *network)
{
    return runtime->running != 0u && runtime->job.network != network &&
           networks_overlap(network, runtime->job.network);
}

static void forget_outputs(nf_session *session, const nf_network *network, nf_range range)
{
    for (uint32_t i = 0u; i < network->output_count; ++i)
        if (nf_overlap(range, io_range(network, &network->outputs[i])))
            session->ready &= ~(1u << i);
}

static nf_status open_input(nf_runtime *runtime, uint32_t model, uint32_t index,
                            nf_session **session, const nf_network **network)
{
    const nf_status status = at_rest(runtime, model, session, network);
    if (status != NF_OK)
        return status;
    if (index >= (*network)->input_count)
        return NF_E_ARGUMENT;
    return taken_by_other(runtime, *network) ? NF_E_IN_FLIGHT : NF_OK;
}

static void mark_filled(nf_session *session, const nf_network *network, uint32_t index)
{
    session->filled |= 1u << index;
    session->dirty |= 1u << index;
    forget_outputs(session, network, io_range(network, &network->inputs[index]));
}

nf_status nf_input_place(nf_runtime *runtime, uint32_t model, uint32_t index, void **data)
{
    nf_session *session = NULL;
    const nf_network *network = NULL;
    const nf_status status = open_input(runtime, model, index, &session, &network);
    if (status != NF_OK)
        return status;
    if (data == NULL)
        return NF_E_ARGUMENT;
    mark_filled(session, network, index);
    *data = nf_network_input(network, index);
    return NF_OK;
}

/* Whether a frame may be taken, by its number and age. */
static nf_status check_frame(nf_runtime *runtime, nf_session *session, const nf_frame *frame)
{
    const nf_config *config = runtime->config;
    const uint32_t step = frame->number - session->last_frame;
    if (session->has_frame != 0u && (step == 0u || step > UINT32_MAX / 2u)) {
        ++runtime->stats.frames_repeated;
        return NF_E_FRAME_REPEATED;
    }
    if (config->max_frame_age_us != 0u &&
        config->port->now_us() - frame->time_us > config->max_frame_age_us) {
        ++runtime->stats.frames_late;
        return NF_E_FRAME_LATE;
    }
    return NF_OK;
}

static void count_frame(nf_runtime *runtime, nf_session *session, const nf_frame *frame)
{
    if (session->has_frame != 0u)
        runtime->stats.frames_dropped += frame->number - session->last_frame - 1u;
    session->last_frame = frame->number;
    session->has_frame = 1u;
    ++runtime->stats.frames;
}

static int torn(const nf_frame *frame)
{
    return frame->counter != NULL && *frame->counter != frame->number;
}

nf_status nf_input(nf_runtime *runtime, uint32_t model, uint32_t index, const nf_frame *frame)
{
    nf_session *session = NULL;
    const nf_network *network = NULL;
    nf_status status = open_input(runtime, model, index, &session, &network);
    if (status != NF_OK)
        return status;
    if (frame == NULL || frame->data == NULL)
        return NF_E_ARGUMENT;
    const nf_io *io = &network->inputs[index];
    if (frame->bytes != io->bytes)
        return NF_E_SIZE;
    const nf_range source = {(uintptr_t)frame->data, frame->bytes};
    nf_slot *slot = nf_slot_of(runtime, source);
    if (slot == NULL) {
        uint32_t pool = 0u;
        status = nf_check_range(runtime->config, source, 1u, 0u, &pool);
        return status == NF_E_STACK || status == NF_E_HEAP ? status : NF_E_NOT_REGISTERED;
    }
    if (slot->info.owner != NF_REACH_CPU)
        return NF_E_IN_FLIGHT;
    if (index == 0u) {
        status = check_frame(runtime, session, frame);
        if (status != NF_OK)
            return status;
    }
    nf_refresh(runtime, slot);
    int changed = torn(frame);
    if (!changed) {
        mark_filled(session, network, index);
        memcpy(nf_network_input(network, index), frame->data, frame->bytes);
        runtime->config->port->barrier();
        changed = torn(frame);
    }
    if (changed) {
        session->filled &= ~(1u << index);
        ++runtime->stats.frames_torn;
        return NF_E_FRAME_TORN;
    }
    if (index == 0u)
        count_frame(runtime, session, frame);
    return NF_OK;
}

nf_status nf_reset(nf_runtime *runtime, uint32_t model)
{
    nf_session *session = NULL;
    const nf_network *network = NULL;
    const nf_status status = at_rest(runtime, model, &session, &network);
    if (status != NF_OK)
        return status;
    if (taken_by_other(runtime, network))
        return NF_E_IN_FLIGHT;
    /* stale lines must not come back with the bytes beside the variable */
    for (uint32_t i = 0u; i < network->state_count; ++i)
        if (other_view(runtime->config))
            nf_invalidate(runtime, state_range(network, &network->states[i]));
    nf_network_reset(network);
    session->states_dirty = network->state_count != 0u ? 1u : 0u;
    session->has_frame = 0u;
    return NF_OK;
}

/* Ranges to clean, no two of which touch: those that do become one. */
typedef struct batch {
    nf_range ranges[BATCH];
    uint32_t count;
} batch;

static void batch_flush(nf_runtime *runtime, batch *b)
{
    for (uint32_t i = 0u; i < b->count; ++i)
        nf_clean(runtime, b->ranges[i]);
    b->count = 0u;
}

static void batch_add(nf_runtime *runtime, batch *b, nf_range range)
{
    if (runtime->config->port->cache_line == 0u || !other_view(runtime->config))
        return;
    const nf_range lines = nf_whole_lines(runtime->config, range);
    uintptr_t low = lines.base;
    uintptr_t high = lines.base + lines.bytes;
    uint32_t kept = 0u;
    for (uint32_t i = 0u; i < b->count; ++i) {
        const nf_range other = b->ranges[i];
        if (other.base <= high && low <= other.base + other.bytes) {
            low = other.base < low ? other.base : low;
            high = other.base + other.bytes > high ? other.base + other.bytes : high;
        } else {
            b->ranges[kept] = other;
            ++kept;
        }
    }
    b->count = kept;
    if (b->count == BATCH)
        batch_flush(runtime, b);
    b->ranges[b->count].base = low;
    b->ranges[b->count].bytes = high - low;
    ++b->count;
}

static void clean_for_run(nf_runtime *runtime, nf_session *session, const nf_network *network)
{
    batch b;
    b.count = 0u;
    for (uint32_t i = 0u; i < network->input_count; ++i)
        if ((session->dirty >> i & 1u) != 0u)
            batch_add(runtime, &b, io_range(network, &network->inputs[i]));
    if (session->states_dirty != 0u)
        for (uint32_t i = 0u; i < network->state_count; ++i)
            batch_add(runtime, &b, state_range(network, &network->states[i]));
    batch_flush(runtime, &b);
    session->dirty = 0u;
    session->states_dirty = 0u;
}

static uint32_t bits(uint32_t count)
{
    return count >= 32u ? 0xFFFFFFFFu : (1u << count) - 1u;
}

nf_status nf_submit(nf_runtime *runtime, uint32_t model)
{
    nf_session *session = NULL;
    const nf_network *network = NULL;
    const nf_status status = at_rest(runtime, model, &session, &network);
    if (status != NF_OK)
        return status;
    if (runtime->running != 0u)
        return NF_E_IN_FLIGHT;
    if (session->filled != bits(network->input_count))
        return NF_E_NO_INPUT;
    const nf_config *config = runtime->config;
    clean_for_run(runtime, session, network);
    session->ready = 0u;
    session->filled = 0u;
    for (uint32_t i = 0u; i < config->model_count; ++i)
        if (i != model && networks_overlap(network, config->models[i].network)) {
            runtime->sessions[i].ready = 0u;
            runtime->sessions[i].filled = 0u;
        }
    runtime->job.network = network;
    runtime->job.number = runtime->stats.inferences + runtime->stats.failures;
    runtime->completed = 0u;
    runtime->started_us = config->port->now_us();
    runtime->running = model + 1u;
    if (config->log_runs != 0u) {
        const nf_field field = {"number", runtime->job.number};
        nf_stage_fields(config->port, "run", NF_OK, &field, 1u);
    }
    config->port->barrier();
    const nf_status started = config->port->submit(&runtime->job);
    if (started != NF_OK) {
        runtime->running = 0u;
        ++runtime->stats.failures;
    }
    return started;
}

static void finish(nf_runtime *runtime, nf_status status)
{
    const nf_config *config = runtime->config;
    nf_session *session = &runtime->sessions[runtime->running - 1u];
    const uint64_t spent = config->port->now_us() - runtime->started_us;
    runtime->stats.last_us = spent > UINT32_MAX ? UINT32_MAX : (uint32_t)spent;
    if (runtime->stats.last_us > runtime->stats.longest_us)
        runtime->stats.longest_us = runtime->stats.last_us;
    if (status == NF_OK) {
        session->ready = bits(runtime->job.network->output_count);
        ++runtime->stats.inferences;
    } else {
        ++runtime->stats.failures;
    }
    session->stale = bits(runtime->job.network->output_count);
    runtime->running = 0u;
    if (config->log_runs != 0u || status != NF_OK) {
        const nf_field fields[2] = {{"number", runtime->job.number},
                                    {"run_us", runtime->stats.last_us}};
        nf_stage_fields(config->port, "done", status, fields, 2u);
    }
}

nf_status nf_wait(nf_runtime *runtime, uint32_t timeout_us)
{
    if (!nf_ready(runtime))
        return NF_E_NOT_INITIALISED;
    if (runtime->running == 0u)
        return NF_E_IDLE;
    const nf_port *port = runtime->config->port;
    const uint64_t begin = port->now_us();
    for (;;) {
        nf_status status = NF_PENDING;
        if (runtime->completed != 0u)
            status = runtime->completion;
        else if (port->poll != NULL)
            status = port->poll();
        if (status != NF_PENDING) {
            finish(runtime, status);
            return status;
        }
        if (timeout_us == 0u)
            return NF_PENDING;
        if (port->now_us() - begin >= timeout_us)
            return NF_E_TIMEOUT;
        if (port->idle != NULL)
            port->idle();
    }
}

nf_status nf_run(nf_runtime *runtime, uint32_t model, uint32_t timeout_us)
{
    const nf_status status = nf_submit(runtime, model);
    return status == NF_OK ? nf_wait(runtime, timeout_us) : status;
}

nf_status nf_output(nf_runtime *runtime, uint32_t model, uint32_t index, const void **data)
{
    nf_session *session = NULL;
    const nf_network *network = NULL;
    const nf_status status = at_rest(runtime, model, &session, &network);
    if (status != NF_OK)
        return status;
    if (data == NULL || index >= network->output_count)
        return NF_E_ARGUMENT;
    *data = NULL;
    if ((session->ready >> index & 1u) == 0u)
        return NF_E_NO_OUTPUT;
    const nf_range range = io_range(network, &network->outputs[index]);
    if ((session->stale >> index & 1u) != 0u && other_view(runtime->config)) {
        nf_invalidate(runtime, range);
        session->stale &= ~(1u << index);
    }
    *data = (const void *)range.base;
    return NF_OK;
}

nf_status nf_on_completion(nf_runtime *runtime, nf_status status)
{
    if (!nf_ready(runtime))
        return NF_E_NOT_INITIALISED;
    if (runtime->running == 0u || runtime->completed != 0u) {
        ++runtime->stats.spurious;
        return NF_E_SPURIOUS;
    }
    runtime->completion = status;
    runtime->config->port->barrier();
    runtime->completed = 1u;
    return NF_OK;
}

void nf_set_hook(nf_runtime *runtime, nf_hook hook, void *context)
{
    runtime->job.hook = hook;
    runtime->job.hook_context = context;
}

nf_status nf_stats(const nf_runtime *runtime, nf_counters *counters)
{
    if (!nf_ready(runtime))
        return NF_E_NOT_INITIALISED;
    if (counters == NULL)
        return NF_E_ARGUMENT;
    *counters = runtime->stats;
    return NF_OK;
}
