/* A program of 6 MiB that reads all of itself and prints a sum of what it read. */
#define PAGES 1536
#include "all_of_it.h"
