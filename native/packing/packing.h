// Offsets for buffers with lifetimes in one memory of given size, or a proof that there are none.
#ifndef NF_PACKING_H
#define NF_PACKING_H

#include <cstdint>
#include <utility>
#include <vector>

namespace packing {

struct Item {
    int64_t size;
    int64_t alignment;
    int64_t first, last; // steps, both included
    int64_t fixed;       // its offset when it has been decided, else -1
    // [low, high) ranges of offsets that it may not touch
    std::vector<std::pair<int64_t, int64_t>> forbidden;
};

enum class Outcome { found, impossible, undecided };

struct Result {
    Outcome outcome;
    std::vector<int64_t> offsets; // empty unless found
    int64_t nodes;                // of all search trees
};

// The search recurses once for each buffer; more than this are not tried.
constexpr std::size_t MOST_ITEMS = 1500;

// Whether the items fit below `capacity`. Several orders take turns with growing node limits, until
// one decides or `node_limit` nodes or `seconds` have been spent in all. With one thread and without
// a time limit (0) the answer depends on the arguments only.
Result pack(const std::vector<Item> &items, int64_t capacity, int64_t node_limit, double seconds,
            int threads);

} // namespace packing

#endif
