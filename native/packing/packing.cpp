// Branch and bound over canonical placements.
//
// Any packing can be pushed down until every buffer rests on the ground, on a buffer it meets in
// time, or on a decided one. Such packings are built by placing buffers in the order of their
// offsets, each at the lowest offset above the buffers it meets that are already there. So the
// search chooses an order, not offsets. The ideas (canonical placements, lower bound of a section
// of time, dominance, decomposition when time falls apart) are those of Moffitt, "MiniMalloc: A
// Lightweight Memory Allocator for Hardware-Accelerated Machine Learning" (ASPLOS 2023); written
// from the published description.
#include "packing.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>

namespace packing {
namespace {

constexpr int64_t FAR = std::numeric_limits<int64_t>::max() / 4;

int64_t aligned(int64_t value, int64_t alignment)
{
    return alignment == 1 ? value : (value + alignment - 1) / alignment * alignment;
}

bool meet(const Item &a, const Item &b) { return a.first <= b.last && b.first <= a.last; }

using Range = std::pair<int64_t, int64_t>;

// What all search trees of one instance share.
struct Instance {
    const std::vector<Item> &items;
    int64_t capacity;
    std::vector<std::pair<int, int>> spans; // sections of time, [first, second)
    std::vector<std::vector<int>> meets;    // undecided buffers that share a step
    std::vector<std::vector<Range>> walls;  // ranges that no placement may touch, by low end
    std::vector<std::vector<int>> decided;  // decided buffers of each section
    std::vector<int64_t> load;              // bytes of the undecided in each section
    std::vector<int> twin;                  // an earlier buffer that could change places, or -1

    Instance(const std::vector<Item> &all, int64_t size) : items(all), capacity(size)
    {
        sections();
        neighbours();
    }

    int count() const { return static_cast<int>(items.size()); }

    // Time is cut where a buffer begins or ends; within a section nothing changes.
    void sections()
    {
        std::vector<int64_t> cuts;
        for (const Item &item : items) {
            cuts.push_back(item.first);
            cuts.push_back(item.last + 1);
        }
        std::sort(cuts.begin(), cuts.end());
        cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
        const auto at = [&](int64_t step) {
            return static_cast<int>(std::lower_bound(cuts.begin(), cuts.end(), step) -
                                    cuts.begin());
        };
        load.assign(cuts.size(), 0);
        decided.resize(cuts.size());
        for (int i = 0; i < count(); ++i) {
            spans.emplace_back(at(items[i].first), at(items[i].last + 1));
            for (int s = spans[i].first; s < spans[i].second; ++s) {
                if (items[i].fixed < 0)
                    load[s] += items[i].size;
                else
                    decided[s].push_back(i);
            }
        }
    }

    void neighbours()
    {
        meets.resize(count());
        walls.resize(count());
        for (int i = 0; i < count(); ++i) {
            walls[i] = items[i].forbidden;
            for (int k = 0; k < count(); ++k) {
                if (i == k || !meet(items[i], items[k]))
                    continue;
                if (items[k].fixed < 0)
                    meets[i].push_back(k);
                else
                    walls[i].emplace_back(items[k].fixed, items[k].fixed + items[k].size);
            }
            std::sort(walls[i].begin(), walls[i].end());
            twin.push_back(-1);
            for (int k : meets[i])
                if (k < i && items[i].fixed < 0 && items[k].size == items[i].size &&
                    items[k].alignment == items[i].alignment && spans[k] == spans[i] &&
                    items[k].forbidden == items[i].forbidden)
                    twin[i] = k;
        }
    }

    // The lowest offset from `from` on where buffer i misses everything decided.
    int64_t lowest(int i, int64_t from) const
    {
        int64_t at = aligned(from, items[i].alignment);
        for (const auto &[low, high] : walls[i]) {
            if (at + items[i].size <= low)
                break;
            if (high > at)
                at = aligned(high, items[i].alignment);
        }
        return at;
    }

    bool decided_ones_fit() const
    {
        for (int i = 0; i < count(); ++i) {
            const int64_t low = items[i].fixed, high = low + items[i].size;
            if (low < 0)
                continue;
            if (high > capacity || low % items[i].alignment)
                return false;
            for (const auto &[from, to] : walls[i])
                if (from < high && low < to)
                    return false;
        }
        return true;
    }
};

// Placements are made in increasing order of offset, then rank: buffers at one offset do not meet,
// so their order means nothing.
struct Mark {
    int64_t offset;
    int rank;
    bool operator>(const Mark &o) const
    {
        return offset != o.offset ? offset > o.offset : rank > o.rank;
    }
};

// Buffers still to be placed, in the order of time and in that of (lowest offset, rank).
struct Open {
    std::vector<int> by_time, by_offset;
};

struct Change {
    int item;
    int64_t offset; // the lowest offset it had before
};

// How candidates at equal offset are ranked: W length in time, A area, T load of the fullest
// section, Z size. The same letters again with noise are further orders.
constexpr std::array<const char *, 6> ORDERS = {"WAT", "TAW", "TWA", "ZWT", "AWT", "WTA"};

// One search tree.
class Search {
public:
    Search(const Instance &instance, int order, int64_t node_limit, const std::atomic<bool> &stop)
        : in_(instance), letters_(ORDERS[order % ORDERS.size()]), node_limit_(node_limit),
          stop_(stop), open_bytes_(instance.load), offsets_(instance.count()),
          noise_(instance.count(), 1.0), next_(instance.load.size() + 1), rank_(instance.count()),
          placed_(instance.count()), is_moved_(instance.count())
    {
        if (order >= static_cast<int>(ORDERS.size())) {
            std::mt19937 generator(static_cast<unsigned>(order));
            for (double &n : noise_)
                n = std::exp2((generator() % 1024 / 512.0 - 1.0) * 0.6);
        }
    }

    Result run()
    {
        std::vector<int> open;
        for (int i = 0; i < in_.count(); ++i) {
            offsets_[i] = in_.items[i].fixed;
            if (offsets_[i] < 0) {
                offsets_[i] = in_.lowest(i, 0);
                open.push_back(i);
            }
        }
        std::stable_sort(open.begin(), open.end(), [&](int a, int b) {
            return in_.spans[a].first < in_.spans[b].first;
        });
        rank(open);
        Open all{open, open};
        std::sort(all.by_offset.begin(), all.by_offset.end(), sooner());
        const Outcome outcome = split(all, {0, -1});
        return {outcome, outcome == Outcome::found ? offsets_ : std::vector<int64_t>{}, nodes_};
    }

private:
    struct Sooner {
        const Search &search;
        bool operator()(int a, int b) const
        {
            return search.offsets_[a] != search.offsets_[b]
                       ? search.offsets_[a] < search.offsets_[b]
                       : search.rank_[a] < search.rank_[b];
        }
    };

    Sooner sooner() const { return {*this}; }

    // Better candidates have a smaller rank; what has been placed no longer counts.
    void rank(const std::vector<int> &open)
    {
        using Key = std::array<double, 3>;
        std::vector<std::pair<Key, int>> keyed;
        for (int i : open) {
            int64_t total = 0;
            for (int s = in_.spans[i].first; s < in_.spans[i].second; ++s)
                total = std::max(total, open_bytes_[s]);
            const Item &item = in_.items[i];
            const double width = static_cast<double>(item.last - item.first + 1) * noise_[i];
            Key key;
            for (int k = 0; k < 3; ++k)
                switch (letters_[k]) {
                case 'W': key[k] = -width; break;
                case 'A': key[k] = -width * static_cast<double>(item.size); break;
                case 'T': key[k] = -static_cast<double>(total); break;
                default: key[k] = -static_cast<double>(item.size) * noise_[i];
                }
            keyed.emplace_back(key, i);
        }
        std::sort(keyed.begin(), keyed.end());
        for (std::size_t r = 0; r < keyed.size(); ++r)
            rank_[keyed[r].second] = static_cast<int>(r);
    }

    // False when a buffer it meets no longer fits.
    bool place(int i)
    {
        bool fits = true;
        placed_[i] = 1;
        const int64_t top = offsets_[i] + in_.items[i].size;
        for (int s = in_.spans[i].first; s < in_.spans[i].second; ++s)
            open_bytes_[s] -= in_.items[i].size;
        for (int k : in_.meets[i]) {
            if (placed_[k] || offsets_[k] >= top)
                continue;
            trail_.push_back({k, offsets_[k]});
            offsets_[k] = in_.lowest(k, top);
            fits = fits && offsets_[k] + in_.items[k].size <= in_.capacity;
        }
        order_.push_back(i);
        return fits;
    }

    void undo(std::size_t trail, std::size_t order)
    {
        while (order_.size() > order) {
            const int i = order_.back();
            order_.pop_back();
            placed_[i] = 0;
            for (int s = in_.spans[i].first; s < in_.spans[i].second; ++s)
                open_bytes_[s] += in_.items[i].size;
        }
        while (trail_.size() > trail) {
            offsets_[trail_.back().item] = trail_.back().offset;
            trail_.pop_back();
        }
    }

    // Whether what is open in some section cannot fit above its lowest possible offset. `open` is
    // in the order of offsets, so the first buffer that covers a section has the lowest one there.
    bool overfull(const Open &open, const Mark &last)
    {
        const int low = in_.spans[open.by_time.front()].first;
        int high = low;
        for (int i : open.by_time)
            high = std::max(high, in_.spans[i].second);
        // next_[s]: the first section from s on that no buffer has covered yet
        std::iota(next_.begin() + low, next_.begin() + high + 1, low);
        for (int i : open.by_offset) {
            const int64_t at = std::max(offsets_[i], last.offset);
            if (at + in_.items[i].size > in_.capacity)
                return true;
            for (int s = uncovered(in_.spans[i].first); s < in_.spans[i].second;
                 s = uncovered(s)) {
                next_[s] = s + 1;
                int64_t need = at + open_bytes_[s];
                for (int k : in_.decided[s]) {
                    const int64_t from = in_.items[k].fixed, to = from + in_.items[k].size;
                    need += std::max<int64_t>(0, to - std::max(from, at));
                }
                if (need > in_.capacity)
                    return true;
            }
        }
        return false;
    }

    int uncovered(int s)
    {
        while (next_[s] != s) {
            next_[s] = next_[next_[s]];
            s = next_[s];
        }
        return s;
    }

    // Buffers that no chain of meetings connects are packed one group after the other.
    Outcome split(Open &open, const Mark &last)
    {
        if (open.by_time.empty())
            return Outcome::found;
        if (overfull(open, last))
            return Outcome::impossible;
        std::vector<std::vector<int>> groups;
        int end = in_.spans[open.by_time.front()].second;
        bool whole = true;
        for (int i : open.by_time) {
            whole = whole && in_.spans[i].first < end;
            end = std::max(end, in_.spans[i].second);
        }
        if (whole)
            return choose(open, last);
        end = std::numeric_limits<int>::min();
        for (int i : open.by_time) {
            if (in_.spans[i].first >= end)
                groups.emplace_back();
            groups.back().push_back(i);
            end = std::max(end, in_.spans[i].second);
        }
        // the smallest group fails soonest
        std::stable_sort(groups.begin(), groups.end(),
                         [](const auto &a, const auto &b) { return a.size() < b.size(); });
        const std::size_t trail = trail_.size(), order = order_.size();
        std::vector<int> ranks;
        for (int i : open.by_time)
            ranks.push_back(rank_[i]);
        Outcome outcome = Outcome::found;
        for (std::vector<int> &group : groups) {
            rank(group); // for the loads that are left; so ranks start anew
            Open part{std::move(group), {}};
            part.by_offset = part.by_time;
            std::sort(part.by_offset.begin(), part.by_offset.end(), sooner());
            outcome = choose(part, {last.offset, -1});
            if (outcome != Outcome::found)
                break;
        }
        if (outcome == Outcome::found)
            return outcome;
        undo(trail, order);
        for (std::size_t k = 0; k < open.by_time.size(); ++k)
            rank_[open.by_time[k]] = ranks[k];
        return outcome;
    }

    Outcome choose(const Open &open, const Mark &last)
    {
        if (++nodes_ > node_limit_ || (nodes_ % 64 == 0 && stop_))
            return Outcome::undecided;
        // everything open is placed at or above the next offset, so the fullest section bounds it
        int end = 0;
        for (int i : open.by_time)
            end = std::max(end, in_.spans[i].second);
        int64_t limit = in_.capacity + 1 -
                        *std::max_element(&open_bytes_[in_.spans[open.by_time.front()].first],
                                          &open_bytes_[end]);
        // a buffer that would fit below a candidate can be put there first
        for (int i : open.by_time)
            limit = std::min(limit, std::max(offsets_[i], last.offset) + in_.items[i].size);
        std::vector<int> candidates;
        for (int i : open.by_offset) {
            if (offsets_[i] >= limit)
                break;
            if (Mark{offsets_[i], rank_[i]} > last)
                candidates.push_back(i);
        }
        const std::size_t trail = trail_.size(), order = order_.size();
        Open rest;
        for (int i : candidates) {
            if (in_.twin[i] >= 0 && !placed_[in_.twin[i]])
                continue;
            if (place(i)) {
                without(open, i, trail, rest);
                const Outcome outcome = split(rest, {offsets_[i], rank_[i]});
                if (outcome != Outcome::impossible)
                    return outcome;
            }
            undo(trail, order);
        }
        return Outcome::impossible;
    }

    // What stays open after buffer i was placed, which moved up those on the trail.
    void without(const Open &open, int i, std::size_t trail, Open &rest)
    {
        rest.by_time.clear();
        for (int k : open.by_time)
            if (k != i)
                rest.by_time.push_back(k);
        moved_.clear();
        for (std::size_t t = trail; t < trail_.size(); ++t) {
            moved_.push_back(trail_[t].item);
            is_moved_[trail_[t].item] = 1;
        }
        std::sort(moved_.begin(), moved_.end(), sooner());
        kept_.clear();
        for (int k : open.by_offset)
            if (k != i && !is_moved_[k])
                kept_.push_back(k);
        for (int k : moved_)
            is_moved_[k] = 0;
        rest.by_offset.resize(kept_.size() + moved_.size());
        std::merge(kept_.begin(), kept_.end(), moved_.begin(), moved_.end(),
                   rest.by_offset.begin(), sooner());
    }

    const Instance &in_;
    const char *letters_;
    const int64_t node_limit_;
    const std::atomic<bool> &stop_;
    int64_t nodes_ = 0;
    std::vector<int64_t> open_bytes_, offsets_;
    std::vector<double> noise_;
    std::vector<int> next_, rank_, order_, moved_, kept_;
    std::vector<char> placed_, is_moved_;
    std::vector<Change> trail_;
};

} // namespace

Result pack(const std::vector<Item> &items, int64_t capacity, int64_t node_limit, double seconds,
            int threads)
{
    const Instance instance(items, capacity);
    if (!instance.decided_ones_fit())
        return {Outcome::impossible, {}, 0};
    if (items.size() > MOST_ITEMS)
        return {Outcome::undecided, {}, 0};
    using Clock = std::chrono::steady_clock;
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    Result best = {Outcome::undecided, {}, 0};
    std::atomic<bool> stop{false};
    std::mutex lock;
    int turn = 0;
    const auto work = [&] {
        for (;;) {
            int own;
            int64_t limit;
            {
                const std::lock_guard<std::mutex> hold(lock);
                if (stop || best.nodes >= node_limit)
                    return;
                // each round doubles the limit and tries new noise beside the plain orders
                const int plain = static_cast<int>(ORDERS.size()), both = 2 * plain;
                const int round = turn / both;
                own = turn % both < plain ? turn % both : round * plain + turn % both;
                ++turn;
                limit = std::min<int64_t>(node_limit - best.nodes,
                                          static_cast<int64_t>(items.size()) * 2
                                              << std::min(round, 30));
            }
            const Result result = Search(instance, own, limit, stop).run();
            const std::lock_guard<std::mutex> hold(lock);
            best.nodes += result.nodes;
            if (result.outcome != Outcome::undecided && best.outcome == Outcome::undecided) {
                best.outcome = result.outcome;
                best.offsets = result.offsets;
                stop = true;
            }
        }
    };
    std::vector<std::thread> pool;
    for (int t = 1; t < threads; ++t)
        pool.emplace_back(work);
    std::atomic<bool> done{false};
    std::thread watch;
    if (seconds > 0)
        watch = std::thread([&] {
            while (!done && Clock::now() < end)
                std::this_thread::sleep_for(std::chrono::milliseconds(2));
            stop = true;
        });
    work();
    for (std::thread &t : pool)
        t.join();
    done = true;
    if (watch.joinable())
        watch.join();
    return best;
}

} // namespace packing
