// Threads in functions of known names for a debugger to look at, until there is no more input: one computes in a
// template, one waits for a change.
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

#define APART __attribute__((noinline, noipa))

namespace shapes {

static std::mutex lock;
static std::condition_variable changed;
static bool over = false;
static bool waits = false;
static volatile bool computes = false, stop = false;

template <typename Number> class Square {
  public:
    explicit Square(Number side) : side(side) {}

    APART Number grow(Number by) {
        side += by;
        return side * side;
    }

    APART long grow_for_long() {
        long rounds = 0;
        for (; !stop; rounds++) {
            grow(Number(1));
            computes = true;
        }
        return rounds;
    }

  private:
    Number side;
};

APART static int wait_for_change(const std::vector<int> &numbers) {
    std::unique_lock<std::mutex> held(lock);
    waits = true;
    changed.wait(held, [] { return over; });
    return numbers.front();
}

/* Who waits has given the lock back. */
static bool are_there() {
    std::lock_guard<std::mutex> held(lock);
    return waits && computes;
}

APART static void read_all() {
    /* Here, as whoever hears it may look before the call that says it has returned. */
    std::printf("ready\n");
    std::fflush(stdout);
    while (std::getchar() != EOF) {
    }
}

} // namespace shapes

int main() {
    shapes::Square<double> square(1.0);
    std::thread first([&square] { square.grow_for_long(); });
    int number = 0;
    std::thread second([&number] { number = shapes::wait_for_change({7}); });
    while (!shapes::are_there()) std::this_thread::yield();
    shapes::read_all();
    shapes::stop = true;
    first.join();
    {
        std::lock_guard<std::mutex> held(shapes::lock);
        shapes::over = true;
    }
    shapes::changed.notify_all();
    second.join();
    return number;
}
