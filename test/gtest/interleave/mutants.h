// SPDX-License-Identifier: BSD-3-Clause
#ifndef TEST_GTEST_INTERLEAVE_MUTANTS_H_
#define TEST_GTEST_INTERLEAVE_MUTANTS_H_

// What the cache can leave out in this build: LEFT_OUT(each) in its sources.
// Without any of them something must go wrong; in reclaim/, in the scenarios of
// that folder alone.
#define INTERLEAVE_RECLAIM_MUTANTS(_)                                          \
    _(reader_mark)  /* readers do not say that they are reading */             \
    _(reader_fence) /* ... or only later */                                    \
    _(reader_look)  /* ... or do not look for a writer */                      \
    _(writer_mark)  /* a writer does not say that there is one */              \
    _(writer_fence) /* ... or only later */                                    \
    _(writer_wait)  /* ... or does not wait for readers */                     \
    _(alone_mine)   /* ... or not for the only one that there is */            \
    _(hot_room)     /* a hot count is another object's before it is zero */    \
    _(hot_sum)      /* ... or is not added up */                               \
    _(cold_sum)     /* ... or only it is */
#define INTERLEAVE_CACHE_MUTANTS(_)                                            \
    _(retired_look)  /* who gives back does not look for the mark */           \
    _(retired_mark)  /* who retires a region does not mark it */               \
    _(claimed_mark)  /* nobody can tell that a region was claimed */           \
    _(last_sum)      /* regions are claimed without adding up */               \
    _(released_mark) /* an event does not mark registrations being made */     \
    _(released_look) /* ... or nobody looks for the mark */                    \
    _(dropped_mark)  /* a NIC that fails does not mark registrations */        \
    _(log_look)      /* the description may be older than a release */

namespace interleave {

enum class mutant {
    none,
#define INTERLEAVE_NAME(_name) _name,
    INTERLEAVE_RECLAIM_MUTANTS(INTERLEAVE_NAME)
        INTERLEAVE_CACHE_MUTANTS(INTERLEAVE_NAME)
#undef INTERLEAVE_NAME
};

extern mutant left_out;

} // namespace interleave

#define LEFT_OUT(_name) (interleave::left_out == interleave::mutant::_name)

#endif
