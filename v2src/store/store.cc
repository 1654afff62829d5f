#include "store.h"
#include "../text.h"
#include "places.h"

#include <zlib.h>

#include <unistd.h>

#include <cstdlib>

namespace aot {
namespace {

constexpr int64_t kMaxImageBytes = int64_t{1} << 30;

Status no_store(const std::string& arch, const std::vector<std::string>& paths) {
  const std::vector<std::string> archs = stored_archs();
  return fail(AOT_NO_STORE, "no kernel store for %s; looked for %s; stores there: %s", arch.c_str(),
              join(paths).c_str(), archs.empty() ? "none" : join(archs).c_str());
}

} // namespace

Status Store::open(const std::string& arch) {
  if (arch.empty() || arch.find('/') != std::string::npos)
    return fail(AOT_BAD_ARGUMENT, "arch = '%s' is no name of an arch", arch.c_str());
  const std::vector<std::string> paths = store_paths("aotattn-" + arch + ".db");
  for (const std::string& path : paths)
    if (access(path.c_str(), F_OK) == 0) {
      AOT_TRY(database_.open(path));
      AOT_TRY(check_versions(arch));
      std::string number;
      AOT_TRY(database_.meta("compute_units", &number));
      compute_units_ = std::atoi(number.c_str());
      return {};
    }
  return no_store(arch, paths);
}

Status Store::check_versions(const std::string& arch) const {
  const char* path = database_.path().c_str();
  int64_t schema = 0;
  bool has_meta = false;
  AOT_TRY(database_.user_version(&schema));
  AOT_TRY(database_.has_table("meta", &has_meta));
  if (!has_meta)
    return fail(AOT_BAD_STORE, "%s is no kernel store: it has no table meta", path);
  std::string version, stored_arch;
  AOT_TRY(database_.meta("library_version", &version));
  AOT_TRY(database_.meta("arch", &stored_arch));
  if (schema != kSchemaVersion)
    return fail(AOT_STORE_MISMATCH,
                "%s has schema version %lld (library version %s), this library has %lld (%s)", path,
                static_cast<long long>(schema), version.c_str(),
                static_cast<long long>(kSchemaVersion), aot_version());
  if (version != aot_version())
    return fail(AOT_STORE_MISMATCH, "%s belongs to library version %s, this library is %s", path,
                version.c_str(), aot_version());
  if (stored_arch != arch)
    return fail(AOT_STORE_MISMATCH, "%s holds kernels for %s, not for %s", path,
                stored_arch.c_str(), arch.c_str());
  return {};
}

Status Store::plans(const char* op, const std::string& features,
                    std::vector<PlanRow>* plans) const {
  Rows rows;
  AOT_TRY(
      database_.query("SELECT backend, kernel, config, requirements, workspace, steps FROM plan "
                      "WHERE operator = ? AND features = ? ORDER BY position",
                      {op, features}, &rows));
  for (;;) {
    bool more = false;
    AOT_TRY(rows.next(&more));
    if (!more)
      return {};
    plans->push_back(
        {rows.text(0), rows.text(1), rows.text(2), rows.text(3), rows.text(4), rows.text(5)});
  }
}

Status Store::kernel(int64_t id, KernelRow* kernel) const {
  Rows rows;
  bool more = false;
  AOT_TRY(database_.query("SELECT name, image, symbol, arguments, grid_x, grid_y, grid_z, threads, "
                          "shared_bytes, cluster, argument_bytes FROM kernel WHERE id = ?",
                          {id}, &rows));
  AOT_TRY(rows.next(&more));
  if (!more)
    return fail(AOT_BAD_STORE, "%s has no kernel %lld", database_.path().c_str(),
                static_cast<long long>(id));
  *kernel = {rows.text(0),
             rows.text(1),
             rows.text(2),
             rows.text(3),
             {rows.text(4), rows.text(5), rows.text(6)},
             rows.integer(7),
             rows.integer(8),
             rows.integer(9),
             rows.integer(10)};
  return {};
}

Status Store::image(const std::string& hash, std::string* bytes) const {
  Rows rows;
  bool more = false;
  AOT_TRY(database_.query("SELECT bytes, crc32, data FROM image WHERE hash = ?", {hash}, &rows));
  AOT_TRY(rows.next(&more));
  const auto damaged = [&](const char* how) {
    return fail(AOT_BAD_STORE, "image %.12s of %s %s", hash.c_str(), database_.path().c_str(), how);
  };
  if (!more)
    return damaged("is missing");
  const int64_t size = rows.integer(0);
  if (size < 1 || size > kMaxImageBytes)
    return damaged("is empty or of no sensible size");
  bytes->resize(static_cast<size_t>(size));
  const std::string_view data = rows.blob(2);
  uLongf length = static_cast<uLongf>(size);
  const int result = uncompress(reinterpret_cast<Bytef*>(bytes->data()), &length,
                                reinterpret_cast<const Bytef*>(data.data()), data.size());
  if (result != Z_OK || length != static_cast<uLongf>(size))
    return damaged("does not unpack to its recorded size");
  const uLong sum =
      crc32(0, reinterpret_cast<const Bytef*>(bytes->data()), static_cast<uInt>(size));
  if (static_cast<int64_t>(sum) != rows.integer(1))
    return damaged("does not match its recorded checksum");
  return {};
}

} // namespace aot
