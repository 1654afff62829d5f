"""The tuning record: rows, rules, measurements, and the database composed from them."""
