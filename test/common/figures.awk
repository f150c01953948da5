# SPDX-License-Identifier: BSD-3-Clause
# What the tables of figures share: awk -f figures.awk -f TABLE.awk.

function sort(a, n,  i, j, x) {
    for (i = 2; i <= n; ++i) {
        x = a[i]
        for (j = i - 1; j >= 1 && a[j] > x; --j)
            a[j + 1] = a[j]
        a[j + 1] = x
    }
}

# Of sorted values.
function middle(a, n) {
    return (a[int((n + 1) / 2)] + a[int(n / 2) + 1]) / 2
}

# The interval for the true median whose ends are two of the n sorted values: the
# k-th lowest and the k-th highest. The median lies below the k-th lowest of n with
# the probability of fewer than k heads in n throws of a coin, whatever the
# distribution. k is the largest one with a coverage of 0.95; where there is none,
# the lowest and the highest. Sets result["lower"], ["upper"] and ["coverage"].
function interval(a, n, result,  k, tail, chance) {
    chance = tail = 2 ^ -n # of 0 heads
    for (k = 1; 2 * (k + 1) <= n; ++k) {
        chance *= (n - k + 1) / k
        if (1 - 2 * (tail + chance) < 0.95)
            break
        tail += chance
    }
    result["lower"] = a[k]
    result["upper"] = a[n + 1 - k]
    result["coverage"] = 1 - 2 * tail
}

function bytes(n) {
    if (n == 0)        return "0"
    if (n >= 2 ^ 30)   return sprintf("%.1f GiB", n / 2 ^ 30)
    if (n >= 2 ^ 20)   return sprintf("%d MiB", n / 2 ^ 20)
    if (n >= 2 ^ 10)   return sprintf("%d KiB", n / 2 ^ 10)
    return n " B"
}

# A line of the verdict; one that is not kept leaves `broken` set.
function promise(kept, text) {
    printf "%s  %s\n", kept ? "yes" : "NO ", text
    if (!kept)
        broken = 1
}

# A member of an object in JSON.
function pair(name, value) {
    return "\"" name "\": " value
}
