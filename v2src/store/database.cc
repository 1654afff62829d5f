#include "database.h"

#include <sqlite3.h>

#include <unistd.h>

namespace aot {
namespace {

// The path as a URI that opens without locks, journals or a wish to write.
std::string immutable_uri(const std::string& path) {
  std::string uri = "file:";
  for (const char c : path)
    uri += c == '%' || c == '?' || c == '#' ? format("%%%02x", c) : std::string(1, c);
  return uri + "?immutable=1";
}

Status damaged(const std::string& path, sqlite3* database) {
  return fail(AOT_BAD_STORE, "%s cannot be read: %s", path.c_str(), sqlite3_errmsg(database));
}

} // namespace

void Database::Close::operator()(sqlite3* database) const { sqlite3_close(database); }
void Rows::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Status Database::open(const std::string& path) {
  path_ = path;
  if (access(path.c_str(), F_OK) != 0)
    return fail(AOT_NO_STORE, "%s does not exist", path.c_str());
  sqlite3* database = nullptr;
  const int flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX;
  const int result = sqlite3_open_v2(immutable_uri(path).c_str(), &database, flags, nullptr);
  database_.reset(database);
  if (result != SQLITE_OK)
    return damaged(path, database);
  return {};
}

Status Database::query(const char* sql, std::initializer_list<Binding> bindings, Rows* rows) const {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(database_.get(), sql, -1, &statement, nullptr) != SQLITE_OK)
    return damaged(path_, database_.get());
  rows->statement_.reset(statement);
  rows->database_ = this;
  int index = 0;
  for (const Binding& b : bindings) {
    ++index;
    if (b.is_text)
      sqlite3_bind_text(statement, index, b.text.data(), int(b.text.size()), SQLITE_TRANSIENT);
    else
      sqlite3_bind_int64(statement, index, b.number);
  }
  return {};
}

Status Database::user_version(int64_t* version) const {
  Rows rows;
  bool more = false;
  AOT_TRY(query("PRAGMA user_version", {}, &rows));
  AOT_TRY(rows.next(&more));
  *version = more ? rows.integer(0) : 0;
  return {};
}

Status Database::has_table(const char* table, bool* has) const {
  Rows rows;
  AOT_TRY(query("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", {table}, &rows));
  return rows.next(has);
}

Status Database::meta(const char* key, std::string* value) const {
  Rows rows;
  bool more = false;
  AOT_TRY(query("SELECT value FROM meta WHERE key = ?", {key}, &rows));
  AOT_TRY(rows.next(&more));
  *value = more ? rows.text(0) : "";
  return {};
}

Status Rows::next(bool* more) {
  const int result = sqlite3_step(statement_.get());
  *more = result == SQLITE_ROW;
  if (result == SQLITE_ROW || result == SQLITE_DONE)
    return {};
  return damaged(database_->path(), sqlite3_db_handle(statement_.get()));
}

std::string Rows::text(int column) const { return std::string(blob(column)); }

std::string_view Rows::blob(int column) const {
  const void* data = sqlite3_column_blob(statement_.get(), column);
  const int bytes = sqlite3_column_bytes(statement_.get(), column);
  return {static_cast<const char*>(data), data ? static_cast<size_t>(bytes) : 0};
}

int64_t Rows::integer(int column) const { return sqlite3_column_int64(statement_.get(), column); }

} // namespace aot
