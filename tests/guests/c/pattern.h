/* The 32 bytes that coppice_tests::physical::Pattern::of_seed looks for, in four words. */
static inline unsigned long pattern_word(unsigned long seed, unsigned long index) {
    unsigned long word = seed + 0x9e3779b97f4a7c15UL * (index % 4 + 1);
    word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9UL;
    word = (word ^ (word >> 27)) * 0x94d049bb133111ebUL;
    return word ^ (word >> 31);
}

/* Fills memory with the pattern, again and again. */
static inline void pattern_fill(void *at, unsigned long bytes, unsigned long seed) {
    volatile unsigned long *words = at;
    for (unsigned long i = 0; i < bytes / 8; i++) words[i] = pattern_word(seed, i);
}
