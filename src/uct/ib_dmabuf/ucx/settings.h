// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "abi.h"
#include <cstddef>
#include <cstdint>
#include <span>

// Settings that UCX's own parser reads, and "ucx_info -c" lists.
namespace ucx_ib_dmabuf {

class library;

enum class setting_kind {
    boolean,      // int
    memory_units, // size_t, or one of the two below
    count,        // unsigned long, or one of the two below
    on_off_auto,  // on_off_auto
    on_off,       // on_off_auto without automatic
    string,       // char *, owned by the parser
};

constexpr size_t setting_is_inf  = SIZE_MAX;
constexpr size_t setting_is_auto = SIZE_MAX - 1;

enum class on_off_auto : int { off = 0, on = 1, automatic = 2 };

struct setting {
    const char *name;
    const char *default_value;
    const char *description;
    size_t offset;
    setting_kind kind;
};

struct settings_table {
    const char *name;
    const char *prefix; // after UCX_
    std::span<const setting> settings;
    size_t size;
};

class config_parser {
public:
    // Returns nullptr, or the name of a missing symbol.
    const char *find(const library &ucx);

    // Sets the only table that read() reads.
    void set(const settings_table &table) noexcept;
    // Adds the table to UCX's list for good. Not thread-safe.
    void publish() noexcept;
    // Reads the table's variables. Logs the name of an invalid one, and fails.
    ucs_status_t read(void *out) noexcept;

    // A setting of one of UCX's own tables, or of a table nested in it.
    struct ucx_setting {
        const char **default_value;
        size_t offset;
    };
    // Returns false if there is no such setting.
    bool find_setting(const char *table, const char *name,
                      ucx_setting *out) const;

private:
    static constexpr size_t kinds           = 6;
    static constexpr size_t max_settings    = 15;
    static constexpr size_t max_field_words = 11;

    size_t field_words() const
    {
        return (doc_nop_ != nullptr) ? max_field_words : max_field_words - 1;
    }

    // A table is an array of ucs_config_field_t: name, default, text, offset,
    // five functions, from 1.17 a sixth, argument. A null name ends it.
    bool find_in(const void *table, const char *name, ucx_setting *out) const;

    void *list_;
    ucs_status_t (*fill_opts_)(void *out, config_entry *, const char *env,
                               int ignore_errors);
    void *read_table_; // reads a nested table
    void
        *kinds_[kinds][5]; // by setting_kind: read, write, clone, release, help
    void *doc_nop_;        // from 1.17
    config_entry entry_{};
    const void *fields_[max_field_words * (max_settings + 1)]{};
};

} // namespace ucx_ib_dmabuf
