#include "team.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#endif

namespace npuforge {

namespace {

// Looks at the other members before sleeping, some 10 ns each: waking a sleeper costs as much as a
// small step, and a member waits for whole steps too. Half of them give the processor away, for
// members may outnumber the cores.
constexpr int kLooks = 20000;

inline void relax()
{
#if defined(__x86_64__) || defined(_M_X64)
    _mm_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

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
        for (int i = 0; i < kLooks; ++i) {
            if (turn_.load(std::memory_order_acquire) != turn)
                return;
            if (i < kLooks / 2)
                relax();
            else
                std::this_thread::yield();
        }
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
