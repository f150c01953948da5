// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport_types.h"
#include <cstddef>
#include <cstdint>
#include <span>

// Settings that are UCX's: read by its own parser, from the environment and
// ucx.conf, and listed by "ucx_info -c".
namespace ucx_ib_dmabuf {

class library;

enum class setting_kind {
    boolean,      // int
    memory_units, // size_t, or one of the two below
    count,        // unsigned long, or the same
    on_off_auto,  // on_off_auto
    on_off,       // on_off_auto, but for automatic
    string,       // char *, owned by the parser
};

constexpr size_t setting_is_inf  = SIZE_MAX;
constexpr size_t setting_is_auto = SIZE_MAX - 1;

enum class on_off_auto : int { off = 0, on = 1, automatic = 2 };

struct setting {
    const char *name;
    const char *standard; // its value, if the user says nothing
    const char *text;
    size_t offset;
    setting_kind kind;
};

struct settings_table {
    const char *name;
    const char *prefix; // after UCX_
    std::span<const setting> settings;
    size_t size;
};

// One copy's parser, and its list of tables.
class config_parser {
public:
    // Null, or the name of a symbol that is missing.
    const char *find(const library &ucx);

    // The table, the only one, that read() is to read.
    void set(const settings_table &table) noexcept;
    // Lists it for good. Not by two threads at a time.
    void show() noexcept;
    // Reads the table's variables. A wrong one is logged by name, and makes
    // this fail.
    ucs_status_t read(void *out) noexcept;

    // What one of UCX's own tables has of a setting, or a table in it.
    struct ucx_setting {
        const char **standard;
        size_t offset;
    };
    // False if there is none.
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

    // A table is an array of ucs_config_field_t: name, standard value, text,
    // offset, five functions, from 1.17 a sixth, argument; a null name ends it.
    bool find_in(const void *table, const char *name, ucx_setting *out) const;

    void *list_;
    ucs_status_t (*fill_opts_)(void *out, config_entry *, const char *env,
                               int ignore_errors);
    void *read_table_; // the reader of a table in a table
    void
        *kinds_[kinds][5]; // by setting_kind: read, write, clone, release, help
    void *doc_nop_;        // from 1.17
    config_entry entry_{};
    const void *fields_[max_field_words * (max_settings + 1)]{};
};

} // namespace ucx_ib_dmabuf
