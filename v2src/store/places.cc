#include "places.h"
#include "../knobs.h"

#include <dlfcn.h>

#include <filesystem>
#include <set>

namespace aot {

namespace fs = std::filesystem;

std::vector<std::string> store_directories() {
  if (const std::string chosen = knobs::store_dir(); !chosen.empty())
    return {chosen};
  Dl_info info = {};
  if (!dladdr(reinterpret_cast<void*>(&store_directories), &info) || !info.dli_fname)
    return {};
  const fs::path loaded = info.dli_fname;
  std::vector<std::string> directories = {loaded.parent_path() / "aotattn"};
  std::error_code error;
  if (const fs::path real = fs::canonical(loaded, error); !error)
    if (const std::string beside = real.parent_path() / "aotattn"; beside != directories[0])
      directories.push_back(beside);
  return directories;
}

std::vector<std::string> store_paths(const std::string& file) {
  std::vector<std::string> paths;
  for (const std::string& directory : store_directories())
    paths.push_back(fs::path(directory) / file);
  return paths;
}

std::vector<std::string> stored_archs() {
  static constexpr std::string_view kStart = "aotattn-", kEnd = ".db";
  std::set<std::string> archs;
  for (const std::string& directory : store_directories()) {
    std::error_code error;
    for (fs::directory_iterator at(directory, error), end; !error && at != end;
         at.increment(error)) {
      const std::string name = at->path().filename();
      if (name.size() > kStart.size() + kEnd.size() && name.starts_with(kStart) &&
          name.ends_with(kEnd))
        archs.insert(name.substr(kStart.size(), name.size() - kStart.size() - kEnd.size()));
    }
  }
  return {archs.begin(), archs.end()};
}

} // namespace aot
