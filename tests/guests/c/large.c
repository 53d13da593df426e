/* A program of 40 MiB that reads all of itself and prints a sum of what it read. */
#define PAGES 10240
#include "all_of_it.h"
