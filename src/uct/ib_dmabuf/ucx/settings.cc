// SPDX-License-Identifier: BSD-3-Clause
#include "settings.h"
#include "library.h"
#include "versions.h"
#include <cassert>
#include <cstring>

namespace ucx_ib_dmabuf {
namespace {

enum field_word {
    word_name,
    word_default,
    word_description,
    word_offset,
    word_read
};

constexpr char as_int[]   = "ucs_config_clone_int";
constexpr char as_ulong[] = "ucs_config_clone_ulong";
constexpr char no_end[]   = "ucs_config_release_nop";
constexpr char help[]     = "ucs_config_help_generic"; // prints the text

// Indexed by setting_kind.
constexpr struct {
    const char *functions[5];
    const char *text;
} kinds_of_ucx[] = {
    {{"ucs_config_sscanf_bool", "ucs_config_sprintf_bool", as_int, no_end,
      help},
     "<y|n>"},
    {{"ucs_config_sscanf_memunits", "ucs_config_sprintf_memunits", as_ulong,
      no_end, help},
     "memory units: <number>[b|kb|mb|gb], \"inf\", or \"auto\""},
    {{"ucs_config_sscanf_ulunits", "ucs_config_sprintf_ulunits", as_ulong,
      no_end, help},
     "unsigned long: <number>, \"inf\", or \"auto\""},
    {{"ucs_config_sscanf_on_off_auto", "ucs_config_sprintf_on_off_auto", as_int,
      no_end, help},
     "<on|off|auto>"},
    {{"ucs_config_sscanf_on_off", "ucs_config_sprintf_on_off_auto", as_int,
      no_end, help},
     "<on|off>"},
    {{"ucs_config_sscanf_string", "ucs_config_sprintf_string",
      "ucs_config_clone_string", "ucs_config_release_string", help},
     "string"},
};

constexpr char variables[] = "UCX_";

} // namespace

const char *config_parser::find(const library &ucx)
{
    symbols in(ucx);

    in.find_variable("ucs_config_global_list", &list_);
    in.find("ucs_config_parser_fill_opts", &fill_opts_);
    in.find("ucs_config_sscanf_table", &read_table_);
    for (size_t kind = 0; kind < kinds; ++kind) {
        for (size_t part = 0; part < 5; ++part) {
            in.find(kinds_of_ucx[kind].functions[part], &kinds_[kind][part]);
        }
    }
    ucx.find(sign_of_setting_docs, &doc_nop_);
    if (in.missing() != nullptr) {
        return in.missing();
    }
    ucs_list_link_t head, last;
    return (read_memory(list_, &head) && read_memory(head.prev, &last) &&
            (last.next == list_))
               ? nullptr
               : "a list of its settings";
}

void config_parser::set(const settings_table &table) noexcept
{
    const size_t words = field_words();
    const void **field = fields_;

    assert(table.settings.size() <= max_settings);
    for (const setting &one : table.settings) {
        const auto kind         = static_cast<size_t>(one.kind);
        field[word_name]        = one.name;
        field[word_default]     = one.default_value;
        field[word_description] = one.description;
        field[word_offset]      = reinterpret_cast<void *>(one.offset);
        memcpy(&field[word_read], kinds_[kind], sizeof(kinds_[kind]));
        if (doc_nop_ != nullptr) {
            field[words - 2] = doc_nop_;
        }
        field[words - 1] = kinds_of_ucx[kind].text;
        field += words;
    }
    entry_ = {table.name, table.prefix, fields_, table.size, {}, 0};
}

void config_parser::publish() noexcept
{
    auto *list = static_cast<ucs_list_link_t *>(list_);

    entry_.list      = {list->prev, list};
    list->prev->next = &entry_.list;
    list->prev       = &entry_.list;
}

ucs_status_t config_parser::read(void *out) noexcept
{
    return fill_opts_(out, &entry_, variables, 0);
}

bool config_parser::find_in(const void *table, const char *name,
                            ucx_setting *out) const
{
    const size_t words = field_words();

    for (auto **field = static_cast<const void **>(const_cast<void *>(table));
         field[word_name] != nullptr; field += words) {
        const auto offset = reinterpret_cast<size_t>(field[word_offset]);
        if (strcmp(static_cast<const char *>(field[word_name]), name) == 0) {
            *out = {reinterpret_cast<const char **>(&field[word_default]),
                    offset};
            return true;
        }
        if ((field[word_read] == read_table_) &&
            find_in(field[words - 1], name, out)) {
            out->offset += offset;
            return true;
        }
    }
    return false;
}

// Takes no lock, like UCX's own readers: constructors of libraries append
// complete tables, and their destructors remove them.
bool config_parser::find_setting(const char *table, const char *name,
                                 ucx_setting *out) const
{
    const auto *list = static_cast<const ucs_list_link_t *>(list_);

    for (const ucs_list_link_t *i = list->next; i != list; i = i->next) {
        const auto *entry = reinterpret_cast<const config_entry *>(
            reinterpret_cast<const char *>(i) - offsetof(config_entry, list));
        if ((strcmp(entry->name, table) == 0) &&
            find_in(entry->table, name, out)) {
            return true;
        }
    }
    return false;
}

} // namespace ucx_ib_dmabuf
