// SPDX-License-Identifier: BSD-3-Clause
#include "path_facts.h"
#include <filesystem>
#include <fstream>
#include <sys/utsname.h>
#include <system_error>

namespace ucx_ib_dmabuf {
namespace {

std::string kernel()
{
    utsname name{};

    return (uname(&name) == 0) ? std::string(name.release) + name.version
                               : std::string();
}

// No spaces, no ends of lines.
void add_word(std::string *to, std::string_view what)
{
    for (const char byte : what) {
        *to += ((byte > ' ') && (byte <= '~')) ? byte : '_';
    }
    *to += what.empty() ? "- " : " ";
}

} // namespace

std::string first_line(const std::string &file)
{
    std::ifstream in(file);
    std::string line;

    std::getline(in, line);
    return line;
}

std::string path_facts::key() const
{
    std::string result;

    for (const std::string *each : {&boot, &kernel, &gpu, &nic, &firmware,
                                    &node_guid, &nic_place, &how}) {
        if (each->empty() && (each != &nic_place)) {
            return {};
        }
        add_word(&result, *each);
    }
    result += "1"; // the proof, as it is now
    return result;
}

path_facts facts_of(const protection_domain &pd, std::string gpu,
                    ladder_step step, const std::string &how)
{
    ibv_context *context = pd.verbs_pd->context;
    ibv_device_attr device{};
    path_facts result;
    std::error_code error;

    if (!pd.verbs->connection.complete() ||
        (pd.verbs->connection.query_device(context, &device) != 0)) {
        return result;
    }
    result.boot      = first_line("/proc/sys/kernel/random/boot_id");
    result.kernel    = kernel();
    result.gpu       = std::move(gpu);
    result.nic       = pd.device_name();
    result.node_guid = format("%016zx", size_t{device.node_guid}).c_str();

    const std::string in_sysfs = context->device->ibdev_path;
    const std::string module   = in_sysfs + "/device/driver/module/";
    if (std::filesystem::exists(in_sysfs, error)) { // else it is not known
        result.firmware = std::string(device.fw_ver) + " " +
                          first_line(module + "version") + " " +
                          first_line(module + "srcversion");
    }
    result.nic_place =
        std::filesystem::canonical(in_sysfs + "/device", error).native();
    result.how =
        format("step%u,%s", static_cast<unsigned>(step), how.c_str()).c_str();
    return result;
}

} // namespace ucx_ib_dmabuf
