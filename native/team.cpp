#include "team.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace npuforge {

namespace {

// Looks at the other members before sleeping: most steps differ by microseconds.
constexpr int kLooks = 2000;

class Barrier final : public Meeting {
public:
    void set_members(unsigned members) { members_ = members; }

    void wait() override
    {
        const unsigned turn = turn_.load();
        if (arrived_.fetch_add(1) + 1 == members_) {
            arrived_ = 0;
            {
                const std::lock_guard<std::mutex> lock(mutex_);
                turn_.fetch_add(1);
            }
            changed_.notify_all();
            return;
        }
        for (int i = 0; i < kLooks; ++i)
            if (turn_.load() != turn)
                return;
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [&] { return turn_.load() != turn; });
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::atomic<unsigned> turn_{0}, arrived_{0};
    unsigned members_ = 0;
};

} // namespace

void together(unsigned threads, const std::function<void(unsigned, unsigned, Meeting &)> &work)
{
    Barrier barrier;
    std::mutex gate; // held until the number of members is known
    std::unique_lock<std::mutex> closed(gate);
    unsigned members = 1;
    std::vector<std::thread> others;
    others.reserve(threads);
    try {
        while (members < threads) {
            others.emplace_back([&, id = members] {
                { const std::lock_guard<std::mutex> opened(gate); }
                work(id, members, barrier);
            });
            ++members;
        }
    } catch (const std::system_error &) {
        // no more threads to be had: those that started do all the work
    }
    barrier.set_members(members);
    closed.unlock();
    work(0, members, barrier);
    for (std::thread &other : others)
        other.join();
}

} // namespace npuforge
