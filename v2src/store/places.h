// Where kernel stores and tuning.db lie.
#ifndef AOTATTN_STORE_PLACES_H
#define AOTATTN_STORE_PLACES_H

#include <string>
#include <vector>

namespace aot {

// AOTATTN_STORE_DIR alone if it is set; else `aotattn` beside this library as it was loaded, then
// beside its real path.
std::vector<std::string> store_directories();

// The paths of `file` in those directories.
std::vector<std::string> store_paths(const std::string& file);

// The archs that have a store there, sorted.
std::vector<std::string> stored_archs();

} // namespace aot

#endif
