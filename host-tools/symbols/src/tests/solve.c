// A program without a library, so that its file is short.

volatile int result;

static inline __attribute__((always_inline)) int twice(int value) {
    __asm__ volatile("within_twice: nop");
    return 2 * value;
}

__attribute__((noinline)) void axpy(int value) {
    result += value;
}

__attribute__((noinline)) void solve(int value) {
    axpy(twice(value));
    __asm__ volatile("after_axpy: nop");
}

__attribute__((noinline, noreturn)) void spin(void) {
    for (;;)
        ;
}

void _start(void) {
    solve(1);
    // What it returns to is no longer in this function.
    spin();
}

__attribute__((used)) static void behind(void) {
}
