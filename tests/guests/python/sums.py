"""Ranks that sum arrays, gather numbers, and share a product of matrices."""

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
own = numpy.full(1000, world.rank, dtype="d")
sums = numpy.empty_like(own)
world.Allreduce(own, sums)
ranks = world.allgather(world.rank)
matrix = world.bcast(numpy.random.default_rng(7).random((60, 60)) if world.rank == 0 else None)
product = 1000 * matrix @ numpy.linalg.inv(matrix)
trace = world.allreduce(product[world.rank, world.rank]) / world.size
print(f"rank {world.rank} of {world.size}: {sums.sum()} {ranks} {round(trace, 3)}")
