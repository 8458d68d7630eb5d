/* Stress: inferences on the modelled machine, with nothing wrong or with one fault injected.
 *
 *   stress SEED COUNT FAULT
 *
 * FAULT "none": each inference allocates buffers at random, gets one of FRAMES random frames by DMA and
 * compares every output byte with a run on a memory of its own. Prints the first failure, their number and
 * the cache maintenance of all.
 * Any other FAULT, or "all" for each there is: in how many of COUNT trials it was caught, in how many
 * under its name, and the last name; prints "FAULT caught N named N as NAME". */
#include "machine.h"
#include "networks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROOM 65536u
#define EXTRA_POOLS 8u /* beside those of the network */
#define FRAMES 64u
#define TIMEOUT_US 1000000u
#define ALL (NF_REACH_CPU | NF_REACH_NPU | NF_REACH_DMA)

static uint8_t heap_memory[4096] __attribute__((aligned(4096)));
static uint8_t stack_memory[4096] __attribute__((aligned(4096)));
static uint8_t private_memory[4096] __attribute__((aligned(4096)));
static uint8_t *room;
static uint32_t room_bytes;

static nf_runtime rt;
static nf_pool *pools;
static nf_zone zones[2];
static nf_network network; /* a copy, so that a fault can change it */
static nf_model model;
static nf_config config;
static uint8_t **reference;
/* frames that inferences draw from, and the outputs a run on memory of its own gives for each */
static uint8_t *frames[FRAMES], *answers[FRAMES];
static uint32_t frame_bytes, answer_bytes;

static void pool(const char *name, uint8_t *base, uint32_t bytes, uint32_t free_bytes,
                 uint32_t flags)
{
    const uint32_t whole = (bytes + MACHINE_LINE - 1u) / MACHINE_LINE * MACHINE_LINE;
    pools[config.pool_count++] = (nf_pool){name, (uintptr_t)base, whole, (uintptr_t)base,
                                           free_bytes, flags};
}

static void set_up(uint64_t seed)
{
    machine_start(seed);
    network = *nf_models[0].network;
    model = (nf_model){&network, nf_models[0].build};
    memset(&config, 0, sizeof config);
    config.port = &machine_port;
    config.pools = pools;
    config.zones = zones;
    config.zone_count = 2;
    config.models = &model;
    config.model_count = 1;
    zones[0] = (nf_zone){NF_ZONE_STACK, (uintptr_t)stack_memory, sizeof stack_memory};
    zones[1] = (nf_zone){NF_ZONE_HEAP, (uintptr_t)heap_memory, sizeof heap_memory};
    pool("weights", network.spaces[0], network.space_bytes[0], 0, ALL);
    for (uint32_t i = 1; i < network.space_count; ++i) {
        pool("activations", network.spaces[i], network.space_bytes[i], 0, ALL | NF_WRITABLE);
        machine_map("activations", network.spaces[i], network.space_bytes[i]);
    }
    pool("room", room, room_bytes, room_bytes, ALL | NF_WRITABLE);
    machine_map("room", room, room_bytes);
    pool("heap", heap_memory, sizeof heap_memory, 0, ALL | NF_WRITABLE);
    pool("stack", stack_memory, sizeof stack_memory, 0, ALL | NF_WRITABLE);
    pool("private", private_memory, sizeof private_memory, 0, NF_REACH_CPU | NF_WRITABLE);
}

/* Frames by DMA into buffers from the registry, then into the inputs. */
static nf_status feed(uint32_t number, const uint8_t *data, nf_status *release)
{
    nf_status status = nf_reset(&rt, 0);
    for (uint32_t i = 0; i < network.input_count && status == NF_OK; ++i) {
        nf_buffer spacer = 0, buffer = 0;
        nf_buffer_info info;
        const uint32_t bytes = network.inputs[i].bytes;
        nf_buffer_alloc(&rt, 1u + vb_random(512), 0, NF_REACH_DMA, NF_SCOPED, &spacer);
        status = nf_buffer_alloc(&rt, bytes, 32u << vb_random(4), NF_REACH_DMA, NF_SCOPED,
                                 &buffer);
        if (status != NF_OK)
            break;
        nf_buffer_query(&rt, buffer, &info);
        status = nf_buffer_give(&rt, buffer, NF_REACH_DMA);
        machine_dma((void *)info.address, data, bytes);
        data += bytes;
        if (release)
            *release = nf_buffer_release(&rt, buffer);
        status = status == NF_OK ? nf_buffer_take(&rt, buffer) : status;
        const nf_frame frame = {(void *)info.address, bytes, number, NULL, 0};
        status = status == NF_OK ? nf_input(&rt, 0, i, &frame) : status;
        nf_buffer_release(&rt, buffer);
        if (spacer)
            nf_buffer_release(&rt, spacer);
    }
    return status;
}

/* The outputs that follow from a frame, computed the first time it is drawn. */
static const uint8_t *answer(uint32_t frame)
{
    if (answers[frame])
        return answers[frame];
    const uint8_t *data = frames[frame];
    uint8_t *to = answers[frame] = machine_room(answer_bytes);
    for (uint32_t i = 0; i < network.state_count; ++i)
        memcpy(reference[network.states[i].space] + network.states[i].offset,
               reference[0] + network.states[i].initial, network.states[i].bytes);
    for (uint32_t i = 0; i < network.input_count; ++i) {
        memcpy(reference[network.inputs[i].space] + network.inputs[i].offset, data,
               network.inputs[i].bytes);
        data += network.inputs[i].bytes;
    }
    nf_exec(&network.program, reference, 0, network.program.step_count, NULL, NULL);
    for (uint32_t i = 0; i < network.output_count; ++i) {
        memcpy(to, reference[network.outputs[i].space] + network.outputs[i].offset,
               network.outputs[i].bytes);
        to += network.outputs[i].bytes;
    }
    return answers[frame];
}

/* Number of outputs that differ. */
static uint32_t compare(const uint8_t *want, nf_status *status)
{
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < network.output_count && *status == NF_OK; ++i) {
        const nf_io *io = &network.outputs[i];
        const void *data = NULL;
        *status = nf_output(&rt, 0, i, &data);
        if (*status != NF_OK)
            break;
        machine_cpu_reads(data, io->bytes);
        wrong += memcmp(data, want, io->bytes) != 0;
        want += io->bytes;
    }
    return wrong;
}

static int stress(uint64_t seed, uint32_t count)
{
    uint32_t failures = 0;
    set_up(seed);
    nf_status status = nf_init(&rt, &config);
    for (uint32_t i = 0; i < count; ++i) {
        uint32_t wrong = 0;
        const uint32_t frame = vb_random(FRAMES);
        if (status == NF_OK)
            status = feed(i, frames[frame], NULL);
        if (status == NF_OK) {
            status = nf_run(&rt, 0, TIMEOUT_US);
            wrong = compare(answer(frame), &status);
        }
        const vb_kind kind = machine_violated();
        if (status != NF_OK || wrong || kind != VB_NONE) {
            if (failures++ == 0)
                printf("first inference %u status %s outputs %u violation %s\n", i,
                       nf_status_name(status), wrong, vb_kind_name(kind));
        }
    }
    nf_counters c = {0};
    nf_stats(&rt, &c);
    printf("failures %u cleans %u cleaned %llu invalidates %u invalidated %llu\n", failures,
           c.cleans, (unsigned long long)c.cleaned_bytes, c.invalidates,
           (unsigned long long)c.invalidated_bytes);
    return failures != 0;
}

/* --- faults: each returns the name under which it was caught ---------------------------------- */

static const char *registered(uint8_t *address, uint32_t bytes)
{
    nf_buffer b;
    return nf_status_name(nf_buffer_register(&rt, address, bytes, NF_REACH_DMA, NF_SCOPED, &b));
}

static const char *maintenance(uint32_t faults)
{
    nf_status status = NF_OK;
    vb_kind kind = VB_NONE;
    machine_faults(faults);
    for (uint32_t i = 0; i < 20 && kind == VB_NONE && status == NF_OK; ++i) {
        /* in place, as hand-written code does it */
        const uint32_t frame = vb_random(FRAMES);
        const uint8_t *data = frames[frame];
        nf_reset(&rt, 0);
        for (uint32_t k = 0; k < network.input_count; ++k) {
            void *place = NULL;
            nf_input_place(&rt, 0, k, &place);
            machine_memcpy(place, data, network.inputs[k].bytes);
            data += network.inputs[k].bytes;
        }
        status = nf_run(&rt, 0, TIMEOUT_US);
        compare(answer(frame), &status);
        kind = machine_violated();
    }
    return vb_kind_name(kind);
}

static const char *lost_write(void)
{
    void *place = NULL;
    for (uint32_t k = 0; k < network.input_count; ++k)
        nf_input_place(&rt, 0, k, &place);
    const uint32_t bytes = network.inputs[network.input_count - 1u].bytes;
    machine_memcpy(place, frames[vb_random(FRAMES)], bytes);
    vb_maintain((uintptr_t)place, bytes, VB_CLEAN, 0);
    for (uint32_t i = 0; i < bytes; ++i)
        ((uint8_t *)place)[i] ^= 0x80u;
    vb_maintain((uintptr_t)place, bytes, VB_INVALIDATE, 0);
    nf_run(&rt, 0, TIMEOUT_US);
    return vb_kind_name(machine_violated());
}

static const char *frame_fault(int torn, int late)
{
    volatile uint32_t counter = torn ? 8 : 7;
    nf_buffer b;
    config.max_frame_age_us = 100;
    nf_buffer_register(&rt, room, network.inputs[0].bytes, 0, NF_SCOPED, &b);
    nf_frame frame = {room, network.inputs[0].bytes, 7, &counter, machine_port.now_us()};
    for (int i = 0; late && i < 200; ++i)
        machine_port.now_us();
    return nf_status_name(nf_input(&rt, 0, 0, &frame));
}

/* Faults that show when the runtime starts. */
static const char *start_fault(const char *fault)
{
    static uint8_t **spaces;
    free(spaces);
    spaces = machine_room(network.space_count * sizeof spaces[0]);
    memcpy(spaces, network.spaces, network.space_count * sizeof spaces[0]);
    network.spaces = spaces;
    if (!strcmp(fault, "unclocked_bank"))
        vb_set_access((uintptr_t)network.spaces[1], VB_OFF);
    else if (!strcmp(fault, "closed_region"))
        vb_set_access((uintptr_t)network.spaces[1], VB_SHUT);
    else if (!strcmp(fault, "unreachable_pool"))
        pools[1].flags = NF_REACH_CPU | NF_WRITABLE;
    else if (!strcmp(fault, "stale_firmware"))
        model.build ^= 1u + vb_random(1000);
    else {
        const uint32_t bytes = network.space_bytes[0];
        const uint32_t whole = (bytes + 4095u) / 4096u * 4096u;
        static uint8_t *image;
        if (!image)
            image = aligned_alloc(4096, whole);
        const int erased = !strcmp(fault, "weights_absent");
        memset(image, vb_random(2) ? 0xFF : 0, bytes);
        if (!erased) {
            memcpy(image, spaces[0], bytes);
            image[vb_random(bytes)] ^= (uint8_t)(1u << vb_random(8));
        }
        pool("image", image, whole, 0, ALL);
        spaces[0] = image;
    }
    return nf_status_name(nf_init(&rt, &config));
}

static const char *run_fault(const char *fault)
{
    nf_status status = NF_OK;
    const uint32_t at = MACHINE_LINE * vb_random(32);
    if (!strcmp(fault, "malloc_buffer"))
        return registered(heap_memory + at + 8, 64);
    if (!strcmp(fault, "stack_buffer"))
        return registered(stack_memory + at, 64);
    if (!strcmp(fault, "misaligned_4"))
        return registered(room + at + 4, 64);
    if (!strcmp(fault, "misaligned_16"))
        return registered(room + at + 16, 64);
    if (!strcmp(fault, "misaligned_64")) {
        config.alignment = 128; /* weights of a Linux-class part */
        return registered(room + 128u * vb_random(16) + 64, 128);
    }
    if (!strcmp(fault, "partial_line"))
        return registered(room + at, 32u + 1u + vb_random(31));
    if (!strcmp(fault, "private_pool"))
        return registered(private_memory + at, 64);
    if (!strcmp(fault, "unregistered")) {
        const nf_frame frame = {room + at, network.inputs[0].bytes, 1, NULL, 0};
        return nf_status_name(nf_input(&rt, 0, 0, &frame));
    }
    if (!strcmp(fault, "missing_clean"))
        return maintenance(FAULT_NO_CLEAN);
    if (!strcmp(fault, "missing_invalidate"))
        return maintenance(FAULT_NO_INVALIDATE);
    if (!strcmp(fault, "sync_of_ends"))
        return maintenance(FAULT_ENDS_ONLY);
    if (!strcmp(fault, "invalidate_dirty"))
        return lost_write();
    if (!strcmp(fault, "torn_frame"))
        return frame_fault(1, 0);
    if (!strcmp(fault, "late_frame"))
        return frame_fault(0, 1);
    if (!strcmp(fault, "early_free")) {
        feed(1, frames[0], &status);
        return nf_status_name(status);
    }
    status = feed(1, frames[0], NULL);
    status = status == NF_OK ? nf_submit(&rt, 0) : status;
    if (status == NF_OK && !strcmp(fault, "double_use"))
        return nf_status_name(nf_submit(&rt, 0));
    if (status == NF_OK && !strcmp(fault, "write_in_flight")) {
        void *place;
        return nf_status_name(nf_input_place(&rt, 0, 0, &place));
    }
    return nf_status_name(status);
}

static const struct { const char *fault, *name; int at_start; } faults[] = {
    {"malloc_buffer", "NF_E_HEAP", 0}, {"stack_buffer", "NF_E_STACK", 0},
    {"misaligned_4", "NF_E_MISALIGNED", 0}, {"misaligned_16", "NF_E_MISALIGNED", 0},
    {"misaligned_64", "NF_E_MISALIGNED", 0}, {"partial_line", "NF_E_PARTIAL_LINE", 0},
    {"private_pool", "NF_E_UNREACHABLE", 0}, {"unregistered", "NF_E_NOT_REGISTERED", 0},
    {"missing_clean", "missing_clean", 0}, {"missing_invalidate", "missing_invalidate", 0},
    {"sync_of_ends", "missing_clean", 0}, {"invalidate_dirty", "lost_write", 0},
    {"torn_frame", "NF_E_FRAME_TORN", 0}, {"late_frame", "NF_E_FRAME_LATE", 0},
    {"early_free", "NF_E_IN_FLIGHT", 0}, {"double_use", "NF_E_IN_FLIGHT", 0},
    {"write_in_flight", "NF_E_IN_FLIGHT", 0}, {"unclocked_bank", "NF_E_UNPOWERED", 1},
    {"closed_region", "NF_E_CLOSED", 1}, {"unreachable_pool", "NF_E_UNREACHABLE", 1},
    {"stale_firmware", "NF_E_STALE_FIRMWARE", 1}, {"weights_absent", "NF_E_WEIGHTS_ABSENT", 1},
    {"weights_wrong", "NF_E_WEIGHTS_WRONG", 1},
    {"interrupt_before_init", "NF_E_NOT_INITIALISED", 1},
};

static void inject(uint64_t seed, uint32_t count, uint32_t number)
{
    uint32_t caught = 0, named = 0;
    const char *seen = "";
    const char *fault = faults[number].fault;
    for (uint32_t i = 0; i < count; ++i) {
        set_up(seed + i);
        memset(&rt, 0, sizeof rt);
        if (!strcmp(fault, "interrupt_before_init"))
            seen = nf_status_name(nf_on_completion(&rt, NF_OK));
        else if (faults[number].at_start)
            seen = start_fault(fault);
        else
            seen = nf_init(&rt, &config) == NF_OK ? run_fault(fault) : "start failed";
        caught += strcmp(seen, "NF_OK") != 0 && strcmp(seen, "none") != 0;
        named += strcmp(seen, faults[number].name) == 0;
    }
    printf("%s caught %u named %u as %s\n", fault, caught, named, seen);
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    const uint64_t seed = strtoull(argv[1], NULL, 10);
    const uint32_t count = (uint32_t)strtoul(argv[2], NULL, 10);
    const nf_network *planned = nf_models[0].network;
    pools = machine_room((planned->space_count + EXTRA_POOLS) * sizeof *pools);
    reference = machine_room(planned->space_count * sizeof *reference);
    room_bytes = ROOM;
    for (uint32_t i = 0; i < planned->input_count; ++i)
        room_bytes += (planned->inputs[i].bytes + 4095u) / 4096u * 4096u;
    /* a way of the cache: which lines share a set must not differ from run to run */
    room_bytes = (room_bytes + MACHINE_WAY - 1u) / MACHINE_WAY * MACHINE_WAY;
    room = aligned_alloc(MACHINE_WAY, room_bytes);
    memset(room, 0, room_bytes);
    reference[0] = planned->spaces[0];
    for (uint32_t i = 1; i < planned->space_count; ++i)
        reference[i] = machine_room(planned->space_bytes[i]);
    for (uint32_t i = 0; i < planned->input_count; ++i)
        frame_bytes += planned->inputs[i].bytes;
    for (uint32_t i = 0; i < planned->output_count; ++i)
        answer_bytes += planned->outputs[i].bytes;
    machine_start(seed);
    for (uint32_t i = 0; i < FRAMES; ++i) {
        frames[i] = machine_room(frame_bytes);
        for (uint32_t at = 0; at < frame_bytes; ++at)
            frames[i][at] = (uint8_t)vb_random(256);
    }
    if (!strcmp(argv[3], "none"))
        return stress(seed, count);
    for (uint32_t i = 0; i < sizeof faults / sizeof faults[0]; ++i)
        if (!strcmp(argv[3], "all") || !strcmp(argv[3], faults[i].fault))
            inject(seed, count, i);
    return 0;
}
