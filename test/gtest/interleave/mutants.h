// SPDX-License-Identifier: BSD-3-Clause
#ifndef TEST_GTEST_INTERLEAVE_MUTANTS_H_
#define TEST_GTEST_INTERLEAVE_MUTANTS_H_

// What the cache can leave out in this build: LEFT_OUT(each) in its sources.
// Without any of them something must go wrong.
#define INTERLEAVE_MUTANTS(_)                                                  \
    _(hit_fence)      /* between counting and looking for the mark */          \
    _(hit_look)       /* whoever hits does not look for the mark */            \
    _(lost_settle)    /* ... or does not settle what it took back */           \
    _(leaving_mark)   /* who removes a region does not mark it */              \
    _(claim_fence)    /* between marking and adding up */                      \
    _(claimed_mark)   /* nobody can tell that a region was claimed */          \
    _(put_fence)      /* between lowering the count and looking */             \
    _(put_look)       /* who gives back does not look for the mark */          \
    _(settle_sum)     /* ... or claims without adding up */                    \
    _(shared_by_get)  /* who takes another's region does not mark it */        \
    _(shared_by_put)  /* ... or gives it back without */                       \
    _(cleared_counts) /* a region begins with the counts of another */         \
    _(section_mark)   /* readers do not say that they are reading */           \
    _(section_fence)  /* ... or only later */                                  \
    _(limbo_fence)    /* before readers are noted */                           \
    _(limbo_readers)  /* readers are not waited for */                         \
    _(slot_first)     /* a bunch is reclaimed before its slot is cleared */    \
    _(released_mark)  /* an event does not mark registrations being made */    \
    _(released_look)  /* ... or nobody looks for the mark */                   \
    _(log_look)       /* the description may be older than a release */

namespace interleave {

enum class mutant {
    none,
#define INTERLEAVE_NAME(_name) _name,
    INTERLEAVE_MUTANTS(INTERLEAVE_NAME)
#undef INTERLEAVE_NAME
};

extern mutant left_out;

} // namespace interleave

#define LEFT_OUT(_name) (interleave::left_out == interleave::mutant::_name)

#endif
