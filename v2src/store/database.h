// A SQLite file, read and never written.
#ifndef AOTATTN_STORE_DATABASE_H
#define AOTATTN_STORE_DATABASE_H

#include "../status.h"

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string_view>

struct sqlite3;
struct sqlite3_stmt;

namespace aot {

// A value for a `?` of a statement.
struct Binding {
  Binding(std::string_view t) : text(t), is_text(true) {}
  Binding(const std::string& t) : text(t), is_text(true) {}
  Binding(const char* t) : text(t), is_text(true) {}
  Binding(int64_t n) : number(n) {}
  std::string_view text;
  int64_t number = 0;
  bool is_text = false;
};

class Rows;

// One thread at a time.
class Database {
public:
  // AOT_NO_STORE if there is no such file, AOT_BAD_STORE if it cannot be read.
  Status open(const std::string& path);
  const std::string& path() const { return path_; }

  Status query(const char* sql, std::initializer_list<Binding> bindings, Rows* rows) const;
  Status user_version(int64_t* version) const;
  Status has_table(const char* table, bool* has) const;
  // "" if the table has no such key.
  Status meta(const char* key, std::string* value) const;

private:
  struct Close {
    void operator()(sqlite3* database) const;
  };
  std::unique_ptr<sqlite3, Close> database_;
  std::string path_;
};

class Rows {
public:
  // Moves to the next row; `more` is false after the last.
  Status next(bool* more);
  std::string text(int column) const;
  std::string_view blob(int column) const; // valid until `next`
  int64_t integer(int column) const;

private:
  friend class Database;
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  const Database* database_ = nullptr;
};

} // namespace aot

#endif
