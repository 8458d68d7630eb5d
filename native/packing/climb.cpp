// An order of the buffers gives a packing: each goes to the lowest offset that is free. The search
// changes the order where it matters: a buffer of the chain that ends at the greatest height (each
// rests on the next) changes places with another one, or moves in front of it. Changes that raise
// the height a little are kept for a while, after the rule of late acceptance.
#include "climb.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <random>

namespace packing {
namespace {

int64_t aligned(int64_t value, int64_t alignment)
{
    return (value + alignment - 1) / alignment * alignment;
}

using Range = std::pair<int64_t, int64_t>;

class Climber {
public:
    explicit Climber(const std::vector<Item> &items)
        : items_(items), n_(static_cast<int>(items.size())), meets_(n_), offsets_(n_), at_(n_)
    {
        for (int i = 0; i < n_; ++i) {
            if (items[i].fixed < 0)
                free_.push_back(i);
            for (int k = 0; k < n_; ++k)
                if (i != k && items[i].first <= items[k].last && items[k].first <= items[i].last)
                    meets_[i].push_back(k);
        }
    }

    Climb run(int64_t target, int64_t tries, double seconds)
    {
        using Clock = std::chrono::steady_clock;
        const auto end = Clock::now() + std::chrono::duration<double>(seconds);
        start();
        Climb best{offsets_, height_, 0};
        std::vector<int64_t> late(LATE, score_);
        std::vector<int> before = order_;
        int64_t score = score_;
        while (best.height > target && best.tries < tries &&
               (seconds <= 0 || best.tries % 16 || Clock::now() < end)) {
            const int from = change();
            if (from < 0)
                break;
            replace(from);
            ++best.tries;
            int64_t &rule = late[static_cast<std::size_t>(best.tries) % LATE];
            if (score_ <= score || score_ <= rule) {
                score = score_;
                std::copy(order_.begin() + from, order_.end(), before.begin() + from);
                if (height_ < best.height) {
                    best.height = height_;
                    best.offsets = offsets_;
                }
            } else {
                std::copy(before.begin() + from, before.end(), order_.begin() + from);
                replace(from);
            }
            rule = std::min(rule, score);
        }
        return best;
    }

private:
    static constexpr std::size_t LATE = 50;

    // The best of four plain orders: size, area, length in time, number of conflicts.
    void start()
    {
        std::vector<int> best;
        int64_t least = -1;
        for (int rule = 0; rule < 4; ++rule) {
            order_ = free_;
            const auto key = [&](int i) {
                const Item &item = items_[i];
                const double length = static_cast<double>(item.last - item.first + 1);
                const double size = static_cast<double>(item.size);
                const std::array<double, 4> keys = {size, size * length, length,
                                                    static_cast<double>(meets_[i].size())};
                return std::make_pair(-keys[rule], -size);
            };
            std::stable_sort(order_.begin(), order_.end(),
                             [&](int a, int b) { return key(a) < key(b); });
            replace(0);
            if (least < 0 || score_ < least) {
                least = score_;
                best = order_;
            }
        }
        order_ = best;
        replace(0);
    }

    // Offsets of all from place `from` of the order on; those before stay.
    void replace(int from)
    {
        for (std::size_t p = 0; p < order_.size(); ++p)
            at_[order_[p]] = static_cast<int>(p);
        for (std::size_t p = static_cast<std::size_t>(from); p < order_.size(); ++p)
            offsets_[order_[p]] = lowest(order_[p], static_cast<int>(p));
        height_ = 0;
        for (int i = 0; i < n_; ++i) {
            if (items_[i].fixed >= 0)
                offsets_[i] = items_[i].fixed;
            height_ = std::max(height_, offsets_[i] + items_[i].size);
        }
        // the height alone is flat; what reaches far up counts a little too
        const int64_t high = height_ - height_ / 16;
        int64_t above = 0;
        for (int i = 0; i < n_; ++i)
            above += std::max<int64_t>(0, offsets_[i] + items_[i].size - high);
        score_ = height_ * 16 + above / 4;
    }

    int64_t lowest(int i, int place)
    {
        busy_.assign(items_[i].forbidden.begin(), items_[i].forbidden.end());
        for (int k : meets_[i])
            if (items_[k].fixed >= 0)
                busy_.emplace_back(items_[k].fixed, items_[k].fixed + items_[k].size);
            else if (at_[k] < place)
                busy_.emplace_back(offsets_[k], offsets_[k] + items_[k].size);
        std::sort(busy_.begin(), busy_.end());
        int64_t at = 0;
        for (const auto &[low, high] : busy_) {
            if (at + items_[i].size <= low)
                break;
            if (high > at)
                at = aligned(high, items_[i].alignment);
        }
        return at;
    }

    // Changes the order; returns its first place that changed, -1 when nothing can.
    int change()
    {
        if (order_.size() < 2)
            return -1;
        std::vector<int> chain;
        for (int i : order_)
            if (offsets_[i] + items_[i].size == height_)
                chain.push_back(i);
        std::vector<char> in(n_);
        for (std::size_t c = 0; c < chain.size(); ++c)
            for (int k : meets_[chain[c]])
                if (!in[k] && items_[k].fixed < 0 &&
                    aligned(offsets_[k] + items_[k].size, items_[chain[c]].alignment) ==
                        offsets_[chain[c]]) {
                    in[k] = 1;
                    chain.push_back(k);
                }
        if (chain.empty()) // only a decided one reaches the top
            return -1;
        const int a = at_[chain[pick(chain.size())]];
        int b = static_cast<int>(pick(order_.size() - 1));
        b += b >= a;
        const int low = std::min(a, b), high = std::max(a, b);
        if (pick(2))
            std::swap(order_[low], order_[high]);
        else if (a > b)
            std::rotate(order_.begin() + low, order_.begin() + high, order_.begin() + high + 1);
        else
            std::rotate(order_.begin() + low, order_.begin() + low + 1, order_.begin() + high + 1);
        return low;
    }

    std::size_t pick(std::size_t count) { return random_() % count; }

    const std::vector<Item> &items_;
    const int n_;
    std::vector<std::vector<int>> meets_;
    std::vector<int64_t> offsets_;
    std::vector<int> at_, free_, order_;
    std::vector<Range> busy_;
    std::mt19937 random_{1};
    int64_t height_ = 0, score_ = 0;
};

} // namespace

Climb climb(const std::vector<Item> &items, int64_t target, int64_t tries, double seconds)
{
    return Climber(items).run(target, tries, seconds);
}

} // namespace packing
