// A good packing, without proof: a swap search on what holds up the highest buffer.
#ifndef NF_CLIMB_H
#define NF_CLIMB_H

#include "packing.h"

namespace packing {

struct Climb {
    std::vector<int64_t> offsets;
    int64_t height;
    int64_t tries;
};

// Searches until `target` is reached, `tries` orders were tried or `seconds` have passed (0: no
// limit). Without a time limit the answer depends on the arguments only.
Climb climb(const std::vector<Item> &items, int64_t target, int64_t tries, double seconds);

} // namespace packing

#endif
