// The same in C++.

volatile int result;

namespace space {
template <class T> __attribute__((noinline)) void axpy(T value) {
    result = result + value;
}
__attribute__((noinline)) void solve(int value, double) {
    axpy(value);
}
}

extern "C" void _start(void) {
    space::solve(1, 2.0);
    for (;;)
        ;
}
