# SPDX-License-Identifier: BSD-3-Clause
# Writes what an allocator asks of the driver, and what is then sent, as a trace for
# test/side_by_side.
# usage: awk -v model=NAME -f traces.awk
#   pytorch      PyTorch's caching allocator: segments from cudaMalloc
#   expandable   the same with expandable segments: VMM, 20 MiB at a time
#   async        a stream-ordered pool that grows by 32 MiB and is trimmed
#   mpi          an MPI application that uses the same two buffers
#   growing      a VMM reservation that is used while it grows by segments, across
#                its newest borders, too, and then shrinks
# These are models written from how the allocators are documented to work, not
# recordings. The same every time.
#
# The text, one step a line, numbers in bytes:
#   alloc ADDRESS SIZE     an allocation; also that of a pool
#   map ADDRESS SIZE       a VMM segment
#   free ADDRESS           releases either
#   use ADDRESS SIZE       sends or receives it
BEGIN {
    KiB = 1024; MiB = 1024 * KiB; GiB = 1024 * MiB
    base = 1024 * GiB
    state = 1
    if (model == "pytorch") pytorch()
    else if (model == "expandable") expandable()
    else if (model == "async") async()
    else if (model == "mpi") mpi()
    else if (model == "growing") growing()
    else { print "no such model: " model > "/dev/stderr"; exit 1 }
}

function step(what, address, size) {
    if (size == "") printf "%s %.0f\n", what, address
    else printf "%s %.0f %.0f\n", what, address, size
}

# Park and Miller's: the same in every awk.
function below(n) {
    state = (state * 16807) % 2147483647
    return state % n
}

# A part of something, 512-byte aligned as these allocators do.
function use_part(at, size, largest,    length_, room) {
    length_ = 512 * (1 + below(largest / 512))
    if (length_ > size) length_ = size
    room = (size - length_) / 512
    step("use", at + 512 * below(room + 1), length_)
}

# 2 MiB for small tensors, 20 MiB for medium ones, else what is asked for.
# Iterations reduce gradients in buckets; half-way the cache is emptied once.
function pytorch(    i, j, n, at, next_, size, where) {
    next_ = base
    for (i = 0; i < 60; i++) {
        size = i % 3 == 0 ? 2 * MiB : i % 3 == 1 ? 20 * MiB : 2 * MiB * (12 + below(80))
        where[i] = next_; sizes[i] = size
        step("alloc", next_, size)
        next_ += 256 * MiB
    }
    for (n = 0; n < 40; n++) {
        for (j = 0; j < 50; j++) {
            i = below(60)
            use_part(where[i], sizes[i], 25 * MiB)
        }
        if (n == 20) {
            for (i = 0; i < 60; i += 2) {
                step("free", where[i])
                sizes[i] = i % 4 == 0 ? 20 * MiB : 2 * MiB * (12 + below(80))
                step("alloc", where[i], sizes[i])
            }
        }
    }
}

# A segment grows by 20 MiB as it is needed, and shrinks from its end.
function expandable(    n, j, count) {
    count = 0
    for (n = 0; n < 60; n++) {
        while (count < 100 && below(3) != 0)
            step("map", base + 20 * MiB * count++, 20 * MiB)
        for (j = 0; j < 30 && count > 0; j++)
            use_part(base, 20 * MiB * count, 25 * MiB)
        if (n % 20 == 19)
            while (count > 10) step("free", base + 20 * MiB * --count)
    }
}

# What the pool has is reused; at a synchronisation it gives back what is
# above its threshold.
function async(    n, j, count) {
    count = 0
    for (n = 0; n < 50; n++) {
        while (count < 24) {
            step("alloc", base + 64 * MiB * count, 32 * MiB)
            count++
        }
        for (j = 0; j < 40; j++)
            use_part(base + 64 * MiB * below(count), 32 * MiB, 8 * MiB)
        while (count > 8) {
            count--
            step("free", base + 64 * MiB * count)
        }
    }
}

# A ping-pong of halo buffers.
function mpi(    i) {
    step("alloc", base, 64 * MiB)
    step("alloc", base + 128 * MiB, 64 * MiB)
    for (i = 0; i < 10000; i++)
        step("use", base + 128 * MiB * (i % 2) + 4096 * (i % 16), 32 * MiB)
}

# A segment of 20 MiB at a time; twice, at the same addresses.
function growing(    n, i, j, segment) {
    segment = 20 * MiB
    for (n = 0; n < 2; n++) {
        for (i = 0; i < 200; i++) {
            step("map", base + segment * i, segment)
            for (j = 0; j < 4; j++) use_part(base, segment * (i + 1), 25 * MiB)
            step("use", base + segment * i, segment)
            if (i > 0) step("use", base + segment * i - MiB, 2 * MiB)
        }
        for (i = 199; i >= 0; i--) {
            step("free", base + segment * i)
            if (i > 0) use_part(base, segment * i, 25 * MiB)
        }
    }
}
