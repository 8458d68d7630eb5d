// Threads that walk through a program side by side.
#pragma once

#include <functional>

namespace npuforge {

// A meeting point of all members: wait() returns once each of them has called it.
class Meeting {
public:
    virtual void wait() = 0;

protected:
    ~Meeting() = default;
};

// Calls `work(member, members, meeting)` on up to `threads` threads, the caller's among them, and
// returns when all have returned. Where the system gives fewer threads, there are fewer members.
// Threads live as long as the call, so that a process may fork between two of them.
void together(unsigned threads,
              const std::function<void(unsigned, unsigned, Meeting &)> &work);

} // namespace npuforge
